//! What fork costs in addition to the copied pages: the page tables.
//!
//! fork(2) copies a page-table entry for each private page that the parent has touched, while the parent
//! waits. Counted are the anonymous pages resident at each fork of the look, less the share that was on huge
//! pages at the end: there one entry covers 512 pages. vfork and posix_spawn copy none.

use super::{CostEstimate, counted, micros};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{LookFindings, TracedProcess};
use pagewise_model::machine::Machine;
use pagewise_model::price::SessionPrices;

pub(super) fn estimate(
    look: &LookFindings,
    prices: &SessionPrices,
    machine: &Machine,
) -> Option<CostEstimate> {
    let (traced, price) = (look.traced.known()?, prices.fork_page_ns.known()?.median);
    let page = machine.base_page_bytes.bytes() as f64;
    let entries: f64 = traced.processes.iter().map(|p| small_bytes(p) / page).sum();
    let forks: u64 = traced.processes.iter().map(|process| process.forks).sum();
    let bytes = traced.processes.iter().map(|p| p.forked_bytes).fold(Bytes(0), |a, b| a + b);
    let evidence = format!(
        "{} of {bytes} in all, {} x {}; fewer on huge pages, none by posix_spawn or vfork",
        counted(forks as f64, "fork"),
        match entries.round() {
            one if one < 2.0 => "1 entry".to_owned(),
            many => format!("{many:.0} entries"),
        },
        micros(price)
    );
    (forks > 0 && entries >= 1.0)
        .then(|| CostEstimate::priced(CostKind::Fork, entries * price, evidence))
}

/// What forks of a process copied entries of base pages for.
fn small_bytes(process: &TracedProcess) -> f64 {
    let huge = process.anon_huge_bytes.0 as f64 / process.anon_bytes.0.max(1) as f64;
    process.forked_bytes.0 as f64 * (1.0 - huge.clamp(0.0, 1.0))
}
