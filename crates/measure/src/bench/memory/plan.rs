//! What will be touched, and how long it takes. Shown before anything starts.

use super::pool::ReservedPool;
use super::split::SplitRepeats;
use super::ways::{self, MthpSizes};
use crate::bench::frame::{self, BenchCost};
use crate::error::PriceError;
use crate::kinds::MachinePageSizes;
use pagewise_kernel::limits;
use pagewise_model::bench::memory::{MemoryBenchPoint, MemoryBenchReport, MemoryBenchWay};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};

/// Why there is nothing of a part.
const NOT_ASKED: &str = "not requested";
/// The name on the command line for splitting a huge page.
const SPLIT: &str = "split";
/// The name on the command line for populating when memory is short.
const PRESSURE: &str = "pressure";
/// The file that is populated there.
const PRESSED: Bytes = Bytes::mib(64);
const QUICK_PRESSED: Bytes = Bytes::mib(16);
/// Default size of a mapping: more than private caches hold. Limited to a share of the available memory.
const SIZE: Bytes = Bytes::mib(128);
const QUICK_SIZE: Bytes = Bytes::mib(16);
const SHARE: u64 = 8;
/// Most memory whose faults another thread resolves: each fault is two wake-ups.
const ANSWERED: Bytes = Bytes::mib(2);
/// One page in this many is used if most of a populated mapping is unused.
const SELDOM: u64 = 10;
/// Threads at most: beyond, contention is the same and the mapping would be cut too small.
const MOST_THREADS: usize = 16;
/// Memory touched and freed before a mapping, as a multiple of what the mapping takes.
const BEFORE: f64 = 1.25;
/// Time for each base page that is filled, touched and given back, for estimates.
const PAGE_NS: u64 = 1_200;
/// Time of a repeat of the splitting.
const SPLITTING: Nanos = Nanos::millis(30);
/// Time of a mapping in addition to its pages: threads, a child, checking its pages.
const START: Nanos = Nanos::millis(4);
#[derive(Debug, Clone)]
pub struct MemoryBenchRequest {
    /// Only these [`words`]; all where empty.
    pub only: Vec<String>,
    /// Size of each mapping, rounded up to whole huge pages for each thread. `None` for the default size,
    /// less if memory is short.
    pub size: Option<Bytes>,
    /// Most threads.
    pub threads: u32,
    /// Fresh mappings of each point.
    pub repeats: u32,
    /// Smaller mappings and a cap of 18 s.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
}

/// What may be asked for: every way, the splitting of a huge page, and populating where memory is short.
#[must_use]
pub fn words() -> Vec<&'static str> {
    let mut words: Vec<&str> = MemoryBenchWay::ALL.iter().map(|way| way.into_str()).collect();
    words.extend([
        MemoryBenchWay::Mthp { page_bytes: PageSize::BASE_64K }.into_str(),
        SPLIT,
        PRESSURE,
    ]);
    words
}

/// A plan for this machine: the result, still without samples.
#[derive(Debug)]
pub struct MemoryBenchPlan {
    pub(super) touches: MemoryBenchReport,
    only: Vec<String>,
    pub(super) kinds: MachinePageSizes,
    pub(super) sizes: MthpSizes,
    pub(super) pool: ReservedPool,
}

impl MemoryBenchPlan {
    /// The requested plan, limited to the pages and the memory of this machine.
    ///
    /// # Errors
    /// If the machine does not report its memory, or nothing is left to measure.
    pub fn new(request: MemoryBenchRequest) -> Result<Self, PriceError> {
        let kinds = MachinePageSizes::here();
        let cpus = frame::cpus()?;
        let most = limits::own_memory()?;
        let threads = threads(cpus.len().min(request.threads as usize));
        let unit = kinds.huge().bytes() * threads.last().copied().unwrap_or(1) as u64;
        let usual = if request.quick { QUICK_SIZE } else { SIZE };
        let size = request.size.unwrap_or_else(|| usual.min(Bytes(most.bytes.0 / SHARE)));
        let size = Bytes(size.0.max(1).checked_next_multiple_of(unit).unwrap_or(u64::MAX));
        let touches = MemoryBenchReport {
            seed: request.seed,
            repeats: request.repeats,
            quick: request.quick,
            cpus,
            size_bytes: size,
            most_bytes: most.bytes,
            bound_by: most.bound_by,
            base_page_bytes: kinds.base(),
            huge_page_bytes: kinds.huge(),
            points: Vec::new(),
            unavailable: Vec::new(),
            host: Vec::new(),
            split: Fact::missing(NOT_ASKED),
            shared_pool: Fact::missing("no file on hugetlbfs was touched"),
            pressure: Fact::missing(NOT_ASKED),
            judgement: None,
        };
        let (sizes, pool) = (MthpSizes::here(kinds), ReservedPool::here(kinds.huge()));
        let mut plan = Self { touches, only: request.only, kinds, sizes, pool };
        plan.add_points(&threads);
        plan.check()?;
        Ok(plan)
    }

