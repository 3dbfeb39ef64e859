//! What pairs of servers under load show: the race by the goal, and a guard for everything else.
//!
//! A pair is two fresh starts, the plain server's and an arm's. Each side is one value, the mean of the
//! logarithm over its windows. So a pair is one observation however many windows it has: two starts of the
//! same server differ by up to 3% for their whole life. Evidence, verdicts and intervals are those of
//! [`crate::race`]. CPU time per request is that of typical windows ([`typical`]). A gain in them is kept
//! only if all windows together do not contradict it.
//!
//! Guards are those of [`crate::guards`]. One failed request breaks `errors=0`. A gain is kept only once each
//! guard's bound lies a standard error above the estimate; until then it is likely.
//!
//! For a server that already runs, a pair is one block of windows with the remedy off and on in random order.
//! There are no two starts that could differ, and nothing is learnt about another start. [`ServiceWatch`] guards it
//! window by window.
//!
//! Not seen: what happens between windows, and requests that the generator does not count.

pub mod load;
mod watch;

pub use watch::ServiceWatch;

use crate::race::between_logs;
use pagewise_model::guard::ArmGuard;
use pagewise_model::measured::{mean, median};
use pagewise_model::service::{ServerMeasurement, ServiceWindow, TunedService};
use pagewise_model::trial::{ComparedQuantity, TimeRatio};

/// Warming up makes requests cheaper: two runs of the load that are cheaper by no more than this than the two
/// before have settled. A runtime that compiles has plateaus of two equal runs on its way.
const SETTLED: f64 = 0.05;

/// A window is atypical if it is farther from the median than this many deviations (from the median
/// distance).
const TYPICAL: f64 = 3.0;
/// Deviations of a normal distribution in its median distance.
const DEVIATION: f64 = 1.4826;
/// With fewer windows all are typical: their median distance says little.
const FEWEST: usize = 6;

/// What a guard of a service may bound.
pub const GUARDED: [ComparedQuantity; 4] = [
    ComparedQuantity::CpuPerRequest,
    ComparedQuantity::Throughput,
    ComparedQuantity::P99,
    ComparedQuantity::Memory,
];

/// The bounds of every session that names none.
pub const USUAL_GUARDS: [ArmGuard; 2] = [
    ArmGuard { quantity: Some(ComparedQuantity::P99), limit_share: 0.20 },
    ArmGuard { quantity: None, limit_share: 0.0 },
];

/// The default bounds of a session, if this quantity decides.
#[must_use]
pub fn usual_guards(decides: ComparedQuantity) -> Vec<ArmGuard> {
    let cpu = ArmGuard { quantity: Some(ComparedQuantity::CpuPerRequest), limit_share: 0.03 };
    let of_memory = (decides == ComparedQuantity::Memory).then_some(cpu);
    USUAL_GUARDS.into_iter().chain(of_memory).collect()
}

/// The logarithm of one side's value; less is better. `None` if a window does not report it.
#[must_use]
pub fn value(quantity: ComparedQuantity, side: &ServerMeasurement) -> Option<f64> {
    match quantity {
        ComparedQuantity::Memory => log(side.at_last.pss_bytes.0 as f64),
        _ => Some(mean(&windows(quantity, side)?)),
    }
}

/// The same as it decides. Of CPU time per request, a window that is not typical counts as the last that is:
/// where a runtime compiles or collects in one of ten windows, that hides all else.
pub(crate) fn decisive(quantity: ComparedQuantity, side: &ServerMeasurement) -> Option<f64> {
    match quantity {
        ComparedQuantity::CpuPerRequest => Some(mean(&typical(windows(quantity, side)?))),
        _ => value(quantity, side),
    }
}

/// The logarithms of all windows that show it. For CPU time, the windows in which servers shared CPUs, if
/// there are any; for rates and latencies, the other windows. `None` without such windows, or if one does not
/// report it.
fn windows(quantity: ComparedQuantity, side: &ServerMeasurement) -> Option<Vec<f64>> {
    let is_by_clock = matches!(
        quantity,
        ComparedQuantity::Throughput | ComparedQuantity::Time | ComparedQuantity::P99
    );
    let is_shared = !is_by_clock && side.windows.iter().any(|window| window.at_once);
    logs(quantity, side, is_shared)
}

/// The logarithms of the windows in which the server shared its CPUs, or of the others.
fn logs(quantity: ComparedQuantity, side: &ServerMeasurement, at_once: bool) -> Option<Vec<f64>> {
    let own = side.windows.iter().filter(|window| window.at_once == at_once);
    let values = own.map(|window| window_value(quantity, window));
    values.collect::<Option<Vec<f64>>>().filter(|values| !values.is_empty())
}

/// CPU time per request, as a logarithm, in windows in which the server did not share its CPUs. `None`
/// without such a window.
pub(crate) fn apart(side: &ServerMeasurement) -> Option<f64> {
    logs(ComparedQuantity::CpuPerRequest, side, false).map(|values| mean(&values))
}

/// Values with those that are not typical moved to the bound of those that are.
fn typical(values: Vec<f64>) -> Vec<f64> {
    let Some(middle) = median(&values).filter(|_| values.len() >= FEWEST) else { return values };
    let distances: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let most = TYPICAL * DEVIATION * median(&distances).unwrap_or_default();
    values.into_iter().map(|value| value.clamp(middle - most, middle + most)).collect()
}

fn log(value: f64) -> Option<f64> {
    (value > 0.0 && value.is_finite()).then(|| value.ln())
}

fn window_value(quantity: ComparedQuantity, window: &ServiceWindow) -> Option<f64> {
    let load = &window.load;
    match quantity {
        ComparedQuantity::CpuPerRequest | ComparedQuantity::Cpu => {
            log(window.cpu_ns.0 as f64 / load.requests)
        }
        ComparedQuantity::Throughput | ComparedQuantity::Time => Some(-log(window.rate()?)?),
        ComparedQuantity::P99 => log(load.latency.p99?),
        ComparedQuantity::Memory => None,
    }
}

/// The change of CPU time per request of plain servers between sessions, as between programs
/// ([`crate::race::between_sessions`]). `None` without two starts in each.
#[must_use]
pub fn between(first: &TunedService, second: &TunedService) -> Option<TimeRatio> {
    // What sharing costs is not the same in any two sessions.
    let costs = |service: &TunedService| -> Vec<f64> {
        service.plain_sides().into_iter().filter_map(apart).collect()
    };
    between_logs(&costs(first), &costs(second))
}

/// Requests to a server that failed.
#[must_use]
pub fn failed(side: &ServerMeasurement) -> f64 {
    // The empty sum of floats is -0.
    side.windows.iter().filter_map(|window| window.load.errors).fold(0.0, |sum, one| sum + one)
}

/// The cost of a request has settled after these runs of the load.
#[must_use]
pub fn is_settled(warm_ups: &[ServiceWindow]) -> bool {
    let costs = warm_ups.iter().map(|window| window_value(ComparedQuantity::CpuPerRequest, window));
    match costs.collect::<Option<Vec<f64>>>().as_deref() {
        Some([.., a, b, c, d]) => (a + b - c - d) / 2.0 <= SETTLED,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
