//! The session as a state machine.
//!
//! Each [`Step`] reads what the steps before it left in the [`Run`], asks the world for one thing,
//! and names the next step. A run that is cut short at any step is still a valid saved run.

use crate::choose;
use crate::conditions;
use crate::experiment::{self, Outputs, ranked};
use crate::look;
use crate::output::Baseline;
use crate::race::Goal;
use crate::request::Request;
use crate::stop::Stop;
use crate::world::{Arm, Event, Limits, Timing, Watch, World};
use pagewise_judge::diagnosis::diagnose;
use pagewise_model::diagnosis::Diagnosis;
use pagewise_model::look::{Look, TimedFaults, Traced};
use pagewise_model::plan::{Dose, Receipt};
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::trial::{Experiment, Quantity, Verdict, Word};
use pagewise_model::usage::Usage;
use pagewise_model::{Fact, Nanos};
use pagewise_remedy::Evidence;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A further run only for the look is made where the budget still holds so many.
const CHEAP_RUNS: u64 = 20;
/// The account of the memory, which may spare whole arms, where it holds so many,
const ACCOUNT_RUNS: u64 = 8;
/// and it may take one in so many parts of the time that is left: calls that map memory are slow meanwhile.
const ACCOUNT_PART: u64 = 4;

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The traced look: is it safe to run again, and what does it do?
    Trace,
    /// Machine and prices.
    Price,
    /// Plain timed runs.
    Time,
    /// Costs and ceiling.
    Diagnose,
    /// Remedies that fit.
    Choose,
    /// Outputs of plain runs, where files of the user's are among them.
    Compare,
    /// The race.
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
    /// The experiment that this session continues.
    earlier: Option<Experiment>,
    /// When it began, by the world's clock.
    since: Nanos,
    /// Time from one plain run to the next.
    cost_ns: Nanos,
    limits: Limits,
}

impl<'a> Session<'a> {
    /// A session that has not begun.
    #[must_use]
    pub fn new(request: &'a Request) -> Self {
        let run = request.empty_run(RunKind::Tune, &request.spec.command);
        Self {
            request,
            run,
            traced: None,
            doses: Vec::new(),
            base: None,
            earlier: None,
            since: Nanos(0),
            cost_ns: Nanos(0),
            limits: Limits::default(),
        }
    }

    /// A session that goes on where a saved one stopped: with its look, its arms and all its runs. Check
    /// first with [`conditions::changed`] that they can be compared with runs made now.
    #[must_use]
    pub fn continued(request: &'a Request, saved: Run) -> Self {
        let mut session = Self::new(request);
        session.doses = saved.doses.iter().map(|(_, doses)| doses.clone()).collect();
        if let Some(look) = &saved.look {
            session.cost_ns = look.runs.last().map_or(Nanos(0), |run| run.wall_ns);
            session.limits = look::limits(look);
        }
        session.run = Run {
            id: session.run.id,
            started_unix_ns: session.run.started_unix_ns,
            outcome: None,
            receipt: None,
            experiment: None,
            warnings: Vec::new(),
            ..saved
        };
        session.earlier = saved.experiment;
        session
    }

    /// Runs to the end. What is known is in the run whatever happens; an early end is kept apart.
    pub fn run(mut self, world: &mut dyn World) -> (Run, Option<Stop>) {
        self.since = world.now();
        let mut step = match (&self.earlier, &self.run.look) {
            (Some(_), Some(look)) => {
                world.seen(&look.traced);
                Step::Try
            }
            _ => Step::Trace,
        };
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
        if self.run.experiment.is_some() {
            self.run.files = conditions::files(self.request, &self.run);
        }
        self.run.took_ns = Nanos(world.now().0.saturating_sub(self.since.0));
        (self.run, stop)
    }

