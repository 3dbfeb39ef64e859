//! The single session of a tuning: look, diagnosis, choice, race, receipt.
//!
//! A program that ends, a server that is started for each pair and a process that already runs differ only in
//! their [`Tunable`]. A run that is interrupted at any moment is still a valid saved run.

use crate::experiment::{WorldLab, outcome, ranked};
use crate::race::{self, Plan, Programs, Time};
use crate::request::{PLAIN, Request};
use crate::stop::Stop;
use crate::world::{Arm, Event, Surroundings, World};
use pagewise_judge::race::{Block, Entrant, Goal, Halt, Policy, Terms, Unit};
use pagewise_model::Nanos;
use pagewise_model::plan::{Dose, Receipt};
use pagewise_model::run::{Outcome, Run, RunKind};
use pagewise_model::trial::{Verdict, Word};

/// The subject of a session: observed, changed and compared.
pub(crate) trait Tunable: Surroundings + race::Subject {
    /// What its blocks are.
    const UNIT: Unit;
    fn base(&self) -> &Request;
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
    fn look(&mut self, run: &mut Run, since: Nanos) -> Result<(), Stop>;
    /// Takes over the look of the session that this one continues; false without one.
    fn resume(&mut self, run: &Run) -> bool;
    /// Makes the arms, for a race that may take this long. The outcome may say why there are none.
    ///
    /// # Errors
    /// If an arm that the user requested cannot be tried.
    fn enter(&mut self, run: &mut Run, left: Nanos) -> Result<Vec<Entrant>, Stop>;
    /// How many runs may share a CPU at once, or why they run one at a time. `None` for services.
    fn most_at_once(&self) -> Option<Result<u32, String>> {
        None
    }
    /// Runs that comparing the output of a first arm takes.
    fn compare_runs(&self) -> u32 {
        0
    }
    /// Why no arm is tried.
    fn nothing_to_try(&self, run: &Run) -> Outcome;
    /// Saves the results of the race besides its blocks and verdicts.
    fn leave(&mut self, _run: &mut Run) {}
    /// The arms with their doses.
    fn doses(&self) -> Vec<(String, Vec<Dose>)>;
    /// The outcome of the session if the outputs could not be compared.
    ///
    /// # Errors
    /// If that ends the session.
    fn incomparable(&mut self) -> Result<Option<Outcome>, Stop> {
        Ok(None)
    }
    /// How to keep an arm.
    fn receipt(&self, run: &Run, arm: &str) -> Option<Receipt>;
    /// Notes about arms that gain.
    fn doubts(&self, _run: &Run) -> Vec<String> {
        Vec::new()
    }
    /// Why the race ended, if a stop ended it.
    fn take_stop(&mut self) -> Option<Stop> {
        None
    }
    /// Undoes remaining changes and adds the notes. Returns how the session ends.
    ///
    /// # Errors
    /// Those of the session, or of undoing.
    fn finish(&mut self, run: &mut Run, done: Result<(), Stop>) -> Result<(), Stop>;
}

/// Runs a session of a program to its end, or continues a saved one with its look, its arms and all its runs.
/// Check a saved one first with [`crate::conditions::changed`]. The run contains everything found so far,
/// even after an early stop.
pub fn run(request: &Request, saved: Option<Run>, world: &mut dyn World) -> (Run, Option<Stop>) {
    let since = world.now();
    let mut run = request.empty_run(RunKind::Tune, &request.spec.command);
    if let Some(saved) = saved {
        run = resumed(run, saved);
    }
    let lab = WorldLab::new(request, world);
    tune(run, since, Ok(Programs::new(lab, Arm::plain(request))))
}

/// The saved run as one that begins now. Conclusions are drawn again at the end.
pub(crate) fn resumed(fresh: Run, saved: Run) -> Run {
    Run {
        id: fresh.id,
        started_unix_ns: fresh.started_unix_ns,
        outcome: None,
        receipt: None,
        warnings: Vec::new(),
        ..saved
    }
}

/// Runs a session that began at `since`.
pub(crate) fn tune<T: Tunable>(
    mut run: Run,
    since: Nanos,
    subject: Result<T, Stop>,
) -> (Run, Option<Stop>) {
    let end = subject.and_then(|mut subject| {
        let done = advance(&mut subject, &mut run, since);
        let end = subject.finish(&mut run, done);
        run.took_ns = Nanos(subject.now().0.saturating_sub(since.0));
        end
    });
    ended(run, end)
}

