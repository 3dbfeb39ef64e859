//! What is to be walked, and what that will take: told before anything is begun.

use super::{bandwidth, grid, once};
use crate::cost::Cost;
use crate::error::PriceError;
use crate::kinds::Kinds;
use crate::room;
use pagewise_kernel::{affinity, limits, topology};
use pagewise_model::walk::{Cache, LINE, Order, PageKind, Path, Point, Unavailable};
use pagewise_model::{Bytes, Nanos};

/// Time of a mapping beside its memory and its loads: thread, look at its pages.
const START: Nanos = Nanos::millis(1);
/// Time for each byte that is made present, and for each element that is linked, in picoseconds.
const PER_BYTE_PS: u64 = 350;
const PER_ELEMENT_PS: u64 = 4_000;
/// Time of a load in a cache and beyond, for estimates.
const CACHED_NS: u64 = 10;
const UNCACHED_NS: u64 = 100;
/// Time of a timed piece, and of one of the short form.
const PIECE: Nanos = Nanos::millis(1);
const QUICK_PIECE: Nanos = Nanos(300_000);
/// Repeats of the bandwidth in the short form.
const QUICK_RATES: u32 = 3;
/// Which parts are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Lists over growing sets.
    pub lists: bool,
    /// Lines on a growing number of pages, for the reach of the TLB.
    pub lines: bool,
    /// Read, write and copy bandwidth.
    pub bandwidth: bool,
}

impl Parts {
    /// All of them.
    pub const ALL: Self = Self { lists: true, lines: true, bandwidth: true };
}

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Which parts.
    pub parts: Parts,
    /// On which pages.
    pub kinds: Vec<PageKind>,
    /// Orders of lists.
    pub orders: Vec<Order>,
    /// Words of padding of their elements; with the pointer a power of two.
    pub npads: Vec<u32>,
    /// Smallest set of lists.
    pub smallest: Bytes,
    /// Largest.
    pub largest: Bytes,
    /// Fresh mappings of each point.
    pub repeats: u32,
    /// Coarser steps and a cap of 18 s.
    pub quick: bool,
    /// Seed of all orders.
    pub seed: u64,
}

/// A plan for this machine.
#[derive(Debug)]
pub struct Plan {
    pub(super) asked: Asked,
    pub(super) points: Vec<Point>,
    pub(super) unavailable: Vec<Unavailable>,
    pub(super) kinds: Kinds,
    pub(super) cpus: Vec<u32>,
    pub(super) caches: Vec<Cache>,
    pub(super) most: limits::MemoryLimit,
}

impl Plan {
    /// What was asked for, as far as this machine has the pages and the memory.
    ///
    /// # Errors
    /// When the machine does not tell what it has, or nothing is left to be measured.
    pub fn new(mut asked: Asked) -> Result<Self, PriceError> {
        let kinds = Kinds::here();
        let cpus = affinity::get(0)?;
        let most = room::allowed()?;
        let tried = asked.kinds.iter().map(|kind| kinds.try_one(*kind));
        let unavailable: Vec<Unavailable> = tried.filter_map(Result::err).collect();
        asked.kinds.retain(|kind| !unavailable.iter().any(|missing| missing.pages == *kind));
        let mut points = Vec::new();
        if asked.parts.lists {
            points.extend(grid::lists(&asked, kinds, most.bytes));
        }
        if asked.parts.lines {
            points.extend(grid::lines(&asked, kinds, most.bytes));
        }
        if cpus.is_empty() || (points.is_empty() && !asked.parts.bandwidth) {
            return Err(room::nothing(&unavailable, "set", &most));
        }
        let caches = caches(cpus.first().copied().unwrap_or(0));
        Ok(Self { asked, points, unavailable, kinds, cpus, caches, most })
    }

    /// Whether the last cache holds the lines of a point.
    pub(super) fn is_cached(&self, point: &Point) -> bool {
        let bytes = match point.path {
            Path::List { .. } => point.set_bytes(),
            Path::Lines { .. } => Bytes(point.elements.saturating_mul(LINE.0)),
        };
        self.caches.last().is_some_and(|cache| bytes <= cache.size_bytes)
    }

