//! What an experiment is to do, and the arithmetic of its budget. Pure.

use crate::bench::ArmId;
use pagewise_judge::power::{best_blocks, blocks_for, smallest_provable};
use pagewise_judge::verdict::minimum_blocks;
use pagewise_model::Nanos;
use pagewise_model::trial::Design;

/// Most blocks of a confirmation; at 1000 a gain of 2% is proven at a deviation of 20%.
pub(crate) const MOST_BLOCKS: u32 = 1000;
/// Blocks beyond the fewest that a further arm must leave: some do not count on most machines.
const SPARE_BLOCKS: u32 = 2;
/// Runs of each arm in screening.
pub(crate) const SCREENING_RUNS: u32 = 2;

/// One arm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// Its name.
    pub id: ArmId,
    /// It has a counter, which must move in its runs and not in the control's.
    pub counted: bool,
    /// Why it is rejected unmeasured, if so: its output differs from the control's, or it did not
    /// run at all.
    pub barred: Option<String>,
}

/// How arms are chosen for confirmation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The best two of the screening and their combination.
    Screened,
    /// All: the two runs of each beforehand only size the blocks (`ab`).
    Direct,
}

/// An experiment to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// How arms are chosen.
    pub kind: Kind,
    /// What the arms are measured against.
    pub control: ArmId,
    /// The arms.
    pub arms: Vec<Arm>,
    /// Time for everything, screening included.
    pub budget: Nanos,
    /// Seed of all random orders.
    pub seed: u64,
    /// Times of earlier plain runs, which help to know the spread.
    pub look_wall_ns: Vec<Nanos>,
    /// So many blocks are confirmed; without it as many as fit the budget and prove most.
    pub blocks: Option<u32>,
}

impl Plan {
    /// Two commands against each other: `second` is judged, nothing is screened. Neither has a
    /// counter, and their outputs may differ.
    #[must_use]
    pub fn pair(first: ArmId, second: ArmId, budget: Nanos, seed: u64) -> Self {
        Self {
            kind: Kind::Direct,
            control: first,
            arms: vec![Arm { id: second, counted: false, barred: None }],
            budget,
            seed,
            look_wall_ns: Vec::new(),
            blocks: None,
        }
    }
}

/// The budget unless the user gives one: 60 s or 100 runs, whichever is longer.
#[must_use]
pub fn default_budget(run: Nanos) -> Nanos {
    Nanos::secs(60).max(Nanos(run.0.saturating_mul(100)))
}

/// The budget in which `arms` arms can be screened and one be proven, when a run takes `run`.
#[must_use]
pub fn least_budget(arms: u32, run: Nanos) -> Nanos {
    let blocks = f64::from(minimum_blocks(1)) * block_cost(1, run);
    Nanos((screening_cost(arms, run) + blocks).ceil() as u64)
}

/// What the budget of `plan` can prove, before anything was run: with one arm confirmed, or all
/// of a direct plan.
#[must_use]
pub fn forecast(plan: &Plan, run: Nanos, run_sd: Option<f64>) -> Design {
    let screened = u32::try_from(plan.arms.len()).unwrap_or(u32::MAX);
    let arms = if plan.kind == Kind::Direct { screened } else { 1 };
    Sizing {
        arms,
        spent_ns: screening_cost(screened, run),
        block_ns: block_cost(arms, run),
        run_sd,
        fixed: plan.blocks,
    }
    .design(plan, &[])
}

fn screening_cost(arms: u32, run: Nanos) -> f64 {
    f64::from(SCREENING_RUNS) * (f64::from(arms) + 1.0) * run.0 as f64
}

fn block_cost(arms: u32, run: Nanos) -> f64 {
    f64::from(arms + 2) * run.0 as f64
}

/// How many blocks fit and what they prove.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizing {
    /// Arms confirmed.
    pub(crate) arms: u32,
    /// Time used so far.
    pub(crate) spent_ns: f64,
    /// Time of one block.
    pub(crate) block_ns: f64,
    /// Run-to-run deviation of the logarithm of the time.
    pub(crate) run_sd: Option<f64>,
    /// Blocks to run whatever fits.
    pub(crate) fixed: Option<u32>,
}

