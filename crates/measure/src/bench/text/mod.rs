//! Jumps through generated code (`bench text`): what a jump costs by the size of the code, on base pages and
//! on huge pages, and from how many pages on the instruction TLB runs out.
//!
//! An element of code lies on one line of each page, and jumps to the next one ([`chain`](crate::kernels)).
//! There are two random orders, with each element once in a lap. *Repeated*: every element leads to the same
//! one each time. A branch predictor learns that, the processor fetches ahead, and most of the translation
//! cost is hidden. *Changing*: each lap has another order. The target is known only when the jump is
//! executed, so the translation cost shows in full. Real programs are in between.
//!
//! The used line goes through all lines of a page in turn, rotated by a hash for each such round. So all sets
//! of the instruction caches are used equally on contiguous and on scattered memory. The same lines at the
//! same addresses on larger pages cost the same in caches and branch predictors: the difference is
//! translation.
//!
//! For the knees the elements are 17 base pages apart, because processors join translations of neighbouring
//! pages. On huge pages each element has its own huge page. Both are compared with as many elements on few
//! huge pages. Every sample is a fresh mapping: written, closed to writing, then executed on a thread pinned
//! to one CPU. Rounds are in random order. After the run, `smaps` must show all of the mapping on pages of
//! the requested size. The sum of each run proves that every element was executed.
//!
//! Linux gives private memory huge pages if the mapping has the advice, and keeps them when the memory is
//! closed (`change_huge_pmd`). A TLB does not distinguish pages of files. Not seen: translations that the
//! processor skips because it has the decoded instructions (some op caches are looked up by virtual address).
//! In a virtual machine, the page size of the host is not seen either.

mod grid;
mod misses;

use crate::bench::frame::{
    self, BenchCallbacks, BenchCost, BenchRounds, PIECES, SampleTurn, Sampled, Slot,
};
use crate::bench::tlb::claimed_tlbs;
use crate::error::PriceError;
use crate::kernels::chain::{INSTRUCTIONS, IS_KNOWN, JumpChain, JumpRoute};
use crate::kinds::MachinePageSizes;
use crate::sample::time_cpu;
use misses::ItlbMissCounter;
use pagewise_kernel::SysError;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::text::{JumpOrder, TextBenchPoint, TextBenchReport, TextBenchSample};
use pagewise_model::{Bytes, Fact, Nanos};

/// Time of a mapping in addition to its memory and its jumps: thread, closing, checking its pages.
const START: Nanos = Nanos::millis(1);
/// Time for each byte that is made present, in picoseconds, and for each element of a route.
const PER_BYTE_PS: u64 = 350;
const PER_STEP_NS: u64 = 15;
/// Time of a jump among few elements and among many, for estimates.
const NEAR_NS: u64 = 10;
const FAR_NS: u64 = 60;
const MANY: u64 = 1024;
/// A route has at least this many jumps, in at least this many laps, so that no predictor learns a route of
/// changing laps.
const STEPS: u64 = 1 << 14;
const FEWEST_LAPS: u64 = 2;
/// Most times through the route in a piece.
const MOST: f64 = 10_000.0;

/// Which parts are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextBenchParts {
    /// Code of growing size.
    pub sizes: bool,
    /// A growing number of pages, for the reach of the TLB.
    pub knees: bool,
}

impl TextBenchParts {
    pub const ALL: Self = Self { sizes: true, knees: true };
}

