//! One sample of private memory of this process: mapped, touched, unmapped.
//!
//! The memory lies between guards, so that `smaps` shows it alone. The two calls for that (about 3 us) are
//! part of the set-up. One thread is the usual case. Several threads share the mapping, each with its own
//! part, as the threads of a program share a heap. They begin together, and the time runs from the first
//! beginning to the last end. One of them maps and unmaps.
//!
//! mTHP sizes are selected by the shape of the mappings. The kernel takes the largest enabled size that fits
//! the mapping and is aligned (mm/memory.c, `alloc_anon_folio`; mm/huge_memory.c, `thp_vma_suitable_orders`).
//! So each stretch of the next larger size gets a hole of the wanted size with the opposite advice. The hole
//! becomes a separate mapping, and nothing larger fits between the holes.

use super::child::{self, MappingCycle, PagemapCounter, PhaseCost, SamplePhases, spend, unmetered};
use crate::error::PriceError;
use crate::gate::{self, GatedThread};
use crate::kernels::touch;
use crate::kinds::MachinePageSizes;
use crate::sample::StopCheck;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::userfault::MissingPageServer;
use pagewise_kernel::{SysError, affinity, clock, page_size};
use pagewise_model::bench::PageKind;
use pagewise_model::bench::memory::MemoryBenchWay;
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::io::Errno;
use rustix::mm::Advice;
use std::sync::atomic::{AtomicBool, Ordering};

/// What to make and how to touch it.
#[derive(Debug, Clone)]
pub(super) struct AnonymousJob {
    pub(super) way: MemoryBenchWay,
    /// Whole huge pages for each thread.
    pub(super) size: Bytes,
    /// Bytes from one touch to the next.
    pub(super) stride: usize,
    /// One for each thread.
    pub(super) cpus: Vec<u32>,
    /// Holes that keep larger pages away.
    pub(super) holes: Option<MappingHoles>,
    pub(super) kinds: MachinePageSizes,
}

/// A hole at the beginning of each stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappingHoles {
    pub(super) stretch: Bytes,
    pub(super) hole: Bytes,
}

/// Takes the sample on the calling thread, which is pinned to the first CPU.
pub(super) fn take(job: &AnonymousJob, stop: StopCheck<'_>) -> Result<SamplePhases, PriceError> {
    stop.check()?;
    let (mut setup, region) = spend(|| make(job)).map_err(unmetered)?;
    let mut region = region?;
    let worked = if job.cpus.len() > 1 {
        together(job, region.as_mut_slice())?
    } else {
        alone(job, &mut region)?
    };
    setup += worked.setup;
    let page = prove(job, &region, worked.touch.faults);
    let (teardown, ()) = spend(|| drop(region)).map_err(unmetered)?;
    Ok(SamplePhases {
        setup,
        touch: worked.touch,
        teardown,
        resident: worked.resident,
        page: page?,
    })
}

/// What came of the work on a mapping that is there.
#[derive(Debug)]
struct WorkedMapping {
    /// Filling it.
    setup: PhaseCost,
    touch: PhaseCost,
    /// Between the two.
    resident: Fact<Bytes>,
}

fn make(job: &AnonymousJob) -> Result<MemoryRegion, SysError> {
    match (job.way, job.holes) {
        (MemoryBenchWay::Thp, _) => MemoryRegion::new(job.size, RegionPages::Huge),
        (MemoryBenchWay::MapPopulate, _) => MemoryRegion::populated(job.size),
        (_, Some(holes)) => {
            let mut region = MemoryRegion::new(job.size, RegionPages::Huge)?;
            let (stretch, hole) = (holes.stretch.0 as usize, holes.hole.0 as usize);
            for start in (0..region.size().0 as usize).step_by(stretch) {
                region.advise_range(start..start + hole, Advice::LinuxNoHugepage)?;
            }
            Ok(region)
        }
        _ => MemoryRegion::new(job.size, RegionPages::Base),
    }
}

fn alone(job: &AnonymousJob, region: &mut MemoryRegion) -> Result<WorkedMapping, PriceError> {
    let huge = job.kinds.huge().bytes() as usize;
    let (setup, touch, resident) = if job.way == MemoryBenchWay::PopulatePieces {
        let mut sum = (PhaseCost::default(), PhaseCost::default());
        for piece in region.as_mut_slice().chunks_mut(huge) {
            sum.0 += populate(piece)?;
            sum.1 += access(job, piece)?;
        }
        (sum.0, sum.1, Fact::missing("each piece is used before the next is populated"))
    } else {
        let setup = match job.way {
            MemoryBenchWay::PopulateWrite => populate(region.as_mut_slice())?,
            MemoryBenchWay::Willneed => {
                let (spent, done) = spend(|| region.advise(Advice::WillNeed)).map_err(unmetered)?;
                done.map(|()| spent)?
            }
            _ => PhaseCost::default(),
        };
        let resident = Fact::from(region.residency().map(|found| found.rss));
        (setup, access(job, region.as_mut_slice())?, resident)
    };
    Ok(WorkedMapping { setup, touch, resident })
}