    fn advance(&mut self, step: Step, world: &mut dyn World) -> Result<Step, Stop> {
        if world.interrupted() {
            return Err(Stop::Interrupted);
        }
        match step {
            Step::Trace => self.trace(world),
            Step::Price => self.price(world),
            Step::Time => self.time(world),
            Step::Diagnose => Ok(self.diagnose()),
            Step::Choose => self.choose(world),
            Step::Compare => self.compare(world),
            Step::Try => self.try_arms(world),
            Step::Keep => Ok(self.keep()),
            Step::Done => Ok(Step::Done),
        }
    }

    fn trace(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        world.tell(&Event::Stage("tracing one run"));
        let (traced, said) = world.traced()?;
        self.run.warnings.extend(look::rerun(self.request, &traced, said)?);
        self.traced = Some(traced);
        // After the look: a program that may not run again is refused before seconds are spent here.
        Ok(Step::Price)
    }

    fn price(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        world.tell(&Event::Stage("measuring this machine's unit prices"));
        self.run.machine = Some(world.machine());
        self.run.prices = Some(world.prices()?);
        Ok(Step::Time)
    }

    fn time(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        world.tell(&Event::Stage("timing the plain program"));
        let plain = Arm::plain(self.request);
        let traced = self.traced.take().unwrap_or_else(|| Fact::missing("no traced look"));
        let limits = look::first_limits(&traced);
        let enough = |cost: Nanos, now: Nanos| {
            let spent = now.0.saturating_sub(self.since.0);
            let left = experiment::budget(self.request, cost).0.saturating_sub(spent);
            cost.0.saturating_mul(CHEAP_RUNS) <= left
        };
        let timed = look::time(world, &plain, self.request.spec.ignore_failure, limits, enough)?;
        if timed.leftovers > 0 {
            self.run.warnings.push(format!(
                "it left up to {} process(es) behind, which were killed at its end: these figures do not include their work",
                timed.leftovers
            ));
        }
        let fresh = look::conditioned(&timed.runs);
        let timing = Timing { fresh, watch: Watch::Nothing, limits, ..Timing::default() };
        let faults = if enough(timed.cost_ns, world.now()) {
            self.record(&timed.runs, &timing, world)?
        } else {
            Fact::missing("the budget has no room for a separate run")
        };
        let look::Plain { runs, samples, user, walks, cost_ns, leftovers } = timed;
        let look = Look { runs, traced, samples, user, walks, faults };
        self.cost_ns = cost_ns;
        self.limits = look::limits(&look);
        self.run.look = Some(look);
        if self.request.spec.quantity == Quantity::Memory && leftovers == 0 {
            self.account(world)?;
        }
        Ok(Step::Diagnose)
    }

    /// One more plain run whose memory is accounted for, where the budget has room for it.
    fn account(&mut self, world: &mut dyn World) -> Result<(), Stop> {
        let spent = world.now().0.saturating_sub(self.since.0);
        let left = experiment::budget(self.request, self.cost_ns).0.saturating_sub(spent);
        if self.cost_ns.0.saturating_mul(ACCOUNT_RUNS) > left {
            return Ok(());
        }
        world.tell(&Event::Stage("measuring its memory"));
        let limits = Limits { time: Some(Nanos(left / ACCOUNT_PART)), ..self.limits };
        match world.accounted(&Arm::plain(self.request), &limits)? {
            Fact::Known(account) => self.run.memory = Some(account),
            Fact::Missing(why) => {
                self.run.warnings.push(format!("no account of its memory: {why}"));
            }
        }
        Ok(())
    }

