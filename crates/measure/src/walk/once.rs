//! One sample: a fresh mapping that is linked, walked, looked at and given back.
//!
//! One lap goes before (of a set that no cache holds its beginning), so that caches and translations hold
//! what they hold in the long run; then a short stretch, which says how many loads make up a piece; then pieces of
//! a millisecond or less, of which the median is the sample and the range says whether something moved
//! while the memory stayed. The clock is the thread's CPU time: what others did on this CPU meanwhile is
//! not in it, what they did to its caches is. Memory of a pool is populated before it is touched: a touch beyond a
//! cgroup's hugetlb limit would be `SIGBUS`, the call is an error.

use super::layout::Layout;
use crate::error::PriceError;
use crate::kernels::list::{Links, List};
use crate::kinds::Kinds;
use crate::sample::{Stop, time_cpu};
use pagewise_kernel::SysError;
use pagewise_model::walk::{PageKind, Path};
use pagewise_model::{Measured, Nanos, PageSize};

/// Loads that go before: at least so many, and so many where no cache holds the set.
const FEWEST_WARM: u64 = 20_000;
const UNCACHED_WARM: u64 = 1 << 16;
/// Loads of the stretch that sizes the pieces.
const STRETCH: u64 = 10_000;
/// Pieces, and their bounds in loads.
pub(super) const PIECES: u32 = 5;
const FEWEST: f64 = 1_000.0;
const MOST: f64 = 4_000_000.0;

/// What to walk.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) path: Path,
    pub(super) pages: PageKind,
    pub(super) layout: Layout,
    pub(super) kinds: Kinds,
    /// Loads that go before.
    pub(super) warm: u64,
    /// Time of a piece.
    pub(super) piece: Nanos,
}

/// Loads that go before the walk of so many elements, which the last cache holds or not.
pub(super) fn warm(elements: u64, is_cached: bool) -> u64 {
    let lap = if is_cached { elements } else { elements.min(UNCACHED_WARM) };
    lap.max(FEWEST_WARM)
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Taken {
    pub(super) load_ns: f64,
    pub(super) within_share: f64,
    pub(super) page: PageSize,
}

/// Takes the sample on the calling thread, which should be pinned.
pub(super) fn take(job: &Job, stop: Stop<'_>) -> Result<Taken, PriceError> {
    stop.check()?;
    let mut region = job.kinds.map(job.pages, job.layout.span())?;
    // Lines on base pages touch few of the pages that they lie among.
    if matches!(job.path, Path::List { .. }) || job.pages != PageKind::Base {
        region.populate()?;
    }
    let mut links = Links::new(region);
    job.layout.link(&mut links, || stop.check())?;
    let list = links.close();
    let at = follow(&list, job.layout.first(), job.warm)?;
    let (ns, at) = time_cpu(|| follow(&list, at, STRETCH));
    let steps = (job.piece.0 as f64 * STRETCH as f64 / ns.max(1.0)).clamp(FEWEST, MOST) as u64;
    let mut at = at?;
    let mut values = Vec::with_capacity(PIECES as usize);
    for _ in 0..PIECES {
        stop.check()?;
        let (ns, next) = time_cpu(|| follow(&list, at, steps));
        at = next?;
        values.push(ns / steps as f64);
    }
    let page = job.kinds.prove(job.pages, list.region())?;
    let measured = Measured::of(&values).ok_or(PriceError::NoRepeat { price: "the walk" })?;
    Ok(Taken { load_ns: measured.median, within_share: measured.spread_share(), page })
}

fn follow(list: &List, from: usize, steps: u64) -> Result<usize, PriceError> {
    let last = list.walk(from, steps);
    last.ok_or_else(|| SysError::malformed("walk", "a list in memory").into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::walk::Order;

    fn job(pages: PageKind) -> Job {
        let (path, elements) = (Path::List { order: Order::Random, npad: 7 }, 64);
        let kinds = Kinds::here();
        let layout = Layout::new(path, elements, 1, Vec::new(), kinds.base());
        Job { path, pages, layout, kinds, warm: warm(elements, true), piece: Nanos(1000) }
    }

    #[test]
    fn a_sample_has_a_time_and_a_proven_page() {
        let taken = std::thread::spawn(|| take(&job(PageKind::Base), Stop(&|| false)));
        let taken = taken.join().expect("no panic").expect("memory");
        assert!(taken.load_ns > 0.0 && taken.within_share >= 0.0, "{taken:?}");
        assert_eq!(taken.page, Kinds::here().base());
    }

    #[test]
    fn a_lap_goes_before_where_a_cache_holds_the_set() {
        assert_eq!(warm(4, true), FEWEST_WARM);
        assert_eq!((warm(1 << 20, true), warm(1 << 20, false)), (1 << 20, UNCACHED_WARM));
    }

    #[test]
    fn who_wants_no_more_gets_none() {
        let taken = std::thread::spawn(|| take(&job(PageKind::Base), Stop(&|| true)));
        assert!(matches!(taken.join().expect("no panic"), Err(PriceError::Interrupted)));
    }
}
