//! A race on the simulated machine, by the product's own loop.

use super::Machine;
use crate::arm;
use pagewise_model::Nanos;
use pagewise_model::guard::Guard;
use pagewise_model::trial::{Block, Experiment, Quantity};
use pagewise_tune::race::{self, Goal, Programs, Terms, Time, Unit};
use pagewise_tune::world::Arm;

/// A race on a [`Machine`]. The control is `A`.
#[derive(Clone)]
pub(crate) struct Plan {
    pub(crate) quantity: Quantity,
    pub(crate) guards: Vec<Guard>,
    pub(crate) goal: Goal,
    pub(crate) arms: Vec<Arm>,
    pub(crate) budget: Nanos,
    pub(crate) left: Nanos,
    /// Expected time of a run.
    pub(crate) run_ns: Nanos,
    pub(crate) compare_runs: u32,
    pub(crate) seed: u64,
    pub(crate) most_at_once: Option<u32>,
    pub(crate) earlier: Vec<Block>,
}

pub(crate) fn plan(arms: &[&str], seed: u64) -> Plan {
    Plan {
        quantity: Quantity::Time,
        guards: Vec::new(),
        goal: Goal::Gain,
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
    let mut programs = Programs::new(machine, arm("A"));
    programs.arms.tried.clone_from(&plan.arms);
    programs.run_ns = plan.run_ns;
    let race = race::Plan {
        terms: Terms {
            quantity: plan.quantity,
            guards: plan.guards.clone(),
            goal: plan.goal,
            unit: Unit::Runs,
            control: "A".to_owned(),
            seed: plan.seed,
            budget: plan.budget,
            most_at_once: plan.most_at_once.map(Ok),
        },
        entrants: programs.entrants(),
        earlier: plan.earlier.iter().cloned().map(race::Block::Runs).collect(),
        rejected: vec![],
        time: Time { started, budget: plan.budget, left: plan.left },
        compare_runs: plan.compare_runs,
    };
    race::run(&mut programs, race).0
}
