//! `malloc-keep`: glibc keeps freed memory instead of handing it back and faulting it in again.
//!
//! glibc's rules (malloc/malloc.c, "Tunables" in its manual): a request above `mmap_threshold` gets its own
//! mapping, which `free` unmaps. Free memory at the top of the heap above `trim_threshold` is returned by
//! `brk`. Each growth of the heap requests `top_pad` bytes more than needed. A program that alternates
//! between freeing and allocating large blocks pays for every page again: unmap, fault, zero. A set of
//! tunables stops that. By default both thresholds grow with use (up to 32 MiB). Setting one fixes both, so
//! both are set.
//!
//! Not seen: memory that the program itself returns with `malloc_trim` or `madvise`. Cost: memory that would
//! have been returned to the system stays with the program until it ends.

use crate::heap_huge::tunable;
use crate::remedy::{Remedy, RemedyEvidence, RemedyMechanism};
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{Allocator, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::plan::{ArmSettings, RemedyCandidate, RemedyDose};
use pagewise_model::{Bytes, PageSize};

/// Minimum amount: smaller ones are kept by glibc's defaults already.
const SMALLEST: Bytes = Bytes::mib(1);
/// Maximum amount of a dose: above it, the memory cost outweighs the churn.
const LARGEST: Bytes = Bytes::gib(4);
/// Churn below this multiple of the resident memory is ordinary release.
const CHURN_FACTOR: f64 = 0.5;
/// Less churn has no noticeable effect.
const LEAST_CHURN: Bytes = Bytes::mib(8);

pub(crate) struct MallocKeepRemedy;

impl MallocKeepRemedy {
    fn keep(&self, amount: Bytes) -> RemedyDose {
        // The pad is a sixteenth: growing the heap in steps of a few percent makes brk calls rare, without
        // holding much more than requested.
        let pad = (amount.0 / 16).max(Bytes::mib(1).0);
        let entries = vec![
            format!("glibc.malloc.mmap_threshold={}", amount.0),
            format!("glibc.malloc.trim_threshold={}", amount.0),
            format!("glibc.malloc.top_pad={pad}"),
        ];
        let env = vec![tunable(entries)];
        let parameter = format!("{}M", amount.0 >> 20);
        self.with(&parameter, ArmSettings { env, ..ArmSettings::default() })
    }
}

/// Bytes that a process released to the kernel and faulted in again. Limited by what it released, and by what
/// its faults filled beyond its peak: releasing untouched address space costs nothing.
fn churned(process: &TracedProcess, base: PageSize) -> u64 {
    let given_back = process.churn.munmap_bytes.0 + process.churn.brk_shrink_bytes.0;
    let filled = process.minor_faults.saturating_mul(base.bytes());
    given_back.min(filled.saturating_sub(process.peak_rss_bytes.0))
}

impl Remedy for MallocKeepRemedy {
    fn name(&self) -> &'static str {
        "malloc-keep"
    }
    fn sentence(&self) -> &'static str {
        "glibc keeps freed memory instead of unmapping and faulting it in again"
    }
    fn parameters(&self) -> &'static str {
        "the amount to keep, 1M to 4G (default 256M)"
    }

    fn dose(&self, parameter: &str, _machine: &Machine) -> Result<RemedyDose, String> {
        let amount: Bytes = if parameter.is_empty() {
            Bytes::mib(256)
        } else {
            parameter.parse().map_err(|e| format!("{e}"))?
        };
        if (SMALLEST..=LARGEST).contains(&amount) {
            Ok(self.keep(amount))
        } else {
            Err(format!("the amount to keep must be between {SMALLEST} and {LARGEST}"))
        }
    }

    fn fit(&self, evidence: &RemedyEvidence<'_>) -> RemedyCandidate {
        if evidence.traced().is_none() {
            return self.unfit("the mapping calls of the program could not be traced");
        }
        let base = evidence.machine.base_page_bytes;
        let churn = |p: &TracedProcess| churned(p, base);
        let worth = |p: &&TracedProcess| {
            p.allocator == Allocator::Glibc
                && churn(p) >= LEAST_CHURN.0
                && churn(p) as f64 > CHURN_FACTOR * p.peak_rss_bytes.0 as f64
        };
        let churners: Vec<&TracedProcess> = evidence.processes().iter().filter(worth).collect();
        let Some(most) = churners.iter().max_by_key(|p| churn(p)) else {
            return self.unfit("no glibc process gives back memory and takes much of it again");
        };
        let again: u64 = churners.iter().map(|p| churn(p)).sum();
        let filled: u64 = evidence.processes().iter().map(|p| p.minor_faults * base.bytes()).sum();
        let churn_share = again as f64 / filled.max(1) as f64;
        let faults = evidence.share(CostKind::AnonFaults) + evidence.share(CostKind::Zeroing);
        let ceiling = faults * churn_share.min(1.0) + evidence.share(CostKind::MapUnmap);
        let kept = Bytes(most.peak_rss_bytes.0.next_power_of_two()).clamp(Bytes::mib(64), LARGEST);
        let why = format!(
            "{} given back and faulted in again; peak {} ({} munmap, {} brk calls)",
            Bytes(churn(most)),
            most.peak_rss_bytes,
            most.churn.munmap_calls,
            most.churn.brk_shrink_calls
        );
        self.fitting(why, ceiling, vec![self.keep(kept)])
    }

    fn mechanism(&self, _dose: &RemedyDose) -> RemedyMechanism {
        RemedyMechanism::FaultsSaved
    }

    fn notes(&self, dose: &RemedyDose) -> Vec<String> {
        vec![format!(
            "up to {} of freed memory stays with each process until it ends",
            dose.parameter
        )]
    }
}