impl Sizing {
    /// Blocks to run: those asked for, else of those that fit what is left of `budget` as many as prove
    /// most.
    pub(crate) fn blocks(&self, budget: Nanos) -> u32 {
        if let Some(fixed) = self.fixed {
            return fixed.min(MOST_BLOCKS);
        }
        let left = (budget.0 as f64 - self.spent_ns).max(0.0);
        let fit = ((left / self.block_ns.max(1.0)) as u32).min(MOST_BLOCKS);
        self.run_sd.map_or(fit, |run_sd| best_blocks(fit, self.arms, run_sd))
    }

    /// They are enough for a proof.
    pub(crate) fn suffices(&self, budget: Nanos) -> bool {
        self.blocks(budget) >= minimum_blocks(self.arms)
    }

    /// They are enough for a proof although some will not count.
    pub(crate) fn has_spare_blocks(&self, budget: Nanos) -> bool {
        self.blocks(budget) >= minimum_blocks(self.arms) + SPARE_BLOCKS
    }

    /// Smallest gain they prove.
    pub(crate) fn provable(&self, budget: Nanos) -> Option<f64> {
        smallest_provable(self.blocks(budget), self.arms, self.run_sd?)
    }

    /// Budget that lets `blocks` blocks run.
    pub(crate) fn budget_of(&self, blocks: u32) -> Nanos {
        Nanos::from_f64((self.spent_ns + f64::from(blocks) * self.block_ns).ceil())
    }

    pub(crate) fn design(&self, plan: &Plan, confirmed: &[Arm]) -> Design {
        let for_10 = self.run_sd.and_then(|sd| blocks_for(0.10, self.arms, sd));
        Design {
            seed: plan.seed,
            budget_ns: plan.budget,
            screened: plan.arms.iter().map(|arm| arm.id.0.clone()).collect(),
            confirmed: confirmed.iter().map(|arm| arm.id.0.clone()).collect(),
            blocks: self.blocks(plan.budget),
            smallest_provable_share: self.provable(plan.budget),
            budget_for_10_percent_ns: for_10.map(|blocks| self.budget_of(blocks)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(budget: Nanos) -> Plan {
        Plan {
            kind: Kind::Screened,
            control: ArmId("A".into()),
            arms: vec![Arm { id: ArmId("b".into()), counted: false, barred: None }],
            budget,
            seed: 1,
            look_wall_ns: vec![],
            blocks: None,
        }
    }

    #[test]
    fn blocks_that_were_asked_for_are_run_whatever_fits() {
        let fixed = Plan { blocks: Some(24), ..plan(Nanos::secs(60)) };
        for run in [Nanos::millis(10), Nanos::secs(10)] {
            assert_eq!(forecast(&fixed, run, Some(0.05)).blocks, 24);
        }
    }

    #[test]
    fn budgets_are_sixty_seconds_or_a_hundred_runs() {
        assert_eq!(default_budget(Nanos::millis(200)), Nanos::secs(60));
        assert_eq!(default_budget(Nanos::secs(2)), Nanos::secs(200));
        assert_eq!(default_budget(Nanos(u64::MAX)), Nanos(u64::MAX));
    }

    #[test]
    fn the_least_budget_is_just_enough() {
        let run = Nanos::secs(1);
        let least = least_budget(1, run);
        let blocks = |budget| forecast(&plan(budget), run, Some(0.05)).blocks;
        assert_eq!(blocks(least), minimum_blocks(1));
        assert_eq!(blocks(Nanos(least.0 - 10)), minimum_blocks(1) - 1);
    }

    #[test]
    fn forecast_names_what_is_provable() {
        let design = forecast(&plan(Nanos::secs(60)), Nanos::millis(200), Some(0.06));
        assert!(design.smallest_provable_share.is_some_and(|g| (0.02..0.06).contains(&g)));
        let for_10 = design.budget_for_10_percent_ns.unwrap();
        assert!(for_10 < Nanos::secs(20) && for_10 > Nanos::secs(5), "{for_10}");
        let unknown = forecast(&plan(Nanos::secs(60)), Nanos::millis(200), None);
        assert_eq!(unknown.smallest_provable_share, None);
    }

    #[test]
    fn a_few_blocks_too_many_for_the_milder_p_are_not_run() {
        let design = |secs| forecast(&plan(Nanos::secs(secs)), Nanos::secs(1), Some(0.06));
        let [nineteen, twenty] = [design(4 + 3 * 19), design(4 + 3 * 20)];
        assert_eq!((nineteen.blocks, twenty.blocks), (19, 19));
        assert!(design(4 + 3 * 60).blocks == 60);
    }
}
