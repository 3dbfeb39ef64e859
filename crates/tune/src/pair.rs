//! `ab`: two commands through the same engine, all blocks spent on the one question.

use crate::bench::{self, Setup};
use crate::look;
use crate::output::{Baseline, Captured};
use crate::request::Request;
use crate::stop::Stop;
use crate::world::{Arm, Limits, World};
use pagewise_model::look::Look;
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::trial::{Experiment, Word};
use pagewise_model::{Fact, Nanos};
use pagewise_trial::Kind;
use std::ffi::OsString;

/// Two commands to set against each other.
#[derive(Debug)]
pub struct Pair<'a> {
    /// Conditions; its command is the first.
    pub request: &'a Request,
    /// Name of the first.
    pub first_name: String,
    /// Name of the second.
    pub second_name: String,
    /// The second command.
    pub second: Vec<OsString>,
}

impl Pair<'_> {
    /// Runs the experiment. What is known is in the run whatever happens.
    pub fn run(&self, world: &mut dyn World) -> (Run, Option<Stop>) {
        let request = self.request;
        let command = [&request.command[..], &["---".into()], &self.second[..]].concat();
        let run = request.empty_run(RunKind::Ab, &command);
        filled(run, world, |run, world| self.fill(run, world))
    }

    fn fill(&self, run: &mut Run, world: &mut dyn World) -> Result<(), Stop> {
        run.machine = Some(world.machine());
        let plain = Arm::unchanged(&self.first_name, &self.request.command);
        let other = Arm::unchanged(&self.second_name, &self.second);
        let ignore = self.request.ignore_failure;
        let first = self.captured(&plain, world)?;
        let timed = look::time(world, &plain, ignore, Limits::default())?;
        bench::afford(self.request, Kind::Direct, 1, timed.cost_ns)?;
        let not_asked = || "not part of a comparison of two commands".to_owned();
        let look = Look {
            runs: timed.runs,
            traced: Fact::Missing(not_asked()),
            samples: Fact::Missing(not_asked()),
            walks: Fact::Missing(not_asked()),
            faults: Fact::Missing(not_asked()),
        };
        let second = self.captured(&other, world)?;
        // Two commands may well put out different things: that is told, not held against them.
        let base = Baseline::of(&first, &first).map_err(|why| Stop::Output(why.to_string()))?;
        run.output_checks = vec![base.check(&other.name, &second)];
        let slowest = look.runs.iter().map(|u| u.wall_ns).chain([second.wall_ns]).max();
        let limits = Limits { time: slowest.map(|wall| look::longest(wall.0)), memory: None };
        let setup = Setup {
            request: self.request,
            kind: Kind::Direct,
            plain,
            arms: vec![other],
            doses: vec![Vec::new()],
            look: &look,
            cost_ns: timed.cost_ns,
            limits,
            prices: None,
            base: None,
            checks: Vec::new(),
            pairs: None,
        };
        let tried = bench::experiment(setup, world);
        run.look = Some(look);
        run.outcome = Some(outcome(&tried.experiment));
        run.experiment = Some(tried.experiment);
        Ok(())
    }

    /// An untimed run of one of the two, of which nothing is known yet that would limit it.
    fn captured(&self, arm: &Arm, world: &mut dyn World) -> Result<Captured, Stop> {
        let run = world.captured(arm, &Limits::default())?;
        if run.ended.success() || self.request.ignore_failure {
            return Ok(run);
        }
        Err(Stop::Failed { arm: Some(arm.name.clone()), ended: run.ended, said: run.said })
    }
}

/// A run that `fill` has filled as far as it came, with the time that took, and why it ended early.
pub(crate) fn filled(
    mut run: Run,
    world: &mut dyn World,
    fill: impl FnOnce(&mut Run, &mut dyn World) -> Result<(), Stop>,
) -> (Run, Option<Stop>) {
    let start = world.now();
    let stop = fill(&mut run, world).err();
    if matches!(stop, Some(Stop::Interrupted)) {
        run.outcome = Some(Outcome::Interrupted);
    }
    run.took_ns = Nanos(world.now().0.saturating_sub(start.0));
    (run, stop)
}

/// How an experiment with one arm ended.
pub(crate) fn outcome(experiment: &Experiment) -> Outcome {
    if experiment.interrupted {
        return Outcome::Interrupted;
    }
    if let Some(why) = &experiment.halted {
        return Outcome::CannotTell { why: why.clone() };
    }
    match experiment.verdicts.first() {
        Some(v) if v.word == Word::Keep => Outcome::Proven { keep: vec![v.arm.clone()] },
        Some(v) if matches!(v.word, Word::CannotTell | Word::NotProven) => {
            Outcome::CannotTell { why: v.why.clone() }
        }
        _ => Outcome::NothingKept,
    }
}