fn populate(part: &mut [u8]) -> Result<PhaseCost, PriceError> {
    let (spent, done) = spend(|| touch::populate(part)).map_err(unmetered)?;
    done.map_err(PriceError::sys("madvise", "MADV_POPULATE_WRITE"))?;
    Ok(spent)
}

/// Touches `part`, holes left out.
fn access(job: &AnonymousJob, part: &mut [u8]) -> Result<PhaseCost, PriceError> {
    let touched = || match job.holes {
        None => touch::write_pages(part, job.stride),
        Some(holes) => {
            for stretch in part.chunks_mut(holes.stretch.0 as usize) {
                let used = stretch.get_mut(holes.hole.0 as usize..).unwrap_or_default();
                touch::write_pages(used, job.stride);
            }
        }
    };
    spend(touched).map(|(spent, ())| spent).map_err(unmetered)
}

/// The cost of one thread's part.
#[derive(Debug)]
struct ThreadCost {
    setup: PhaseCost,
    touch: PhaseCost,
}

/// All threads on their parts of `memory`.
fn together(job: &AnonymousJob, memory: &mut [u8]) -> Result<WorkedMapping, PriceError> {
    let each = memory.len() / job.cpus.len();
    let parts = memory.chunks_exact_mut(each.max(1)).zip(job.cpus.iter().copied()).collect();
    let shares = gate::together(parts, |(part, cpu), at| work(job, part, cpu, at))?;
    Ok(WorkedMapping {
        setup: join(shares.iter().map(|share| share.setup)),
        touch: join(shares.iter().map(|share| share.touch)),
        resident: Fact::missing("not measured with several threads"),
    })
}

/// All shares together: from the first beginning to the last end.
fn join(shares: impl Iterator<Item = PhaseCost>) -> PhaseCost {
    let (mut sum, mut end) =
        (PhaseCost { begin: Nanos(u64::MAX), ..PhaseCost::default() }, Nanos(0));
    for share in shares {
        sum += share;
        sum.begin = sum.begin.min(share.begin);
        end = end.max(share.end());
    }
    sum.wall = Nanos(end.0.saturating_sub(sum.begin.0));
    sum
}

/// One of several threads.
fn work(
    job: &AnonymousJob,
    part: &mut [u8],
    cpu: u32,
    at: &GatedThread<'_>,
) -> Result<ThreadCost, PriceError> {
    affinity::set(0, &[cpu])?;
    at.pass(1)?;
    let setup = match job.way {
        MemoryBenchWay::PopulateWrite => populate(part)?,
        _ => PhaseCost { begin: clock::now(), ..PhaseCost::default() },
    };
    at.pass(2)?;
    Ok(ThreadCost { setup, touch: access(job, part)? })
}

/// The size of the pages that the kernel gave. An error if the way is about another size.
fn prove(
    job: &AnonymousJob,
    region: &MemoryRegion,
    faults: u64,
) -> Result<Fact<PageSize>, PriceError> {
    match job.way {
        MemoryBenchWay::Thp => job.kinds.prove(PageKind::Thp, region).map(Fact::Known),
        MemoryBenchWay::Mthp { page_bytes } => prove_by_faults(job, page_bytes, faults),
        MemoryBenchWay::MapPopulate => Ok(region
            .proven_page()?
            .map_or_else(|| Fact::missing("pages of several sizes"), Fact::Known)),
        _ => job.kinds.prove(PageKind::Base, region).map(Fact::Known),
    }
}

/// Page sizes between base and huge do not show in `smaps`. The number of faults that filled the mapping
/// gives their size.
fn prove_by_faults(
    job: &AnonymousJob,
    page: PageSize,
    faults: u64,
) -> Result<Fact<PageSize>, PriceError> {
    let used = job.holes.map_or(job.size.0, |holes| {
        job.size.0 / holes.stretch.0.max(1) * (holes.stretch.0 - holes.hole.0)
    });
    let expected = used / page.bytes();
    if faults <= expected + expected / 10 {
        return Ok(Fact::Known(page));
    }
    let text = format!("the kernel gave other pages: {faults} faults instead of {expected}");
    Err(PriceError::Unavailable(text))
}

// One sample of memory that a fork shares: the child writes to each page, and each write copies.
//
// This process fills the memory and forks (the set-up, which also copies its page tables). The child writes
// and unmaps. Since Linux 5.8 the first write to a shared huge page splits its mapping and copies a base page
// (mm/huge_memory.c, `do_huge_pmd_wp_page`), so the other writes fault as well. The number of faults shows
// this.

/// Pages of the small cycle.
const SMALL: u64 = 32;

