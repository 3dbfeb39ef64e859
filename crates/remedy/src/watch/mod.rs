//! What remedies do while the program runs: the watchers that the supervising process calls.

mod advise_huge;
mod alternate_cpus;
mod grow_pipes;

use pagewise_model::Nanos;
use pagewise_model::plan::Watch;
use pagewise_tracee::watcher::{Context, Watcher};
use std::time::Instant;

/// The watcher for one part of a plan.
#[must_use]
pub fn build(watch: &Watch, context: &Context) -> Box<dyn Watcher> {
    match watch {
        Watch::GrowPipes { capacity_bytes, budget_bytes } => {
            Box::new(grow_pipes::GrowPipes::new(*capacity_bytes, *budget_bytes, context))
        }
        Watch::AdviseHuge { min_bytes, growth_limit_bytes } => {
            Box::new(advise_huge::AdviseHuge::new(*min_bytes, *growth_limit_bytes))
        }
        Watch::AlternateCpus { cpus } => {
            Box::new(alternate_cpus::AlternateCpus::new(cpus.clone(), context))
        }
    }
}

/// When to look at the tree again: often while it is being set up, rarely later.
///
/// A shell makes the pipes of a pipeline within its first milliseconds; a look costs about 0.1 ms
/// of CPU, so 0.2 ms is only affordable for the first 20. Later looks take at most one part in 21
/// of a CPU, however large the tree is.
#[derive(Debug, Clone, Copy)]
struct Rhythm {
    /// Later looks come this long after each other.
    steady: Nanos,
}

/// A look at the tree that is being made.
#[derive(Debug, Clone, Copy)]
struct Look {
    since_start: Nanos,
    began: Instant,
}

/// The set-up phase of a program.
const SETUP: Nanos = Nanos::millis(20);
/// Pause between two looks in the set-up phase.
const SETUP_PAUSE: Nanos = Nanos(200_000);
/// From here on the program is a long one, and looks are rarer still.
const LONG: Nanos = Nanos::secs(1);
/// How much rarer.
const LONG_FACTOR: u64 = 4;
/// Least pause after a look of the later phases, in units of what it took.
const REST_FACTOR: u64 = 20;

impl Look {
    /// A look that begins now, `since_start` after the program's start.
    fn begin(since_start: Nanos) -> Self {
        Self { since_start, began: Instant::now() }
    }

    /// Now, counted from the start of the program.
    fn end(self) -> Nanos {
        self.since_start + Nanos::from(self.began.elapsed())
    }

    /// When to look again, by `rhythm`; nothing has happened for `quiet`.
    fn next(self, rhythm: Rhythm, quiet: Nanos) -> Nanos {
        rhythm.next(self.since_start, self.began.elapsed().into(), quiet)
    }
}

impl Rhythm {
    /// The next look after one that began at `begun` and took `took`.
    fn next(self, begun: Nanos, took: Nanos, quiet: Nanos) -> Nanos {
        let rest = Nanos(took.0.saturating_mul(REST_FACTOR));
        let pause = if begun < SETUP {
            SETUP_PAUSE
        } else if quiet < LONG {
            self.steady.max(rest)
        } else {
            Nanos(self.steady.0 * LONG_FACTOR).max(rest)
        };
        begun + took + pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_become_rarer() {
        let rhythm = Rhythm { steady: Nanos::millis(5) };
        let next = |begun| rhythm.next(begun, Nanos(0), begun);
        assert_eq!(next(Nanos(0)), SETUP_PAUSE);
        assert_eq!(next(Nanos::millis(100)), Nanos::millis(105));
        assert_eq!(next(Nanos::secs(3)), Nanos::secs(3) + Nanos::millis(20));
        assert_eq!(rhythm.next(Nanos::secs(3), Nanos(0), Nanos(0)), Nanos::secs(3) + rhythm.steady);
    }

    #[test]
    fn the_pause_runs_from_the_end_of_the_look_and_grows_with_it() {
        let rhythm = Rhythm { steady: Nanos::millis(5) };
        let next = |took| rhythm.next(Nanos::millis(100), took, Nanos(0));
        assert_eq!(next(Nanos(100_000)), Nanos(105_100_000));
        assert_eq!(next(Nanos::millis(10)), Nanos::millis(100 + 10 + 200));
        assert_eq!(rhythm.next(Nanos(0), Nanos::millis(1), Nanos(0)), Nanos(1_200_000));
    }
}
