//! Runs one point at a time and watches for what ends an experiment or an arm: failures, other
//! exit statuses, the user, the end of the budget.

use crate::bench::{ArmId, Bench, Progress, RunFailure, Stage};
use crate::plan::Plan;
use pagewise_judge::stats::Rng;
use pagewise_model::Nanos;
use pagewise_model::trial::Point;
use pagewise_model::usage::Ended;
use std::collections::HashMap;

/// Why an experiment ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Halt {
    /// The user asked.
    Interrupted,
    /// The budget is used up.
    Budget,
    /// The control cannot be measured, or nothing can, and why.
    Control(String),
}

/// Tally of the stage, for progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) stage: Stage,
    pub(crate) done: u32,
    pub(crate) total: u32,
}

/// What a failure that is not the arm's makes of the experiment.
pub(crate) fn ours(failure: RunFailure) -> Halt {
    match failure {
        RunFailure::Interrupted => Halt::Interrupted,
        RunFailure::Failed(why) | RunFailure::Broken(why) => {
            Halt::Control(format!("the experiment could not go on: {why}"))
        }
    }
}

pub(crate) struct Runner<'a, B: Bench> {
    pub(crate) bench: &'a mut B,
    pub(crate) plan: &'a Plan,
    pub(crate) rng: Rng,
    /// Arms that failed, with the reason.
    pub(crate) failed: HashMap<ArmId, String>,
    started: Nanos,
    expected: Option<Ended>,
    pending: Vec<(ArmId, Ended)>,
}

impl<'a, B: Bench> Runner<'a, B> {
    pub(crate) fn new(bench: &'a mut B, plan: &'a Plan) -> Self {
        Self {
            started: bench.now(),
            rng: Rng::new(plan.seed),
            failed: HashMap::new(),
            expected: None,
            pending: Vec::new(),
            bench,
            plan,
        }
    }

    pub(crate) fn spent_ns(&self) -> u64 {
        self.bench.now().0.saturating_sub(self.started.0)
    }

    /// Time that may still be used: the budget and a tenth of it.
    pub(crate) fn allowance_ns(&self) -> u64 {
        let limit = self.plan.budget.0.saturating_add(self.plan.budget.0 / 10);
        limit.saturating_sub(self.spent_ns())
    }

    /// Stops for the user and at the end of the allowance.
    pub(crate) fn check(&self) -> Result<(), Halt> {
        if self.bench.interrupted() {
            return Err(Halt::Interrupted);
        }
        if self.allowance_ns() == 0 { Err(Halt::Budget) } else { Ok(()) }
    }

    /// One run of `arm`; `None` when the arm failed, now or earlier.
    pub(crate) fn point(&mut self, arm: &ArmId, tally: Tally) -> Result<Option<Point>, Halt> {
        if self.failed.contains_key(arm) {
            return Ok(None);
        }
        self.check()?;
        let left = self.plan.budget.0.saturating_sub(self.spent_ns());
        let Tally { stage, done, total } = tally;
        let progress = Progress { stage, done, total, left_ns: Nanos(left), arm: arm.clone() };
        self.bench.progress(&progress);
        let is_control = *arm == self.plan.control;
        match self.bench.run(arm) {
            Err(failure @ (RunFailure::Interrupted | RunFailure::Broken(_))) => Err(ours(failure)),
            Err(RunFailure::Failed(why)) if is_control => {
                Err(Halt::Control(format!("the control failed: {why}")))
            }
            Err(RunFailure::Failed(why)) => {
                self.failed.insert(arm.clone(), format!("it failed: {why}"));
                Ok(None)
            }
            Ok(point) => {
                self.check_ending(arm, is_control, point.usage.ended)?;
                let point = Point { arm: arm.0.clone(), ..point };
                Ok((!self.failed.contains_key(arm)).then_some(point))
            }
        }
    }

    /// Holds the way a run ended against the control's. Runs before the first of the control
    /// wait for it.
    fn check_ending(&mut self, arm: &ArmId, is_control: bool, ended: Ended) -> Result<(), Halt> {
        match self.expected {
            None if is_control => self.expected = Some(ended),
            None => {
                self.pending.push((arm.clone(), ended));
                return Ok(());
            }
            Some(expected) if is_control && ended != expected => {
                return Err(Halt::Control(format!(
                    "the control ended with {expected} at first and with {ended} later"
                )));
            }
            Some(_) if is_control => {}
            Some(_) => self.pending.push((arm.clone(), ended)),
        }
        let Some(expected) = self.expected else { return Ok(()) };
        for (arm, ended) in self.pending.drain(..).filter(|(_, ended)| *ended != expected) {
            let why = format!("it ended with {ended}, the control with {expected}");
            self.failed.entry(arm).or_insert(why);
        }
        Ok(())
    }
}