    /// One more plain run with each fault timed, where its faults cost enough.
    fn record(
        &self,
        runs: &[Usage],
        timing: &Timing,
        world: &mut dyn World,
    ) -> Result<Fact<TimedFaults>, Stop> {
        let price = self.run.prices.as_ref().map(|prices| prices.anon_fault_ns.median);
        if !price.is_some_and(|price| look::is_worth_recording(runs, price)) {
            return Ok(Fact::missing("its faults cost too little for a separate run"));
        }
        world.tell(&Event::Stage("recording page faults"));
        world.recorded(&Arm::plain(self.request), timing)
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
        let pool = world.pool();
        if let (Some(look), Some(diagnosis), Some(machine), Some(prices)) =
            (&self.run.look, &self.run.diagnosis, &self.run.machine, &self.run.prices)
        {
            let memory = self.run.memory.as_ref();
            let evidence =
                Evidence { look, diagnosis, machine, prices, pool: &pool, memory, has_log: false };
            self.run.candidates = choose::candidates(&evidence, self.request.spec.quantity);
        }
        self.run.pool = Some(pool);
        world.tell(&Event::Chosen(&self.run));
        if self.request.spec.advise {
            self.run.outcome = Some(Outcome::AdviceOnly);
            return Ok(Step::Done);
        }
        let diagnosis = self.run.diagnosis.as_ref();
        let is_memory = self.request.spec.quantity == Quantity::Memory;
        let ceiling = diagnosis.filter(|_| !is_memory).map_or(1.0, |d| d.ceiling_share);
        let bounded = diagnosis.map_or("page costs and wake-ups", Diagnosis::bounded);
        let little = ceiling < choose::LEAST_CEILING;
        if !little || self.request.spec.only.is_some() {
            let chosen = choose::doses(self.request, &self.run.candidates);
            self.doses = chosen.into_iter().map(|dose| vec![dose]).collect();
        }
        if !self.arms().is_empty() {
            return Ok(Step::Compare);
        }
        let why = if is_memory {
            "no remedy saves memory of this program".to_owned()
        } else if little {
            format!("{bounded} are at most {:.1}% of its time", ceiling * 100.0)
        } else {
            format!("{bounded} are at most {:.0}% of its time, and no remedy fits", ceiling * 100.0)
        };
        self.run.outcome = Some(match self.not_in_ceiling().filter(|_| !is_memory) {
            None => Outcome::NothingToGain { why },
            Some(costs) => {
                Outcome::CannotTell { why: format!("{why}, but {costs} could not be seen") }
            }
        });
        Ok(Step::Done)
    }

    /// Costs that the ceiling leaves out.
    fn not_in_ceiling(&self) -> Option<String> {
        let costs = &self.run.diagnosis.as_ref()?.not_in_ceiling;
        (!costs.is_empty()).then(|| costs.join(" and "))
    }

    /// Compares the outputs of two plain runs where the user named files: a wrong name is reported before
    /// anything is tried. Otherwise that waits for the first arm that is likely to gain.
    fn compare(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        let (Some(look), false) = (&self.run.look, self.request.spec.outputs.is_empty()) else {
            return Ok(Step::Try);
        };
        world.tell(&Event::Stage("comparing outputs"));
        let plain = Arm::plain(self.request);
        match experiment::baseline(world, &plain, &self.limits, look) {
            Ok((base, check)) => {
                self.base = Some(base);
                self.run.output_checks.push(check);
                Ok(Step::Try)
            }
            Err(why) => {
                self.run.outcome = Some(why.outcome()?);
                Ok(Step::Done)
            }
        }
    }

    /// All arms: the chosen doses and the user's own.
    fn arms(&self) -> Vec<Arm> {
        let own = self.request.spec.own_arms.iter().map(Arm::own);
        self.doses.iter().map(|doses| choose::arm(self.request, doses)).chain(own).collect()
    }

    fn try_arms(&mut self, world: &mut dyn World) -> Result<Step, Stop> {
        let Some(look) = &self.run.look else { return Ok(Step::Done) };
        let setup = experiment::Setup {
            request: self.request,
            goal: Goal::Gain,
            plain: Arm::plain(self.request),
            arms: self.arms(),
            look,
            cost_ns: self.cost_ns,
            limits: self.limits,
            prices: self.run.prices.as_ref(),
            outputs: Outputs::Equal {
                base: self.base.take(),
                checks: std::mem::take(&mut self.run.output_checks),
            },
            earlier: self.earlier.take(),
            since: self.since,
        };
        let tried = experiment::experiment(setup, world);
        self.run.warnings.extend(self.refilled());
        self.run.output_checks = tried.checks;
        self.run.doses = tried.doses;
        self.run.experiment = Some(tried.experiment);
        match tried.incomparable {
            Some(why) => {
                self.run.outcome = Some(why.outcome()?);
                Ok(Step::Done)
            }
            None => Ok(Step::Keep),
        }
    }

