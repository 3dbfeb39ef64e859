//! Copies, mapping calls and wake-ups.
//!
//! The kernel counts bytes through read-like and write-like calls, not where they went. In a tree with pipes
//! between its processes, each byte in a pipe is written once and read once inside the tree. So the bytes in
//! pipes are at most the smaller of the two sums. That sum is used, in transfers of the tree's mean write
//! size. All other bytes are file data, in transfers of the mean call size. A voluntary context switch is one
//! wake-up: the program stopped and was woken.

use super::typical::TypicalRun;
use super::{CostEstimate, counted, micros};
use pagewise_model::Bytes;
use pagewise_model::diagnosis::{CostBasis, CostKind};
use pagewise_model::look::{LookFindings, MapChurn, PipeSeen};
use pagewise_model::machine::Machine;
use pagewise_model::price::{SessionPrices, TransferPoint};

/// Bytes of a KiB.
const KIB: f64 = 1024.0;

pub(super) fn estimate(
    look: &LookFindings,
    run: &TypicalRun,
    prices: &SessionPrices,
) -> Vec<CostEstimate> {
    let traced = look.traced.known();
    let has_pipes = traced.is_some_and(|t| t.pipes.iter().any(is_inside));
    let piped = if has_pipes { run.read_bytes.min(run.written_bytes) } else { 0.0 };
    let filed = run.read_bytes + run.written_bytes - 2.0 * piped;
    let copies = |kind, bytes: f64, kib_ns: f64| {
        (bytes > 0.0 && kib_ns > 0.0).then(|| {
            let evidence = format!("{} x {} per KiB", Bytes(bytes as u64), micros(kib_ns));
            CostEstimate::priced(kind, bytes / KIB * kib_ns, evidence)
        })
    };
    let mean_write = (run.write_calls > 0.0).then(|| run.written_bytes / run.write_calls);
    let calls = run.read_calls + run.write_calls;
    let mean_call = (calls > 0.0).then(|| (run.read_bytes + run.written_bytes) / calls);
    let pipe_kib_ns = price_kib(&prices.pipe_transfers, mean_write);
    let file_kib_ns = price_kib(&prices.file_reads, mean_call);
    let mut estimates = Vec::new();
    estimates.extend(copies(CostKind::PipeCopies, piped, pipe_kib_ns));
    estimates.extend(copies(CostKind::FileCopies, filed, file_kib_ns));
    let churns = traced.iter().flat_map(|t| &t.processes).map(|p| &p.churn);
    estimates.extend(map_unmap(churns, prices));
    estimates
}

/// ns per KiB in transfers of `bytes`: interpolated between the two priced sizes around it. Beyond the
/// largest size, or if the size is unknown, that size's price. 0 without prices.
fn price_kib(points: &[TransferPoint], bytes: Option<f64>) -> f64 {
    let size = |point: &TransferPoint| point.transfer_bytes.0 as f64;
    let Some(largest) = points.last() else { return 0.0 };
    let bytes = bytes.map_or(size(largest), |bytes| bytes.clamp(1.0, size(largest).max(1.0)));
    let above = points.iter().position(|point| size(point) >= bytes);
    let (high, low) = match above {
        Some(at) if at > 0 => (&points[at], &points[at - 1]),
        Some(_) => (&points[0], &points[0]),
        None => (largest, largest),
    };
    let width = size(high) - size(low);
    let way = if width > 0.0 { (bytes - size(low)) / width } else { 0.0 };
    let rise = high.transfer_ns.median - low.transfer_ns.median;
    (low.transfer_ns.median + way * rise) / bytes * KIB
}

/// Whether different processes inside the tree have the two ends open.
fn is_inside(pipe: &PipeSeen) -> bool {
    !pipe.inherited && pipe.writers.iter().any(|w| pipe.readers.iter().any(|r| r != w))
}

fn map_unmap<'a>(
    churns: impl Iterator<Item = &'a MapChurn>,
    prices: &SessionPrices,
) -> Option<CostEstimate> {
    let calls: f64 = churns
        .map(|c| {
            let changes = c.brk_grow_calls + c.brk_shrink_calls + c.dontneed_calls;
            (c.mmap_calls + c.munmap_calls + c.mremap_calls + changes) as f64
        })
        .sum();
    let call_ns = prices.map_unmap_ns.median / 2.0;
    (calls > 0.0).then(|| {
        let evidence = format!("{} x {}", counted(calls, "call"), micros(call_ns));
        CostEstimate::priced(CostKind::MapUnmap, calls * call_ns, evidence)
    })
}

pub(super) fn wakeups(
    run: &TypicalRun,
    prices: &SessionPrices,
    machine: &Machine,
) -> Option<CostEstimate> {
    let same = prices.wakeup_same_ns.median;
    let (price, which) = match prices.wakeup_cross_ns.known() {
        Some(cross) if machine.cpus.len() > 1 => (cross.median, " between CPUs"),
        _ => (same, ""),
    };
    let count = run.voluntary_switches;
    (count > 0.0 && price > 0.0).then(|| {
        let evidence = format!("{} x {}{which}", counted(count, "wake-up"), micros(price));
        // Waiting cannot take longer than the run. Only the number of wake-ups is counted. A wake-up that no
        // program waits for costs less.
        let ns = (count * price).min(run.wall_ns);
        CostEstimate { kind: CostKind::Wakeups, ns, basis: CostBasis::UpperBound, evidence }
    })
}
