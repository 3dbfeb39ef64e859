//! One sample: a fresh mapping that is written, closed, run, looked at and given back.
//!
//! One time through the route goes before, so that caches, predictors and translations hold what they hold
//! in the long run; a second says how often it makes up a piece of time. Five such pieces are timed by the
//! CPU time of the thread; the sample is their median. Each time the sum of all elements that were executed
//! is looked at. Misses of the instruction TLB are counted over the pieces, where the processor counts.

use super::layout;
use super::misses::Misses;
use crate::error::PriceError;
use crate::kernels::chain::{Chain, INSTRUCTIONS, Route};
use crate::kinds::Kinds;
use crate::sample::{Stop, time_cpu};
use pagewise_kernel::SysError;
use pagewise_model::walk::PageKind;
use pagewise_model::{Bytes, Measured, Nanos, PageSize};

/// Jumps of a route: at least so many, in at least so many laps, so that no predictor learns a route of
/// changing laps.
const STEPS: u64 = 1 << 14;
const FEWEST_LAPS: u64 = 2;
/// Timed pieces.
pub(super) const PIECES: u32 = 5;
/// Most times through the route in a piece.
const MOST: f64 = 10_000.0;

/// Laps of a route through so many elements.
pub(super) const fn laps(jumps: u64) -> u64 {
    let laps = STEPS.div_ceil(if jumps == 0 { 1 } else { jumps });
    if laps < FEWEST_LAPS { FEWEST_LAPS } else { laps }
}

/// What to run.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) pages: PageKind,
    pub(super) apart: Bytes,
    pub(super) jumps: u64,
    /// The elements in the order in which they are gone through, all laps.
    pub(super) order: Vec<usize>,
    pub(super) kinds: Kinds,
    /// Time of a piece.
    pub(super) piece: Nanos,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    pub(super) jump_ns: f64,
    pub(super) within_share: f64,
    pub(super) misses: Option<f64>,
    pub(super) page: PageSize,
}

/// Takes the sample on the calling thread, which should be pinned.
pub(super) fn take(job: &Job, stop: Stop<'_>) -> Result<Taken, PriceError> {
    stop.check()?;
    let chain = written(job)?;
    let route = chain.route(&job.order);
    through(&route, 1)?;
    let (once_ns, done) = time_cpu(|| through(&route, 1));
    done?;
    let times = (job.piece.0 as f64 / once_ns.max(1.0)).clamp(1.0, MOST) as u64;
    let jumps = (route.jumps() * times).max(1);
    let misses = Misses::count().ok();
    let mut values = Vec::with_capacity(PIECES as usize);
    for _ in 0..PIECES {
        stop.check()?;
        let (ns, done) = time_cpu(|| through(&route, times));
        done?;
        values.push(ns / jumps as f64);
    }
    let instructions = INSTRUCTIONS * jumps * u64::from(PIECES);
    let misses = misses.and_then(|misses| misses.per_1000(instructions));
    let page = job.kinds.prove(job.pages, chain.region())?;
    let measured = Measured::of(&values).ok_or(PriceError::NoRepeat { price: "the chain" })?;
    let within_share = measured.spread_share();
    Ok(Taken { jump_ns: measured.median, within_share, misses, page })
}

/// The code of a job in a fresh mapping.
fn written(job: &Job) -> Result<Chain, PriceError> {
    let base = job.kinds.base();
    let places = layout::places(job.apart, job.jumps, base);
    let mut region = job.kinds.map(job.pages, Bytes(job.jumps.saturating_mul(job.apart.0)))?;
    // Base pages far apart are touched one by one, and those between them never.
    if job.pages != PageKind::Base || job.apart.0 <= base.bytes() {
        region.populate()?;
    }
    Ok(Chain::write(region, places)?)
}

/// So many times through the route.
fn through(route: &Route<'_>, times: u64) -> Result<(), PriceError> {
    let all = (0..times).all(|_| route.run());
    if all { Ok(()) } else { Err(SysError::malformed("run", "generated code").into()) }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn job(pages: PageKind) -> Job {
        let order = (0..16).rev().chain(0..16).collect();
        let (apart, kinds) = (Bytes(Kinds::here().base().bytes()), Kinds::here());
        Job { pages, apart, jumps: 16, order, kinds, piece: Nanos(1000) }
    }

    fn taken(job: &Job) -> Result<Taken, PriceError> {
        std::thread::scope(|scope| scope.spawn(|| take(job, Stop(&|| false))).join())
            .expect("no panic")
    }

    #[test]
    fn a_sample_has_a_time_and_a_proven_page() {
        let taken = taken(&job(PageKind::Base)).expect("memory");
        assert!(taken.jump_ns > 0.0 && taken.within_share >= 0.0, "{taken:?}");
        assert_eq!(taken.page, Kinds::here().base());
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn executed_code_is_proven_to_be_on_huge_pages_or_refused() {
        let huge = job(PageKind::Thp);
        match taken(&huge) {
            Ok(taken) => assert_eq!(taken.page, huge.kinds.huge()),
            Err(error) => println!("SKIP executed_code_is_proven_to_be_on_huge_pages: {error}"),
        }
        let chain = written(&job(PageKind::Base)).expect("memory");
        let refused = huge.kinds.prove(PageKind::Thp, chain.region()).expect_err("not huge");
        assert!(refused.to_string().contains("the kernel gave pages of"), "{refused}");
    }

    #[test]
    fn a_route_is_long_and_has_laps() {
        assert_eq!((laps(16), laps(1 << 14), laps(1 << 16), laps(0)), (1024, 2, 2, STEPS));
    }

    #[test]
    fn who_wants_no_more_gets_none() {
        let job = job(PageKind::Base);
        assert!(matches!(take(&job, Stop(&|| true)), Err(PriceError::Interrupted)));
    }
}
