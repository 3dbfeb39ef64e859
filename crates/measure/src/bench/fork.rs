//! What fork(2) costs a parent (`bench fork`), by the memory that it has touched, on base and on huge pages.
//!
//! fork copies the page tables of private memory (`copy_page_range`, mm/memory.c): one entry for each base
//! page, one for each huge page. Afterwards parent and child share all pages, write-protected. Each first
//! write of the parent is then a fault that copies (`do_wp_page`). On a huge page the first write splits its
//! mapping and copies a base page (`do_huge_pmd_wp_page`, since Linux 5.8).
//!
//! A sample: a fresh mapping, all of it touched, its page size proven by the kernel; one fork; while the
//! child waits, one write to each base page; the child ends. Both are timed by the CPU time of the calling
//! thread, on one CPU, in rounds of random order. Creating the socket pair to the child is part of the time
//! (about 10 us).
//!
//! Not seen: what the child pays; the flush of other CPUs' TLBs in a program with many threads; memory that
//! fork need not copy because it is shared or marked MADV_DONTFORK.

use crate::bench::frame::{
    self, BenchCallbacks, BenchCost, BenchRounds, SampleTurn, Sampled, Slot,
};
use crate::error::PriceError;
use crate::kernels::touch;
use crate::kinds::MachinePageSizes;
use crate::sample::time_cpu;
use pagewise_kernel::SysError;
use pagewise_kernel::own_usage;
use pagewise_kernel::worker::ForkedWorker;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::fork::{ForkBenchReport, ForkPoint, ForkSample};
use pagewise_model::{Bytes, Fact, Nanos};

/// Time of a sample in addition to its memory.
const START: Nanos = Nanos::millis(2);
/// Time for each byte that is touched, forked, and written again, in picoseconds: at most, on base pages.
const PER_BYTE_PS: u64 = 800;

#[derive(Debug, Clone)]
pub struct ForkBenchRequest {
    pub kinds: Vec<PageKind>,
    /// Memory that the parent touches.
    pub sizes: Vec<Bytes>,
    /// Fresh mappings of each point.
    pub repeats: u32,
    /// The short form.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
}

/// A plan for this machine: the result, still without samples.
#[derive(Debug)]
pub struct ForkPlan {
    forks: ForkBenchReport,
    kinds: MachinePageSizes,
}

impl ForkPlan {
    /// The requested plan, limited to the pages and the memory of this machine.
    ///
    /// # Errors
    /// If the machine does not report its memory, or nothing is left to measure.
    pub fn new(mut request: ForkBenchRequest) -> Result<Self, PriceError> {
        let kinds = MachinePageSizes::here();
        let cpu = frame::cpus()?[0];
        // The writes copy the touched memory, so it counts twice.
        let most = Bytes(frame::allowed_memory()?.bytes.0 / 2);
        let (pages, unavailable) = frame::available(&request.kinds, |kind| kinds.try_one(kind));
        request.kinds = pages;
        let points = points(&request, kinds, most);
        if points.is_empty() {
            let missing = unavailable.first().map(|m| (m.pages.name(), m.why.as_str()));
            let otherwise = format!("no size that was asked for fits into {most}");
            return Err(frame::nothing(missing, &otherwise));
        }
        let forks = ForkBenchReport {
            seed: request.seed,
            repeats: request.repeats,
            quick: request.quick,
            cpu,
            base_page_bytes: kinds.base(),
            huge_page_bytes: kinds.huge(),
            points,
            unavailable,
            judgement: None,
        };
        Ok(Self { forks, kinds })
    }

    #[must_use]
    pub fn cost(&self) -> BenchCost {
        let ForkBenchReport { points, repeats, quick, .. } = &self.forks;
        let time =
            |point: &ForkPoint| START.0 + point.size_bytes.0.saturating_mul(PER_BYTE_PS) / 1000;
        let once: u64 = points.iter().map(time).sum();
        let largest = points.iter().map(|point| point.size_bytes).max().unwrap_or_default();
        let about = Nanos(once.saturating_mul(u64::from(*repeats)));
        BenchCost::of_mappings(points.len(), (*repeats, *quick), about, Bytes(2 * largest.0))
    }
}

