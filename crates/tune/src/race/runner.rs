//! Runs one point at a time and watches for what ends an experiment or an arm: failures, other
//! exit statuses, the user, the end of the time.

use super::lab::{Lab, Progress, RunFailure};
use super::plan::Plan;
use crate::world::Arm;
use pagewise_judge::stats::Rng;
use pagewise_model::Nanos;
use pagewise_model::trial::{Point, Ratio};
use pagewise_model::usage::Ended;
use std::collections::HashMap;

/// The time may be overrun by this part of the whole budget, where a block is to be finished.
const OVERRUN: u64 = 10;

/// Why an experiment ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The user asked.
    Interrupted,
    /// The time is over.
    Budget,
    /// The control cannot be measured, or nothing can, and why.
    Control(String),
}

/// What a failure that is not the arm's makes of the experiment.
pub(crate) fn ours(failure: RunFailure) -> Halt {
    match failure {
        RunFailure::Interrupted => Halt::Interrupted,
        RunFailure::Failed(why) | RunFailure::Broken(why) => {
            Halt::Control(format!("the experiment could not continue: {why}"))
        }
    }
}

pub(crate) struct Runner<'a, L: Lab> {
    pub(crate) lab: &'a mut L,
    pub(crate) plan: &'a Plan,
    pub(crate) rng: Rng,
    /// Arms that failed, with the reason.
    pub(crate) failed: HashMap<String, String>,
    runs: u32,
    /// Clock time of the runs of each arm, start and reaping included: sum and number.
    clock: HashMap<String, (u64, u64)>,
    started: Nanos,
    expected: Option<Ended>,
    pending: Vec<(String, Ended)>,
}

impl<'a, L: Lab> Runner<'a, L> {
    pub(crate) fn new(lab: &'a mut L, plan: &'a Plan) -> Self {
        Self {
            started: lab.now(),
            // A session that is continued gets other orders than it had, with the same seed too.
            rng: Rng::new(plan.seed.wrapping_add(plan.earlier.len() as u64)),
            failed: HashMap::new(),
            runs: 0,
            clock: HashMap::new(),
            expected: None,
            pending: Vec::new(),
            lab,
            plan,
        }
    }

    /// Time left before `overrun` beyond the time is used up as well.
    fn left(&self, overrun: u64) -> u64 {
        let spent = self.lab.now().0.saturating_sub(self.started.0);
        self.plan.left.0.saturating_add(overrun).saturating_sub(spent)
    }

    pub(crate) fn left_ns(&self) -> u64 {
        self.left(0)
    }

    /// Time that a block may take: half of the overrun is for its estimate, half for a last block.
    pub(crate) fn left_for_block(&self) -> u64 {
        self.left(self.plan.budget.0 / (2 * OVERRUN))
    }

    /// Stops for the user and when the time and a tenth of the budget are over.
    pub(crate) fn check(&self) -> Result<(), Halt> {
        if self.lab.interrupted() {
            return Err(Halt::Interrupted);
        }
        if self.left(self.plan.budget.0 / OVERRUN) == 0 { Err(Halt::Budget) } else { Ok(()) }
    }

    /// Usual time from a run of `arm` to the next run.
    pub(crate) fn cost_ns(&self, arm: &str) -> u64 {
        let known = self.clock.get(arm).or_else(|| self.clock.get(&self.plan.control.name));
        known.map_or(self.plan.run_ns.0, |(sum, runs)| sum / runs)
    }

    /// One run of `arm`; `None` when the arm failed, now or earlier. `standings` is for who watches.
    pub(crate) fn point(
        &mut self,
        arm: &Arm,
        standings: &dyn Fn() -> Vec<(String, Ratio)>,
    ) -> Result<Option<Point>, Halt> {
        if self.failed.contains_key(&arm.name) {
            return Ok(None);
        }
        self.check()?;
        let left_ns = Nanos(self.left_ns());
        let progress = Progress { runs: self.runs, left_ns, arm: &arm.name, standings };
        self.lab.progress(&progress);
        let before = self.lab.now();
        let is_control = arm.name == self.plan.control.name;
        match self.lab.run(arm) {
            Err(failure @ (RunFailure::Interrupted | RunFailure::Broken(_))) => Err(ours(failure)),
            Err(RunFailure::Failed(why)) if is_control => {
                Err(Halt::Control(format!("the reference failed: {why}")))
            }
            Err(RunFailure::Failed(why)) => {
                self.failed.insert(arm.name.clone(), format!("it failed: {why}"));
                Ok(None)
            }
            Ok(point) => {
                self.runs += 1;
                let took = self.lab.now().0.saturating_sub(before.0);
                let (sum, runs) = self.clock.entry(arm.name.clone()).or_default();
                (*sum, *runs) = (*sum + took, *runs + 1);
                self.check_ending(&arm.name, is_control, point.usage.ended)?;
                let point = Point { arm: arm.name.clone(), ..point };
                Ok((!self.failed.contains_key(&arm.name)).then_some(point))
            }
        }
    }

    /// Holds the way a run ended against the control's. Runs before the first of the control
    /// wait for it.
    fn check_ending(&mut self, arm: &str, is_control: bool, ended: Ended) -> Result<(), Halt> {
        match self.expected {
            None if is_control => self.expected = Some(ended),
            None => {
                self.pending.push((arm.to_owned(), ended));
                return Ok(());
            }
            Some(expected) if is_control && ended != expected => {
                return Err(Halt::Control(format!(
                    "the reference first ended with {expected}, later with {ended}"
                )));
            }
            Some(_) if is_control => {}
            Some(_) => self.pending.push((arm.to_owned(), ended)),
        }
        let Some(expected) = self.expected else { return Ok(()) };
        for (arm, ended) in self.pending.drain(..).filter(|(_, ended)| *ended != expected) {
            let why = format!("it ended with {ended}, the reference with {expected}");
            self.failed.entry(arm).or_insert(why);
        }
        Ok(())
    }
}