#[derive(Debug, Clone)]
pub struct TextBenchRequest {
    pub parts: TextBenchParts,
    pub kinds: Vec<PageKind>,
    /// The orders in which code of growing size is executed.
    pub orders: Vec<JumpOrder>,
    /// Smallest code.
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
pub struct TextBenchPlan {
    jumps: TextBenchReport,
    kinds: MachinePageSizes,
}

impl TextBenchPlan {
    /// The requested plan, limited to the pages and the memory of this machine.
    ///
    /// # Errors
    /// If there is no code for this architecture, if no generated code may be executed, or if nothing is left
    /// to measure.
    pub fn new(mut request: TextBenchRequest) -> Result<Self, PriceError> {
        let kinds = MachinePageSizes::here();
        may_execute(kinds)?;
        let cpu = frame::cpus()?[0];
        let most = frame::allowed_memory()?;
        let (pages, unavailable) = frame::available(&request.kinds, |kind| kinds.try_one(kind));
        request.kinds = pages;
        let points = grid::points(&request, kinds, most.bytes);
        if points.is_empty() {
            let missing = unavailable.first().map(|m| (m.pages.name(), m.why.as_str()));
            let otherwise = format!("no requested code size fits into {}", most.bytes);
            return Err(frame::nothing(missing, &otherwise));
        }
        let jumps = TextBenchReport {
            seed: request.seed,
            repeats: request.repeats,
            quick: request.quick,
            cpu,
            most_bytes: most.bytes,
            bound_by: most.bound_by,
            base_page_bytes: kinds.base(),
            huge_page_bytes: kinds.huge(),
            points,
            unavailable,
            counter: misses::event(),
            claimed: claimed_tlbs(cpu),
            judgement: None,
        };
        Ok(Self { jumps, kinds })
    }

    #[must_use]
    pub fn cost(&self) -> BenchCost {
        let TextBenchReport { points, repeats, quick, .. } = &self.jumps;
        let once: u64 = points.iter().map(|point| self.time(point).0).sum();
        let about = Nanos(once.saturating_mul(u64::from(*repeats)));
        let memory = points.iter().map(|point| self.resident(point)).max().unwrap_or_default();
        BenchCost::of_mappings(points.len(), (*repeats, *quick), about, memory)
    }

    /// The memory that one mapping of a point takes. Of base pages far apart, only the touched ones count.
    fn resident(&self, point: &TextBenchPoint) -> Bytes {
        let base = self.kinds.base().bytes();
        match point.pages {
            PageKind::Base => Bytes(point.jumps.saturating_mul(base)),
            _ => self.kinds.resident(point.pages, point.set_bytes()),
        }
    }

    fn time(&self, point: &TextBenchPoint) -> Nanos {
        let memory = self.resident(point).0.saturating_mul(PER_BYTE_PS) / 1000;
        let steps = laps(point.jumps) * point.jumps;
        let jump = if point.jumps < MANY { NEAR_NS } else { FAR_NS };
        let lap = steps.saturating_mul(jump);
        let pieces = frame::piece(self.jumps.quick).0.max(lap) * u64::from(PIECES);
        Nanos(memory) + Nanos(steps * PER_STEP_NS) + Nanos(2 * lap + pieces) + START
    }

