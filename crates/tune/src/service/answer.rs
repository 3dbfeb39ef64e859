//! The common part of sessions on servers: the checks of a plain server, and the answer.

use super::LoadTerms;
use crate::request::SessionRequest;
use crate::stop::SessionStop;
use pagewise_judge::service::{failed, value};
use pagewise_model::Nanos;
use pagewise_model::plan::{RemedyDose, RemedyReceipt};
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::service::{ServerMeasurement, ServiceWindow};
use pagewise_model::trial::ComparedQuantity;
use pagewise_remedy::receipt::TestedStart;

/// The budget unless the user gives one.
const BUDGET: Nanos = Nanos::secs(300);
/// The generator may use this many times the CPU time of the server before that is reported.
const GENERATOR: f64 = 2.0;
/// A working server uses more than this for a request, in nanoseconds, or more than this share of the
/// generator's CPU time.
const LEAST_FOR_REQUEST: f64 = 1_000.0;
const LEAST_OF_GENERATOR: f64 = 0.05;

/// Time for the whole session.
pub(super) fn budget(base: &SessionRequest) -> Nanos {
    base.spec.budget_ns.unwrap_or(BUDGET)
}

/// Checks the plain server before anything is compared with it. Returns notes for the user.
pub(super) fn check(
    terms: &LoadTerms,
    quantity: ComparedQuantity,
    side: &ServerMeasurement,
) -> Result<Option<String>, SessionStop> {
    let failed = failed(side);
    let requests: f64 = side.windows.iter().map(|window| window.load.requests).sum();
    if failed > 0.0 {
        let hint = terms.metric.strictness(&terms.load);
        let hint = hint.map_or_else(String::new, |hint| format!(" ({hint})"));
        return Err(SessionStop::Service(format!(
            "{failed:.0} of {requests:.0} requests failed against the plain server: \
             fix the load first{hint}"
        )));
    }
    let is_open = |window: &ServiceWindow| window.load.open_loop == Some(true);
    if quantity == ComparedQuantity::P99 && !side.windows.iter().all(is_open) {
        return Err(SessionStop::Service(
            "p99 can be the goal only of a load at a fixed rate (wrk2 --rate, k6 arrival rate): \
             a generator that waits for each answer hides slow ones"
                .to_owned(),
        ));
    }
    if value(quantity, side).is_none() {
        let name = quantity.into_str();
        return Err(SessionStop::Service(format!(
            "the load's output has no figure for {name}: \
             select one with --metric regex:PATTERN or json:PATH"
        )));
    }
    Ok(doubts(side))
}

/// Doubts about the figures from the CPU times of the server and the generator. `None` without any.
fn doubts(side: &ServerMeasurement) -> Option<String> {
    let sum = |of: fn(&ServiceWindow) -> f64| side.windows.iter().map(of).sum::<f64>();
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
pub(super) fn nothing_fits(run: &SavedRun) -> SessionOutcome {
    let ceiling = run.diagnosis.as_ref().map_or(0.0, |all| all.ceiling_share);
    let ceiling = ceiling * 100.0;
    let why = format!("page costs are at most {ceiling:.0}% of its CPU time, and no remedy fits");
    SessionOutcome::NothingToGain { why }
}

/// The lines that keep these doses, those for containers among them.
pub(super) fn receipt(doses: &[RemedyDose], start: &TestedStart<'_>) -> RemedyReceipt {
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
    use pagewise_model::service::{LoadReport, ServerMemory};

    #[test]
    fn a_server_that_uses_no_time_for_its_requests_is_named() {
        let said = |server: u64, generator: u64, requests: f64| {
            let window = ServiceWindow {
                cpu_ns: Nanos(server),
                wall_ns: Nanos::secs(1),
                generator_cpu_ns: Nanos(generator),
                load: LoadReport { requests, ..LoadReport::default() },
                at_once: false,
            };
            let held = ServerMemory::default();
            doubts(&ServerMeasurement {
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
