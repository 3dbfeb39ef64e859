//! What sessions on servers share: what has to hold of a plain server, and the answer.

use super::Terms;
use crate::experiment::{outcome, ranked};
use crate::race::Progress;
use crate::request::{PLAIN, Request as Base};
use crate::stop::Stop;
use crate::world::Event;
use pagewise_judge::service::{Standings, failed, value};
use pagewise_measure::{Options, PriceError};
use pagewise_model::Nanos;
use pagewise_model::plan::{Dose, Receipt};
use pagewise_model::price::Prices;
use pagewise_model::run::Run;
use pagewise_model::service::{Side, Window};
use pagewise_model::trial::{Design, Experiment, Quantity, Ratio, Verdict, Word};
use pagewise_remedy::receipt::Start;
use std::sync::atomic::{AtomicBool, Ordering};

/// Time for re-pricing at the start of a session.
const PRICING: Nanos = Nanos::secs(1);
/// The budget unless the user gives one.
pub(super) const BUDGET: Nanos = Nanos::secs(300);
/// Pairs that an arm gets at least where the budget holds it.
const LEAST_PAIRS: u64 = 3;
/// The generator may use so many times the CPU time of the server before that is reported.
const GENERATOR: f64 = 2.0;
/// A server that answers uses more than this for a request, in nanoseconds, or more than this share of what the
/// generator uses.
const LEAST_FOR_REQUEST: f64 = 1_000.0;
const LEAST_OF_GENERATOR: f64 = 0.05;

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
    Ok(doubts(side))
}

/// What the CPU times of the server and the generator say against the figures, if anything.
fn doubts(side: &Side) -> Option<String> {
    let sum = |of: fn(&Window) -> f64| side.windows.iter().map(of).sum::<f64>();
    let server = sum(|window| window.cpu_ns.0 as f64);
    let generator = sum(|window| window.generator_cpu_ns.0 as f64);
    let requests = sum(|window| window.load.requests);
    if server < LEAST_FOR_REQUEST * requests && server < LEAST_OF_GENERATOR * generator {
        let used = Nanos(server as u64);
        return Some(format!(
            "the server used {used} of CPU time for {requests:.0} requests: the load may reach another server"
        ));
    }
    (generator > GENERATOR * server).then(|| {
        format!(
            "the load generator used {:.1} times the CPU time of the server: rates and latencies measure the generator",
            generator / server.max(1.0)
        )
    })
}

/// Page costs are all there is to gain, and nothing can be tried.
pub(super) fn nothing_fits(run: &Run) -> String {
    let ceiling = run.diagnosis.as_ref().map_or(0.0, |all| all.ceiling_share);
    format!("page costs are at most {:.0}% of its CPU time, and no remedy fits", ceiling * 100.0)
}

/// An arm in the answer.
pub(super) struct Named<'a> {
    pub(super) name: &'a str,
    pub(super) doses: &'a [Dose],
    /// What a pair of it takes.
    pub(super) cost: Nanos,
}

/// The race as it stands, for the user.
pub(super) fn show(
    tell: &mut dyn FnMut(&Event<'_>),
    names: &[&str],
    arm: usize,
    left_ns: Nanos,
    standings: &Standings,
) {
    let at = |(number, name): (usize, &&str)| {
        let (ratio, ratio_low, ratio_high) = standings.ratio(number)?;
        Some(((*name).to_owned(), Ratio { ratio, ratio_low, ratio_high }))
    };
    let list = || names.iter().enumerate().filter_map(at).collect::<Vec<_>>();
    let runs = u32::try_from(standings.pairs().len()).unwrap_or(u32::MAX);
    let arm = names.get(arm).copied().unwrap_or_default();
    tell(&Event::Progress(&Progress { runs, left_ns, arm, standings: &list }));
}

/// Fills in what came of all arms; the best of them.
pub(super) fn conclude(
    run: &mut Run,
    base: &Base,
    terms: &Terms,
    arms: &[Named<'_>],
    standings: &Standings,
    interrupted: bool,
) -> Option<String> {
    let verdict = |(number, arm): (usize, &Named<'_>)| {
        let verdict = standings.verdict(number, arm.cost);
        match verdict.word {
            Word::NotTried => Verdict {
                why: format!(
                    "the budget was too short for it; {} more would allow {LEAST_PAIRS} pairs",
                    Nanos(LEAST_PAIRS * arm.cost.0)
                ),
                ..verdict
            },
            _ => verdict,
        }
    };
    let experiment = Experiment {
        design: Design {
            quantity: terms.goal,
            guards: terms.guards.clone(),
            seed: base.seed,
            budget_ns: base.budget.unwrap_or(BUDGET),
            control: PLAIN.to_owned(),
            arms: arms.iter().map(|arm| arm.name.to_owned()).collect(),
        },
        blocks: Vec::new(),
        verdicts: arms.iter().enumerate().map(verdict).collect(),
        guarded: (0..arms.len()).flat_map(|arm| standings.guarded(arm)).collect(),
        time_and_memory: Vec::new(),
        warnings: Vec::new(),
        interrupted,
        halted: None,
    };
    if let Some(service) = &mut run.service {
        service.pairs = standings.pairs().to_vec();
    }
    run.doses = arms
        .iter()
        .filter(|arm| !arm.doses.is_empty())
        .map(|arm| (arm.name.to_owned(), arm.doses.to_vec()))
        .collect();
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

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::service::{Holding, Load};

    #[test]
    fn a_server_that_uses_no_time_for_its_requests_is_named() {
        let said = |server: u64, generator: u64, requests: f64| {
            let window = Window {
                cpu_ns: Nanos(server),
                wall_ns: Nanos::secs(1),
                generator_cpu_ns: Nanos(generator),
                load: Load { requests, ..Load::default() },
            };
            let held = Holding::default();
            doubts(&Side {
                ready_ns: Nanos(0),
                warm_ups: 1,
                windows: vec![window.clone(), window],
                at_first: held,
                at_last: held,
            })
        };
        let idle = said(250_000, 400_000_000, 3000.0).unwrap();
        assert!(idle.contains("for 6000 requests: the load may reach another"), "{idle}");
        let slow = said(90_000_000, 400_000_000, 3000.0).unwrap();
        assert!(slow.contains("the load generator used 4.4 times"), "{slow}");
        // A pipelined server needs less than a microsecond, but as much as its generator.
        assert_eq!(said(600_000_000, 500_000_000, 1e6), None);
    }
}