    /// The CPU for everything that needs only one.
    pub(super) fn first_cpu(&self) -> u32 {
        self.touches.cpus.first().copied().unwrap_or(0)
    }

    fn add_points(&mut self, threads: &[usize]) {
        let sized: Vec<MemoryBenchWay> = self.sizes.ways().collect();
        let (first, rest) = MemoryBenchWay::ALL.split_at(2);
        let all = first.iter().copied().chain(sized).chain(rest.iter().copied());
        let wanted: Vec<MemoryBenchWay> = all.filter(|way| self.is_asked(way.into_str())).collect();
        let try_way = |way| ways::try_way(way, self.kinds, &self.sizes, &self.pool);
        let (there, missing) = frame::available(&wanted, try_way);
        self.touches.unavailable = missing;
        there.into_iter().for_each(|way| self.add_way(way, threads));
    }

    fn is_asked(&self, word: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|asked| asked == word)
    }

    /// Whether a huge page is split.
    pub(super) fn has_split(&self) -> bool {
        self.is_asked(SPLIT)
    }

    /// Size of the file that is populated when memory is short. `None` if that was not requested.
    pub(super) fn pressed(&self) -> Option<Bytes> {
        let size = if self.touches.quick { QUICK_PRESSED } else { PRESSED };
        self.is_asked(PRESSURE).then_some(size)
    }

    fn add_way(&mut self, way: MemoryBenchWay, threads: &[usize]) {
        let mut shapes = vec![(1, 1)];
        if way == MemoryBenchWay::MapPopulate {
            shapes.push((SELDOM, 1));
        }
        if matches!(
            way,
            MemoryBenchWay::OnDemand | MemoryBenchWay::Thp | MemoryBenchWay::PopulateWrite
        ) {
            shapes.extend(threads.iter().skip(1).map(|threads| (1, *threads)));
        }
        let points = shapes.into_iter().map(|(every, threads)| self.point(way, every, threads));
        let points: Vec<MemoryBenchPoint> = points.collect();
        self.touches.points.extend(points);
    }

    fn point(&self, way: MemoryBenchWay, every_pages: u64, threads: usize) -> MemoryBenchPoint {
        let (base, huge) = (self.kinds.base(), self.kinds.huge());
        let mapped_bytes = match way {
            way if way.is_pool() => self.pool.share_of(self.size()),
            MemoryBenchWay::Userfaultfd => self.size().min(ANSWERED),
            _ => self.size(),
        };
        let touchable = match way {
            MemoryBenchWay::Mthp { page_bytes } => {
                let holes = self.sizes.holes(page_bytes);
                let used = holes.stretch.0 - holes.hole.0;
                Bytes(self.size().0 / holes.stretch.0.max(1) * used)
            }
            _ => mapped_bytes,
        };
        let used_pages = touchable.pages(base).div_ceil(every_pages);
        MemoryBenchPoint {
            way,
            every_pages,
            threads: u32::try_from(threads).unwrap_or(u32::MAX),
            mapped_bytes,
            used_pages,
            page_bytes: Fact::missing("not touched"),
            expected_faults: expected_faults(way, used_pages, touchable, huge),
            samples: Vec::new(),
            refused: None,
        }
    }

    /// Whether there is anything to do, and memory for it.
    fn check(&self) -> Result<(), PriceError> {
        if self.touches.points.is_empty() && !self.has_split() && self.pressed().is_none() {
            let missing = self.touches.unavailable.first().map(|m| (m.way.label(), &m.why));
            let missing = missing.as_ref().map(|(way, why)| (way.as_str(), why.as_str()));
            return Err(frame::nothing(missing, "no way was chosen"));
        }
        let cost = self.cost();
        if cost.memory_bytes > self.touches.most_bytes {
            return Err(PriceError::Unavailable(format!(
                "mappings of {} take {} with their preparation, and only {} is available ({})",
                self.size(),
                cost.memory_bytes,
                self.touches.most_bytes,
                self.touches.bound_by
            )));
        }
        Ok(())
    }

    /// Size of each mapping.
    #[must_use]
    pub const fn size(&self) -> Bytes {
        self.touches.size_bytes
    }

    #[must_use]
    pub fn cost(&self) -> BenchCost {
        let repeats = u64::from(self.touches.repeats);
        let splitting = if self.has_split() { SPLITTING } else { Nanos(0) };
        // Two passes over the file, each from the device and once more.
        let pages = self.pressed().unwrap_or_default().pages(self.kinds.base());
        let pressed = Nanos(pages.saturating_mul(4 * PAGE_NS));
        let once = self.touches.points.iter().fold(splitting, |sum, point| sum + self.time(point));
        let about = Nanos(once.0.saturating_mul(repeats)) + pressed;
        let largest = self.touches.points.iter().map(|point| self.before(point)).max();
        let split = if self.has_split() { SplitRepeats::memory(self.kinds) } else { Bytes(0) };
        let file = if self.needs_file() { self.size() } else { Bytes(0) };
        let pressed = self.pressed().unwrap_or_default();
        let memory = (largest.unwrap_or_default().max(split) + file).max(pressed);
        let MemoryBenchReport { points, repeats, quick, .. } = &self.touches;
        BenchCost::of_mappings(points.len(), (*repeats, *quick), about, memory)
    }

    pub(super) fn needs_file(&self) -> bool {
        self.touches.points.iter().any(|point| point.way.is_file())
    }

    /// Bytes to touch and free before a mapping of this point is made.
    pub(super) fn before(&self, point: &MemoryBenchPoint) -> Bytes {
        let taken = match point.way {
            way if way.is_file() || way.is_pool() => 0,
            MemoryBenchWay::ForkCow | MemoryBenchWay::ForkCowHuge => {
                self.size().0.saturating_mul(2)
            }
            _ => self.size().0,
        };
        Bytes((taken as f64 * BEFORE) as u64)
    }

    fn time(&self, point: &MemoryBenchPoint) -> Nanos {
        let pages = (self.before(point) + self.size()).pages(self.kinds.base());
        let is_huge = matches!(point.way, MemoryBenchWay::Thp | MemoryBenchWay::ForkCowHuge)
            || point.way.is_pool();
        let each = if is_huge { PAGE_NS / 4 } else { PAGE_NS };
        Nanos(pages.saturating_mul(each)) + START
    }
}

