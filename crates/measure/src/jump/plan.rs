//! What is to be run, and what that will take: told before anything is begun.

use super::{grid, once};
use crate::cost::Cost;
use crate::error::PriceError;
use crate::kernels::chain::{Chain, IS_KNOWN};
use crate::kinds::Kinds;
use crate::room;
use pagewise_kernel::affinity;
use pagewise_kernel::limits::MemoryLimit;
use pagewise_model::jump::{Order, Point};
use pagewise_model::walk::{PageKind, Unavailable};
use pagewise_model::{Bytes, Nanos};

/// Time of a mapping beside its memory and its jumps: thread, closing, looks at its pages.
const START: Nanos = Nanos::millis(1);
/// Time for each byte that is made present, in picoseconds, and for each element of a route.
const PER_BYTE_PS: u64 = 350;
const PER_STEP_NS: u64 = 15;
/// Time of a jump among few elements and among many, for estimates.
const NEAR_NS: u64 = 10;
const FAR_NS: u64 = 60;
const MANY: u64 = 1024;
/// Time of a timed piece, and of one of the short form.
const PIECE: Nanos = Nanos::millis(1);
const QUICK_PIECE: Nanos = Nanos(300_000);

/// Which parts are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Code of growing size.
    pub sizes: bool,
    /// A growing number of pages, for the reach of the TLB.
    pub knees: bool,
}

impl Parts {
    /// Both.
    pub const ALL: Self = Self { sizes: true, knees: true };
}

/// What was asked for.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Which parts.
    pub parts: Parts,
    /// On which pages.
    pub kinds: Vec<PageKind>,
    /// In which orders code of growing size is gone through.
    pub orders: Vec<Order>,
    /// Smallest code.
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
    pub(super) cpu: u32,
    pub(super) most: MemoryLimit,
}

impl Plan {
    /// What was asked for, as far as this machine has the pages and the memory.
    ///
    /// # Errors
    /// When there is no code for this architecture or none may be executed, or nothing is left to be
    /// measured.
    pub fn new(mut asked: Asked) -> Result<Self, PriceError> {
        let kinds = Kinds::here();
        may_execute(kinds)?;
        let no_cpu = || PriceError::Unavailable("there is no CPU to run on".to_owned());
        let cpu = affinity::get(0)?.first().copied().ok_or_else(no_cpu)?;
        let most = room::allowed()?;
        let tried = asked.kinds.iter().map(|kind| kinds.try_one(*kind));
        let unavailable: Vec<Unavailable> = tried.filter_map(Result::err).collect();
        asked.kinds.retain(|kind| !unavailable.iter().any(|missing| missing.pages == *kind));
        let mut points = Vec::new();
        if asked.parts.sizes {
            points.extend(grid::sizes(&asked, kinds, most.bytes));
        }
        if asked.parts.knees {
            let of_sizes = points.clone();
            let more = grid::pages(&asked, kinds, most.bytes).into_iter();
            points.extend(more.filter(|point| !of_sizes.contains(point)));
        }
        if points.is_empty() {
            return Err(room::nothing(&unavailable, "code of a size", &most));
        }
        Ok(Self { asked, points, unavailable, kinds, cpu, most })
    }

    /// What it takes.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let once: u64 = self.points.iter().map(|point| self.time(point).0).sum();
        let about = Nanos(once.saturating_mul(u64::from(self.asked.repeats)));
        let most = self.points.iter().map(|point| self.resident(point)).max();
        Cost::of(self.points.len(), self.asked.repeats, about, self.asked.quick)
            .with_memory(most.unwrap_or_default())
    }

    /// What one mapping of a point takes of memory: base pages far apart are touched alone.
    pub(super) fn resident(&self, point: &Point) -> Bytes {
        let base = self.kinds.base().bytes();
        match point.pages {
            PageKind::Base => Bytes(point.jumps.saturating_mul(base)),
            _ => self.kinds.resident(point.pages, point.set_bytes()),
        }
    }

    /// Time of a timed piece of a run.
    pub(super) const fn piece(&self) -> Nanos {
        if self.asked.quick { QUICK_PIECE } else { PIECE }
    }

    fn time(&self, point: &Point) -> Nanos {
        let memory = self.resident(point).0.saturating_mul(PER_BYTE_PS) / 1000;
        let steps = once::laps(point.jumps) * point.jumps;
        let jump = if point.jumps < MANY { NEAR_NS } else { FAR_NS };
        let lap = steps.saturating_mul(jump);
        let pieces = self.piece().0.max(lap) * u64::from(once::PIECES);
        Nanos(memory) + Nanos(steps * PER_STEP_NS) + Nanos(2 * lap + pieces) + START
    }
}

/// Whether there is code here and it may be executed: one element on one page.
fn may_execute(kinds: Kinds) -> Result<(), PriceError> {
    if !IS_KNOWN {
        let text = format!("no code is generated for {}, only for x86-64", std::env::consts::ARCH);
        return Err(PriceError::Unavailable(text));
    }
    let region = kinds.map(PageKind::Base, Bytes(kinds.base().bytes()))?;
    let refused = |e| PriceError::Unavailable(format!("generated code may not be executed: {e}"));
    Chain::write(region, vec![0]).map(drop).map_err(refused)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    fn asked() -> Asked {
        Asked {
            parts: Parts { sizes: true, knees: false },
            kinds: vec![PageKind::Base],
            orders: vec![Order::Changing],
            smallest: Bytes::kib(64),
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
        assert_eq!(cost.mappings, 10 * cost.points);
        assert_eq!(cost.memory_bytes, Bytes::mib(1));
        assert!(cost.cap_ns > cost.about_ns && cost.about_ns > Nanos::millis(100), "{cost:?}");
        let quick = Plan::new(Asked { quick: true, ..asked() }).expect("base pages").cost();
        assert!(quick.cap_ns < Nanos::secs(20), "{quick:?}");
    }

    #[test]
    fn no_point_is_there_twice() {
        let all =
            Asked { parts: Parts::ALL, kinds: vec![PageKind::Base, PageKind::Thp], ..asked() };
        let plan = Plan::new(all).expect("base pages");
        for (at, point) in plan.points.iter().enumerate() {
            assert!(!plan.points[..at].contains(point), "{point:?}");
        }
    }

    #[test]
    fn nothing_is_no_plan() {
        let beyond = Asked { smallest: Bytes(1 << 61), largest: Bytes(1 << 62), ..asked() };
        let error = Plan::new(beyond).expect_err("too large").to_string();
        assert!(error.contains("nothing to measure"), "{error}");
    }
}
