//! How long the processes of a program were ready to run while others had the CPU.
//!
//! The kernel counts that for each thread ([`schedstat`]). The sampler reads the count of each process
//! whenever the run has become longer by a twentieth, and that of the program at its end.
//!
//! Not seen: threads other than the first of a process; waits of a process after its last sample; a host that
//! runs other guests.

use crate::tree::ProcessTree;
use pagewise_kernel::proc::schedstat;
use pagewise_model::Nanos;
use std::collections::HashMap;

/// Time to the first sample, and minimum time between two samples.
const PERIOD: Nanos = Nanos::millis(2);
/// The run gets longer by one part in this many between two samples.
const PART: u64 = 20;

/// Samples the processes of one program.
#[derive(Debug)]
pub(crate) struct DelaySampler {
    next: Nanos,
    delays: HashMap<i32, Nanos>,
}

impl DelaySampler {
    pub(crate) fn new() -> Self {
        Self { next: PERIOD, delays: HashMap::new() }
    }

    /// When the next sample is due.
    pub(crate) const fn due(&self) -> Nanos {
        self.next
    }

    /// Samples all processes of `tree` if a sample is due.
    pub(crate) fn look(&mut self, tree: &mut ProcessTree, now: Nanos) {
        if now < self.next {
            return;
        }
        tree.refresh();
        let delays =
            tree.pids().iter().filter_map(|pid| Some((*pid, schedstat::read(*pid)?.delayed)));
        self.delays.extend(delays);
        self.next = now + PERIOD.max(Nanos(now.0 / PART));
    }

    /// Total of all processes. That of `pid` covers its whole life.
    pub(crate) fn finish(mut self, pid: i32) -> Option<Nanos> {
        self.delays.insert(pid, schedstat::read(pid)?.delayed);
        Some(self.delays.into_values().fold(Nanos(0), |sum, delay| sum + delay))
    }
}
