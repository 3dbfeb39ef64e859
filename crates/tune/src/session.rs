//! The single session of a tuning: look, diagnosis, choice, race, receipt.
//!
//! A program that ends, a server that is started for each pair and a process that already runs differ only in
//! their [`TunableSubject`]. A run that is interrupted at any moment is still a valid saved run.

use crate::experiment::{WorldLab, outcome, ranked};
use crate::race::{self, ProgramSubject, RacePlan, RaceTime};
use crate::request::{PLAIN, SessionRequest};
use crate::stop::SessionStop;
use crate::world::{ProgramArm, ProgramWorld, SessionEvent, SessionSurroundings};
use pagewise_judge::race::{
    BlockUnit, RaceBlock, RaceEntrant, RaceGoal, RaceHalt, RacePolicy, RaceTerms,
};
use pagewise_model::Nanos;
use pagewise_model::plan::{RemedyDose, RemedyReceipt};
use pagewise_model::run::{RunKind, SavedRun, SessionOutcome};
use pagewise_model::trial::{ArmVerdict, VerdictWord};

/// The subject of a session: observed, changed and compared.
pub(crate) trait TunableSubject: SessionSurroundings + race::RaceSubject {
    /// What its blocks are.
    const UNIT: BlockUnit;
    fn base(&self) -> &SessionRequest;
    /// Time for the whole session.
    fn budget(&self) -> Nanos;
    /// Name of the control.
    fn control(&self) -> &str {
        PLAIN
    }
    /// Observes the unchanged subject and records the results, up to the remedies that fit. The session began
    /// at `since`.
    ///
    /// # Errors
    /// If it cannot be run, or not as the user requests.
    fn look(&mut self, run: &mut SavedRun, since: Nanos) -> Result<(), SessionStop>;
    /// Takes over the look of the session that this one continues; false without one.
    fn resume(&mut self, run: &SavedRun) -> bool;
    /// Makes the arms, for a race that may take this long. The outcome may say why there are none.
    ///
    /// # Errors
    /// If an arm that the user requested cannot be tried.
    fn enter(&mut self, run: &mut SavedRun, left: Nanos) -> Result<Vec<RaceEntrant>, SessionStop>;
    /// How many runs may share a CPU at once, or why they run one at a time. `None` for services.
    fn most_at_once(&self) -> Option<Result<u32, String>> {
        None
    }
    /// Runs that comparing the output of a first arm takes.
    fn compare_runs(&self) -> u32 {
        0
    }
    /// Why no arm is tried.
    fn nothing_to_try(&self, run: &SavedRun) -> SessionOutcome;
    /// Saves the results of the race besides its blocks and verdicts.
    fn leave(&mut self, _run: &mut SavedRun) {}
    /// The arms with their doses.
    fn doses(&self) -> Vec<(String, Vec<RemedyDose>)>;
    /// The outcome of the session if the outputs could not be compared.
    ///
    /// # Errors
    /// If that ends the session.
    fn incomparable(&mut self) -> Result<Option<SessionOutcome>, SessionStop> {
        Ok(None)
    }
    /// How to keep an arm.
    fn receipt(&self, run: &SavedRun, arm: &str) -> Option<RemedyReceipt>;
    /// Notes about arms that gain.
    fn doubts(&self, _run: &SavedRun) -> Vec<String> {
        Vec::new()
    }
    /// Why the race ended, if a stop ended it.
    fn take_stop(&mut self) -> Option<SessionStop> {
        None
    }
    /// Undoes remaining changes and adds the notes. Returns how the session ends.
    ///
    /// # Errors
    /// Those of the session, or of undoing.
    fn finish(
        &mut self,
        run: &mut SavedRun,
        done: Result<(), SessionStop>,
    ) -> Result<(), SessionStop>;
}

