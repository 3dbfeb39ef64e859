//! Samples taken by a child: of mapped files and pool pages, where a touch may raise `SIGBUS`, and of memory
//! that a fork shares.
//!
//! Each sample has its own child (`pagewise_kernel::worker`), which runs the cycle twice: once over a few
//! pages, so that its own code, stack and tables are present, and once over all pages. It makes only system
//! calls; its figures are returned one by one.

use crate::error::PriceError;
use pagewise_kernel::own_usage::thread_faults;
use pagewise_kernel::worker::ForkedWorker;
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::bench::memory::MemoryBenchSample;
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, pread};

/// The request to go through the cycle; the others ask for a figure each.
const RUN: u64 = 0;
/// In place of a number of pages that could not be counted.
const UNKNOWN: u64 = u64::MAX;
/// Figures of a cycle.
const FIGURES: usize = 10;

/// One mapping: made, touched, given back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MappingCycle {
    pub(super) setup: PhaseCost,
    pub(super) touch: PhaseCost,
    pub(super) teardown: PhaseCost,
    /// Base pages that were mapped before the touches.
    pub(super) present: Option<u64>,
}

impl MappingCycle {
    fn figures(&self) -> [u64; FIGURES] {
        let three = |spent: PhaseCost| [spent.wall.0, spent.cpu.0, spent.faults];
        let ([a, b, c], [d, e, f]) = (three(self.setup), three(self.touch));
        let [g, h, i] = three(self.teardown);
        [a, b, c, d, e, f, g, h, i, self.present.unwrap_or(UNKNOWN)]
    }

    fn from_figures(figures: [u64; FIGURES]) -> Self {
        let spent = |at: usize| PhaseCost {
            begin: Nanos(0),
            wall: Nanos(figures[at]),
            cpu: Nanos(figures[at + 1]),
            faults: figures[at + 2],
        };
        let present = Some(figures[FIGURES - 1]).filter(|pages| *pages != UNKNOWN);
        Self { setup: spent(0), touch: spent(3), teardown: spent(6), present }
    }

    /// As a sample on pages of this size.
    pub(super) fn taken(self, page: Fact<PageSize>) -> SamplePhases {
        let base = page_size::base().bytes();
        let resident = self.present.map_or_else(
            || Fact::missing("/proc/self/pagemap could not be read"),
            |pages| Fact::Known(Bytes(pages.saturating_mul(base))),
        );
        let Self { setup, touch, teardown, .. } = self;
        SamplePhases { setup, touch, teardown, resident, page }
    }
}

/// A child that runs `cycle` on request: over `small` bytes, then over `len`.
pub(super) fn start(
    mut cycle: impl FnMut(usize) -> Result<MappingCycle, Errno>,
    small: usize,
    len: usize,
) -> Result<ForkedWorker, PriceError> {
    serve(move || {
        cycle(small)?;
        cycle(len).map(|last| last.figures())
    })
}

/// A child that does `work` on request and then returns its figures one by one.
pub(super) fn serve<const N: usize>(
    mut work: impl FnMut() -> Result<[u64; N], Errno>,
) -> Result<ForkedWorker, PriceError> {
    let mut last = [0; N];
    let serve = move |request| {
        if request == RUN {
            last = work()?;
        }
        let figure = usize::try_from(request).ok().and_then(|nth| nth.checked_sub(1));
        // Exact: no figure is above 2^53, except the one that means none.
        Ok(figure.and_then(|nth| last.get(nth).copied()).unwrap_or(0) as f64)
    };
    Ok(ForkedWorker::start(serve)?)
}

/// Has the child work; its figures.
pub(super) fn figures<const N: usize>(worker: &ForkedWorker) -> Result<[u64; N], PriceError> {
    worker.ask(RUN)?;
    let mut figures = [0; N];
    for (nth, figure) in (1..).zip(&mut figures) {
        *figure = worker.ask(nth)? as u64;
    }
    Ok(figures)
}

/// The cycle over all, as the child went through it.
pub(super) fn run(worker: &ForkedWorker) -> Result<MappingCycle, PriceError> {
    figures(worker).map(MappingCycle::from_figures)
}

// Cost of a piece of work: wall time, CPU time and minor faults of the calling thread.
//
// CPU time and faults are read outside the wall time (two system calls before and two after, about 1 us
// together). Nothing here allocates, so forked children can use it too.

/// Time and faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PhaseCost {
    /// When it began, on the monotonic clock.
    pub(super) begin: Nanos,
    pub(super) wall: Nanos,
    pub(super) cpu: Nanos,
    pub(super) faults: u64,
}

impl PhaseCost {
    /// When it ended, if it was one piece of work.
    pub(super) fn end(&self) -> Nanos {
        self.begin + self.wall
    }
}

impl std::ops::AddAssign for PhaseCost {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.faults += other.faults;
    }
}

