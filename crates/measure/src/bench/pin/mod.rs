//! What it costs to pin pages of a process (`bench pin`): to find the frames of a piece of its memory in the
//! page table and to hold them, on base pages and on huge pages.
//!
//! The kernel pins pages whenever it accesses memory of a process itself: vmsplice, direct I/O, registered
//! buffers, reading another process. Only a kernel built with `CONFIG_GUP_TEST` can measure pinning alone,
//! and that interface is used if present. Otherwise pinning is derived from differences:
//! - vmsplice of a piece into a pipe that is then emptied into /dev/null, against tee of as many slots into
//!   the same pipe: slots and counters are the same, only the page table is not read (`iov_iter_get_pages2`,
//!   `get_user_pages_fast`);
//! - registering the piece with io_uring and releasing it (`pin_user_pages_fast`, long-term);
//! - process_vm_readv of our own memory (`pin_user_pages_remote`), which copies: against the same copy in
//!   user space, by the instruction that the kernel copies with.
//!
//! Pieces of 4 KiB to 1 MiB step through 2 MiB, so that frames are as cold or warm as in a stream. A piece's
//! price is a line over its pages: the slope is the price of a page, the intercept the price of the call.
//!
//! Every sample is a fresh mapping whose page size the kernel has shown, on a thread pinned to one CPU, in
//! rounds of random order. The clock is that thread's CPU time. Not seen: direct I/O (the device's time hides
//! its pins), contention for the counters of frames (one thread), pages that must be faulted in first.

mod pinner;

use crate::bench::frame::{
    self, BenchCallbacks, BenchCost, BenchRounds, PIECES, SampleTurn, Sampled, Slot,
};
use crate::error::PriceError;
use crate::kinds::MachinePageSizes;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::{SysError, limits};
use pagewise_model::bench::PageKind;
use pagewise_model::bench::pin::{MissingWay, PinBenchReport, PinPoint, PinSample, PinWay};
use pagewise_model::bench::tlb::UnavailablePages;
use pagewise_model::{Bytes, Fact, Nanos};
use pinner::Pinner;

/// Memory that the pieces go through.
const REGION: Bytes = Bytes::mib(2);
/// Time of a sample in addition to its pieces: thread, mapping, checking its pages, pipes.
const START: Nanos = Nanos::millis(3);
/// Most turns of a timed piece.
const MOST: f64 = 100_000.0;

#[derive(Debug, Clone)]
pub struct PinBenchRequest {
    /// The ways to measure. The ways without pinning that they are compared with are added.
    pub ways: Vec<PinWay>,
    pub kinds: Vec<PageKind>,
    /// Bytes of a call, each a power of two and at most 1 MiB.
    pub sizes: Vec<Bytes>,
    /// Fresh mappings of each point.
    pub repeats: u32,
    /// Shorter pieces and a cap of 18 s.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
}

/// A plan for this machine: the result, still without samples.
#[derive(Debug)]
pub struct PinPlan {
    pins: PinBenchReport,
    kinds: MachinePageSizes,
}

impl PinPlan {
    /// The requested plan, limited to the pages and ways of this machine.
    ///
    /// # Errors
    /// If the machine does not report its memory, or nothing is left to measure.
    pub fn new(mut request: PinBenchRequest) -> Result<Self, PriceError> {
        let kinds = MachinePageSizes::here();
        let cpu = frame::cpus()?[0];
        let most = limits::own_memory()?.bytes;
        let (pages, unavailable) =
            frame::available(&request.kinds, |kind| try_kind(kinds, kind, most));
        let (ways, missing_ways) = frame::available(&request.ways, try_way);
        (request.kinds, request.ways) = (pages, ways);
        request.sizes.retain(|size| *size >= Bytes(kinds.base().bytes()) && *size <= REGION);
        let points = points(&request);
        if points.is_empty() {
            let way = missing_ways.first().map(|m| (m.way.name(), m.why.as_str()));
            let missing =
                way.or_else(|| unavailable.first().map(|m| (m.pages.name(), m.why.as_str())));
            return Err(frame::nothing(missing, "no size is left"));
        }
        let pins = PinBenchReport {
            seed: request.seed,
            repeats: request.repeats,
            quick: request.quick,
            cpu,
            region_bytes: REGION,
            base_page_bytes: kinds.base(),
            huge_page_bytes: kinds.huge(),
            points,
            unavailable,
            missing_ways,
            judgement: None,
        };
        Ok(Self { pins, kinds })
    }

