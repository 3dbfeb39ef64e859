//! From the counts of the look to the cost of page work: counts times unit prices, as time and share.
//!
//! Times are CPU nanoseconds of the median run. Shares are of its CPU time, for wake-ups of its wall time.
//! Every cost carries its counts and prices ("262144 faults x 0.61 us"). The system time seen limits the
//! costs that the kernel charges as system time. If prices give more, all of them are scaled down together
//! and the report says so. If faults were timed individually, those times replace their prices
//! ([`recorded`]). Address translation is measured by counters if they exist, otherwise by an upper bound
//! ([`translation`]). Samples, if they exist, are a second opinion ([`second_opinion`]). They never replace
//! another cost; they only contradict it.
//!
//! Not seen: waiting for devices, work of kernel threads, user time lost to cold caches after a fault or a
//! switch. Written bytes count as copied wherever they go. Bytes to `/dev/null` are not copied; only the
//! limit by system time corrects for that.

mod faults;
mod fork;
mod recorded;
mod second_opinion;
mod transfer;
pub(crate) mod translation;
mod typical;

use pagewise_model::diagnosis::{CostBasis, CostKind, Diagnosis, PageCost};
use pagewise_model::look::LookFindings;
use pagewise_model::machine::Machine;
use pagewise_model::price::SessionPrices;
use pagewise_model::{Fact, Nanos};
pub(crate) use recorded::recording_ns;
use second_opinion::ActivitySamples;
pub(crate) use second_opinion::disagree;
use typical::{TypicalRun, calmest_share, noise_share};

/// One cost before bounds and shares.
#[derive(Debug, Clone, PartialEq)]
struct CostEstimate {
    kind: CostKind,
    ns: f64,
    basis: CostBasis,
    evidence: String,
}

impl CostEstimate {
    fn priced(kind: CostKind, ns: f64, evidence: String) -> Self {
        Self { kind, ns, basis: CostBasis::CountsTimesPrice, evidence }
    }
}

/// What page work costs the program that `look` saw, at `prices`, on `machine`.
#[must_use]
pub fn diagnose(look: &LookFindings, prices: &SessionPrices, machine: &Machine) -> Diagnosis {
    let recording_ns = recording_ns(look);
    let Some(run) =
        TypicalRun::from_runs(&look.runs).map(|run| run.without_recording(recording_ns))
    else {
        return not_run();
    };
    let (samples, kernel_time) = match &look.samples {
        Fact::Known(all) => (
            Fact::Known(ActivitySamples::from_samples(all)),
            Fact::Known(second_opinion::kernel_time(all)),
        ),
        Fact::Missing(why) => (Fact::Missing(why.clone()), Fact::Missing(why.clone())),
    };
    let priced = faults::estimate(look, &run, prices, machine);
    let transfers = transfer::estimate(look, &run, prices);
    let host_share = host_share(&run, total(&priced), total(&transfers), prices, machine);
    let (mut system, said) = recorded::replace(priced, look, &run, prices);
    system.extend(transfers);
    system.extend(fork::estimate(look, prices, machine));
    system.extend(second_opinion::reclaim(&samples));
    bound_by_system_time(&mut system, run.sys_ns);
    let translation = translation::estimate(look, &run, prices);
    let wakeups = transfer::wakeups(&run, prices, machine);
    let malloc = second_opinion::malloc(&look.user, run.user_ns);
    let mut estimates = system;
    estimates.extend(translation);
    estimates.extend(malloc);
    estimates.extend(wakeups);
    // A bound holds for the run that was disturbed least, and for the most that its noise may hide.
    let widened = total(&estimates) * (1.0 + noise_share(&look.runs));
    let ceiling_share = share(widened, run.wall_ns * calmest_share(&look.runs));
    estimates.retain(|e| e.ns.round() >= 1.0);
    let costs = costs(&estimates, &run, &samples);
    let opinion = second_opinion::SampleOpinion { samples: &samples, recording_ns };
    let mut disagreements = opinion.disagreements(&costs, run.cpu_ns());
    disagreements.extend(said);
    let not_in_ceiling = not_seen(look);
    Diagnosis { costs, ceiling_share, not_in_ceiling, host_share, kernel_time, disagreements }
}

fn not_run() -> Diagnosis {
    Diagnosis {
        costs: Vec::new(),
        ceiling_share: 0.0,
        not_in_ceiling: Vec::new(),
        host_share: Fact::missing("the program was not run"),
        kernel_time: Fact::missing("the program was not run"),
        disagreements: Vec::new(),
    }
}

/// Costs that are entirely unknown: not even that they are small.
fn not_seen(look: &LookFindings) -> Vec<String> {
    let has_bytes = look.runs.iter().all(|run| run.read_bytes.is_some());
    (!has_bytes).then(|| "copies".to_owned()).into_iter().collect()
}

fn total(estimates: &[CostEstimate]) -> f64 {
    estimates.iter().map(|e| e.ns).sum()
}

/// `part` of `whole` within 0..=1. 0 if `whole` is 0.
fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 && part > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

fn bound_by_system_time(estimates: &mut [CostEstimate], sys_ns: f64) {
    let sum = total(estimates);
    if sum <= sys_ns {
        return;
    }
    for estimate in estimates {
        estimate.ns *= sys_ns / sum;
        estimate.evidence.push_str("; capped by system time seen");
    }
}

fn costs(
    estimates: &[CostEstimate],
    run: &TypicalRun,
    samples: &Fact<ActivitySamples>,
) -> Vec<PageCost> {
    let kinds: Vec<CostKind> = estimates.iter().map(|e| e.kind).collect();
    let mut costs: Vec<PageCost> = estimates
        .iter()
        .map(|e| PageCost {
            kind: e.kind,
            cost_ns: Nanos::from_f64(e.ns),
            time_share: match e.kind {
                CostKind::Wakeups => share(e.ns, run.wall_ns),
                _ => share(e.ns, run.cpu_ns()),
            },
            basis: e.basis,
            evidence: e.evidence.clone(),
            sampled_ns: second_opinion::sampled(e.kind, &kinds, samples),
        })
        .collect();
    costs.sort_by_key(|cost| std::cmp::Reverse(cost.cost_ns));
    costs
}

/// System time that faults took above their price. The host charged it for backing memory.
fn host_share(
    run: &TypicalRun,
    fault_ns: f64,
    other_ns: f64,
    prices: &SessionPrices,
    machine: &Machine,
) -> Fact<f64> {
    if machine.hypervisor.is_none() {
        return Fact::missing("not a virtual machine");
    }
    let host_extra = prices.host_fault_extra_ns.known().copied().unwrap_or(0.0).max(0.0);
    let at_worst = fault_ns + run.minor_faults * host_extra;
    if fault_ns <= 0.0 || at_worst < run.sys_ns / 2.0 || at_worst < other_ns {
        return Fact::missing("faults do not dominate the system time of this program");
    }
    Fact::Known(share(run.sys_ns - fault_ns - other_ns, run.cpu_ns()))
}

/// A rounded count for evidence: "3 faults", "1 fault", and "under 1 fault" instead of 0.
fn counted(count: f64, one: &str) -> String {
    let rounded = count.round();
    if rounded < 1.0 {
        return format!("under 1 {one}");
    }
    format!("{rounded:.0} {one}{}", if rounded < 2.0 { "" } else { "s" })
}

/// A time for evidence: "0.61 us".
fn micros(ns: f64) -> String {
    format!("{:.2} us", ns / 1e3)
}

#[cfg(test)]
pub(crate) mod tests;
