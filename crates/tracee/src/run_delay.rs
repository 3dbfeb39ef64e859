//! How long the processes of a program were ready to run while others had the CPU.
//!
//! The kernel counts that for each thread (second field of `/proc/PID/schedstat`, `CONFIG_SCHED_INFO`). It is
//! looked at while a process lives: each time the run has become a twentieth longer, and of the program itself at its end.
//! Not seen: threads beside the first of a process, processes between two looks, and a host that runs other
//! guests, whose time counts as that of the program.

use crate::tree::Tree;
use pagewise_kernel::proc::run_delay;
use pagewise_model::Nanos;
use std::collections::HashMap;

/// The first look comes so soon, and each other one at least so long after the one before.
const PERIOD: Nanos = Nanos::millis(2);
/// The run becomes longer by one in so many from look to look.
const SHARE: u64 = 20;

/// Watches the processes of one program.
#[derive(Debug)]
pub(crate) struct DelaySampler {
    next: Nanos,
    delays: HashMap<i32, Nanos>,
}

impl DelaySampler {
    pub(crate) fn new() -> Self {
        Self { next: PERIOD, delays: HashMap::new() }
    }

    /// When the next look is due.
    pub(crate) const fn due(&self) -> Nanos {
        self.next
    }

    /// Looks at all processes of `tree` if that is due.
    pub(crate) fn look(&mut self, tree: &mut Tree, now: Nanos) {
        if now < self.next {
            return;
        }
        tree.refresh();
        let delays = tree.pids().iter().filter_map(|pid| Some((*pid, run_delay::read(*pid)?)));
        self.delays.extend(delays);
        self.next = now + PERIOD.max(Nanos(now.0 / SHARE));
    }

    /// Of all processes together; that of `pid` is known to its end.
    pub(crate) fn finish(mut self, pid: i32) -> Option<Nanos> {
        self.delays.insert(pid, run_delay::read(pid)?);
        Some(self.delays.into_values().fold(Nanos(0), |sum, delay| sum + delay))
    }
}