    /// The files whose page cache was changed between runs, if there were any.
    fn refilled(&self) -> Option<String> {
        let all = self.doses.iter().flatten().flat_map(|dose| &dose.settings.huge_files);
        let paths: BTreeSet<&str> = all.map(|file| file.path.as_str()).collect();
        let paths: Vec<&str> = paths.into_iter().collect();
        (!paths.is_empty()).then(|| {
            format!("dropped from the page cache and read back between runs: {}", paths.join(", "))
        })
    }

    fn keep(&mut self) -> Step {
        let Some(experiment) = &self.run.experiment else { return Step::Done };
        let outcome = experiment::outcome(experiment);
        let gaining = ranked(experiment, Word::Keep);
        let best = gaining.first().copied().or(ranked(experiment, Word::Likely).first().copied());
        let receipt = best.and_then(|verdict| self.receipt(&verdict.arm));
        let beyond = self.beyond_ceiling(&gaining);
        let unseen = best.and_then(|_| self.not_compared());
        self.run.receipt = receipt;
        self.run.warnings.extend(beyond);
        self.run.warnings.extend(unseen);
        self.run.outcome = Some(outcome);
        Step::Done
    }

    /// The files that the program wrote and the user did not name: an arm may have written something else there.
    fn not_compared(&self) -> Option<String> {
        const SHOWN: usize = 3;
        let traced = self.run.look.as_ref()?.traced.known()?;
        let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let named: Vec<PathBuf> =
            self.request.spec.outputs.iter().map(|path| resolved(path)).collect();
        let is_named = |path: &&String| named.contains(&resolved(Path::new(path)));
        let left: Vec<&String> = traced.written.iter().filter(|path| !is_named(path)).collect();
        let shown: Vec<String> = left.iter().take(SHOWN).map(|path| format!("`{path}`")).collect();
        let more = match left.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!left.is_empty()).then(|| {
            format!(
                "not compared: {}{more}; to compare what the program writes there, name it with --output",
                shown.join(", ")
            )
        })
    }

    /// The first of the remedies' arms among `kept` that saves more than the ceiling said, beyond doubt.
    fn beyond_ceiling(&self, kept: &[&Verdict]) -> Option<String> {
        if self.request.spec.quantity == Quantity::Memory {
            return None;
        }
        let ceiling = self.run.diagnosis.as_ref()?.ceiling_share;
        let is_remedy = |verdict: &Verdict| self.run.doses.iter().any(|d| d.0 == verdict.arm);
        kept.iter().filter(|verdict| is_remedy(verdict)).find_map(|verdict| {
            let least = 1.0 - verdict.effect.as_ref()?.ratio_high;
            (least > ceiling).then(|| {
                format!(
                    "{} saves at least {:.0}% though the ceiling is {:.1}%: the ceiling does not include losses after a fault (caches, branch predictors)",
                    verdict.arm,
                    least * 100.0,
                    ceiling * 100.0
                )
            })
        })
    }

    /// How to keep an arm: the remedies on the program, or the user's own command.
    fn receipt(&self, arm: &str) -> Option<Receipt> {
        if let Some(doses) = self.run.doses_of(arm) {
            return Some(pagewise_remedy::receipt::write(doses, &self.request.start()));
        }
        let own = self.request.spec.own_arms.iter().find(|own| own.name == arm)?;
        let quoted = |word: &OsStr| (self.request.quote)(word.as_bytes());
        let mut command = own.command.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        if let Some(input) = self.request.spec.input.path() {
            command.push_str(&format!(" < {}", quoted(input.as_os_str())));
        }
        let undo = "start it with the command it had before".to_owned();
        Some(Receipt { command, undo, ..Receipt::default() })
    }
}
