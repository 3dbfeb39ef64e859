//! Walks through memory (`bench tlb`): what a load costs that depends on the load before, by size of set, by
//! order and by page size; and how much of it is address translation.
//!
//! There are two kinds of paths. **Lists** fill a set with elements side by side, as programs' lists and
//! trees do. They cost caches and translation together. **Lines** are one cache line on each of a number of
//! pages. The same number of lines packed together costs the same in the caches and nearly nothing in
//! translation. So the difference is translation, and where it rises a TLB has run out. Base pages are taken
//! 17 apart: processors join translations of neighbouring pages into one entry, which would show more entries
//! than exist. An odd distance still reaches every set of a TLB. The lines of successive pages use all sets
//! of the first cache in turn.
//!
//! Every sample is a fresh mapping, made, linked, walked and unmapped on a thread pinned to one CPU. The
//! points are measured in rounds, each in a new random order. So the free pages are mixed in between, and a
//! disturbance of some seconds hits one sample of many points. After the walk `smaps` must show all of the
//! mapping on pages of the requested size. Otherwise the sample is dropped.
//!
//! Linux gives anonymous memory huge pages if it has the advice (mm/huge_memory.c), and pool pages by
//! `MAP_HUGETLB`. Not seen: loads that overlap, as in most programs (they hide much of what is measured
//! here), and instruction TLBs. In a virtual machine the page size of the host is seen only through the cost
//! of translation.

mod bandwidth;
mod grid;
mod layout;

pub(crate) use grid::{apart, steps};

use crate::bench::frame::{
    self, BenchCallbacks, BenchCost, BenchRounds, PIECES, SampleTurn, Sampled, Slot,
};
use crate::error::PriceError;
use crate::kernels::list::{ChaseList, ChaseListBuilder};
use crate::kinds::MachinePageSizes;
use crate::sample::time_cpu;
use layout::TlbLayout;
use pagewise_kernel::{SysError, tlb, topology};
use pagewise_model::bench::PageKind;
use pagewise_model::bench::tlb::{
    AccessOrder, ClaimedTlb, DataCache, LINE, TlbBenchReport, TlbPath, TlbPoint, TlbSample,
};
use pagewise_model::{Bytes, Fact, Nanos};

/// Time of a mapping in addition to its memory and its loads: thread, checking its pages.
const START: Nanos = Nanos::millis(1);
/// Time for each byte that is made present, and for each element that is linked, in picoseconds.
const PER_BYTE_PS: u64 = 350;
const PER_ELEMENT_PS: u64 = 4_000;
/// Time of a load in a cache and beyond, for estimates.
const CACHED_NS: u64 = 10;
const UNCACHED_NS: u64 = 100;
/// Warm-up loads: the least number, and the number if no cache holds the set.
const FEWEST_WARM: u64 = 20_000;
const UNCACHED_WARM: u64 = 1 << 16;
/// Loads of the stretch that sizes the pieces, and the bounds of a piece in loads.
const STRETCH: u64 = 10_000;
const FEWEST: f64 = 1_000.0;
const MOST: f64 = 4_000_000.0;
/// Repeats of the bandwidth in the short form.
const QUICK_RATES: u32 = 6;
/// Odd, so that every place of the order has a different key.
const KEY_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Which parts are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlbParts {
    /// Lists over growing sets.
    pub lists: bool,
    /// Lines on a growing number of pages, for the reach of the TLB.
    pub lines: bool,
    /// Read, write and copy bandwidth.
    pub bandwidth: bool,
}

impl TlbParts {
    pub const ALL: Self = Self { lists: true, lines: true, bandwidth: true };
}

#[derive(Debug, Clone)]
pub struct TlbBenchRequest {
    pub parts: TlbParts,
    pub kinds: Vec<PageKind>,
    /// Orders of lists.
    pub orders: Vec<AccessOrder>,
    /// Words of padding of their elements; with the pointer a power of two.
    pub npads: Vec<u32>,
    /// Smallest set of lists.
    pub smallest: Bytes,
    pub largest: Bytes,
    /// Fresh mappings of each point.
    pub repeats: u32,
    /// Coarser steps and a cap of 18 s.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
}

/// A plan for this machine: the result, still without samples.
#[derive(Debug)]
pub struct TlbPlan {
    walks: TlbBenchReport,
    kinds: MachinePageSizes,
    cpus: Vec<u32>,
    /// Rounds that end with a repeat of the bandwidth.
    rate_repeats: u32,
}

