//! The session as a state machine.
//!
//! Each [`Step`] reads what the steps before it left in the [`Run`], asks the world for one thing,
//! and names the next step. A run that is cut short at any step is still a valid saved run.

use crate::bench;
use crate::choose;
use crate::output::{Baseline, Captured};
use crate::request::Request;
use crate::stop::Stop;
use crate::world::{Arm, Event, World};
use pagewise_judge::diagnosis::diagnose;
use pagewise_model::look::{Look, Traced};
use pagewise_model::plan::{Dose, Settings};
use pagewise_model::run::{Outcome, OutputCheck, Run, RunKind};
use pagewise_model::trial::{Verdict, Word};
use pagewise_model::{Fact, Nanos};
use pagewise_remedy::Evidence;
use pagewise_trial::Kind;

/// Plain timed runs of the look: two, for the spread.
const LOOKS: usize = 2;

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Machine and prices.
    Price,
    /// The traced look: is it safe to run again, and what does it do?
    Trace,
    /// Plain timed runs.
    Time,
    /// Costs and ceiling.
    Diagnose,
    /// Remedies that fit.
    Choose,
    /// Outputs of plain runs and of each arm.
    Compare,
    /// Screening and confirmation.
    Try,
    /// The receipt.
    Keep,
    /// Nothing left to do.
    Done,
}

/// A session in progress.
#[derive(Debug)]
pub struct Session<'a> {
    request: &'a Request,
    run: Run,
    traced: Option<Fact<Traced>>,
    doses: Vec<Vec<Dose>>,
    base: Option<Baseline>,
}

impl<'a> Session<'a> {
    /// A session that has not begun.
    #[must_use]
    pub fn new(request: &'a Request) -> Self {
        let run = request.empty_run(RunKind::Tune, &request.command);
        Self { request, run, traced: None, doses: Vec::new(), base: None }
    }

    /// Runs to the end. What is known is in the run whatever happens; an early end is told apart.
    pub fn run(mut self, world: &mut dyn World) -> (Run, Option<Stop>) {
        let start = world.now();
        let mut step = Step::Price;
        let mut stop = None;
        while step != Step::Done {
            match self.advance(step, world) {
                Ok(next) => step = next,
                Err(why) => {
                    if matches!(why, Stop::Interrupted) {
                        self.run.outcome = Some(Outcome::Interrupted);
                    }
                    stop = Some(why);
                    break;
                }
            }
        }
        self.run.took_ns = Nanos(world.now().0.saturating_sub(start.0));
        (self.run, stop)
    }

    fn advance(&mut self, step: Step, world: &mut dyn World) -> Result<Step, Stop> {
        if world.interrupted() {
            return Err(Stop::Interrupted);
        }
        match step {
            Step::Price => self.price(world),
            Step::Trace => self.trace(world),
            Step::Time => self.time(world),
            Step::Diagnose => Ok(self.diagnose()),
            Step::Choose => self.choose(world),
            Step::Compare => self.compare(world),
            Step::Try => self.try_arms(world),
            Step::Keep => Ok(self.keep()),
            Step::Done => Ok(Step::Done),
        }
    }

    fn price(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        world.tell(&Event::Stage("unit prices of this machine"));
        self.run.machine = Some(world.machine());
        self.run.prices = Some(world.prices()?);
        Ok(Step::Trace)
    }

    fn trace(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        world.tell(&Event::Stage("traced look"));
        let (traced, said) = world.traced()?;
        match &traced {
            Fact::Known(seen) => {
                if !seen.ended.success() && !self.request.ignore_failure {
                    return Err(Stop::Failed { ended: seen.ended, said });
                }
                if !seen.effects.is_empty() && !self.request.may_rerun() {
                    return Err(Stop::NotSafe(seen.effects.clone()));
                }
            }
            Fact::Missing(why) => {
                if !self.request.may_rerun() {
                    return Err(Stop::NotSeen(why.clone()));
                }
                self.run.warnings.push(format!("no traced look: {why}"));
            }
        }
        self.traced = Some(traced);
        Ok(Step::Time)
    }

    fn time(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        world.tell(&Event::Stage("timed look"));
        let plain = choose::plain(self.request);
        let mut runs = Vec::new();
        for _ in 0..LOOKS {
            world.condition(bench::conditioned(&runs));
            let timed = world.timed(&plain, false)?;
            if !timed.usage.ended.success() && !self.request.ignore_failure {
                return Err(Stop::Failed { ended: timed.usage.ended, said: String::new() });
            }
            runs.push(timed.usage);
        }
        world.condition(bench::conditioned(&runs));
        let observed = world.timed(&plain, true)?;
        let traced = self.traced.take().unwrap_or_else(|| Fact::missing("not taken"));
        let look = Look { runs, traced, samples: observed.samples, walks: observed.walks };
        self.run.look = Some(look);
        Ok(Step::Diagnose)
    }

    fn diagnose(&mut self) -> Step {
        if let (Some(look), Some(prices), Some(machine)) =
            (&self.run.look, &self.run.prices, &self.run.machine)
        {
            self.run.diagnosis = Some(diagnose(look, prices, machine));
        }
        Step::Choose
    }

