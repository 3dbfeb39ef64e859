//! Copies, mapping calls and wake-ups.
//!
//! The kernel counts bytes through read-like and write-like calls, not where they went. In a tree
//! with pipes between its processes, what goes through them is written once and read once inside
//! the tree, so it is at most the smaller of the two sums, and is taken as that. All other bytes
//! are file data. A voluntary context switch is one wake-up: the program stopped and was woken.

use super::typical::Typical;
use super::{Estimate, micros};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::CostKind;
use pagewise_model::look::{Look, MapChurn, PipeSeen};
use pagewise_model::machine::Machine;
use pagewise_model::price::Prices;

pub(super) fn estimate(look: &Look, run: &Typical, prices: &Prices) -> Vec<Estimate> {
    let traced = look.traced.known();
    let has_pipes = traced.is_some_and(|t| t.pipes.iter().any(is_inside));
    let piped = if has_pipes { run.read_bytes.min(run.written_bytes) } else { 0.0 };
    let filed = run.read_bytes + run.written_bytes - 2.0 * piped;
    let copies = |kind, bytes: f64, kib_ns: f64| {
        (bytes > 0.0).then(|| {
            let evidence = format!("{} x {} per KiB", Bytes(bytes as u64), micros(kib_ns));
            Estimate::priced(kind, bytes / Bytes::kib(1).0 as f64 * kib_ns, evidence)
        })
    };
    let mut estimates = Vec::new();
    estimates.extend(copies(CostKind::PipeCopies, piped, prices.pipe_copy_kib_ns.median));
    estimates.extend(copies(CostKind::FileCopies, filed, prices.file_copy_kib_ns.median));
    let churns = traced.iter().flat_map(|t| &t.processes).map(|p| &p.churn);
    estimates.extend(map_unmap(churns, prices));
    estimates
}

/// Both ends are held inside the tree, by different processes.
fn is_inside(pipe: &PipeSeen) -> bool {
    !pipe.inherited && pipe.writers.iter().any(|w| pipe.readers.iter().any(|r| r != w))
}

fn map_unmap<'a>(churns: impl Iterator<Item = &'a MapChurn>, prices: &Prices) -> Option<Estimate> {
    let calls: f64 = churns
        .map(|c| {
            let changes = c.brk_grow_calls + c.brk_shrink_calls + c.dontneed_calls;
            (c.mmap_calls + c.munmap_calls + c.mremap_calls + changes) as f64
        })
        .sum();
    let call_ns = prices.map_unmap_ns.median / 2.0;
    (calls > 0.0).then(|| {
        let evidence = format!("{calls:.0} calls x {}", micros(call_ns));
        Estimate::priced(CostKind::MapUnmap, calls * call_ns, evidence)
    })
}

pub(super) fn wakeups(run: &Typical, prices: &Prices, machine: &Machine) -> Option<Estimate> {
    let same = prices.wakeup_same_ns.median;
    let (price, which) = match prices.wakeup_cross_ns.known() {
        Some(cross) if machine.cpus.len() > 1 => (cross.median, " between CPUs"),
        _ => (same, ""),
    };
    let count = run.voluntary_switches;
    (count > 0.0 && price > 0.0).then(|| {
        let evidence = format!("{count:.0} wake-ups x {}{which}", micros(price));
        // Waiting cannot take longer than the run.
        Estimate::priced(CostKind::Wakeups, (count * price).min(run.wall_ns), evidence)
    })
}
