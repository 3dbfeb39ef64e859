//! The same costs by CPU samples, and where the two ways disagree.
//!
//! Samples show activities, which are coarser than kinds: a copy does not show whether it was for a pipe or a
//! file. A kind has a sampled time if it is the only one of its activity. Otherwise the sums are compared.
//! The price of a fault includes its share of unmapping, which samples show as mapping work. A clock that
//! cannot interrupt the clearing of a page bills that time to the fault around it. So faults, zeroing and
//! mapping are compared together. Wake-ups are not compared: their price is the time until the other side
//! runs, while samples show only the CPU time around it.

use super::{CostEstimate, counted};
use crate::activity::{self, MAPPING_COSTS};
use pagewise_model::diagnosis::{CostBasis, CostKind, KernelActivity, KernelTime, PageCost};
use pagewise_model::look::{CpuSamples, UNKNOWN_SYMBOL, UserSamples};
use pagewise_model::{Fact, Nanos};
use std::collections::BTreeMap;

const COPIES: &[CostKind] = &[CostKind::PipeCopies, CostKind::FileCopies];
const FAULTING: &[KernelActivity] =
    &[KernelActivity::Fault, KernelActivity::Zeroing, KernelActivity::MapUnmap];

/// Which kinds share which activities.
const SHOWN_AS: &[(&[KernelActivity], &[CostKind])] = &[
    (&[KernelActivity::Copy], COPIES),
    (FAULTING, MAPPING_COSTS),
    (&[KernelActivity::Wakeup], &[CostKind::Wakeups]),
    (&[KernelActivity::Reclaim], &[CostKind::Reclaim]),
];

/// Sums that must agree: name, activities, kinds.
const COMPARED: &[(&str, &[KernelActivity], &[CostKind])] = &[
    ("copies", &[KernelActivity::Copy], COPIES),
    ("faults, zeroing and mapping", FAULTING, MAPPING_COSTS),
];

/// Below this share of CPU time by both ways a difference is not worth a sentence.
const WORTH_A_SENTENCE: f64 = 0.05;
/// The two ways disagree when they differ by more than this share of the larger.
pub(super) const TOLERANCE: f64 = 0.20;

/// What takes less of the user time is not named.
const LEAST_OF_USER: f64 = 0.005;

/// Leaf symbols named at most.
const MOST_SYMBOLS: usize = 12;

/// Samples sorted into activities.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ActivitySamples {
    counts: BTreeMap<KernelActivity, u64>,
    period_ns: Nanos,
}

impl ActivitySamples {
    pub(super) fn from_samples(samples: &CpuSamples) -> Self {
        let mut counts = activity::sort(samples);
        if let Some(faults) = counts.get_mut(&KernelActivity::Fault) {
            *faults = faults.saturating_sub(activity::pinned(samples));
        }
        Self { counts, period_ns: samples.period_ns }
    }

    fn count(&self, activities: &[KernelActivity]) -> u64 {
        activities.iter().filter_map(|a| self.counts.get(a)).sum()
    }

    fn ns(&self, activities: &[KernelActivity]) -> f64 {
        self.count(activities) as f64 * self.period_ns.0 as f64
    }
}

/// Where the samples fell, as shares of all of them.
pub(super) fn kernel_time(samples: &CpuSamples) -> KernelTime {
    let share = |count: u64| super::share(count as f64, samples.total() as f64);
    let mut leaves: BTreeMap<&str, u64> = BTreeMap::new();
    for stack in &samples.stacks {
        let leaf = stack.symbols.first().map_or(UNKNOWN_SYMBOL, String::as_str);
        *leaves.entry(leaf).or_default() += stack.count;
    }
    let mut symbols: Vec<(&str, u64)> = leaves.into_iter().collect();
    symbols.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    symbols.truncate(MOST_SYMBOLS);
    KernelTime {
        activity_share: activity::sort(samples).into_iter().map(|(a, n)| (a, share(n))).collect(),
        symbol_share: symbols.into_iter().map(|(s, n)| (s.to_owned(), share(n))).collect(),
    }
}

