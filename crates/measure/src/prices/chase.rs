//! Dependent random loads over growing sets, on base and on huge pages, ns per load.
//!
//! Each cache line of a set holds the address of the next. All lines form one cycle ([`crate::cycle`]), so
//! the hardware can neither overlap nor predict the loads. Each set is walked on fresh mappings, because
//! placement in caches and memory varies by chance. The difference between base and huge pages is an upper
//! bound of the address translation cost of such a walk. Not seen: loads that overlap.

use crate::cycle::link_lines;
use crate::error::PriceError;
use crate::kernels::list::ChaseList;
use crate::sample::{StopCheck, time};
use pagewise_kernel::SysError;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_model::price::ChasePoint;
use pagewise_model::{Bytes, Fact, Measured};

/// Sets that are walked, memory allowing.
const SETS: [Bytes; 4] = [Bytes::mib(16), Bytes::mib(64), Bytes::mib(256), Bytes::gib(1)];
/// Loads of one repeat.
const STEPS: u64 = 40_000;
/// Repeats, over all mappings of a set.
const REPEATS: usize = 6;

/// The sets that take at most `most` memory.
pub(crate) fn sets_within(most: Bytes) -> impl Iterator<Item = Bytes> {
    SETS.into_iter().filter(move |set| *set <= most)
}

/// Walks each of these sets.
pub(crate) fn walk_sets(
    sets: &[Bytes],
    stop: StopCheck<'_>,
) -> Result<Vec<ChasePoint>, PriceError> {
    let walk_both = |set_bytes| {
        let base_ns = walk(set_bytes, RegionPages::Base, stop)?;
        let huge_ns = match walk(set_bytes, RegionPages::Huge, stop) {
            Err(PriceError::Interrupted) => return Err(PriceError::Interrupted),
            other => Fact::from(other),
        };
        Ok(ChasePoint { set_bytes, base_ns, huge_ns })
    };
    sets.iter().copied().map(walk_both).collect()
}

/// The price over one set on one kind of page.
fn walk(set: Bytes, pages: RegionPages, stop: StopCheck<'_>) -> Result<Measured, PriceError> {
    // Filling costs the more time the larger the set: fewer mappings, more walks of each.
    let mappings = match set {
        set if set > Bytes::mib(256) => 1,
        set if set > Bytes::mib(64) => 2,
        _ => 3,
    };
    let mut values = Vec::with_capacity(REPEATS);
    for _ in 0..mappings {
        stop.check()?;
        let mut region = MemoryRegion::new(set, pages)?;
        region.populate()?;
        if pages == RegionPages::Huge && region.huge_bytes()? < region.size() {
            return Err(PriceError::Unavailable("the kernel gave base pages only".to_owned()));
        }
        stop.check()?;
        let list = link_lines(region);
        stop.check()?;
        let mut at = follow(&list, 0)?;
        for _ in 0..REPEATS / mappings {
            let (ns, next) = time(|| follow(&list, at));
            at = next?;
            values.push(ns / STEPS as f64);
        }
    }
    Measured::from_values(&values).ok_or(PriceError::NoRepeat { price: "the chase" })
}

/// Follows the cycle for one repeat. Returns the place where it stops.
fn follow(list: &ChaseList, start: usize) -> Result<usize, SysError> {
    list.walk(start, STEPS).ok_or_else(|| SysError::malformed("walk", "a set of lines"))
}
