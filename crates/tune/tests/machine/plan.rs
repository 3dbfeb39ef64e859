//! A race on the simulated machine, by the product's own loop.

use super::Machine;
use crate::arm;
use pagewise_model::Nanos;
use pagewise_model::guard::ArmGuard;
use pagewise_model::trial::{ComparedQuantity, Experiment, ExperimentBlock};
use pagewise_tune::race::{self, BlockUnit, ProgramSubject, RaceGoal, RaceTerms, RaceTime};
use pagewise_tune::world::ProgramArm;

/// A race on a [`Machine`]. The control is `A`.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) quantity: ComparedQuantity,
    pub(crate) guards: Vec<ArmGuard>,
    pub(crate) goal: RaceGoal,
    pub(crate) arms: Vec<ProgramArm>,
    pub(crate) budget: Nanos,
    pub(crate) left: Nanos,
    /// Expected time of a run.
    pub(crate) run_ns: Nanos,
    pub(crate) compare_runs: u32,
    pub(crate) seed: u64,
    pub(crate) most_at_once: Option<u32>,
    pub(crate) earlier: Vec<ExperimentBlock>,
}

pub(crate) fn plan(arms: &[&str], seed: u64) -> Plan {
    Plan {
        quantity: ComparedQuantity::Time,
        guards: Vec::new(),
        goal: RaceGoal::Gain,
        arms: arms.iter().map(|name| arm(name)).collect(),
        budget: Nanos::secs(60),
        left: Nanos::secs(60),
        run_ns: Nanos::millis(200),
        compare_runs: 3,
        seed,
        most_at_once: None,
        earlier: vec![],
    }
}

pub(crate) fn run(machine: &mut Machine, plan: &Plan) -> Experiment {
    let started = Nanos(machine.clock_ns);
    let mut programs = ProgramSubject::new(machine, arm("A"));
    programs.arms.tried.clone_from(&plan.arms);
    programs.run_ns = plan.run_ns;
    let race = race::RacePlan {
        terms: RaceTerms {
            quantity: plan.quantity,
            guards: plan.guards.clone(),
            goal: plan.goal,
            unit: BlockUnit::Runs,
            control: "A".to_owned(),
            seed: plan.seed,
            budget: plan.budget,
            most_at_once: plan.most_at_once.map(Ok),
        },
        entrants: programs.entrants(),
        earlier: plan.earlier.iter().cloned().map(race::RaceBlock::Runs).collect(),
        rejected: vec![],
        time: RaceTime { started, budget: plan.budget, left: plan.left },
        compare_runs: plan.compare_runs,
    };
    race::run(&mut programs, race).0
}