/// The sampled time of `kind`, where `present` are the kinds that the program pays.
pub(super) fn sampled(
    kind: CostKind,
    present: &[CostKind],
    samples: &Fact<ActivitySamples>,
) -> Fact<Nanos> {
    if kind == CostKind::Malloc {
        return Fact::missing("it is from samples already");
    }
    if kind == CostKind::Fork {
        return Fact::missing("samples do not separate it from exec and exit");
    }
    let samples = match samples {
        Fact::Known(samples) => samples,
        Fact::Missing(reason) => return Fact::Missing(reason.clone()),
    };
    let Some((activities, kinds)) = SHOWN_AS.iter().find(|(_, kinds)| kinds.contains(&kind)) else {
        return Fact::missing("samples do not show page walks");
    };
    match kinds.iter().find(|other| **other != kind && present.contains(other)) {
        Some(other) => {
            Fact::Missing(format!("samples do not separate it from {}", other.into_str()))
        }
        None => Fact::Known(Nanos::from_f64(samples.ns(activities))),
    }
}

/// The allocator's work in user mode. Only samples show it.
pub(super) fn malloc(user: &Fact<UserSamples>, user_ns: f64) -> Option<CostEstimate> {
    let UserSamples { all, malloc } = *user.known()?;
    let part = super::share(malloc as f64, all as f64);
    let evidence = format!("{malloc} of {} in user mode", counted(all as f64, "sample"));
    let (kind, ns, basis) = (CostKind::Malloc, part * user_ns, CostBasis::Samples);
    (part >= LEAST_OF_USER).then_some(CostEstimate { kind, ns, basis, evidence })
}

/// Reclaim has no unit price: samples are the only evidence.
pub(super) fn reclaim(samples: &Fact<ActivitySamples>) -> Option<CostEstimate> {
    let samples = samples.known()?;
    let count = samples.count(&[KernelActivity::Reclaim]);
    let evidence = format!("{} x {}", counted(count as f64, "sample"), samples.period_ns);
    let ns = samples.ns(&[KernelActivity::Reclaim]);
    (count > 0).then_some(CostEstimate {
        kind: CostKind::Reclaim,
        ns,
        basis: CostBasis::Samples,
        evidence,
    })
}

/// Two estimates of one cost differ by more than can be let pass, in a program of this CPU time.
pub(crate) fn disagree(counted: f64, sampled: f64, cpu_ns: f64) -> bool {
    let larger = counted.max(sampled);
    (counted - sampled).abs() > TOLERANCE * larger && larger > WORTH_A_SENTENCE * cpu_ns
}

/// What samples say, of a run in which the recording of faults took so much.
#[derive(Debug)]
pub(super) struct SampleOpinion<'a> {
    pub(super) samples: &'a Fact<ActivitySamples>,
    pub(super) recording_ns: f64,
}

impl SampleOpinion<'_> {
    /// One sentence for each sum whose costs and samples differ by more than a fifth.
    pub(super) fn disagreements(&self, costs: &[PageCost], cpu_ns: f64) -> Vec<String> {
        let Some(samples) = self.samples.known() else { return Vec::new() };
        let compare = |(name, activities, kinds): &(&str, &[KernelActivity], &[CostKind])| {
            let of_kinds = || costs.iter().filter(|c| kinds.contains(&c.kind));
            let reported: f64 = of_kinds().map(|c| c.cost_ns.0 as f64).sum();
            let is_timed = of_kinds().any(|c| c.basis == CostBasis::Timed);
            let way = if is_timed { "as timed" } else { "by counts and prices" };
            // Recording is done within the fault.
            let own = if *kinds == MAPPING_COSTS { self.recording_ns } else { 0.0 };
            let sampled = (samples.ns(activities) - own).max(0.0);
            disagree(reported, sampled, cpu_ns).then(|| {
                let (reported, sampled) = (Nanos::from_f64(reported), Nanos::from_f64(sampled));
                format!("{name}: {reported} {way}, {sampled} by samples")
            })
        };
        COMPARED.iter().filter_map(compare).collect()
    }
}
