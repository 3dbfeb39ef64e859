//! The limits of a run: how long it may take, how much memory it may hold, and where it ends early.
//!
//! Time is exact to a wake-up; memory is checked every 100 ms. A check is slow for a tree of many processes
//! (`memory`). So it is repeated only when the machine has lost half of the memory that the tree had left, or
//! after 2000 times the duration of the check.
//!
//! Not seen in between: growth that is offset by other processes that free as much memory.

use crate::checkpoint::{CheckpointWatch, TreeWork};
use crate::holdings::UnmappedHoldings;
use crate::launch::ProgramLaunch;
use crate::memory;
use crate::tree::ProcessTree;
use pagewise_kernel::proc::meminfo;
use pagewise_model::units::{Bytes, Nanos};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Interval between two memory checks.
const MEMORY_CHECK: Nanos = Nanos::millis(100);

/// Minimum pause after a look, as a multiple of its duration; below, the maximum.
const REST: u64 = 5;
const LONGEST_REST: u64 = 2000;

/// A limit that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokenLimit {
    Time(Nanos),
    Memory(Bytes),
    /// It reached its checkpoint, having done this.
    Checkpoint(TreeWork),
}

impl fmt::Display for BrokenLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(most) => {
                write!(f, "it did not end within {:.1} s and was killed", most.as_secs())
            }
            Self::Memory(most) => write!(f, "it took more than {most} of memory and was killed"),
            Self::Checkpoint(_) => f.write_str("it was stopped at its checkpoint"),
        }
    }
}

/// The limits of one run.
#[derive(Debug)]
pub(crate) struct LimitMonitor {
    time: Option<Nanos>,
    memory: Option<Bytes>,
    holdings: UnmappedHoldings,
    next_memory_check: Nanos,
    looked: Option<MemoryCheck>,
    checkpoint: Option<CheckpointWatch>,
    broken: Option<BrokenLimit>,
}

/// A check of the memory of a tree.
#[derive(Debug)]
struct MemoryCheck {
    /// Available memory of the machine before the check.
    available: Option<Bytes>,
    /// Bytes that the tree had left.
    room: u64,
    /// Valid until this time.
    until: Nanos,
}

impl MemoryCheck {
    /// Whether the tree cannot have reached its limit since the check.
    fn holds(&self, now: Nanos, available: Option<Bytes>) -> bool {
        let lost = self.available.zip(available).map(|(then, now)| then.0.saturating_sub(now.0));
        now < self.until && lost.is_some_and(|lost| lost < self.room / 2)
    }
}

impl LimitMonitor {
    /// For a program that starts now. It is not stopped at its checkpoint once `has_effects` is set.
    pub(crate) fn of(launch: &ProgramLaunch, has_effects: Arc<AtomicBool>) -> Self {
        Self {
            time: launch.timeout_ns,
            memory: launch.memory_limit_bytes,
            holdings: UnmappedHoldings::from_now(),
            next_memory_check: MEMORY_CHECK,
            looked: None,
            checkpoint: launch.checkpoint.map(|one| CheckpointWatch::new(one, has_effects)),
            broken: None,
        }
    }

    /// The limit that was broken.
    pub(crate) const fn broken(&self) -> Option<BrokenLimit> {
        self.broken
    }

    /// The work of a run that reached its checkpoint.
    pub(crate) const fn reached(&self) -> Option<TreeWork> {
        match self.broken {
            Some(BrokenLimit::Checkpoint(work)) => Some(work),
            _ => None,
        }
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Option<Nanos> {
        if self.broken.is_some() {
            return None;
        }
        let memory = self.memory.map(|_| self.next_memory_check);
        let checkpoint = self.checkpoint.as_ref().and_then(CheckpointWatch::due);
        [self.time, memory, checkpoint].into_iter().flatten().min()
    }

    /// Checks the limits. True if one has been broken since the last check: then kill the tree.
    pub(crate) fn look(&mut self, tree: &mut ProcessTree, now: Nanos) -> bool {
        if self.broken.is_some() {
            return false;
        }
        if let Some(most) = self.time
            && now >= most
        {
            self.broken = Some(BrokenLimit::Time(most));
        } else if let Some(work) = self.checkpoint.as_mut().and_then(|one| one.look(tree, now)) {
            self.broken = Some(BrokenLimit::Checkpoint(work));
        } else if let Some(most) = self.memory
            && now >= self.next_memory_check
        {
            self.look_at_memory(tree, now, most);
        }
        self.broken.is_some()
    }

    fn look_at_memory(&mut self, tree: &mut ProcessTree, now: Nanos, most: Bytes) {
        let begin = Instant::now();
        self.next_memory_check = now + MEMORY_CHECK;
        let available = meminfo::read().ok().map(|info| info.available);
        if self.looked.as_ref().is_some_and(|looked| looked.holds(now, available)) {
            return;
        }
        tree.refresh();
        let Some(room) = memory::room(tree.pids(), &mut self.holdings, most.0) else {
            self.broken = Some(BrokenLimit::Memory(most));
            return;
        };
        let rest = |times: u64| Nanos(Nanos::from(begin.elapsed()).0.saturating_mul(times));
        self.looked = Some(MemoryCheck { available, room, until: now + rest(LONGEST_REST) });
        self.next_memory_check = now + MEMORY_CHECK.max(rest(REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_holds_until_the_machine_has_lost_half_of_what_was_left() {
        let (gib, at) = (|n| Some(Bytes::gib(n)), Nanos::secs);
        let looked = MemoryCheck { available: gib(20), room: Bytes::gib(8).0, until: at(3) };
        assert!(looked.holds(at(2), gib(17)) && looked.holds(at(2), gib(30)));
        assert!(!looked.holds(at(2), gib(16)), "the tree may have taken 4 of 8 GiB");
        assert!(!looked.holds(at(3), gib(20)) && !looked.holds(at(2), None));
    }

    #[test]
    fn a_limit_is_broken_once() {
        let mut tree = ProcessTree::new(1, []);
        let mut launch = ProgramLaunch::experiment(vec!["x".into()]);
        assert_eq!(LimitMonitor::of(&launch, Arc::default()).due(), None);
        launch.timeout_ns = Some(Nanos::millis(70));
        let mut limits = LimitMonitor::of(&launch, Arc::default());
        assert!(!limits.look(&mut tree, Nanos::millis(69)));
        assert_eq!(limits.due(), Some(Nanos::millis(70)));
        assert!(limits.look(&mut tree, Nanos::millis(70)));
        assert!(!limits.look(&mut tree, Nanos::millis(71)) && limits.due().is_none());
        let told = limits.broken().map(|limit| limit.to_string());
        assert_eq!(told.as_deref(), Some("it did not end within 0.1 s and was killed"));
    }
}