/// Every size on every kind of page, as far as whole pages of the kind fit.
fn points(request: &ForkBenchRequest, kinds: MachinePageSizes, most: Bytes) -> Vec<ForkPoint> {
    let fits = |kind: PageKind, size: Bytes| {
        kinds.resident(kind, size) == size && size >= Bytes(kinds.huge().bytes()) && size <= most
    };
    let on = |kind: &PageKind| {
        let sizes = request.sizes.iter().filter(|size| fits(*kind, **size));
        sizes.map(|size| ForkPoint::new(*kind, *size)).collect::<Vec<_>>()
    };
    request.kinds.iter().flat_map(on).collect()
}

/// Measures all points of `plan`. If the caller stops it or the time limit passes, the result contains the
/// samples so far. Points that lack samples say why.
#[must_use]
pub fn run(plan: &ForkPlan, callbacks: BenchCallbacks<'_, ForkPoint>) -> ForkBenchReport {
    let mut forks = plan.forks.clone();
    let mut rounds = BenchRounds::begin(callbacks, &plan.cost(), "all mappings");
    for repeat in 0..forks.repeats {
        rounds.round(&mut forks.points, repeat, slot, |_, point, turn| {
            frame::still_free(Bytes(2 * point.size_bytes.0))?;
            frame::on_cpu(forks.cpu, || take(point, plan.kinds, turn))
        });
    }
    forks
}

/// Takes a sample on the calling thread, which should be pinned.
fn take(point: &ForkPoint, kinds: MachinePageSizes, turn: SampleTurn<'_>) -> Sampled<ForkSample> {
    turn.stop.check()?;
    let mut region = kinds.map(point.pages, point.size_bytes)?;
    region.populate()?;
    let page = kinds.prove(point.pages, &region)?;
    let base = kinds.base().bytes() as usize;
    let (fork_ns, child) = time_cpu(|| ForkedWorker::start(|_| Ok(0.0)));
    let child = child?;
    let before = thread_faults()?;
    let (writes_ns, ()) = time_cpu(|| touch::write_pages(region.as_mut_slice(), base));
    let write_faults = thread_faults()?.saturating_sub(before);
    drop(child);
    let SampleTurn { repeat, place, .. } = turn;
    Ok((ForkSample { repeat, place, fork_ns, writes_ns, write_faults }, Fact::Known(page)))
}

/// Minor faults of this thread so far.
fn thread_faults() -> Result<u64, SysError> {
    own_usage::thread_faults().map_err(|errno| SysError::new("getrusage", "this thread", errno))
}

/// The parts of a point that the frame fills in.
fn slot(point: &mut ForkPoint) -> Slot<'_, ForkSample> {
    (&mut point.samples, &mut point.page_bytes, &mut point.refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::StopCheck;

    fn request() -> ForkBenchRequest {
        let kinds = vec![PageKind::Base, PageKind::Thp];
        let sizes = [4, 16].map(Bytes::mib).to_vec();
        ForkBenchRequest { kinds, sizes, repeats: 3, quick: true, seed: 1 }
    }

    fn taken(kind: PageKind, size: Bytes) -> Sampled<ForkSample> {
        let (kinds, point) = (MachinePageSizes::here(), ForkPoint::new(kind, size));
        let turn = SampleTurn { repeat: 0, place: 0, stop: StopCheck(&|| false) };
        std::thread::scope(|scope| scope.spawn(|| take(&point, kinds, turn)).join())
            .expect("no panic")
    }

    #[test]
    fn each_base_page_is_copied_by_one_fault() {
        let size = Bytes::mib(8);
        let (sample, page) = taken(PageKind::Base, size).expect("memory");
        let pages = size.pages(MachinePageSizes::here().base());
        assert_eq!(page, Fact::Known(MachinePageSizes::here().base()));
        assert!((pages..pages + 8).contains(&sample.write_faults), "{sample:?}, {pages} pages");
        assert!(sample.fork_ns > 1000.0 && sample.writes_ns > 1000.0, "{sample:?}");
    }

    #[test]
    fn plans_hold_what_fits() {
        let plan = ForkPlan::new(request()).expect("base pages");
        let has = |kind| plan.forks.points.iter().filter(|point| point.pages == kind).count();
        assert_eq!(has(PageKind::Base), 2);
        assert_eq!(plan.cost().memory_bytes, Bytes::mib(32));
        let small = ForkBenchRequest { sizes: vec![Bytes::kib(64)], ..request() };
        assert!(
            ForkPlan::new(small).expect_err("too small").to_string().contains("nothing to measure")
        );
    }
}
