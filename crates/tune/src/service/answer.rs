//! What sessions on servers share: what has to hold of a plain server, and the answer.

use super::Terms;
use crate::experiment::{outcome, ranked};
use crate::race::{Progress, Time};
use crate::request::{PLAIN, Request as Base};
use crate::stop::Stop;
use crate::world::Event;
use pagewise_judge::race::{self, Block, Counter, Entrant, Goal, Halt, Policy, Unit};
use pagewise_judge::service::{failed, value};
use pagewise_kernel::clock;
use pagewise_measure::{Options, PriceError};
use pagewise_model::Nanos;
use pagewise_model::plan::{Dose, Receipt};
use pagewise_model::price::Prices;
use pagewise_model::run::Run;
use pagewise_model::service::{Side, Window};
use pagewise_model::trial::{Quantity, Word};
use pagewise_remedy::receipt::Start;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time for re-pricing at the start of a session.
const PRICING: Nanos = Nanos::secs(1);
/// The budget unless the user gives one.
pub(super) const BUDGET: Nanos = Nanos::secs(300);
/// The generator may use so many times the CPU time of the server before that is reported.
const GENERATOR: f64 = 2.0;

pub(super) fn prices(stop: &AtomicBool) -> Result<Prices, Stop> {
    let interrupted = || stop.load(Ordering::Relaxed);
    let prices = pagewise_measure::calibrate(&Options::cached(PRICING), &interrupted);
    prices.map_err(|error| match error {
        PriceError::Interrupted => Stop::Interrupted,
        other => Stop::Broken(other.to_string()),
    })
}

/// What has to hold of the plain server before anything is compared with it; what to know besides.
pub(super) fn check(terms: &Terms, side: &Side) -> Result<Option<String>, Stop> {
    let failed = failed(side);
    let requests: f64 = side.windows.iter().map(|window| window.load.requests).sum();
    if failed > 0.0 {
        let hint = terms.metric.strictness(&terms.load);
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        return Err(Stop::Service(format!(
            "{failed:.0} of {requests:.0} requests failed against the plain server: \
             fix the load first{hint}"
        )));
    }
    let is_open = |window: &Window| window.load.open_loop == Some(true);
    if terms.goal == Quantity::P99 && !side.windows.iter().all(is_open) {
        return Err(Stop::Service(
            "p99 can be the goal only of a load at a fixed rate (wrk2 --rate, k6 arrival rate): \
             a generator that waits for each answer hides slow ones"
                .to_owned(),
        ));
    }
    if value(terms.goal, side).is_none() {
        let name = terms.goal.name();
        return Err(Stop::Service(format!(
            "the load's output has no figure for {name}: \
             select one with --metric regex:PATTERN or json:PATH"
        )));
    }
    let sum = |of: fn(&Window) -> Nanos| -> f64 {
        side.windows.iter().map(|window| of(window).0 as f64).sum()
    };
    let (server, generator) = (sum(|window| window.cpu_ns), sum(|window| window.generator_cpu_ns));
    Ok((generator > GENERATOR * server).then(|| {
        format!(
            "the load generator used {:.1} times the CPU time of the server: rates and latencies measure the generator",
            generator / server.max(1.0)
        )
    }))
}

/// Page costs are all there is to gain, and nothing can be tried.
pub(super) fn nothing_fits(run: &Run) -> String {
    let ceiling = run.diagnosis.as_ref().map_or(0.0, |all| all.ceiling_share);
    format!("page costs are at most {:.0}% of its CPU time, and no remedy fits", ceiling * 100.0)
}

/// An arm of a race of services.
pub(super) trait Named {
    fn name(&self) -> &str;
    fn doses(&self) -> &[Dose];
    fn counter(&self) -> Counter;
}

/// The race of these arms, with the pairs of the session that this one continues.
pub(super) fn policy(
    base: &Base,
    terms: &Terms,
    unit: Unit,
    arms: &[impl Named],
    run: &Run,
) -> Policy {
    let entrant = |arm: &_| {
        let (name, counter) = (Named::name(arm).to_owned(), Named::counter(arm));
        Entrant { name, counter, barred: None }
    };
    let earlier = run.service.iter().flat_map(|service| service.pairs.iter().cloned());
    let all = race::Terms {
        quantity: terms.goal,
        guards: terms.guards.clone(),
        goal: Goal::Gain,
        unit,
        control: PLAIN.to_owned(),
        seed: base.seed,
        budget: budget(base),
    };
    Policy::new(all, arms.iter().map(entrant).collect(), earlier.map(Block::Pair).collect())
}

fn budget(base: &Base) -> Nanos {
    base.budget.unwrap_or(BUDGET)
}

/// What is left for the race of a session that began at `since`.
pub(super) fn time(base: &Base, since: Nanos) -> Time {
    let (started, budget) = (clock::now(), budget(base));
    Time { started, budget, left: Nanos((since + budget).0.saturating_sub(started.0)) }
}

/// The race as it stands, for the user.
pub(super) fn show(tell: &mut dyn FnMut(&Event<'_>), policy: &Policy, arm: usize, time: &Time) {
    let runs = u32::try_from(policy.blocks().len()).unwrap_or(u32::MAX);
    let left_ns = Nanos(time.left_ns(clock::now()));
    let standings = || policy.standings();
    let arm = policy.name(Some(arm));
    tell(&Event::Progress(&Progress { runs, left_ns, arm, standings: &standings }));
}

/// What the end of a session makes of its race.
pub(super) const fn halt(stop: &Stop) -> Halt {
    match stop {
        Stop::Interrupted => Halt::Interrupted,
        _ => Halt::Session,
    }
}

/// How the session ends.
pub(super) fn end(halt: Option<&Halt>, stop: Option<Stop>) -> Result<(), Stop> {
    match (halt, stop) {
        (_, Some(stop)) => Err(stop),
        (Some(Halt::Interrupted), None) => Err(Stop::Interrupted),
        _ => Ok(()),
    }
}

/// Saves what was found of all arms; the best of them.
pub(super) fn conclude(
    run: &mut Run,
    policy: Policy,
    halt: Option<&Halt>,
    arms: &[impl Named],
    cost_ns: &dyn Fn(Option<usize>) -> u64,
) -> Option<String> {
    let (experiment, pairs) = policy.conclude(halt, cost_ns);
    if let Some(service) = &mut run.service {
        service.pairs = pairs;
    }
    let dosed = arms.iter().filter(|arm| !arm.doses().is_empty());
    run.doses = dosed.map(|arm| (arm.name().to_owned(), arm.doses().to_vec())).collect();
    run.outcome = Some(outcome(&experiment));
    let best = ranked(&experiment, Word::Keep);
    let best = best.first().copied().or(ranked(&experiment, Word::Likely).first().copied());
    let best = best.map(|verdict| verdict.arm.clone());
    run.experiment = Some(experiment);
    best
}

/// The lines that keep these doses, those for containers among them.
pub(super) fn receipt(doses: &[Dose], start: &Start<'_>) -> Receipt {
    let mut receipt = pagewise_remedy::receipt::write(doses, start);
    match pagewise_remedy::containers::lines(doses, start) {
        Ok(lines) => receipt.containers = Some(lines),
        Err(why) => receipt.notes.push(format!("no lines for containers: {why}")),
    }
    receipt
}
