//! Actions of remedies while the program runs: the watchers that the supervising process calls.

mod advise_huge;
mod alternate_cpus;
mod count_pool;
mod grow_pipes;

use pagewise_model::Nanos;
use pagewise_model::plan::WatchAction;
use pagewise_tracee::watcher::{RunWatcher, WatchContext};

/// The watcher for one part of a plan.
#[must_use]
pub fn build(watch: &WatchAction, context: &WatchContext) -> Box<dyn RunWatcher> {
    match watch {
        WatchAction::GrowPipes { capacity_bytes, budget_bytes } => {
            Box::new(grow_pipes::PipeGrowthWatcher::new(*capacity_bytes, *budget_bytes, context))
        }
        WatchAction::AdviseHuge { min_bytes, growth_limit_bytes } => {
            Box::new(advise_huge::HugeAdviceWatcher::new(*min_bytes, *growth_limit_bytes))
        }
        WatchAction::CountPool { page_bytes } => {
            Box::new(count_pool::PoolCountWatcher::new(*page_bytes))
        }
        WatchAction::AlternateCpus { cpus } => {
            Box::new(alternate_cpus::CpuAlternationWatcher::new(cpus.clone(), context))
        }
    }
}

/// When to look at the tree again: often during set-up, rarely later.
///
/// A shell creates the pipes of a pipeline within its first milliseconds. A look costs about 0.1 ms of CPU
/// time, so an interval of 0.2 ms is acceptable only for the first 20 ms. The caller of the watchers ensures
/// that later looks take at most a twentieth of a CPU, however large the tree is.
#[derive(Debug, Clone, Copy)]
struct Rhythm {
    /// Interval between later looks.
    steady: Nanos,
}

/// The set-up phase of a program.
const SETUP: Nanos = Nanos::millis(20);
/// Pause between two looks in the set-up phase.
const SETUP_PAUSE: Nanos = Nanos(200_000);
/// After this time the program counts as long, and looks are rarer still.
const LONG: Nanos = Nanos::secs(1);
/// Factor for the interval of a long program.
const LONG_FACTOR: u64 = 4;

impl Rhythm {
    /// Time of the next look after one that began at `begun`, if nothing has happened for `quiet`.
    fn next(self, begun: Nanos, quiet: Nanos) -> Nanos {
        let pause = if begun < SETUP {
            SETUP_PAUSE
        } else if quiet < LONG {
            self.steady
        } else {
            Nanos(self.steady.0 * LONG_FACTOR)
        };
        begun + pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer() {
        let rhythm = Rhythm { steady: Nanos::millis(5) };
        let next = |begun| rhythm.next(begun, begun);
        assert_eq!(next(Nanos(0)), SETUP_PAUSE);
        assert_eq!(next(Nanos::millis(100)), Nanos::millis(105));
        assert_eq!(next(Nanos::secs(3)), Nanos::secs(3) + Nanos::millis(20));
        assert_eq!(rhythm.next(Nanos::secs(3), Nanos(0)), Nanos::secs(3) + rhythm.steady);
    }
}
