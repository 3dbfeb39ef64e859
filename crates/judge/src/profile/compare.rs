//! Counts times prices beside samples, for sums that both have.
//!
//! A price is of a whole transfer or fault, so sums of buckets are compared and not single ones: the
//! price of a fault holds its share of unmapping, that of a transfer its calls, locks and pages. Not
//! compared are wake-ups (their price is the time until the other side runs, samples are CPU time) and
//! address translation, which samples cannot see.

use crate::activity;
use crate::diagnosis::{disagree, recording_ns};
use pagewise_model::Nanos;
use pagewise_model::diagnosis::{Basis, CostKind, Diagnosis};
use pagewise_model::look::Look;
use pagewise_model::profile::{Bucket, Compared, Sorted, What, Why};

/// What is compared: its name, the costs that are added up, which buckets belong to them.
struct Sum {
    name: &'static str,
    costs: &'static [CostKind],
    holds: fn(&Bucket) -> bool,
    /// The recording of faults is done within it.
    holds_recording: bool,
}

const SUMS: [Sum; 4] = [
    Sum {
        name: "zeroing",
        costs: &[CostKind::Zeroing],
        holds: |bucket| bucket.what == What::Zeroing,
        holds_recording: false,
    },
    Sum {
        name: "faults, mapping and unmapping, zeroing",
        costs: activity::MAPPING_COSTS,
        holds: |bucket| activity::is_mapping_work(bucket.what, &bucket.why),
        holds_recording: true,
    },
    Sum {
        name: "data through pipes",
        costs: &[CostKind::PipeCopies],
        holds: |bucket| bucket.why == Why::Pipe && is_transfer(bucket.what),
        holds_recording: false,
    },
    Sum {
        name: "data of files",
        costs: &[CostKind::FileCopies],
        holds: |bucket| is_file_data(&bucket.why) && is_transfer(bucket.what),
        holds_recording: false,
    },
];

const fn is_transfer(what: What) -> bool {
    !matches!(
        what,
        What::Scheduling | What::IoWait | What::Reclaim | What::Compaction | What::Pinning
    )
}

fn is_file_data(why: &Why) -> bool {
    match why {
        Why::FileRead | Why::FileWrite => true,
        Why::Call(name) => matches!(name.as_ref(), "read" | "write" | "pread64" | "pwrite64"),
        _ => false,
    }
}

/// All sums of which `diagnosis` has a cost.
pub(super) fn compare(sorted: &Sorted, look: &Look, diagnosis: &Diagnosis) -> Vec<Compared> {
    let cpu_ns = sorted.samples as f64 * sorted.period_ns.0 as f64;
    let recording = recording_ns(look);
    let compared = |sum: &Sum| {
        let counts = |basis| matches!(basis, Basis::CountsTimesPrice | Basis::Timed);
        let costs =
            diagnosis.costs.iter().filter(|c| sum.costs.contains(&c.kind) && counts(c.basis));
        let counted: u64 = costs.map(|cost| cost.cost_ns.0).sum();
        if counted == 0 {
            return None;
        }
        let buckets = sorted.buckets.iter().filter(|bucket| (sum.holds)(bucket));
        let sampled = buckets.map(|bucket| bucket.cpu_ns.0 as f64).sum::<f64>();
        let own = if sum.holds_recording { recording } else { 0.0 };
        let sampled = (sampled - own).max(0.0);
        Some(Compared {
            name: sum.name.to_owned(),
            counted_ns: Nanos(counted),
            sampled_ns: Nanos::from_f64(sampled),
            differ: disagree(counted as f64, sampled, cpu_ns),
        })
    };
    SUMS.iter().filter_map(compared).collect()
}