/// Runs a session of a program to its end, or continues a saved one with its look, its arms and all its runs.
/// Check a saved one first with [`crate::conditions::changed`]. The run contains everything found so far,
/// even after an early stop.
pub fn run(
    request: &SessionRequest,
    saved: Option<SavedRun>,
    world: &mut dyn ProgramWorld,
) -> (SavedRun, Option<SessionStop>) {
    let since = world.now();
    let mut run = request.empty_run(RunKind::Tune, &request.spec.command);
    if let Some(saved) = saved {
        run = resumed(run, saved);
    }
    let lab = WorldLab::new(request, world);
    tune(run, since, Ok(ProgramSubject::new(lab, ProgramArm::plain(request))))
}

/// The saved run as one that begins now. Conclusions are drawn again at the end.
pub(crate) fn resumed(fresh: SavedRun, saved: SavedRun) -> SavedRun {
    SavedRun {
        id: fresh.id,
        started_unix_ns: fresh.started_unix_ns,
        outcome: None,
        receipt: None,
        warnings: Vec::new(),
        ..saved
    }
}

/// Runs a session that began at `since`.
pub(crate) fn tune<T: TunableSubject>(
    mut run: SavedRun,
    since: Nanos,
    subject: Result<T, SessionStop>,
) -> (SavedRun, Option<SessionStop>) {
    let end = subject.and_then(|mut subject| {
        let done = advance(&mut subject, &mut run, since);
        let end = subject.finish(&mut run, done);
        run.took_ns = Nanos(subject.now().0.saturating_sub(since.0));
        end
    });
    ended(run, end)
}

/// The run of a session that ended so.
pub(crate) fn ended(
    mut run: SavedRun,
    end: Result<(), SessionStop>,
) -> (SavedRun, Option<SessionStop>) {
    let end = end.err();
    if matches!(end, Some(SessionStop::Interrupted)) {
        run.outcome = Some(SessionOutcome::Interrupted);
    }
    // The outcome of an experiment says it.
    let is_said = matches!(end, Some(SessionStop::Interrupted)) && run.experiment.is_some();
    (run, end.filter(|_| !is_said))
}

fn advance<T: TunableSubject>(
    subject: &mut T,
    run: &mut SavedRun,
    since: Nanos,
) -> Result<(), SessionStop> {
    if !subject.resume(run) {
        subject.look(run, since)?;
        subject.tell(&SessionEvent::Chosen(run));
        if subject.base().spec.advise {
            run.outcome = Some(SessionOutcome::AdviceOnly);
            return Ok(());
        }
    }
    let entrants = subject.enter(run, left(subject, since))?;
    if entrants.is_empty() {
        let nothing = subject.nothing_to_try(run);
        run.outcome.get_or_insert(nothing);
        return Ok(());
    }
    check(subject)?;
    let done = race(subject, run, since, RaceGoal::Gain, entrants);
    keep(subject, run)?;
    done
}

/// Stops for the user.
pub(crate) fn check(subject: &(impl race::SessionClock + ?Sized)) -> Result<(), SessionStop> {
    if subject.interrupted() { Err(SessionStop::Interrupted) } else { Ok(()) }
}

/// Time left of a session that began at `since`.
fn left<T: TunableSubject>(subject: &T, since: Nanos) -> Nanos {
    let spent = subject.now().0.saturating_sub(since.0);
    Nanos(subject.budget().0.saturating_sub(spent))
}

