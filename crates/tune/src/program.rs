//! The adapter for programs that end: their traced and timed looks, the arms, the receipt.

use crate::at_once::ObservedProgram;
use crate::choose;
use crate::conditions;
use crate::experiment::{self, WorldLab};
use crate::look;
use crate::output::{BaselineError, OutputBaseline, OutputPolicy};
use crate::race::ProgramSubject;
use crate::request::SessionRequest;
use crate::session::{self, TunableSubject};
use crate::stop::SessionStop;
use crate::world::{
    ProgramArm, ProgramWorld, RunLimits, RunObservation, RunTiming, SessionEvent,
    SessionSurroundings, TracedLookPlan,
};
use pagewise_judge::diagnosis::diagnose;
use pagewise_judge::race::{BlockUnit, RaceEntrant};
use pagewise_model::diagnosis::Diagnosis;
use pagewise_model::look::{LookFindings, TimedFaults, TracedLook};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{RemedyDose, RemedyReceipt, WatchAction};
use pagewise_model::price::SessionPrices;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::trial::{ArmVerdict, ComparedQuantity, VerdictWord};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_remedy::RemedyEvidence;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A further run only for the look is made if the budget still has time for this many runs.
const CHEAP_RUNS: u64 = 20;
/// The memory is accounted for only if the budget has time for this many runs: the account may save whole
/// arms.
const ACCOUNT_RUNS: u64 = 8;
/// The account may take this part of the time left: calls that map memory are slow meanwhile.
const ACCOUNT_PART: u64 = 4;
/// The default budget is this or [`DEFAULT_RUNS`], whichever is longer.
const DEFAULT_BUDGET: Nanos = Nanos::secs(60);
/// The runs that a default budget holds at least.
const DEFAULT_RUNS: u64 = 40;

/// Time for the whole session if a run takes `run`.
fn budget(request: &SessionRequest, run: Nanos) -> Nanos {
    let usual = || DEFAULT_BUDGET.max(Nanos(run.0.saturating_mul(DEFAULT_RUNS)));
    request.spec.budget_ns.unwrap_or_else(usual)
}

impl SessionSurroundings for ProgramSubject<WorldLab<'_>> {
    fn machine(&mut self) -> Machine {
        self.lab.world.machine()
    }

    fn prices(&mut self) -> Result<SessionPrices, SessionStop> {
        self.lab.world.prices()
    }

    fn tell(&mut self, event: &SessionEvent<'_>) {
        self.lab.world.tell(event);
    }
}