    /// What it takes.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let repeats = u64::from(self.asked.repeats);
        let once: u64 = self.points.iter().map(|point| self.time(point).0).sum();
        let rates = bandwidth::time(self.cpus.len()).0 * u64::from(self.rate_repeats());
        let about = once.saturating_mul(repeats).saturating_add(rates);
        let sets = self.points.iter().map(|point| self.resident(point)).max().unwrap_or_default();
        let buffers = bandwidth::memory(self.cpus.len(), self.most.bytes);
        let memory = if self.asked.parts.bandwidth { sets.max(buffers) } else { sets };
        let (points, asked) = (self.points.len(), &self.asked);
        Cost::of(points, asked.repeats, Nanos(about), asked.quick).with_memory(memory)
    }

    /// What one mapping of a point takes of memory.
    pub(super) fn resident(&self, point: &Point) -> Bytes {
        let set = match (point.path, point.pages) {
            (Path::Lines { apart_bytes }, PageKind::Base)
                if apart_bytes.0 > self.kinds.base().bytes() =>
            {
                Bytes(point.elements.saturating_mul(self.kinds.base().bytes()))
            }
            _ => point.set_bytes(),
        };
        self.kinds.resident(point.pages, set)
    }

    /// Rounds that end with a repeat of the bandwidth.
    pub(super) fn rate_repeats(&self) -> u32 {
        match (self.asked.parts.bandwidth, self.asked.quick) {
            (false, _) => 0,
            (true, true) => self.asked.repeats.min(QUICK_RATES),
            (true, false) => self.asked.repeats,
        }
    }

    /// Time of a timed piece of a walk.
    pub(super) const fn piece(&self) -> Nanos {
        if self.asked.quick { QUICK_PIECE } else { PIECE }
    }

    fn time(&self, point: &Point) -> Nanos {
        let memory = self.resident(point).0.saturating_mul(PER_BYTE_PS) / 1000;
        let linking = point.elements.saturating_mul(PER_ELEMENT_PS) / 1000;
        let is_cached = self.is_cached(point);
        let load = if is_cached { CACHED_NS } else { UNCACHED_NS };
        let warm = once::warm(point.elements, is_cached).saturating_mul(load);
        let pieces = self.piece().0 * u64::from(once::PIECES);
        Nanos(memory) + Nanos(linking) + Nanos(warm) + Nanos(pieces) + START
    }
}

fn caches(cpu: u32) -> Vec<Cache> {
    let found = topology::data_caches(cpu).unwrap_or_default();
    found.into_iter().map(|(level, size_bytes)| Cache { level, size_bytes }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            parts: Parts { lists: true, lines: false, bandwidth: false },
            kinds: vec![PageKind::Base],
            orders: vec![Order::Random],
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
        let plan = Plan::new(asked()).expect("base pages");
        let cost = plan.cost();
        assert_eq!((cost.points, cost.mappings), (11, 110));
        assert_eq!(cost.memory_bytes, Bytes::mib(1));
        assert!(cost.cap_ns > cost.about_ns && cost.about_ns > Nanos::millis(500), "{cost:?}");
        let quick = Plan::new(Asked { quick: true, ..asked() }).expect("base pages").cost();
        assert!(quick.cap_ns < Nanos::secs(20), "{quick:?}");
    }

    #[test]
    fn nothing_is_no_plan() {
        let beyond = Asked { smallest: Bytes(1 << 62), largest: Bytes(1 << 63), ..asked() };
        let error = Plan::new(beyond).expect_err("too large").to_string();
        assert!(error.contains("nothing to measure"), "{error}");
    }

    #[test]
    fn lines_take_the_pages_that_they_touch() {
        let plan = Plan::new(asked()).expect("base pages");
        let base = plan.kinds.base();
        let path = Path::Lines { apart_bytes: grid::apart(base) };
        let point = Point::new(path, PageKind::Base, 100);
        assert_eq!(plan.resident(&point), Bytes(100 * base.bytes()));
    }
}
