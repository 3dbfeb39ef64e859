//! Where the elements of a path lie, and their order.

use crate::cycle::RandomCycle;
use crate::kernels::list::{ChaseListBuilder, WORD};
use pagewise_model::bench::tlb::{AccessOrder, LINE, TlbPath};
use pagewise_model::{Bytes, PageSize};

/// Elements that are linked between two looks whether the caller wants no more.
const PIECE: u64 = 1 << 22;
/// Distance in lines between the lines of successive pages, within their pages. Odd, so that all sets of a
/// cache are used. More than the lines of a small page, so that the sets of larger caches are used too.
const LINE_STEP: u64 = 65;

/// A path through `elements` elements.
#[derive(Debug, Clone)]
pub(super) struct TlbLayout {
    path: TlbPath,
    elements: u64,
    /// Of a random list: which of the orders.
    key: u64,
    /// For lines: the order in which they follow each other, each once.
    order: Vec<usize>,
    /// For lines: the size of the page within which each has its place.
    page: PageSize,
}

impl TlbLayout {
    /// `order` contains the numbers below `elements`. It is used only for lines.
    pub(super) const fn new(
        path: TlbPath,
        elements: u64,
        key: u64,
        order: Vec<usize>,
        page: PageSize,
    ) -> Self {
        Self { path, elements, key, order, page }
    }

    /// Bytes from the beginning of the mapping to the end of the last element.
    pub(super) fn span(&self) -> Bytes {
        let pitch = self.path.pitch();
        Bytes(self.elements.saturating_mul(pitch.0).max(WORD as u64))
    }

    /// Where the walk begins.
    pub(super) fn first(&self) -> usize {
        match self.path {
            TlbPath::List { .. } => 0,
            TlbPath::Lines { .. } => self.order.first().map_or(0, |line| self.line(*line as u64)),
        }
    }

    /// Links all elements into one cycle; `go_on` is asked in between.
    pub(super) fn link<E>(
        &self,
        links: &mut ChaseListBuilder,
        mut go_on: impl FnMut() -> Result<(), E>,
    ) -> Result<(), E> {
        let TlbPath::List { order, .. } = self.path else {
            self.link_lines(links);
            return Ok(());
        };
        let pitch = self.path.pitch().0;
        let cycle = RandomCycle::new(self.elements.max(1).ilog2(), self.key);
        for start in (0..self.elements).step_by(PIECE as usize) {
            go_on()?;
            for number in start..(start + PIECE).min(self.elements) {
                let next = match order {
                    AccessOrder::Random => cycle.successor(number),
                    AccessOrder::Sequential => (number + 1) % self.elements,
                };
                links.link((number * pitch) as usize, (next * pitch) as usize);
            }
        }
        Ok(())
    }

    fn link_lines(&self, links: &mut ChaseListBuilder) {
        let after = self.order.iter().cycle().skip(1);
        for (from, to) in self.order.iter().zip(after) {
            links.link(self.line(*from as u64), self.line(*to as u64));
        }
    }

    /// The offset of a line.
    fn line(&self, number: u64) -> usize {
        let pitch = self.path.pitch().0;
        if pitch <= LINE.0 {
            return (number * pitch) as usize;
        }
        let lines = (self.page.bytes() / LINE.0).max(1);
        (number * pitch + number * LINE_STEP % lines * LINE.0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::page_size;
    use pagewise_kernel::region::{MemoryRegion, RegionPages};
    use std::collections::BTreeSet;

    /// The offsets of one lap, which must end where it began.
    fn lap(path: TlbPath, elements: u64) -> Vec<usize> {
        let order: Vec<usize> = (0..elements as usize).rev().collect();
        let layout = TlbLayout::new(path, elements, 7, order, page_size::base());
        let mut links = ChaseListBuilder::new(
            MemoryRegion::new(layout.span(), RegionPages::Base).expect("memory"),
        );
        layout.link(&mut links, || Ok::<(), ()>(())).expect("not stopped");
        let list = links.close();
        let mut at = layout.first();
        let mut seen = Vec::new();
        for _ in 0..elements {
            seen.push(at);
            at = list.walk(at, 1).expect("inside");
        }
        assert_eq!(at, layout.first(), "{path:?}");
        seen
    }

    #[test]
    fn every_element_is_visited_once_in_a_lap() {
        for order in AccessOrder::ALL {
            for npad in [0, 7, 15, 31] {
                let path = TlbPath::List { order, npad };
                let seen: BTreeSet<usize> = lap(path, 1 << 10).into_iter().collect();
                let all = (0..1 << 10).map(|n| n * path.pitch().0 as usize);
                assert!(seen.into_iter().eq(all), "{path:?}");
            }
        }
        let ascending = lap(TlbPath::List { order: AccessOrder::Sequential, npad: 7 }, 64);
        assert!(ascending.is_sorted());
        assert!(!lap(TlbPath::List { order: AccessOrder::Random, npad: 7 }, 64).is_sorted());
    }

    #[test]
    fn every_line_is_on_a_page_of_its_own() {
        let page = page_size::base().bytes();
        let path = TlbPath::Lines { apart_bytes: Bytes(3 * page) };
        let seen = lap(path, 100);
        let pages: BTreeSet<usize> = seen.iter().map(|at| at / page as usize).collect();
        assert_eq!(pages.len(), 100);
        let sets: BTreeSet<usize> = seen.iter().map(|at| at % page as usize).collect();
        assert_eq!(sets.len() as u64, (page / LINE.0).min(100), "all sets of the first cache");
        assert_eq!(lap(TlbPath::PACKED, 33).len(), 33);
    }

    #[test]
    fn linking_stops_when_told() {
        let path = TlbPath::List { order: AccessOrder::Sequential, npad: 0 };
        let layout = TlbLayout::new(path, 16, 0, Vec::new(), page_size::base());
        let mut links = ChaseListBuilder::new(
            MemoryRegion::new(layout.span(), RegionPages::Base).expect("memory"),
        );
        assert_eq!(layout.link(&mut links, || Err("no more")), Err("no more"));
    }
}