impl TunableSubject for ProgramSubject<WorldLab<'_>> {
    const UNIT: BlockUnit = BlockUnit::Runs;

    fn base(&self) -> &SessionRequest {
        self.lab.request
    }

    fn budget(&self) -> Nanos {
        budget(self.lab.request, self.run_ns)
    }

    fn control(&self) -> &str {
        &self.arms.control.name
    }

    fn look(&mut self, run: &mut SavedRun, since: Nanos) -> Result<(), SessionStop> {
        let request = self.lab.request;
        let (run_ns, limits) =
            SessionLook { request, world: &mut *self.lab.world, run: &mut *run, since }.look()?;
        self.learn_by_look(run, run_ns, limits);
        Ok(())
    }

    fn resume(&mut self, run: &SavedRun) -> bool {
        let (Some(look), Some(_)) = (&run.look, &run.experiment) else { return false };
        self.lab.world.seen(&look.traced);
        let run_ns = look.runs.last().map_or(Nanos(0), |run| run.wall_ns);
        self.learn_by_look(run, run_ns, look::limits(look));
        true
    }

    fn enter(&mut self, run: &mut SavedRun, _: Nanos) -> Result<Vec<RaceEntrant>, SessionStop> {
        let request = self.lab.request;
        let doses: Vec<Vec<RemedyDose>> = match &run.experiment {
            Some(_) => run.doses.iter().map(|(_, doses)| doses.clone()).collect(),
            None => doses(request, run).into_iter().map(|dose| vec![dose]).collect(),
        };
        let own = request.spec.own_arms.iter().map(ProgramArm::own);
        let arms = doses.iter().map(|doses| choose::arm(request, doses)).chain(own);
        let arms: Vec<ProgramArm> = arms.map(|arm| up_to_checkpoint(run, arm)).collect();
        if arms.is_empty() {
            return Ok(Vec::new());
        }
        let base = match self.named_outputs(run)? {
            Ok(base) => base,
            Err(why) => {
                run.outcome = Some(why);
                return Ok(Vec::new());
            }
        };
        run.warnings.extend(refilled(&arms));
        let checks = std::mem::take(&mut run.output_checks);
        Ok(self.enter_arms(arms, OutputPolicy::Equal { base, checks }))
    }

    fn most_at_once(&self) -> Option<Result<u32, String>> {
        Some(self.lab.width.clone().map(|width| width.runs))
    }

    fn compare_runs(&self) -> u32 {
        if !self.lab.outputs.lack_base() || self.lab.keeps_output() {
            return 0;
        }
        if self.lab.compares_at_once() { 1 } else { 2 }
    }

    fn nothing_to_try(&self, run: &SavedRun) -> SessionOutcome {
        nothing(self.lab.request, run)
    }

    fn leave(&mut self, run: &mut SavedRun) {
        if let Some(experiment) = &mut run.experiment {
            experiment.warnings.extend(self.lab.warnings());
        }
        if let OutputPolicy::Equal { checks, .. } = &mut self.lab.outputs {
            run.output_checks = std::mem::take(checks);
        }
    }

    fn doses(&self) -> Vec<(String, Vec<RemedyDose>)> {
        let dosed = self.arms.tried.iter().filter(|arm| !arm.doses.is_empty());
        dosed.map(|arm| (arm.name.clone(), arm.doses.clone())).collect()
    }

    fn incomparable(&mut self) -> Result<Option<SessionOutcome>, SessionStop> {
        self.lab.incomparable.take().map(BaselineError::outcome).transpose()
    }

    /// The remedies on the program, or the user's own command.
    fn receipt(&self, run: &SavedRun, arm: &str) -> Option<RemedyReceipt> {
        let request = self.lab.request;
        if let Some(doses) = run.doses_of(arm) {
            return Some(pagewise_remedy::receipt::write(doses, &request.start()));
        }
        let own = request.spec.own_arms.iter().find(|own| own.name == arm)?;
        let quoted = |word: &OsStr| (request.quote)(word.as_bytes());
        let mut command = own.command.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        if let Some(input) = request.spec.input.path() {
            command.push_str(&format!(" < {}", quoted(input.as_os_str())));
        }
        let undo = "start it with the command it had before".to_owned();
        Some(RemedyReceipt { command, undo, ..RemedyReceipt::default() })
    }

    fn doubts(&self, run: &SavedRun) -> Vec<String> {
        let request = self.lab.request;
        beyond_ceiling(request, run).into_iter().chain(not_compared(request, run)).collect()
    }

    fn finish(
        &mut self,
        run: &mut SavedRun,
        done: Result<(), SessionStop>,
    ) -> Result<(), SessionStop> {
        if run.experiment.is_some() {
            run.files = conditions::files(self.lab.request, run);
        }
        done
    }
}

impl ProgramSubject<WorldLab<'_>> {
    fn learn_by_look(&mut self, run: &SavedRun, run_ns: Nanos, limits: RunLimits) {
        let seen: Vec<ObservedProgram> = run.look.iter().filter_map(ObservedProgram::by).collect();
        self.learn(run, run_ns, limits, &seen);
    }

    /// Compares the outputs of two plain runs if the user named files, so that a wrong name is reported
    /// before anything is tried. Otherwise this waits for the first arm that is likely to gain.
    fn named_outputs(
        &mut self,
        run: &mut SavedRun,
    ) -> Result<Result<Option<OutputBaseline>, SessionOutcome>, SessionStop> {
        if run.experiment.is_some() || self.lab.request.spec.outputs.is_empty() {
            return Ok(Ok(None));
        }
        self.tell(&SessionEvent::Stage("comparing outputs"));
        match self.lab.baseline(&self.arms.control) {
            Ok((base, check)) => {
                run.output_checks.push(check);
                Ok(Ok(Some(base)))
            }
            Err(why) => why.outcome().map(Err),
        }
    }
}