impl TlbPlan {
    /// The requested plan, limited to the pages and the memory of this machine.
    ///
    /// # Errors
    /// If the machine does not report its memory, or nothing is left to measure.
    pub fn new(mut request: TlbBenchRequest) -> Result<Self, PriceError> {
        let kinds = MachinePageSizes::here();
        let cpus = frame::cpus()?;
        let most = frame::allowed_memory()?;
        let (pages, unavailable) = frame::available(&request.kinds, |kind| kinds.try_one(kind));
        request.kinds = pages;
        let TlbBenchRequest { parts, repeats, quick, seed, .. } = request;
        let mut points = Vec::new();
        if parts.lists {
            points.extend(grid::lists(&request, kinds, most.bytes));
        }
        if parts.lines {
            points.extend(grid::lines(&request, kinds, most.bytes));
        }
        if points.is_empty() && !parts.bandwidth {
            let missing = unavailable.first().map(|m| (m.pages.name(), m.why.as_str()));
            let otherwise = format!("no requested set fits into {}", most.bytes);
            return Err(frame::nothing(missing, &otherwise));
        }
        let rate_repeats = match (parts.bandwidth, quick) {
            (false, _) => 0,
            (true, true) => repeats.min(QUICK_RATES),
            (true, false) => repeats,
        };
        let walks = TlbBenchReport {
            seed,
            repeats,
            quick,
            cpu: cpus[0],
            most_bytes: most.bytes,
            bound_by: most.bound_by,
            base_page_bytes: kinds.base(),
            huge_page_bytes: kinds.huge(),
            points,
            unavailable,
            bandwidth: bandwidth::BandwidthRounds::new(&cpus, most.bytes).finish(),
            claimed: claimed_tlbs(cpus[0]),
            caches: caches(cpus[0]),
            judgement: None,
        };
        Ok(Self { walks, kinds, cpus, rate_repeats })
    }

    /// Whether the last cache holds the lines of a point.
    fn is_cached(&self, point: &TlbPoint) -> bool {
        let bytes = match point.path {
            TlbPath::List { .. } => point.set_bytes(),
            TlbPath::Lines { .. } => Bytes(point.elements.saturating_mul(LINE.0)),
        };
        self.walks.caches.last().is_some_and(|cache| bytes <= cache.size_bytes)
    }

    #[must_use]
    pub fn cost(&self) -> BenchCost {
        let TlbBenchReport { points, repeats, quick, most_bytes, .. } = &self.walks;
        let once: u64 = points.iter().map(|point| self.time(point).0).sum();
        let rates = bandwidth::time(self.cpus.len()).0 * u64::from(self.rate_repeats);
        let about = once.saturating_mul(u64::from(*repeats)).saturating_add(rates);
        let sets = points.iter().map(|point| self.resident(point)).max().unwrap_or_default();
        let buffers = bandwidth::memory(self.cpus.len(), *most_bytes);
        let memory = if self.rate_repeats > 0 { sets.max(buffers) } else { sets };
        BenchCost::of_mappings(points.len(), (*repeats, *quick), Nanos(about), memory)
    }

    /// The memory that one mapping of a point takes.
    fn resident(&self, point: &TlbPoint) -> Bytes {
        let base = self.kinds.base().bytes();
        let set = match (point.path, point.pages) {
            (TlbPath::Lines { apart_bytes }, PageKind::Base) if apart_bytes.0 > base => {
                Bytes(point.elements.saturating_mul(base))
            }
            _ => point.set_bytes(),
        };
        self.kinds.resident(point.pages, set)
    }

    fn time(&self, point: &TlbPoint) -> Nanos {
        let memory = self.resident(point).0.saturating_mul(PER_BYTE_PS) / 1000;
        let linking = point.elements.saturating_mul(PER_ELEMENT_PS) / 1000;
        let is_cached = self.is_cached(point);
        let load = if is_cached { CACHED_NS } else { UNCACHED_NS };
        let warm = warm(point.elements, is_cached).saturating_mul(load);
        let pieces = frame::piece(self.walks.quick).0 * u64::from(PIECES);
        Nanos(memory) + Nanos(linking) + Nanos(warm) + Nanos(pieces) + START
    }

