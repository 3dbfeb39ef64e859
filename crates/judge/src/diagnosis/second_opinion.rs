//! The same costs by CPU samples, and where the two ways disagree.
//!
//! Samples tell activities, which are coarser than kinds: a copy does not say whether it was for a
//! pipe or a file. A kind has a sampled time when it is the only one of its activity; otherwise the
//! sums are compared. The price of a fault holds its share of unmapping, which samples show as
//! mapping work, so those two are compared together. Wake-ups are not compared: their price is
//! the time until the other side runs, samples show only the CPU time around it.

use super::Estimate;
use pagewise_model::diagnosis::{Cost, CostKind};
use pagewise_model::look::{Activity, Samples};
use pagewise_model::{Fact, Nanos};

const COPIES: &[CostKind] = &[CostKind::PipeCopies, CostKind::FileCopies];
const FAULTS: &[CostKind] =
    &[CostKind::AnonFaults, CostKind::FileFaults, CostKind::CowFaults, CostKind::MajorFaults];

/// Which kinds share an activity.
const SHOWN_AS: &[(Activity, &[CostKind])] = &[
    (Activity::Copy, COPIES),
    (Activity::Fault, FAULTS),
    (Activity::Zeroing, &[CostKind::Zeroing]),
    (Activity::MapUnmap, &[CostKind::MapUnmap]),
    (Activity::Wakeup, &[CostKind::Wakeups]),
    (Activity::Reclaim, &[CostKind::Reclaim]),
];

/// Sums that must agree: name, activities, kinds.
const COMPARED: &[(&str, &[Activity], &[CostKind])] = &[
    ("copies", &[Activity::Copy], COPIES),
    ("zeroing", &[Activity::Zeroing], &[CostKind::Zeroing]),
    (
        "faults and mapping",
        &[Activity::Fault, Activity::MapUnmap],
        &[
            CostKind::AnonFaults,
            CostKind::FileFaults,
            CostKind::CowFaults,
            CostKind::MajorFaults,
            CostKind::MapUnmap,
        ],
    ),
];

/// Below this share of CPU time by both ways a difference is not worth a sentence.
const WORTH_A_SENTENCE: f64 = 0.05;
/// The two ways disagree when they differ by more than this share of the larger.
const TOLERANCE: f64 = 0.20;

fn sampled_ns(samples: &Samples, activities: &[Activity]) -> f64 {
    let count: u64 = activities.iter().filter_map(|a| samples.kernel.get(a)).sum();
    count as f64 * samples.period_ns.0 as f64
}

/// The sampled time of `kind`, where `present` are the kinds that the program pays.
pub(super) fn sampled(
    kind: CostKind,
    present: &[CostKind],
    samples: &Fact<Samples>,
) -> Fact<Nanos> {
    let samples = match samples {
        Fact::Known(samples) => samples,
        Fact::Missing(reason) => return Fact::Missing(reason.clone()),
    };
    let Some((activity, kinds)) = SHOWN_AS.iter().find(|(_, kinds)| kinds.contains(&kind)) else {
        return Fact::missing("samples do not show page walks");
    };
    match kinds.iter().find(|other| **other != kind && present.contains(other)) {
        Some(other) => Fact::Missing(format!("samples do not tell it from {}", other.label())),
        None => Fact::Known(Nanos::from_f64(sampled_ns(samples, &[*activity]))),
    }
}

/// Reclaim has no unit price: samples are the only evidence.
pub(super) fn reclaim(samples: &Fact<Samples>) -> Option<Estimate> {
    let samples = samples.known()?;
    let count = samples.kernel.get(&Activity::Reclaim).copied().filter(|count| *count > 0)?;
    let evidence = format!("{count} samples x {}", samples.period_ns);
    let ns = sampled_ns(samples, &[Activity::Reclaim]);
    Some(Estimate::priced(CostKind::Reclaim, ns, evidence))
}

/// One sentence for each sum on which counts and samples differ by more than a fifth.
pub(super) fn disagreements(costs: &[Cost], samples: &Fact<Samples>, cpu_ns: f64) -> Vec<String> {
    let Some(samples) = samples.known() else { return Vec::new() };
    let compare = |(name, activities, kinds): &(&str, &[Activity], &[CostKind])| {
        let of_kinds = costs.iter().filter(|c| kinds.contains(&c.kind));
        let counted: f64 = of_kinds.map(|c| c.cost_ns.0 as f64).sum();
        let sampled = sampled_ns(samples, activities);
        let larger = counted.max(sampled);
        let differ = (counted - sampled).abs() > TOLERANCE * larger;
        (differ && larger > WORTH_A_SENTENCE * cpu_ns).then(|| {
            let (counted, sampled) = (Nanos::from_f64(counted), Nanos::from_f64(sampled));
            format!("{name}: {counted} by counts and prices, {sampled} by samples")
        })
    };
    COMPARED.iter().filter_map(compare).collect()
}