/// The doses to try. Empty if the page costs are too small to gain anything.
fn doses(request: &SessionRequest, run: &SavedRun) -> Vec<RemedyDose> {
    let is_little = ceiling(request, run) < choose::LEAST_CEILING;
    if is_little && request.spec.only.is_none() {
        return Vec::new();
    }
    choose::doses(request, run)
}

/// An arm that changes what the program reads and writes is not comparable up to a checkpoint.
fn up_to_checkpoint(run: &SavedRun, arm: ProgramArm) -> ProgramArm {
    /// What loading a library reads in each process, at most.
    const LOADING: Bytes = Bytes::kib(4);
    /// The work may be wrong by one in this many parts.
    const PRECISION: u64 = 1000;
    let traced = run.look.as_ref().and_then(|look| look.traced.known());
    let Some((traced, bytes)) = traced.and_then(|seen| Some((seen, seen.checkpoint_bytes?))) else {
        return arm;
    };
    let loading = LOADING.0 * PRECISION * traced.processes.len() as u64;
    let settings = &arm.settings;
    let is_shifted = arm.doses.is_empty()
        || !settings.tools.is_empty()
        || settings.watches.iter().any(|watch| matches!(watch, WatchAction::GrowPipes { .. }))
        || settings.preloaded().next().is_some() && loading > bytes.0;
    let why = "it changes what the program reads and writes, which places the checkpoint";
    ProgramArm { barred: is_shifted.then(|| why.to_owned()), ..arm }
}

/// The share of its time that can be gained at most.
fn ceiling(request: &SessionRequest, run: &SavedRun) -> f64 {
    let is_memory = request.spec.quantity == ComparedQuantity::Memory;
    let diagnosis = run.diagnosis.as_ref().filter(|_| !is_memory);
    diagnosis.map_or(1.0, |diagnosis| diagnosis.ceiling_share)
}

/// Why no arm is tried.
fn nothing(request: &SessionRequest, run: &SavedRun) -> SessionOutcome {
    if request.spec.quantity == ComparedQuantity::Memory {
        let why = "no remedy saves memory of this program".to_owned();
        return SessionOutcome::NothingToGain { why };
    }
    let ceiling = ceiling(request, run);
    let bounded = run.diagnosis.as_ref().map_or("page costs and wake-ups", Diagnosis::bounded);
    let why = if ceiling < choose::LEAST_CEILING {
        format!("{bounded} are at most {:.1}% of its time", ceiling * 100.0)
    } else {
        let why = match run.predictions.is_empty() {
            true => "no remedy fits",
            false => "no remedy promises a gain",
        };
        format!("{bounded} are at most {:.0}% of its time, and {why}", ceiling * 100.0)
    };
    let unseen = run.diagnosis.as_ref().map_or(&[][..], |diagnosis| &diagnosis.not_in_ceiling);
    if unseen.is_empty() {
        return SessionOutcome::NothingToGain { why };
    }
    let costs = unseen.join(" and ");
    SessionOutcome::CannotTell { why: format!("{why}, but {costs} could not be seen") }
}

/// The note on files whose page cache is changed between runs. `None` if there are none.
fn refilled(arms: &[ProgramArm]) -> Option<String> {
    let all = arms.iter().flat_map(|arm| &arm.settings.huge_files);
    let paths: BTreeSet<&str> = all.map(|file| file.path.as_str()).collect();
    let paths: Vec<&str> = paths.into_iter().collect();
    (!paths.is_empty()).then(|| {
        format!("dropped from the page cache and read back between runs: {}", paths.join(", "))
    })
}