/// Faults that one access to each page used must take.
fn expected_faults(
    way: MemoryBenchWay,
    used_pages: u64,
    touchable: Bytes,
    huge: PageSize,
) -> Fact<u64> {
    match way {
        MemoryBenchWay::OnDemand
        | MemoryBenchWay::Willneed
        | MemoryBenchWay::ForkCow
        | MemoryBenchWay::Userfaultfd => Fact::Known(used_pages),
        MemoryBenchWay::Thp
        | MemoryBenchWay::PoolMap
        | MemoryBenchWay::PoolMemfd
        | MemoryBenchWay::PoolShm
        | MemoryBenchWay::PoolFile => Fact::Known(touchable.pages(huge)),
        MemoryBenchWay::Mthp { page_bytes } => Fact::Known(touchable.pages(page_bytes)),
        MemoryBenchWay::MapPopulate
        | MemoryBenchWay::PopulateWrite
        | MemoryBenchWay::PopulatePieces
        | MemoryBenchWay::FilePopulateRead => Fact::Known(0),
        MemoryBenchWay::FileFaultAround | MemoryBenchWay::FileWillneed => {
            Fact::missing("the kernel decides how many pages one fault maps")
        }
        MemoryBenchWay::ForkCowHuge => {
            Fact::missing("the kernel decides whether it copies a huge page or base pages")
        }
    }
}

/// The powers of two up to the number of CPUs.
fn threads(cpus: usize) -> Vec<usize> {
    (0..usize::BITS)
        .map(|bits| 1 << bits)
        .take_while(|n| *n <= cpus.clamp(1, MOST_THREADS))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(only: &[&str]) -> MemoryBenchRequest {
        MemoryBenchRequest {
            only: only.iter().map(|word| (*word).to_owned()).collect(),
            size: Some(Bytes::mib(4)),
            threads: 1,
            repeats: 3,
            quick: false,
            seed: 1,
        }
    }

    #[test]
    fn a_plan_says_what_it_takes() {
        let plan =
            MemoryBenchPlan::new(request(&["on-demand", "map-populate"])).expect("base pages");
        let cost = plan.cost();
        assert_eq!((cost.points, cost.samples), (3, 9));
        assert!(cost.cap_ns > cost.about_ns && cost.memory_bytes > plan.size(), "{cost:?}");
        let seldom =
            plan.touches.points.iter().find(|p| p.every_pages == SELDOM).expect("the waste");
        let pages = plan.size().pages(plan.kinds.base());
        assert_eq!(seldom.used_pages, pages.div_ceil(SELDOM));
        let quick = MemoryBenchPlan::new(MemoryBenchRequest { quick: true, ..request(&[]) })
            .expect("base pages")
            .cost();
        assert!(quick.cap_ns < Nanos::secs(20), "{quick:?}");
    }

    #[test]
    fn what_is_too_large_is_no_plan() {
        for size in [Bytes(1 << 50), Bytes(u64::MAX)] {
            let size = Some(size);
            let error = MemoryBenchPlan::new(MemoryBenchRequest {
                size,
                ..request(&["on-demand", "fork-cow", "mthp"])
            });
            let error = error.expect_err("too large").to_string();
            assert!(error.contains("is available"), "{error}");
        }
    }

    #[test]
    fn who_wants_none_gets_the_reason() {
        let plan = MemoryBenchPlan::new(request(&["on-demand"])).expect("base pages");
        assert_eq!(plan.touches.split.reason(), Some("not requested"));
        assert!(!plan.has_split() && plan.pressed().is_none());
    }

    #[test]
    fn threads_are_powers_of_two() {
        assert_eq!(threads(1), [1]);
        assert_eq!(threads(6), [1, 2, 4]);
        assert_eq!(threads(1000).last(), Some(&MOST_THREADS));
    }
}