    #[must_use]
    pub fn cost(&self) -> BenchCost {
        let PinBenchReport { points, repeats, quick, .. } = &self.pins;
        let once = START + Nanos(frame::piece(*quick).0 * u64::from(PIECES));
        let mappings = points.len() as u64 * u64::from(*repeats);
        let resident = points.iter().map(|point| self.kinds.resident(point.pages, REGION));
        let memory = resident.max().unwrap_or_default() + Bytes::mib(1);
        let about = Nanos(once.0.saturating_mul(mappings));
        BenchCost::of_mappings(points.len(), (*repeats, *quick), about, memory)
    }
}

/// Measures all points of `plan`. If the caller stops it or the time limit passes, the result contains the
/// samples so far. Points that lack samples say why.
#[must_use]
pub fn run(plan: &PinPlan, callbacks: BenchCallbacks<'_, PinPoint>) -> PinBenchReport {
    let mut pins = plan.pins.clone();
    let mut rounds = BenchRounds::begin(callbacks, &plan.cost(), "all mappings");
    let piece = frame::piece(pins.quick);
    for repeat in 0..pins.repeats {
        rounds.round(&mut pins.points, repeat, slot, |_, point, turn| {
            frame::on_cpu(pins.cpu, || take(point, plan.kinds, piece, turn))
        });
    }
    pins
}

/// Takes a sample on the calling thread, which should be pinned: a fresh mapping, proven before and after to
/// be on pages of the requested size. One turn warms up. Another determines how many turns fill a piece of
/// time.
fn take(
    point: &PinPoint,
    kinds: MachinePageSizes,
    piece: Nanos,
    turn: SampleTurn<'_>,
) -> Sampled<PinSample> {
    turn.stop.check()?;
    let too_large =
        || PriceError::Unavailable(format!("{} does not fit into memory", point.size_bytes));
    let size = usize::try_from(point.size_bytes.0).map_err(|_| too_large())?;
    let mut region = kinds.map(point.pages, REGION)?;
    region.populate()?;
    kinds.prove(point.pages, &region)?;
    let mut pinner = Pinner::new(point.way, size)?;
    pinner.turn(&region, size)?;
    let once = pinner.turn(&region, size)?;
    let count = frame::times(piece, once.call_ns + once.release_ns, MOST);
    let pieces = frame::pieces(turn.stop, || pinner.turns(count, &region, size))?;
    let page = kinds.prove(point.pages, &region)?;
    let of = |figure: fn(&pinner::PinTurn) -> f64| {
        let each = pieces.iter().map(|p| figure(p) / p.calls.max(1) as f64);
        frame::summary(&each.collect::<Vec<f64>>(), "pinning")
    };
    let sample = PinSample {
        repeat: turn.repeat,
        place: turn.place,
        call_ns: of(|turn| turn.call_ns)?.median,
        release_ns: of(|turn| turn.release_ns)?.median,
        within_share: of(|turn| turn.call_ns + turn.release_ns)?.spread_share(),
    };
    Ok((sample, Fact::Known(page)))
}

/// Takes one page of the kind, if a mapping of it leaves enough memory for others.
fn try_kind(kinds: MachinePageSizes, kind: PageKind, most: Bytes) -> Result<(), UnavailablePages> {
    let resident = kinds.resident(kind, REGION);
    if resident > most {
        return Err(UnavailablePages {
            pages: kind,
            why: format!("a mapping takes {resident}, and only {most} is available"),
            next: "try again when more memory is free".to_owned(),
        });
    }
    kinds.try_one(kind)
}

/// Every requested way and its counterpart without pinning, on every kind of page, in every size.
fn points(request: &PinBenchRequest) -> Vec<PinPoint> {
    let mut points = Vec::new();
    let wanted = |way: &PinWay| {
        request.ways.contains(way) || request.ways.iter().any(|asked| asked.without() == Some(*way))
    };
    for way in PinWay::ALL.into_iter().filter(wanted) {
        let mut kinds: Vec<PageKind> = request.kinds.iter().map(|kind| way.pages(*kind)).collect();
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            points.extend(request.sizes.iter().map(|size| PinPoint::new(way, kind, *size)));
        }
    }
    points
}

/// Pins one page by a way.
fn try_way(way: PinWay) -> Result<(), MissingWay> {
    let base = Bytes(pagewise_kernel::page_size::base().bytes());
    let taken = || {
        let size = usize::try_from(base.0).unwrap_or(0);
        let mut region = MemoryRegion::new(base, RegionPages::Base)?;
        region.populate()?;
        Pinner::new(way, size)?.turn(&region, size)
    };
    taken().map(drop).map_err(|error| MissingWay {
        way,
        next: next_step(way, &error),
        why: error.to_string(),
    })
}

