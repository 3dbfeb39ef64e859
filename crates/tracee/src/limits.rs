//! The limits of a run: how long it may take and how much memory it may hold.
//!
//! Time is exact to a wake-up; memory is looked at every 100 ms, more rarely where a look takes
//! long (`memory`).

use crate::holdings::Holdings;
use crate::launch::Launch;
use crate::memory;
use crate::tree::Tree;
use pagewise_model::units::{Bytes, Nanos};
use std::fmt;
use std::time::Instant;

/// How often memory is looked at.
const MEMORY_CHECK: Nanos = Nanos::millis(100);

/// The pause after a look, in times of what it took, at least.
const REST: u64 = 5;

/// A limit that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Time(Nanos),
    Memory(Bytes),
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(most) => {
                write!(f, "it did not end within {:.1} s and was killed", most.as_secs())
            }
            Self::Memory(most) => write!(f, "it took more than {most} of memory and was killed"),
        }
    }
}

/// The limits of one run.
#[derive(Debug)]
pub(crate) struct Limits {
    time: Option<Nanos>,
    memory: Option<Bytes>,
    holdings: Holdings,
    next_memory_check: Nanos,
    broken: Option<Limit>,
}

impl Limits {
    /// For a program that starts now.
    pub(crate) fn of(launch: &Launch) -> Self {
        Self {
            time: launch.timeout_ns,
            memory: launch.memory_limit_bytes,
            holdings: Holdings::from_now(),
            next_memory_check: MEMORY_CHECK,
            broken: None,
        }
    }

    /// The limit that was broken.
    pub(crate) const fn broken(&self) -> Option<Limit> {
        self.broken
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Option<Nanos> {
        if self.broken.is_some() {
            return None;
        }
        let memory = self.memory.map(|_| self.next_memory_check);
        [self.time, memory].into_iter().flatten().min()
    }

    /// Whether a limit has been broken since the last look; then the tree is to be killed.
    pub(crate) fn look(&mut self, tree: &mut Tree, now: Nanos) -> bool {
        if self.broken.is_some() {
            return false;
        }
        if let Some(most) = self.time
            && now >= most
        {
            self.broken = Some(Limit::Time(most));
        } else if let Some(most) = self.memory
            && now >= self.next_memory_check
        {
            let begin = Instant::now();
            tree.refresh();
            if memory::exceeds(tree.pids(), &mut self.holdings, most.0) {
                self.broken = Some(Limit::Memory(most));
            }
            let rest = Nanos(Nanos::from(begin.elapsed()).0.saturating_mul(REST));
            self.next_memory_check = now + MEMORY_CHECK.max(rest);
        }
        self.broken.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_broken_once() {
        let mut tree = Tree::new(1, []);
        let mut launch = Launch::experiment(vec!["x".into()]);
        assert_eq!(Limits::of(&launch).due(), None);
        launch.timeout_ns = Some(Nanos::millis(70));
        let mut limits = Limits::of(&launch);
        assert!(!limits.look(&mut tree, Nanos::millis(69)));
        assert_eq!(limits.due(), Some(Nanos::millis(70)));
        assert!(limits.look(&mut tree, Nanos::millis(70)));
        assert!(!limits.look(&mut tree, Nanos::millis(71)) && limits.due().is_none());
        let told = limits.broken().map(|limit| limit.to_string());
        assert_eq!(told.as_deref(), Some("it did not end within 0.1 s and was killed"));
    }
}
