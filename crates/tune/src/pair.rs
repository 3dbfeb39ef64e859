//! `ab`: two commands through the same engine, all blocks spent on the one question.

use crate::bench::{self, Setup};
use crate::output::Baseline;
use crate::request::Request;
use crate::stop::Stop;
use crate::world::{Arm, World};
use pagewise_model::look::Look;
use pagewise_model::plan::Settings;
use pagewise_model::run::{Outcome, OutputCheck, Run, RunKind};
use pagewise_model::trial::Word;
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
    fn arm(name: &str, command: &[OsString]) -> Arm {
        Arm {
            name: name.to_owned(),
            command: command.to_vec(),
            settings: Settings::default(),
            mechanism: Vec::new(),
        }
    }

    /// Runs the experiment. What is known is in the run whatever happens.
    pub fn run(&self, world: &mut dyn World) -> (Run, Option<Stop>) {
        let start = world.now();
        let request = self.request;
        let command = [&request.command[..], &["---".into()], &self.second[..]].concat();
        let mut run = request.empty_run(RunKind::Ab, &command);
        let stop = self.fill(&mut run, world).err();
        if matches!(stop, Some(Stop::Interrupted)) {
            run.outcome = Some(Outcome::Interrupted);
        }
        run.took_ns = Nanos(world.now().0.saturating_sub(start.0));
        (run, stop)
    }

    fn fill(&self, run: &mut Run, world: &mut dyn World) -> Result<(), Stop> {
        run.machine = Some(world.machine());
        let plain = Self::arm(&self.first_name, &self.request.command);
        let other = Self::arm(&self.second_name, &self.second);
        run.output_checks = self.outputs(&plain, &other, world)?;
        let look = self.look(&plain, world)?;
        let setup = Setup {
            request: self.request,
            kind: Kind::Direct,
            plain,
            arms: vec![other],
            doses: vec![Vec::new()],
            look: &look,
            prices: None,
            base: None,
            checks: Vec::new(),
        };
        let tried = bench::experiment(setup, world)?;
        run.look = Some(look);
        run.outcome = Some(outcome(&tried.experiment.verdicts, tried.experiment.interrupted));
        run.experiment = Some(tried.experiment);
        Ok(())
    }

    /// Two commands may well put out different things: that is told, not held against them.
    fn outputs(
        &self,
        plain: &Arm,
        other: &Arm,
        world: &mut dyn World,
    ) -> Result<Vec<OutputCheck>, Stop> {
        let first = world.captured(plain)?;
        let second = world.captured(other)?;
        for (arm, run) in [(plain, &first), (other, &second)] {
            if !run.ended.success() && !self.request.ignore_failure {
                return Err(Stop::Failed { ended: run.ended, said: format!("arm `{}`", arm.name) });
            }
        }
        Ok(Baseline::of(&first, &first)
            .map(|b| vec![b.check(&other.name, &second)])
            .unwrap_or_default())
    }

    fn look(&self, plain: &Arm, world: &mut dyn World) -> Result<Look, Stop> {
        let mut runs = Vec::new();
        for _ in 0..2 {
            world.condition(bench::conditioned(&runs));
            runs.push(world.timed(plain, false)?.usage);
        }
        let not_asked = || "not part of a comparison of two commands".to_owned();
        Ok(Look {
            runs,
            traced: Fact::Missing(not_asked()),
            samples: Fact::Missing(not_asked()),
            walks: Fact::Missing(not_asked()),
        })
    }
}

fn outcome(verdicts: &[pagewise_model::trial::Verdict], interrupted: bool) -> Outcome {
    if interrupted {
        return Outcome::Interrupted;
    }
    match verdicts.first() {
        Some(v) if v.word == Word::Keep => Outcome::Proven { keep: vec![v.arm.clone()] },
        Some(v) if matches!(v.word, Word::CannotTell | Word::NotProven) => {
            Outcome::CannotTell { why: v.why.clone() }
        }
        _ => Outcome::NothingKept,
    }
}
