//! What an experiment is to do.

use crate::world::Arm;
use pagewise_judge::race::Goal;
use pagewise_model::Nanos;
use pagewise_model::guard::Guard;
use pagewise_model::trial::{Block, Quantity};

/// The default budget is this or [`DEFAULT_RUNS`], whichever is longer.
const DEFAULT_BUDGET: Nanos = Nanos::secs(60);
/// So many runs.
const DEFAULT_RUNS: u64 = 40;

/// An experiment to be run.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What decides.
    pub quantity: Quantity,
    /// What an arm may not pass, whatever it gains.
    pub guards: Vec<Guard>,
    /// When it has its answer.
    pub goal: Goal,
    /// What the arms are measured against.
    pub control: Arm,
    /// The arms, the most promising first: where time is short the last are left out.
    pub arms: Vec<Arm>,
    /// Time for the whole session, as the report gives it.
    pub budget: Nanos,
    /// Time left of it.
    pub left: Nanos,
    /// Usual time from one run to the next.
    pub run_ns: Nanos,
    /// Runs that it takes to hold the output of a first arm against the control's.
    pub compare_runs: u32,
    /// Seed of all random orders.
    pub seed: u64,
    /// Blocks of an earlier session that this one continues.
    pub earlier: Vec<Block>,
}

/// The budget unless the user gives one: 60 s or 40 runs, whichever is longer.
#[must_use]
pub fn default_budget(run: Nanos) -> Nanos {
    DEFAULT_BUDGET.max(Nanos(run.0.saturating_mul(DEFAULT_RUNS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_sixty_seconds_or_forty_runs() {
        assert_eq!(default_budget(Nanos::millis(200)), Nanos::secs(60));
        assert_eq!(default_budget(Nanos::secs(2)), Nanos::secs(80));
        assert_eq!(default_budget(Nanos(u64::MAX)), Nanos(u64::MAX));
    }
}
