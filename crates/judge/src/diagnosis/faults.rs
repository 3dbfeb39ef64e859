//! Splits the minor faults of a run by kind and prices them.
//!
//! The kernel counts minor faults in one number. What they were is read from the memory that the
//! processes had at their peak and their end: resident anonymous base pages took one fault each, huge pages one
//! each, written private file pages one copy-on-write each, resident file pages one fault per
//! window (fault-around). Faults beyond those are pages faulted in again after the program gave
//! them back (munmap, heap trim, MADV_DONTNEED), as many as it gave back, and after that, in a tree
//! of processes, copies of pages shared by fork. The sum is always the number that was counted.

use super::typical::TypicalRun;
use super::{CostEstimate, counted, micros};
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{LookFindings, TracedLook, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::measured::Measured;
use pagewise_model::price::SessionPrices;
use pagewise_model::{Bytes, PageSize};

/// Minor faults by kind.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct MinorFaultSplit {
    /// First touches of anonymous base pages.
    pub(super) anon: f64,
    /// Of `anon`, pages that had been given back before.
    pub(super) again: f64,
    /// First touches of huge pages.
    pub(super) huge: f64,
    pub(super) cow: f64,
    /// Of `cow`, pages that a fork had shared.
    pub(super) shared: f64,
    pub(super) file: f64,
}

pub(super) fn estimate(
    look: &LookFindings,
    run: &TypicalRun,
    prices: &SessionPrices,
    machine: &Machine,
) -> Vec<CostEstimate> {
    let huge_page = machine.huge_page_bytes.known().copied().unwrap_or(PageSize::PMD_2M);
    let traced = look.traced.known();
    let split = match traced {
        Some(traced) => split(traced, run, prices, machine.base_page_bytes, huge_page),
        None => MinorFaultSplit { anon: run.minor_faults, ..MinorFaultSplit::default() },
    };
    let pages_per_huge = (huge_page.bytes() / machine.base_page_bytes.bytes().max(1)) as f64;
    let mut estimates = anonymous(&split, prices, pages_per_huge, traced.is_none());
    let plain = |kind, count: f64, price: f64| {
        (count > 0.0).then(|| {
            let evidence = format!("{} x {}", counted(count, "fault"), micros(price));
            CostEstimate::priced(kind, count * price, evidence)
        })
    };
    let file_ns = prices.file_fault_ns.median;
    estimates.extend(plain(CostKind::FileFaults, split.file, file_ns));
    estimates.extend(plain(CostKind::CowFaults, split.cow, prices.cow_fault_ns.median).map(
        |cow| {
            let shared = match split.shared.round() {
                few if few < 1.0 => String::new(),
                many => format!(", {many:.0} of them on pages that a fork had shared"),
            };
            CostEstimate { evidence: cow.evidence + &shared, ..cow }
        },
    ));
    // The CPU part of a major fault: the fault itself and the switch away and back.
    let major_ns = file_ns + prices.wakeup_same_ns.median;
    estimates.extend(plain(CostKind::MajorFaults, run.major_faults, major_ns));
    estimates
}

pub(super) fn split(
    traced: &TracedLook,
    run: &TypicalRun,
    prices: &SessionPrices,
    base_page: PageSize,
    huge_page: PageSize,
) -> MinorFaultSplit {
    let sum = |size: fn(&TracedProcess) -> Bytes| {
        traced.processes.iter().map(|p| size(p).0 as f64).sum::<f64>()
    };
    let page = base_page.bytes() as f64;
    let huge_bytes = sum(|p| p.anon_huge_bytes);
    let cow_bytes = sum(|p| p.file_cow_bytes);
    // Uses the peak, not the end: memory that a program frees before it ends was not touched a second time.
    // Memory inherited from the parent was not touched by the process itself.
    let anon_peak = sum(|p| {
        let peak = p.anon_bytes.max(Bytes(p.peak_rss_bytes.0.saturating_sub(p.file_bytes.0)));
        Bytes(peak.0.saturating_sub(p.inherited_bytes.0))
    });
    let anon_bytes = (anon_peak - huge_bytes - cow_bytes).max(0.0);
    let given_back = traced.processes.iter().map(|p| &p.churn).fold(0.0, |bytes, churn| {
        bytes + (churn.munmap_bytes + churn.brk_shrink_bytes + churn.dontneed_bytes).0 as f64
    });
    let window = prices.file_fault_pages.max(1.0);
    // Takes up to `wanted` of the faults not yet explained.
    let mut left = run.minor_faults;
    let mut take = |wanted: f64| {
        let taken = wanted.min(left);
        left -= taken;
        taken
    };
    let huge = take((huge_bytes / huge_page.bytes() as f64).ceil());
    let first = take(anon_bytes / page);
    let mut cow = take(cow_bytes / page);
    let file = take(sum(|p| p.file_bytes) / page / window);
    let again = take(given_back / page);
    let mut anon = first + again;
    // Children that only ended, or ended before they were seen, are not images.
    let has_forked = traced.processes.iter().any(|process| process.forks > 0);
    let shared = if has_forked || traced.processes.len() > 1 { left } else { 0.0 };
    cow += shared;
    anon += left - shared;
    MinorFaultSplit { anon, again, huge, cow, shared, file }
}

fn anonymous(
    split: &MinorFaultSplit,
    prices: &SessionPrices,
    pages_per_huge: f64,
    untraced: bool,
) -> Vec<CostEstimate> {
    let fault_ns = prices.anon_fault_ns.median;
    let zero_ns = prices.zero_page_ns.median.clamp(0.0, fault_ns);
    let huge_ns = prices.huge_fault_ns.known().map_or(0.0, |m: &Measured| m.median);
    let huge_zero_ns = (zero_ns * pages_per_huge).min(huge_ns);
    let mut estimates = Vec::new();
    if split.anon > 0.0 || split.huge > 0.0 {
        let ns = split.anon * (fault_ns - zero_ns) + split.huge * (huge_ns - huge_zero_ns);
        let mut parts = Vec::new();
        if split.anon > 0.0 {
            let each = micros(fault_ns - zero_ns);
            parts.push(format!("{} x {each}", counted(split.anon, "fault")));
        }
        if split.huge > 0.0 {
            parts.push(format!("{:.0} huge x {}", split.huge, micros(huge_ns - huge_zero_ns)));
        }
        let mut evidence = parts.join(", ");
        if split.again > 0.0 {
            evidence += &format!(", {:.0} of them on pages given back before", split.again);
        }
        if untraced {
            evidence += ", all counted as anonymous: the program was not traced";
        }
        estimates.push(CostEstimate::priced(CostKind::AnonFaults, ns, evidence));
        let zeroing = split.anon * zero_ns + split.huge * huge_zero_ns;
        let pages = split.anon + split.huge * pages_per_huge;
        let evidence = format!("{} x {}", counted(pages, "page"), micros(zero_ns));
        estimates.push(CostEstimate::priced(CostKind::Zeroing, zeroing, evidence));
    }
    estimates
}