    /// Where the elements of a point lie in the sample of this turn.
    fn layout(
        &self,
        point: &TlbPoint,
        turn: SampleTurn<'_>,
        rounds: &mut BenchRounds<'_, TlbPoint>,
    ) -> TlbLayout {
        let kinds = self.kinds;
        let (order, page) = match point.path {
            TlbPath::List { .. } => (Vec::new(), kinds.base()),
            TlbPath::Lines { apart_bytes } => {
                let order = rounds.shuffled(point.elements as usize);
                let has_huge = apart_bytes.0 >= kinds.huge().bytes();
                (order, if has_huge { kinds.huge() } else { kinds.base() })
            }
        };
        let key = u64::from(turn.place).wrapping_mul(KEY_STEP).wrapping_add(self.walks.seed);
        TlbLayout::new(point.path, point.elements, key, order, page)
    }

    /// Takes a sample on the calling thread, which should be pinned: a fresh mapping that is linked, walked,
    /// checked and unmapped.
    ///
    /// One lap comes first (or its beginning, if no cache holds the set), so that caches and translations
    /// reach their steady state. Then a short stretch determines the number of loads in a piece. The clock is
    /// the thread's CPU time. It excludes other work on this CPU, but not the effect of that work on the
    /// caches. Memory of a pool is populated before it is touched: beyond a cgroup's hugetlb limit a touch
    /// would raise `SIGBUS`, while the call returns an error.
    fn take(
        &self,
        point: &TlbPoint,
        layout: &TlbLayout,
        turn: SampleTurn<'_>,
    ) -> Sampled<TlbSample> {
        let stop = turn.stop;
        stop.check()?;
        let mut region = self.kinds.map(point.pages, layout.span())?;
        // Lines on base pages touch only few of the pages around them.
        if matches!(point.path, TlbPath::List { .. }) || point.pages != PageKind::Base {
            region.populate()?;
        }
        let mut links = ChaseListBuilder::new(region);
        layout.link(&mut links, || stop.check())?;
        let list = links.close();
        let warm = warm(point.elements, self.is_cached(point));
        let at = follow(&list, layout.first(), warm)?;
        let (ns, at) = time_cpu(|| follow(&list, at, STRETCH));
        let piece = frame::piece(self.walks.quick).0 as f64;
        let steps = (piece * STRETCH as f64 / ns.max(1.0)).clamp(FEWEST, MOST) as u64;
        let mut at = at?;
        let values = frame::pieces(stop, || {
            let (ns, next) = time_cpu(|| follow(&list, at, steps));
            at = next?;
            Ok(ns / steps as f64)
        })?;
        let page = self.kinds.prove(point.pages, list.region())?;
        let measured = frame::summary(&values, "the walk")?;
        let (load_ns, within_share) = (measured.median, measured.spread_share());
        let SampleTurn { repeat, place, .. } = turn;
        Ok((TlbSample { repeat, place, load_ns, within_share }, Fact::Known(page)))
    }
}

/// Walks all points of `plan`, with one bandwidth repeat after each round. If the caller stops it or the time
/// limit passes, the result contains the samples so far. Points that lack samples say why.
#[must_use]
pub fn run(plan: &TlbPlan, callbacks: BenchCallbacks<'_, TlbPoint>) -> TlbBenchReport {
    let mut walks = plan.walks.clone();
    let mut rounds = BenchRounds::begin(callbacks, &plan.cost(), "all walks");
    let mut rates = bandwidth::BandwidthRounds::new(&plan.cpus, walks.most_bytes);
    for repeat in 0..walks.repeats {
        rounds.round(&mut walks.points, repeat, slot, |rounds, point, turn| {
            frame::still_free(plan.resident(point))?;
            let layout = plan.layout(point, turn, rounds);
            frame::on_cpu(walks.cpu, || plan.take(point, &layout, turn))
        });
        if repeat < plan.rate_repeats && !rounds.is_over() {
            rates.step();
        }
    }
    walks.bandwidth = rates.finish();
    walks
}

/// Warm-up loads before the walk of `elements` elements. `is_cached` says whether the last cache holds them.
fn warm(elements: u64, is_cached: bool) -> u64 {
    let lap = if is_cached { elements } else { elements.min(UNCACHED_WARM) };
    lap.max(FEWEST_WARM)
}

fn follow(list: &ChaseList, from: usize, steps: u64) -> Result<usize, PriceError> {
    let last = list.walk(from, steps);
    last.ok_or_else(|| SysError::malformed("walk", "a list in memory").into())
}