    fn choose(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        if let (Some(look), Some(diagnosis), Some(machine), Some(prices)) =
            (&self.run.look, &self.run.diagnosis, &self.run.machine, &self.run.prices)
        {
            let evidence = Evidence { look, diagnosis, machine, prices };
            self.run.candidates = choose::candidates(&evidence);
        }
        world.tell(&Event::Chosen(&self.run));
        if self.request.advise {
            self.run.outcome = Some(Outcome::AdviceOnly);
            return Ok(Step::Done);
        }
        self.doses = choose::doses(self.request, &self.run.candidates)
            .into_iter()
            .map(|dose| vec![dose])
            .collect();
        let ceiling = self.run.diagnosis.as_ref().map_or(1.0, |d| d.ceiling_share);
        let asked = self.request.only.is_some() || !self.request.own_arms.is_empty();
        let why = if ceiling < choose::LEAST_CEILING {
            format!("page costs and wake-ups are at most {:.1}% of its time", ceiling * 100.0)
        } else if self.doses.is_empty() {
            format!(
                "page costs and wake-ups are at most {:.0}% of its time, and no remedy fits",
                ceiling * 100.0
            )
        } else {
            return Ok(Step::Compare);
        };
        if asked {
            return Ok(Step::Compare);
        }
        self.run.outcome = Some(Outcome::NothingToGain { why });
        Ok(Step::Done)
    }

    /// Runs two plain commands and each arm untimed, and compares what they put out.
    fn compare(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        world.tell(&Event::Stage("comparing outputs"));
        let plain = choose::plain(self.request);
        let first = world.captured(&plain)?;
        let second = world.captured(&plain)?;
        let base = match Baseline::of(&first, &second) {
            Ok(base) => base,
            Err(why) => {
                self.run.outcome = Some(Outcome::CannotTell { why });
                return Ok(Step::Done);
            }
        };
        let exceptions = base.exceptions();
        self.run.output_checks.push(OutputCheck {
            arm: plain.name.clone(),
            equal: exceptions.is_empty(),
            notes: exceptions,
        });
        for arm in self.arms() {
            let run: Captured = world.captured(&arm)?;
            self.run.output_checks.push(base.check(&arm.name, &run));
        }
        self.base = Some(base);
        Ok(Step::Try)
    }

    /// All arms: the chosen doses and the user's own.
    fn arms(&self) -> Vec<Arm> {
        let own = self.request.own_arms.iter().map(|own| Arm {
            name: own.name.clone(),
            command: own.command.clone(),
            settings: Settings::default(),
            mechanism: Vec::new(),
        });
        self.doses.iter().map(|doses| choose::arm(self.request, doses)).chain(own).collect()
    }

    fn try_arms(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        let Some(look) = &self.run.look else { return Ok(Step::Done) };
        let own = self.request.own_arms.iter().map(|_| Vec::new());
        let setup = bench::Setup {
            request: self.request,
            kind: Kind::Screened,
            plain: choose::plain(self.request),
            arms: self.arms(),
            doses: self.doses.iter().cloned().chain(own).collect(),
            look,
            prices: self.run.prices.as_ref(),
            base: self.base.as_ref(),
            checks: std::mem::take(&mut self.run.output_checks),
        };
        let tried = bench::experiment(setup, world)?;
        let interrupted = tried.experiment.interrupted;
        self.run.output_checks = tried.checks;
        self.run.doses = tried.doses;
        self.run.experiment = Some(tried.experiment);
        if interrupted {
            self.run.outcome = Some(Outcome::Interrupted);
            return Ok(Step::Done);
        }
        Ok(Step::Keep)
    }

    fn keep(&mut self) -> Step {
        let Some(experiment) = &self.run.experiment else { return Step::Done };
        let gain = |name: &str| {
            let verdict = experiment.verdicts.iter().find(|v| v.arm == name);
            verdict.and_then(|v| v.effect.as_ref()).map_or(1.0, |e| e.ratio)
        };
        let mut kept: Vec<String> = experiment
            .verdicts
            .iter()
            .filter(|v| v.word == Word::Keep)
            .map(|v| v.arm.clone())
            .collect();
        kept.sort_by(|a, b| gain(a).total_cmp(&gain(b)));
        self.run.outcome = Some(match kept.first() {
            Some(best) => {
                let doses = self.run.doses.iter().find(|(name, _)| name == best);
                self.run.receipt = doses.map(|(_, doses)| {
                    pagewise_remedy::receipt::write(doses, &self.request.start())
                });
                Outcome::Proven { keep: kept }
            }
            None => match undecided(&experiment.verdicts) {
                Some(why) => Outcome::CannotTell { why },
                None => Outcome::NothingKept,
            },
        });
        Step::Done
    }
}

/// Why nothing can be said, when not one arm came to a decision.
fn undecided(verdicts: &[Verdict]) -> Option<String> {
    let open = |v: &&Verdict| matches!(v.word, Word::CannotTell | Word::NotProven);
    let first = verdicts.iter().find(|v| v.word == Word::CannotTell).or(verdicts.first())?;
    (verdicts.iter().filter(open).count() == verdicts.len())
        .then(|| format!("{}: {}", first.arm, first.why))
}