/// The run of a session that ended so.
pub(crate) fn ended(mut run: Run, end: Result<(), Stop>) -> (Run, Option<Stop>) {
    let end = end.err();
    if matches!(end, Some(Stop::Interrupted)) {
        run.outcome = Some(Outcome::Interrupted);
    }
    // The outcome of an experiment says it.
    let is_said = matches!(end, Some(Stop::Interrupted)) && run.experiment.is_some();
    (run, end.filter(|_| !is_said))
}

fn advance<T: Tunable>(subject: &mut T, run: &mut Run, since: Nanos) -> Result<(), Stop> {
    if !subject.resume(run) {
        subject.look(run, since)?;
        subject.tell(&Event::Chosen(run));
        if subject.base().spec.advise {
            run.outcome = Some(Outcome::AdviceOnly);
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
    let done = race(subject, run, since, Goal::Gain, entrants);
    keep(subject, run)?;
    done
}

/// Stops for the user.
pub(crate) fn check(subject: &(impl race::Clock + ?Sized)) -> Result<(), Stop> {
    if subject.interrupted() { Err(Stop::Interrupted) } else { Ok(()) }
}

/// Time left of a session that began at `since`.
fn left<T: Tunable>(subject: &T, since: Nanos) -> Nanos {
    let spent = subject.now().0.saturating_sub(since.0);
    Nanos(subject.budget().0.saturating_sub(spent))
}

/// Races these arms and saves the results.
pub(crate) fn race<T: Tunable>(
    subject: &mut T,
    run: &mut Run,
    since: Nanos,
    goal: Goal,
    entrants: Vec<Entrant>,
) -> Result<(), Stop> {
    let (budget, spec) = (subject.budget(), &subject.base().spec);
    let terms = Terms {
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
        Goal::Pairs(pairs) => room_for(pairs, subject.cost_ns(None)),
        _ => left(subject, since),
    };
    let plan = Plan {
        terms,
        entrants,
        earlier: blocks(run),
        rejected: rejected(run),
        time: Time { started: subject.now(), budget, left },
        compare_runs: subject.compare_runs(),
    };
    let (experiment, pairs, halt) = race::run(subject, plan);
    run.outcome = Some(outcome(&experiment));
    run.experiment = Some(experiment);
    if let Some(service) = &mut run.service {
        service.pairs = pairs;
    }
    subject.leave(run);
    match (halt, subject.take_stop()) {
        (_, Some(stop)) => Err(stop),
        (Some(Halt::Interrupted), None) => Err(Stop::Interrupted),
        _ => Ok(()),
    }
}

/// The blocks of a saved session.
fn blocks(run: &Run) -> Vec<Block> {
    let runs = run.experiment.iter().flat_map(|experiment| &experiment.blocks);
    let pairs = run.service.iter().flat_map(|service| &service.pairs);
    runs.cloned().map(Block::Runs).chain(pairs.cloned().map(Block::Pair)).collect()
}

/// Upper bound of the time of `pairs` pairs if a run takes `cost` nanoseconds: for each pair, twice the time
/// of three runs and of two that read files back.
fn room_for(pairs: u32, cost: u64) -> Nanos {
    const RUNS: u64 = 10;
    Nanos(cost.saturating_mul(RUNS * u64::from(pairs))) + Nanos::secs(60)
}

/// Arms that the session rejected which this one continues: a failure is not undone by a start without one.
fn rejected(run: &Run) -> Vec<(String, String)> {
    let verdicts = run.experiment.iter().flat_map(|experiment| &experiment.verdicts);
    let rejected = verdicts.filter(|verdict| verdict.word == Word::Reject);
    rejected.map(|verdict| (verdict.arm.clone(), verdict.why.clone())).collect()
}

/// Writes the receipt of the best arm.
fn keep<T: Tunable>(subject: &mut T, run: &mut Run) -> Result<(), Stop> {
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
fn best(run: &Run) -> Option<&Verdict> {
    let experiment = run.experiment.as_ref()?;
    let first = |word| ranked(experiment, word).first().copied();
    first(Word::Keep).or_else(|| first(Word::Likely))
}

/// The race as it stands, for the user.
pub(crate) fn show(subject: &mut impl Surroundings, policy: &Policy, arm: usize, time: &Time) {
    let runs = u32::try_from(policy.blocks().len()).unwrap_or(u32::MAX);
    let left_ns = Nanos(time.left_ns(subject.now()));
    let standings = || policy.standings();
    let arm = policy.name(Some(arm));
    subject.tell(&Event::Progress(&race::Progress { runs, left_ns, arm, standings: &standings }));
}