fn caches(cpu: u32) -> Vec<DataCache> {
    let found = topology::data_caches(cpu).unwrap_or_default();
    found.into_iter().map(|(level, size_bytes)| DataCache { level, size_bytes }).collect()
}

/// What a CPU reports about its TLBs. On processors with cores of several kinds each core reports its own.
pub(crate) fn claimed_tlbs(cpu: u32) -> Vec<ClaimedTlb> {
    let asked = frame::on_cpu(cpu, || Ok(tlb::claimed()));
    let one = |found: tlb::CpuidTlb| ClaimedTlb {
        level: found.level,
        side: found.side,
        page_bytes: found.page_sizes(),
        entries: found.entries,
        scaled_entries: found.scaled,
    };
    asked.unwrap_or_default().into_iter().map(one).collect()
}

/// The parts of a point that the frame fills in.
fn slot(point: &mut TlbPoint) -> Slot<'_, TlbSample> {
    (&mut point.samples, &mut point.page_bytes, &mut point.refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::StopCheck;

    fn request() -> TlbBenchRequest {
        TlbBenchRequest {
            parts: TlbParts { lists: true, lines: false, bandwidth: false },
            kinds: vec![PageKind::Base],
            orders: vec![AccessOrder::Random],
            npads: vec![7],
            smallest: Bytes::kib(1),
            largest: Bytes::mib(1),
            repeats: 10,
            quick: false,
            seed: 1,
        }
    }

    #[test]
    fn a_plan_says_what_it_takes() {
        let plan = TlbPlan::new(request()).expect("base pages");
        let cost = plan.cost();
        assert_eq!((cost.points, cost.samples), (11, 110));
        assert_eq!(cost.memory_bytes, Bytes::mib(1));
        assert!(cost.cap_ns > cost.about_ns && cost.about_ns > Nanos::millis(500), "{cost:?}");
        let quick =
            TlbPlan::new(TlbBenchRequest { quick: true, ..request() }).expect("base pages").cost();
        assert!(quick.cap_ns < Nanos::secs(20), "{quick:?}");
    }

    #[test]
    fn nothing_is_no_plan() {
        let beyond =
            TlbBenchRequest { smallest: Bytes(1 << 62), largest: Bytes(1 << 63), ..request() };
        let error = TlbPlan::new(beyond).expect_err("too large").to_string();
        assert!(error.contains("nothing to measure"), "{error}");
    }

    #[test]
    fn lines_take_the_pages_that_they_touch() {
        let plan = TlbPlan::new(request()).expect("base pages");
        let base = plan.kinds.base();
        let path = TlbPath::Lines { apart_bytes: apart(base) };
        let point = TlbPoint::new(path, PageKind::Base, 100);
        assert_eq!(plan.resident(&point), Bytes(100 * base.bytes()));
    }

    fn taken(stop: &'static (dyn Fn() -> bool + Sync)) -> Sampled<TlbSample> {
        let plan = TlbPlan::new(TlbBenchRequest { quick: true, ..request() }).expect("base pages");
        let point = TlbPoint::new(
            TlbPath::List { order: AccessOrder::Random, npad: 7 },
            PageKind::Base,
            64,
        );
        let turn = SampleTurn { repeat: 0, place: 0, stop: StopCheck(stop) };
        let layout = TlbLayout::new(point.path, 64, 1, Vec::new(), plan.kinds.base());
        std::thread::scope(|scope| scope.spawn(|| plan.take(&point, &layout, turn)).join())
            .expect("no panic")
    }

    #[test]
    fn a_sample_has_a_time_and_a_proven_page() {
        let (sample, page) = taken(&|| false).expect("memory");
        assert!(sample.load_ns > 0.0 && sample.within_share >= 0.0, "{sample:?}");
        assert_eq!(page, Fact::Known(MachinePageSizes::here().base()));
    }

    #[test]
    fn a_lap_goes_before_where_a_cache_holds_the_set() {
        assert_eq!(warm(4, true), FEWEST_WARM);
        assert_eq!((warm(1 << 20, true), warm(1 << 20, false)), (1 << 20, UNCACHED_WARM));
    }

    #[test]
    fn who_wants_no_more_gets_none() {
        assert!(matches!(taken(&|| true), Err(PriceError::Interrupted)));
    }
}