    /// Takes a sample on the calling thread, which should be pinned: a fresh mapping that is written, closed,
    /// run, checked and unmapped. `order` is that of the elements, in all laps.
    ///
    /// One pass through the route comes first, so that caches, predictors and translations reach their steady
    /// state. A second pass determines how many passes fill a piece of time. Each pass checks the sum of all
    /// executed elements. Misses of the instruction TLB are counted over the pieces, if the processor counts
    /// them.
    fn take(
        &self,
        point: &TextBenchPoint,
        order: &[usize],
        turn: SampleTurn<'_>,
    ) -> Sampled<TextBenchSample> {
        turn.stop.check()?;
        let chain = written(point, self.kinds)?;
        let route = chain.route(order);
        through(&route, 1)?;
        let (once_ns, done) = time_cpu(|| through(&route, 1));
        done?;
        let times = frame::times(frame::piece(self.jumps.quick), once_ns, MOST);
        let jumps = (route.jumps() * times).max(1);
        let misses = ItlbMissCounter::count().ok();
        let values = frame::pieces(turn.stop, || {
            let (ns, done) = time_cpu(|| through(&route, times));
            done.map(|()| ns / jumps as f64)
        })?;
        let instructions = INSTRUCTIONS * jumps * u64::from(PIECES);
        let misses = misses.and_then(|misses| misses.per_1000(instructions));
        let page = self.kinds.prove(point.pages, chain.region())?;
        let measured = frame::summary(&values, "the chain")?;
        let sample = TextBenchSample {
            repeat: turn.repeat,
            place: turn.place,
            jump_ns: measured.median,
            within_share: measured.spread_share(),
            misses_per_1000_instructions: misses,
        };
        Ok((sample, Fact::Known(page)))
    }
}

/// Runs all points of `plan`. If the caller stops it or the time limit passes, the result contains the
/// samples so far. Points that lack samples say why.
#[must_use]
pub fn run(plan: &TextBenchPlan, callbacks: BenchCallbacks<'_, TextBenchPoint>) -> TextBenchReport {
    let mut jumps = plan.jumps.clone();
    let mut rounds = BenchRounds::begin(callbacks, &plan.cost(), "all mappings");
    for repeat in 0..jumps.repeats {
        rounds.round(&mut jumps.points, repeat, slot, |rounds, point, turn| {
            frame::still_free(plan.resident(point))?;
            let order = laps_of(point, rounds);
            frame::on_cpu(jumps.cpu, || plan.take(point, &order, turn))
        });
    }
    jumps
}

/// Laps of a route of `jumps` elements.
const fn laps(jumps: u64) -> u64 {
    let laps = STEPS.div_ceil(if jumps == 0 { 1 } else { jumps });
    if laps < FEWEST_LAPS { FEWEST_LAPS } else { laps }
}

/// All laps of a point, each element once in each.
fn laps_of(point: &TextBenchPoint, rounds: &mut BenchRounds<'_, TextBenchPoint>) -> Vec<usize> {
    let (count, laps) = (point.jumps as usize, laps(point.jumps) as usize);
    match point.order {
        JumpOrder::Repeated => rounds.shuffled(count).repeat(laps),
        JumpOrder::Changing => (0..laps).flat_map(|_| rounds.shuffled(count)).collect(),
    }
}

/// The code of a point in a fresh mapping.
fn written(point: &TextBenchPoint, kinds: MachinePageSizes) -> Result<JumpChain, PriceError> {
    let base = kinds.base();
    let places = grid::places(point.apart_bytes, point.jumps, base);
    let mut region = kinds.map(point.pages, point.set_bytes())?;
    // Base pages far apart are touched one by one, and those between them never.
    if point.pages != PageKind::Base || point.apart_bytes.0 <= base.bytes() {
        region.populate()?;
    }
    Ok(JumpChain::write(region, places)?)
}

/// Runs the route `times` times.
fn through(route: &JumpRoute<'_>, times: u64) -> Result<(), PriceError> {
    let all = (0..times).all(|_| route.run());
    if all { Ok(()) } else { Err(SysError::malformed("run", "generated code").into()) }
}

/// Whether there is code here and it may be executed: one element on one page.
fn may_execute(kinds: MachinePageSizes) -> Result<(), PriceError> {
    if !IS_KNOWN {
        let text = format!(
            "this bench generates code only for x86-64, not for {}",
            std::env::consts::ARCH
        );
        return Err(PriceError::Unavailable(text));
    }
    let region = kinds.map(PageKind::Base, Bytes(kinds.base().bytes()))?;
    let refused =
        |e| PriceError::Unavailable(format!("not allowed to execute generated code: {e}"));
    JumpChain::write(region, vec![0]).map(drop).map_err(refused)
}

/// The parts of a point that the frame fills in.
fn slot(point: &mut TextBenchPoint) -> Slot<'_, TextBenchSample> {
    (&mut point.samples, &mut point.page_bytes, &mut point.refused)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::sample::StopCheck;