/// What `work` took, with its result.
pub(super) fn spend<T>(work: impl FnOnce() -> T) -> Result<(PhaseCost, T), Errno> {
    let faults = thread_faults()?;
    let cpu = clock::thread_cpu();
    let begin = clock::now();
    let result = work();
    let end = clock::now();
    let spent = PhaseCost {
        begin,
        wall: Nanos(end.0.saturating_sub(begin.0)),
        cpu: Nanos(clock::thread_cpu().0.saturating_sub(cpu.0)),
        faults: thread_faults()?.saturating_sub(faults),
    };
    Ok((spent, result))
}

/// The error that this thread's usage is not available.
pub(super) fn unmetered(errno: Errno) -> PriceError {
    SysError::new("getrusage", "this thread", errno).into()
}

/// The parts of one sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SamplePhases {
    pub(super) setup: PhaseCost,
    pub(super) touch: PhaseCost,
    pub(super) teardown: PhaseCost,
    /// Bytes mapped before the touches.
    pub(super) resident: Fact<Bytes>,
    /// The size of the pages.
    pub(super) page: Fact<PageSize>,
}

impl SamplePhases {
    /// The sample as it is saved: its repeat, its place in the order, and the size of its pages.
    pub(super) fn sample(self, repeat: u32, place: u32) -> (MemoryBenchSample, Fact<PageSize>) {
        let sample = MemoryBenchSample {
            repeat,
            place,
            setup_ns: self.setup.wall,
            touch_ns: self.touch.wall,
            teardown_ns: self.teardown.wall,
            cpu_ns: self.setup.cpu + self.touch.cpu + self.teardown.cpu,
            setup_faults: self.setup.faults,
            touch_faults: self.touch.faults,
            resident_bytes: self.resident,
        };
        (sample, self.page)
    }
}

// Which pages of a range are mapped, from `/proc/self/pagemap` (bit 63 of each entry; every process may read
// its own). `mincore(2)` cannot be used: for a file it reports the page cache, not the mapping.
//
// The buffer is made before a fork, so that a child counts without allocating.

/// Bytes of an entry.
const ENTRY: usize = 8;
/// Entries read in one call.
const WINDOW: usize = 1 << 12;
/// The bit of a page that is mapped.
const PRESENT: u64 = 1 << 63;

/// The means to count.
#[derive(Debug)]
pub(super) struct PagemapCounter {
    entries: Vec<u8>,
}

impl PagemapCounter {
    pub(super) fn new() -> Self {
        Self { entries: vec![0; WINDOW * ENTRY] }
    }

    /// How many of the base pages from `address` on are mapped.
    pub(super) fn count(&mut self, address: u64, len: usize) -> Result<u64, Errno> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        // Opened each time, because a descriptor refers to the memory of the process that opened it.
        let file = rustix::fs::open(c"/proc/self/pagemap", flags, Mode::empty())?;
        let page = page_size::base().bytes();
        let mut left = len as u64 / page;
        let mut offset = address / page * ENTRY as u64;
        let mut count = 0;
        while left > 0 {
            let want = (left * ENTRY as u64).min(self.entries.len() as u64) as usize;
            let got = pread(&file, &mut self.entries[..want], offset)?;
            if got < ENTRY {
                return Err(Errno::NODATA);
            }
            let (entries, _) = self.entries[..got].as_chunks::<ENTRY>();
            let is_present = |entry: &&[u8; ENTRY]| u64::from_ne_bytes(**entry) & PRESENT != 0;
            count += entries.iter().filter(is_present).count() as u64;
            left = left.saturating_sub(entries.len() as u64);
            offset += (entries.len() * ENTRY) as u64;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::region::{MemoryRegion, RegionPages};
    use pagewise_model::Bytes;

    #[test]
    fn figures_come_back_as_they_were() {
        let spent =
            |n| PhaseCost { begin: Nanos(0), wall: Nanos(n), cpu: Nanos(n + 1), faults: n + 2 };
        let (setup, touch, teardown) = (spent(1), spent(1 << 40), spent(7));
        for present in [None, Some(0), Some(99)] {
            let cycle = MappingCycle { setup, touch, teardown, present };
            let mut calls = 0;
            let serve = |len| {
                calls += 1;
                Ok(if (calls, len) == (2, 2) { cycle } else { MappingCycle::default() })
            };
            let back = run(&start(serve, 1, 2).expect("a child")).expect("a cycle");
            assert_eq!(back.figures(), cycle.figures());
        }
    }

    #[test]
    fn an_error_of_the_child_is_reported() {
        let worker = start(|_| Err(Errno::NOMEM), 1, 2).expect("a child");
        let error = run(&worker).expect_err("no memory");
        assert!(matches!(error, PriceError::Sys(e) if e.errno() == Some(libc::ENOMEM)));
    }

    #[test]
    fn what_is_touched_is_present() {
        let page = page_size::base().bytes();
        let mut region = MemoryRegion::new(Bytes(5000 * page), RegionPages::Base).expect("memory");
        let (address, len) = (region.as_ptr() as u64, region.size().0 as usize);
        let mut present = PagemapCounter::new();
        assert_eq!(present.count(address, len), Ok(0));
        assert_eq!(region.touch(Bytes(10 * page)), 500);
        assert_eq!(present.count(address, len), Ok(500));
        assert_eq!(present.count(address, page as usize), Ok(1));
    }
}