fn next_step(way: PinWay, error: &PriceError) -> String {
    let errno = match error {
        PriceError::Sys(error) => SysError::errno(error),
        _ => None,
    };
    match (way, errno) {
        (PinWay::GupTest, Some(libc::ENOENT)) => {
            "as root: mount -t debugfs none /sys/kernel/debug, on a kernel with CONFIG_GUP_TEST"
        }
        (PinWay::GupTest, _) => "run as root",
        (PinWay::Register, Some(libc::ENOMEM)) => "raise RLIMIT_MEMLOCK (ulimit -l)",
        (PinWay::Register, _) => {
            "sysctl kernel.io_uring_disabled=0; in a container: allow io_uring"
        }
        (PinWay::ReadOwn, _) => "in a container: allow process_vm_readv",
        (PinWay::Vmsplice | PinWay::Tee, _) => "in a container: allow vmsplice, tee and splice",
        (PinWay::Copy, _) => "try again when more memory is free",
    }
    .to_owned()
}

/// The parts of a point that the frame fills in.
fn slot(point: &mut PinPoint) -> Slot<'_, PinSample> {
    (&mut point.samples, &mut point.page_bytes, &mut point.refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::StopCheck;

    fn request() -> PinBenchRequest {
        PinBenchRequest {
            ways: vec![PinWay::ReadOwn],
            kinds: vec![PageKind::Base],
            sizes: [64, 256].map(Bytes::kib).to_vec(),
            repeats: 10,
            quick: false,
            seed: 1,
        }
    }

    #[test]
    fn what_a_way_is_set_against_is_taken_along() {
        let kinds = vec![PageKind::Base, PageKind::Thp];
        let ways = vec![PinWay::Vmsplice, PinWay::ReadOwn];
        let points = points(&PinBenchRequest { kinds, ways, ..request() });
        let count = |way| points.iter().filter(|point| point.way == way).count();
        let counts =
            [PinWay::Vmsplice, PinWay::Tee, PinWay::ReadOwn, PinWay::Copy, PinWay::Register]
                .map(count);
        assert_eq!(counts, [4, 2, 4, 4, 0]);
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn a_plan_says_what_it_takes() {
        let plan = match PinPlan::new(request()) {
            Ok(plan) => plan,
            Err(error) => return println!("SKIP a_plan_says_what_it_takes: {error}"),
        };
        let cost = plan.cost();
        assert_eq!((cost.points, cost.samples), (4, 40));
        assert!(cost.cap_ns > cost.about_ns && cost.about_ns > Nanos::millis(100), "{cost:?}");
        let quick =
            PinPlan::new(PinBenchRequest { quick: true, ..request() }).expect("as before").cost();
        assert!(quick.cap_ns < Nanos::secs(20), "{quick:?}");
    }

    #[test]
    fn nothing_is_no_plan() {
        let beyond = PinBenchRequest { sizes: vec![Bytes(1), Bytes::gib(1)], ..request() };
        let error = PinPlan::new(beyond).expect_err("no such size").to_string();
        assert!(error.contains("nothing to measure"), "{error}");
    }

    #[test]
    fn a_way_that_is_missing_says_what_to_do() {
        for way in PinWay::ALL {
            if let Err(missing) = try_way(way) {
                assert!(!missing.why.is_empty() && !missing.next.is_empty(), "{missing:?}");
            }
        }
        let refused = |errno: i32| {
            let source = std::io::Error::from_raw_os_error(errno);
            PriceError::Sys(SysError::new("x", "y", source))
        };
        assert!(next_step(PinWay::Register, &refused(libc::ENOMEM)).contains("MEMLOCK"));
        assert!(next_step(PinWay::Register, &refused(libc::EPERM)).contains("io_uring_disabled"));
        assert!(next_step(PinWay::GupTest, &refused(libc::ENOENT)).contains("CONFIG_GUP_TEST"));
        assert!(next_step(PinWay::ReadOwn, &refused(libc::ENOSYS)).contains("process_vm_readv"));
    }

    #[test]
    fn a_sample_has_times_and_a_proven_page() {
        let point = PinPoint::new(PinWay::Copy, PageKind::Base, Bytes::kib(64));
        let taken = |stop: &'static (dyn Fn() -> bool + Sync)| {
            let turn = SampleTurn { repeat: 0, place: 0, stop: StopCheck(stop) };
            std::thread::scope(|scope| {
                scope.spawn(|| take(&point, MachinePageSizes::here(), Nanos(1000), turn)).join()
            })
            .expect("no panic")
        };
        let (sample, page) = taken(&|| false).expect("memory");
        assert!(sample.call_ns > 0.0 && sample.release_ns == 0.0, "{sample:?}");
        assert_eq!(page, Fact::Known(MachinePageSizes::here().base()));
        assert!(matches!(taken(&|| true), Err(PriceError::Interrupted)));
    }
}