    fn request() -> TextBenchRequest {
        TextBenchRequest {
            parts: TextBenchParts { sizes: true, knees: false },
            kinds: vec![PageKind::Base],
            orders: vec![JumpOrder::Changing],
            smallest: Bytes::kib(64),
            largest: Bytes::mib(1),
            repeats: 10,
            quick: false,
            seed: 1,
        }
    }

    #[test]
    fn a_plan_says_what_it_takes() {
        let plan = TextBenchPlan::new(request()).expect("base pages");
        let cost = plan.cost();
        assert_eq!(cost.samples, 10 * cost.points);
        assert_eq!(cost.memory_bytes, Bytes::mib(1));
        assert!(cost.cap_ns > cost.about_ns && cost.about_ns > Nanos::millis(100), "{cost:?}");
        let quick = TextBenchPlan::new(TextBenchRequest { quick: true, ..request() })
            .expect("base pages")
            .cost();
        assert!(quick.cap_ns < Nanos::secs(20), "{quick:?}");
    }

    #[test]
    fn no_point_is_there_twice() {
        let all = TextBenchRequest {
            parts: TextBenchParts::ALL,
            kinds: vec![PageKind::Base, PageKind::Thp],
            ..request()
        };
        let plan = TextBenchPlan::new(all).expect("base pages");
        for (at, point) in plan.jumps.points.iter().enumerate() {
            assert!(!plan.jumps.points[..at].contains(point), "{point:?}");
        }
    }

    #[test]
    fn nothing_is_no_plan() {
        let beyond =
            TextBenchRequest { smallest: Bytes(1 << 61), largest: Bytes(1 << 62), ..request() };
        let error = TextBenchPlan::new(beyond).expect_err("too large").to_string();
        assert!(error.contains("nothing to measure"), "{error}");
    }

    fn point(pages: PageKind) -> TextBenchPoint {
        TextBenchPoint::new(
            JumpOrder::Repeated,
            pages,
            Bytes(MachinePageSizes::here().base().bytes()),
            16,
        )
    }

    fn taken(
        pages: PageKind,
        stop: &'static (dyn Fn() -> bool + Sync),
    ) -> Sampled<TextBenchSample> {
        let plan =
            TextBenchPlan::new(TextBenchRequest { quick: true, ..request() }).expect("base pages");
        let order: Vec<usize> = (0..16).rev().chain(0..16).collect();
        let turn = SampleTurn { repeat: 0, place: 0, stop: StopCheck(stop) };
        let take = || plan.take(&point(pages), &order, turn);
        std::thread::scope(|scope| scope.spawn(take).join()).expect("no panic")
    }

    #[test]
    fn a_sample_has_a_time_and_a_proven_page() {
        let (sample, page) = taken(PageKind::Base, &|| false).expect("memory");
        assert!(sample.jump_ns > 0.0 && sample.within_share >= 0.0, "{sample:?}");
        assert_eq!(page, Fact::Known(MachinePageSizes::here().base()));
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn executed_code_is_proven_to_be_on_huge_pages_or_refused() {
        let kinds = MachinePageSizes::here();
        match taken(PageKind::Thp, &|| false) {
            Ok((_, page)) => assert_eq!(page, Fact::Known(kinds.huge())),
            Err(error) => println!("SKIP executed_code_is_proven_to_be_on_huge_pages: {error}"),
        }
        let chain = written(&point(PageKind::Base), kinds).expect("memory");
        let refused = kinds.prove(PageKind::Thp, chain.region()).expect_err("not huge");
        assert!(refused.to_string().contains("the kernel gave pages of"), "{refused}");
    }

    #[test]
    fn a_route_is_long_and_has_laps() {
        assert_eq!((laps(16), laps(1 << 14), laps(1 << 16), laps(0)), (1024, 2, 2, STEPS));
    }

    #[test]
    fn who_wants_no_more_gets_none() {
        assert!(matches!(taken(PageKind::Base, &|| true), Err(PriceError::Interrupted)));
    }
}