/// Races these arms and saves the results.
pub(crate) fn race<T: TunableSubject>(
    subject: &mut T,
    run: &mut SavedRun,
    since: Nanos,
    goal: RaceGoal,
    entrants: Vec<RaceEntrant>,
) -> Result<(), SessionStop> {
    let (budget, spec) = (subject.budget(), &subject.base().spec);
    let terms = RaceTerms {
        quantity: spec.quantity,
        guards: spec.guards.clone(),
        goal,
        unit: T::UNIT,
        control: subject.control().to_owned(),
        seed: spec.seed,
        budget,
        most_at_once: subject.most_at_once(),
    };
    let left = match goal {
        RaceGoal::Pairs(pairs) => room_for(pairs, subject.cost_ns(None)),
        _ => left(subject, since),
    };
    let plan = RacePlan {
        terms,
        entrants,
        earlier: blocks(run),
        rejected: rejected(run),
        time: RaceTime { started: subject.now(), budget, left },
        compare_runs: subject.compare_runs(),
    };
    let (mut experiment, pairs, halt) = race::run(subject, plan);
    if run.checkpoint_bytes().is_some() {
        experiment.verdicts.iter_mut().for_each(at_most_likely);
    }
    run.outcome = Some(outcome(&experiment));
    run.experiment = Some(experiment);
    if let Some(service) = &mut run.service {
        service.pairs = pairs;
    }
    subject.leave(run);
    match (halt, subject.take_stop()) {
        (_, Some(stop)) => Err(stop),
        (Some(RaceHalt::Interrupted), None) => Err(SessionStop::Interrupted),
        _ => Ok(()),
    }
}

/// A gain up to a checkpoint does not prove one of the whole program.
fn at_most_likely(verdict: &mut ArmVerdict) {
    if verdict.word == VerdictWord::Keep {
        verdict.word = VerdictWord::Likely;
        verdict.why.push_str(", up to the checkpoint");
    }
}

/// The blocks of a saved session.
fn blocks(run: &SavedRun) -> Vec<RaceBlock> {
    let runs = run.experiment.iter().flat_map(|experiment| &experiment.blocks);
    let pairs = run.service.iter().flat_map(|service| &service.pairs);
    runs.cloned().map(RaceBlock::Runs).chain(pairs.cloned().map(RaceBlock::Pair)).collect()
}

/// Upper bound of the time of `pairs` pairs if a run takes `cost` nanoseconds: for each pair, twice the time
/// of three runs and of two that read files back.
fn room_for(pairs: u32, cost: u64) -> Nanos {
    const RUNS: u64 = 10;
    Nanos(cost.saturating_mul(RUNS * u64::from(pairs))) + Nanos::secs(60)
}

/// Arms that the session rejected which this one continues: a failure is not undone by a start without one.
fn rejected(run: &SavedRun) -> Vec<(String, String)> {
    let verdicts = run.experiment.iter().flat_map(|experiment| &experiment.verdicts);
    let rejected = verdicts.filter(|verdict| verdict.word == VerdictWord::Reject);
    rejected.map(|verdict| (verdict.arm.clone(), verdict.why.clone())).collect()
}

/// Writes the receipt of the best arm.
fn keep<T: TunableSubject>(subject: &mut T, run: &mut SavedRun) -> Result<(), SessionStop> {
    run.doses = subject.doses();
    if let Some(outcome) = subject.incomparable()? {
        run.outcome = Some(outcome);
        return Ok(());
    }
    let Some(best) = best(run).map(|verdict| verdict.arm.clone()) else { return Ok(()) };
    run.receipt = subject.receipt(run, &best);
    let doubts = subject.doubts(run);
    run.warnings.extend(doubts);
    Ok(())
}

/// The arm that gains most: a proven one, otherwise a likely one.
fn best(run: &SavedRun) -> Option<&ArmVerdict> {
    let experiment = run.experiment.as_ref()?;
    let first = |word| ranked(experiment, word).first().copied();
    first(VerdictWord::Keep).or_else(|| first(VerdictWord::Likely))
}

/// The race as it stands, for the user.
pub(crate) fn show(
    subject: &mut impl SessionSurroundings,
    policy: &RacePolicy,
    arm: usize,
    time: &RaceTime,
) {
    let runs = u32::try_from(policy.blocks().len()).unwrap_or(u32::MAX);
    let left_ns = Nanos(time.left_ns(subject.now()));
    let standings = || policy.standings();
    let arm = policy.name(Some(arm));
    subject.tell(&SessionEvent::Progress(&race::RaceProgress {
        runs,
        left_ns,
        arm,
        standings: &standings,
    }));
}