/// The note on files that the program wrote and the user did not name: an arm may have written different
/// content there.
fn not_compared(request: &SessionRequest, run: &SavedRun) -> Option<String> {
    const SHOWN: usize = 3;
    let traced = run.look.as_ref()?.traced.known()?;
    let resolved = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let named: Vec<PathBuf> = request.spec.outputs.iter().map(|path| resolved(path)).collect();
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

/// The first of the remedies' arms that saves more than the ceiling said, beyond doubt.
fn beyond_ceiling(request: &SessionRequest, run: &SavedRun) -> Option<String> {
    if request.spec.quantity == ComparedQuantity::Memory {
        return None;
    }
    let ceiling = run.diagnosis.as_ref()?.ceiling_share;
    let kept = experiment::ranked(run.experiment.as_ref()?, VerdictWord::Keep);
    let is_remedy = |verdict: &&&ArmVerdict| run.doses_of(&verdict.arm).is_some();
    kept.iter().filter(is_remedy).find_map(|verdict| {
        let least = 1.0 - verdict.effect.as_ref()?.ratio_high;
        (least > ceiling).then(|| {
            format!(
                "{} saves at least {:.0}%, more than the {:.1}% that counts and prices explain: losses after a fault (caches, branch predictors) come on top",
                verdict.arm,
                least * 100.0,
                ceiling * 100.0
            )
        })
    })
}

/// The look of a session in progress.
struct SessionLook<'a> {
    request: &'a SessionRequest,
    world: &'a mut dyn ProgramWorld,
    run: &'a mut SavedRun,
    since: Nanos,
}

