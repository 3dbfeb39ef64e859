//! The session of a service: its look under load, the diagnosis, the race, the receipt. A server that is started
//! for each pair and a process that runs already differ in their [`Kind`] alone.

use super::answer::{self, BUDGET};
use super::stage::Seen;
use super::{Terms, watched};
use crate::experiment::{outcome, ranked};
use crate::race::{self, Progress, Time};
use crate::request::{PLAIN, Request as Base};
use crate::stop::Stop;
use crate::world::{Event, Surroundings};
use pagewise_judge::race::{Block, Entrant, Goal, Halt, Policy, Unit};
use pagewise_model::Nanos;
use pagewise_model::plan::{Candidate, Dose, Receipt};
use pagewise_model::run::{Outcome, Run};
use pagewise_model::service::{Service, Side};
use pagewise_model::trial::Word;
use pagewise_remedy::Evidence;

/// How a service is looked at, changed and compared.
pub(super) trait Kind: Surroundings + race::Subject {
    /// What its blocks are.
    const UNIT: Unit;
    /// What the look is, for the user.
    const LOOK: &'static str;
    fn base(&self) -> &Base;
    fn terms(&self) -> &Terms;
    /// How it is started, loaded and compared.
    ///
    /// # Errors
    /// When it cannot be compared as the user asks.
    fn service(&self) -> Result<Service, Stop>;
    /// The service as it is, under its load.
    ///
    /// # Errors
    /// When it cannot be started or loaded.
    fn look(&mut self) -> Result<Seen, Stop>;
    /// The remedies, and why they do not fit. `side` is what the look saw.
    fn candidates(&mut self, evidence: &Evidence<'_>, side: &Side) -> Vec<Candidate>;
    /// Makes the arms, for a race that may take this long.
    ///
    /// # Errors
    /// When one that the user asks for cannot be tried.
    fn enter(&mut self, run: &Run, left: Nanos) -> Result<Vec<Entrant>, Stop>;
    /// The arms with their doses.
    fn doses(&self) -> Vec<(String, Vec<Dose>)>;
    /// How to keep an arm.
    fn receipt(&self, run: &Run, arm: &str) -> Option<Receipt>;
    /// Why the race ended, if it was not for the time.
    fn take_stop(&mut self) -> Option<Stop>;
    /// Adds what the user must know.
    fn note(&mut self, note: String);
    /// Undoes what is left and hands over the notes; how the session ends.
    ///
    /// # Errors
    /// Those of the session, or of undoing.
    fn finish(&mut self, run: &mut Run, done: Result<(), Stop>) -> Result<(), Stop>;
}

/// Runs a session that began at `since`, or goes on with a saved one. What is known is in the run whatever
/// happens.
pub(super) fn run<K: Kind>(
    mut run: Run,
    since: Nanos,
    kind: Result<K, Stop>,
) -> (Run, Option<Stop>) {
    let end = kind.and_then(|mut kind| {
        let done = advance(&mut kind, &mut run, since);
        let end = kind.finish(&mut run, done);
        run.took_ns = Nanos(kind.now().0.saturating_sub(since.0));
        end
    });
    let end = end.err();
    if matches!(end, Some(Stop::Interrupted)) {
        run.outcome = Some(Outcome::Interrupted);
    }
    (run, end)
}

fn advance<K: Kind>(kind: &mut K, run: &mut Run, since: Nanos) -> Result<(), Stop> {
    if run.service.is_none() {
        look(kind, run)?;
        if kind.base().spec.advise {
            run.outcome = Some(Outcome::AdviceOnly);
            return Ok(());
        }
    }
    race(kind, run, since)
}

fn look<K: Kind>(kind: &mut K, run: &mut Run) -> Result<(), Stop> {
    run.machine = Some(kind.machine());
    run.service = Some(kind.service()?);
    kind.tell(&Event::Stage(K::LOOK));
    let Seen { side, usage, traced } = kind.look()?;
    if let Some(note) = answer::check(kind.terms(), &side)? {
        kind.note(note);
    }
    // After the look: a command that does not work is reported before seconds are spent here.
    kind.tell(&Event::Stage("measuring this machine's unit prices"));
    run.prices = Some(kind.prices()?);
    watched::diagnosed(run, usage, traced, |evidence| kind.candidates(evidence, &side));
    kind.tell(&Event::Chosen(run));
    if let Some(service) = &mut run.service {
        service.first = Some(side);
    }
    Ok(())
}

fn race<K: Kind>(kind: &mut K, run: &mut Run, since: Nanos) -> Result<(), Stop> {
    let budget = kind.base().spec.budget_ns.unwrap_or(BUDGET);
    let started = kind.now();
    let left = Nanos((since + budget).0.saturating_sub(started.0));
    let entrants = kind.enter(run, left)?;
    if entrants.is_empty() {
        run.outcome = Some(Outcome::NothingToGain { why: answer::nothing_fits(run) });
        return Ok(());
    }
    let terms = race::Terms {
        quantity: kind.terms().goal,
        guards: kind.terms().guards.clone(),
        goal: Goal::Gain,
        unit: K::UNIT,
        control: PLAIN.to_owned(),
        seed: kind.base().spec.seed,
        budget,
    };
    let earlier = run.service.iter().flat_map(|service| service.pairs.iter().cloned());
    let mut policy = Policy::new(terms, entrants, earlier.map(Block::Pair).collect());
    for (arm, why) in failed_before(run, &policy) {
        policy.fail(arm, why);
    }
    let time = Time { started, budget, left };
    let halt = race::drive(kind, &mut policy, &time, 0).err();
    conclude(kind, run, policy, halt.as_ref());
    match (halt, kind.take_stop()) {
        (_, Some(stop)) => Err(stop),
        (Some(Halt::Interrupted), None) => Err(Stop::Interrupted),
        _ => Ok(()),
    }
}

/// Arms that failed in the session that this one continues: a failure is not undone by a start without one.
fn failed_before(run: &Run, policy: &Policy) -> Vec<(usize, String)> {
    let verdicts = run.experiment.iter().flat_map(|experiment| &experiment.verdicts);
    let rejected = verdicts.filter(|verdict| verdict.word == Word::Reject);
    let failed = rejected.filter_map(|verdict| {
        let arm = policy.number(&verdict.arm)?;
        policy.broken(arm).is_none().then(|| (arm, verdict.why.clone()))
    });
    failed.collect()
}

/// Saves what was found of all arms.
fn conclude<K: Kind>(kind: &K, run: &mut Run, policy: Policy, halt: Option<&Halt>) {
    let (experiment, pairs) = policy.conclude(halt, &|arm| kind.cost_ns(arm));
    if let Some(service) = &mut run.service {
        service.pairs = pairs;
    }
    run.doses = kind.doses();
    run.outcome = Some(outcome(&experiment));
    let kept = ranked(&experiment, Word::Keep);
    let best = kept.first().copied().or(ranked(&experiment, Word::Likely).first().copied());
    run.receipt = best.and_then(|verdict| kind.receipt(run, &verdict.arm));
    run.experiment = Some(experiment);
}

/// The race as it stands, for the user.
pub(super) fn show(kind: &mut impl Surroundings, policy: &Policy, arm: usize, time: &Time) {
    let runs = u32::try_from(policy.blocks().len()).unwrap_or(u32::MAX);
    let left_ns = Nanos(time.left_ns(kind.now()));
    let standings = || policy.standings();
    let arm = policy.name(Some(arm));
    kind.tell(&Event::Progress(&Progress { runs, left_ns, arm, standings: &standings }));
}

/// What the end of a session makes of its race.
pub(super) const fn halt(stop: &Stop) -> Halt {
    match stop {
        Stop::Interrupted => Halt::Interrupted,
        _ => Halt::Session,
    }
}