/// Takes a sample of `size` on pages of a kind in a child of the calling thread, on its CPU.
pub(super) fn take_copy(
    kinds: MachinePageSizes,
    kind: PageKind,
    size: Bytes,
) -> Result<SamplePhases, PriceError> {
    let mut all = kinds.map(kind, size)?;
    all.populate()?;
    kinds.prove(kind, &all)?;
    let mut few = kinds.map(PageKind::Base, Bytes(SMALL * kinds.base().bytes()))?;
    few.populate()?;
    let (small, len) = (few.size().0 as usize, all.size().0 as usize);
    let (mut few, mut all) = (Some(few), Some(all));
    let mut present = PagemapCounter::new();
    let cycle = |wanted| {
        let memory = if wanted == small { few.take() } else { all.take() };
        write_and_unmap(memory.ok_or(Errno::INVAL)?, &mut present)
    };
    let (fork, worker) = spend(|| child::start(cycle, small, len)).map_err(unmetered)?;
    let mut cycle = child::run(&worker?)?;
    cycle.setup = fork;
    let page = copied_page(kinds, size, cycle.touch.faults);
    Ok(cycle.taken(Fact::Known(page)))
}

fn write_and_unmap(
    mut memory: MemoryRegion,
    present: &mut PagemapCounter,
) -> Result<MappingCycle, Errno> {
    let len = memory.size().0 as usize;
    let page = page_size::base().bytes() as usize;
    let before = present.count(memory.as_ptr() as u64, len).ok();
    let (touch, ()) = spend(|| touch::write_pages(memory.as_mut_slice(), page))?;
    let (teardown, ()) = spend(|| drop(memory))?;
    Ok(MappingCycle { touch, teardown, present: before, ..MappingCycle::default() })
}

/// The pages that were copied, by the number of faults.
fn copied_page(kinds: MachinePageSizes, size: Bytes, faults: u64) -> PageSize {
    if faults > size.pages(kinds.base()) / 2 { kinds.base() } else { kinds.huge() }
}

// One sample of memory whose faults another thread of this process resolves.
//
// The resolving thread waits with poll(2) and read(2), and copies a page of zeroes for each fault, as in
// userfaultfd(2). It runs on a second CPU if there is one, so that each fault is two wake-ups across CPUs.
// The kernel counts such a fault as a major one, so the number of filled pages replaces the fault count.

/// The answering thread looks this often whether all is touched.
const PATIENCE: Nanos = Nanos::millis(5);

/// Takes the sample on the calling thread, which is pinned to the first of `cpus`.
pub(super) fn take_answered(
    kinds: MachinePageSizes,
    size: Bytes,
    cpus: &[u32],
) -> Result<SamplePhases, PriceError> {
    let make = || {
        let region = MemoryRegion::new(size, RegionPages::Base)?;
        let missing = MissingPageServer::open()?;
        missing.register(region.as_ptr() as u64, region.size().0)?;
        Ok::<_, SysError>((region, missing))
    };
    let (setup, made) = spend(make).map_err(unmetered)?;
    let (mut region, missing) = made?;
    let resident = Fact::from(region.residency().map(|found| found.rss));
    let over = AtomicBool::new(false);
    let helper = cpus.get(1).or(cpus.first()).copied().unwrap_or(0);
    let (touched, answered) = std::thread::scope(|scope| {
        let work = || answer(missing, helper, &over);
        // If it cannot be started, the descriptor is closed and no fault waits for it.
        let answering = std::thread::Builder::new().spawn_scoped(scope, work);
        let page = kinds.base().bytes() as usize;
        let touched = spend(|| touch::write_pages(region.as_mut_slice(), page));
        over.store(true, Ordering::Release);
        let answered = match answering {
            Ok(thread) => thread.join().map_err(|_| PriceError::ThreadLost).flatten(),
            Err(error) => Err(SysError::new("clone", "a thread", error).into()),
        };
        (touched, answered)
    });
    let (mut touch, ()) = touched.map_err(unmetered)?;
    let answered = answered?;
    touch.faults = answered.pages;
    touch.cpu += answered.cpu;
    let page = region.proven_page()?;
    let (teardown, ()) = spend(|| drop(region)).map_err(unmetered)?;
    let page = page.map_or_else(|| Fact::missing("pages of several sizes"), Fact::Known);
    Ok(SamplePhases { setup, touch, teardown, resident, page })
}

/// The work of the resolving thread.
#[derive(Debug)]
struct ResolverWork {
    pages: u64,
    cpu: Nanos,
}

/// Resolves faults until `over`. The descriptor is closed on every exit path.
fn answer(
    missing: MissingPageServer,
    cpu: u32,
    over: &AtomicBool,
) -> Result<ResolverWork, PriceError> {
    affinity::set(0, &[cpu])?;
    let start = clock::thread_cpu();
    let mut pages = 0;
    while !over.load(Ordering::Acquire) {
        pages += u64::from(missing.answer(PATIENCE)?);
    }
    Ok(ResolverWork { pages, cpu: Nanos(clock::thread_cpu().0.saturating_sub(start.0)) })
}