impl SessionLook<'_> {
    /// What the program does, its cost, and the remedies that fit. Returns the time from one plain run to the
    /// next, and the limits of a run.
    fn look(&mut self) -> Result<(Nanos, RunLimits), SessionStop> {
        session::check(&*self.world)?;
        let traced = self.trace()?;
        session::check(&*self.world)?;
        // After the trace: a program that must not run again is refused before seconds are spent here.
        self.price()?;
        session::check(&*self.world)?;
        let known = self.time(traced)?;
        session::check(&*self.world)?;
        self.diagnose();
        Ok(known)
    }

    fn trace(&mut self) -> Result<Fact<TracedLook>, SessionStop> {
        self.world.tell(&SessionEvent::Stage("tracing one run"));
        let checkpoint = look::first_checkpoint(&self.request.spec);
        let plan = TracedLookPlan { checkpoint, ..TracedLookPlan::default() };
        let (traced, said) = self.world.traced(&ProgramArm::plain(self.request), plan)?;
        self.run.warnings.extend(look::rerun(self.request, &traced, said)?);
        Ok(traced)
    }

    fn price(&mut self) -> Result<(), SessionStop> {
        self.world.tell(&SessionEvent::Stage("measuring this machine's unit prices"));
        self.run.machine = Some(self.world.machine());
        self.run.prices = Some(self.world.prices()?);
        Ok(())
    }

    /// The number of runs left in the budget if a run costs `cost`.
    fn left(&self, cost: Nanos) -> u64 {
        let spent = self.world.now().0.saturating_sub(self.since.0);
        budget(self.request, cost).0.saturating_sub(spent)
    }

    fn time(&mut self, traced: Fact<TracedLook>) -> Result<(Nanos, RunLimits), SessionStop> {
        self.world.tell(&SessionEvent::Stage("timing the plain program"));
        let plain = ProgramArm::plain(self.request);
        let limits = look::first_limits(&traced);
        let (request, since) = (self.request, self.since);
        let enough = |cost: Nanos, now: Nanos| {
            let spent = now.0.saturating_sub(since.0);
            cost.0.saturating_mul(CHEAP_RUNS) <= budget(request, cost).0.saturating_sub(spent)
        };
        let timed = look::time(self.world, &plain, request.spec.ignore_failure, limits, enough);
        let timed = timed.map_err(|stop| match (stop, &traced) {
            // The traced run did not fail, so its leftovers may be the cause.
            (SessionStop::Failed { arm, ended, said, .. }, Fact::Known(seen)) => {
                SessionStop::Failed { arm, ended, said, remove: look::removing(request, seen) }
            }
            (stop, _) => stop,
        })?;
        if timed.leftovers > 0 {
            self.run.warnings.push(format!(
                "it left up to {} process(es) behind, which were killed at its end: these figures do not include their work",
                timed.leftovers
            ));
        }
        let fresh = look::conditioned(&timed.runs);
        let timing =
            RunTiming { fresh, watch: RunObservation::Nothing, limits, ..RunTiming::default() };
        let faults = if enough(timed.cost_ns, self.world.now()) {
            self.record(&timed.runs, &timing)?
        } else {
            Fact::missing("the budget has no room for a separate run")
        };
        let look::PlainRuns { runs, samples, user, walks, code_misses, cost_ns, leftovers } = timed;
        let look = LookFindings { runs, traced, samples, user, walks, code_misses, faults };
        let limits = look::limits(&look);
        self.run.look = Some(look);
        if request.spec.quantity == ComparedQuantity::Memory && leftovers == 0 {
            self.account(cost_ns, limits)?;
        }
        Ok((cost_ns, limits))
    }

    /// Makes one more plain run with a memory account, if the budget has time for it.
    fn account(&mut self, cost: Nanos, limits: RunLimits) -> Result<(), SessionStop> {
        let left = self.left(cost);
        if cost.0.saturating_mul(ACCOUNT_RUNS) > left {
            return Ok(());
        }
        self.world.tell(&SessionEvent::Stage("measuring its memory"));
        let limits = RunLimits { time: Some(Nanos(left / ACCOUNT_PART)), ..limits };
        match self.world.accounted(&ProgramArm::plain(self.request), &limits)? {
            Fact::Known(account) => self.run.memory = Some(account),
            Fact::Missing(why) => {
                self.run.warnings.push(format!("no account of its memory: {why}"));
            }
        }
        Ok(())
    }

    /// Makes one more plain run with each fault timed, if its faults cost enough.
    fn record(
        &mut self,
        runs: &[ProgramUsage],
        timing: &RunTiming,
    ) -> Result<Fact<TimedFaults>, SessionStop> {
        let price = self.run.prices.as_ref().map(|prices| prices.anon_fault_ns.median);
        if !price.is_some_and(|price| look::is_worth_recording(runs, price)) {
            return Ok(Fact::missing("its faults cost too little for a separate run"));
        }
        self.world.tell(&SessionEvent::Stage("recording page faults"));
        self.world.recorded(&ProgramArm::plain(self.request), timing)
    }

    /// Costs, ceiling, and the remedies that fit.
    fn diagnose(&mut self) {
        let (run, pool) = (&mut *self.run, self.world.pool());
        if let (Some(look), Some(prices), Some(machine)) = (&run.look, &run.prices, &run.machine) {
            let diagnosis = diagnose(look, prices, machine);
            let memory = run.memory.as_ref();
            let evidence = RemedyEvidence {
                look,
                diagnosis: &diagnosis,
                machine,
                prices,
                pool: &pool,
                memory,
                has_log: false,
            };
            let candidates = choose::candidates(&evidence, self.request.spec.quantity);
            (run.candidates, run.predictions) =
                choose::promising(candidates, &evidence, self.request);
            run.diagnosis = Some(diagnosis);
        }
        run.pool = Some(pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::asked;
    use pagewise_model::spec::SessionSpec;

    #[test]
    fn budgets_are_sixty_seconds_or_forty_runs() {
        let request = asked(SessionSpec::new(vec!["prog".into()], PathBuf::new(), 1));
        assert_eq!(budget(&request, Nanos::millis(200)), Nanos::secs(60));
        assert_eq!(budget(&request, Nanos::secs(2)), Nanos::secs(80));
        assert_eq!(budget(&request, Nanos(u64::MAX)), Nanos(u64::MAX));
        let own = SessionSpec { budget_ns: Some(Nanos::secs(5)), ..request.spec.clone() };
        assert_eq!(
            budget(&SessionRequest { spec: own, ..request }, Nanos::secs(2)),
            Nanos::secs(5)
        );
    }
}
