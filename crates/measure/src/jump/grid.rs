//! Which points are run.

use super::plan::Asked;
use crate::kinds::Kinds;
use crate::walk::{apart, steps};
use pagewise_model::Bytes;
use pagewise_model::jump::{Order, Point};
use pagewise_model::walk::PageKind;
use std::collections::BTreeSet;

/// Fewest elements.
const FEWEST: u64 = 16;
/// Most elements on base pages for the knees: twice the largest second-level TLB of today.
const MOST: u64 = 8192;
/// Most of those that have a huge page each, and in the short form.
const MOST_HUGE: u64 = 128;
const MOST_HUGE_QUICK: u64 = 112;

/// Code of growing size, on each kind of page in each order.
pub(super) fn sizes(asked: &Asked, kinds: Kinds, most: Bytes) -> Vec<Point> {
    let base = kinds.base();
    let (from, to) = (asked.smallest.pages(base), asked.largest.pages(base));
    let per_octave = if asked.quick { 1 } else { 2 };
    let mut points = Vec::new();
    for jumps in steps(FEWEST, to, per_octave).into_iter().filter(|jumps| *jumps >= from) {
        for &order in &asked.orders {
            let point = |kind| Point::new(order, kind, Bytes(base.bytes()), jumps);
            let all = asked.kinds.iter().map(|kind| point(*kind));
            points.extend(all.filter(|p| kinds.resident(p.pages, p.set_bytes()) <= most));
        }
    }
    points
}

/// A growing number of pages: base pages far apart, huge pages, and as many elements on few huge ones.
/// Nothing where there are no huge pages to set them against.
pub(super) fn pages(asked: &Asked, kinds: Kinds, most: Bytes) -> Vec<Point> {
    if !asked.kinds.contains(&PageKind::Thp) {
        return Vec::new();
    }
    let (base, huge) = (kinds.base(), Bytes(kinds.huge().bytes()));
    let point = |kind, apart, jumps| Point::new(Order::Changing, kind, apart, jumps);
    let per_octave = if asked.quick { 3 } else { 6 };
    let mut points = Vec::new();
    if asked.kinds.contains(&PageKind::Base) {
        let counts = steps(FEWEST, MOST.min(most.pages(base)), per_octave);
        points.extend(counts.iter().map(|n| point(PageKind::Base, apart(base), *n)));
    }
    let most_huge = if asked.quick { MOST_HUGE_QUICK } else { MOST_HUGE };
    let counts = steps(FEWEST, most_huge.min(most.0 / huge.0.max(1)), per_octave);
    points.extend(counts.iter().map(|n| point(PageKind::Thp, huge, *n)));
    let compared: BTreeSet<u64> = points.iter().map(|p| p.jumps).collect();
    points.extend(compared.iter().map(|n| point(PageKind::Thp, Bytes(base.bytes()), *n)));
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jump::Parts;

    fn asked(quick: bool) -> Asked {
        Asked {
            parts: Parts::ALL,
            kinds: vec![PageKind::Base, PageKind::Thp],
            orders: Order::ALL.to_vec(),
            smallest: Bytes::kib(64),
            largest: Bytes::mib(256),
            repeats: 10,
            quick,
            seed: 1,
        }
    }

    #[test]
    fn sizes_are_all_that_was_asked_for_and_fits() {
        let kinds = Kinds::here();
        let all = sizes(&asked(false), kinds, Bytes::gib(4));
        let has = |bytes| all.iter().any(|p| p.set_bytes() == bytes && p.pages == PageKind::Base);
        assert!(has(Bytes::mib(256)) && all.iter().all(|p| p.set_bytes() <= Bytes::mib(256)));
        assert!(all.iter().all(|p| p.set_bytes() >= Bytes::kib(64)));
        let small = sizes(&asked(false), kinds, Bytes::mib(16));
        assert!(!small.is_empty() && small.iter().all(|p| p.set_bytes() <= Bytes::mib(16)));
    }

    #[test]
    fn every_number_of_pages_is_set_against_few_huge_ones() {
        for quick in [true, false] {
            let kinds = Kinds::here();
            let dense = Bytes(kinds.base().bytes());
            let points = pages(&asked(quick), kinds, Bytes::gib(2));
            let few = |n| {
                points
                    .iter()
                    .any(|p| (p.pages, p.apart_bytes, p.jumps) == (PageKind::Thp, dense, n))
            };
            assert!(points.iter().all(|p| p.order == Order::Changing && few(p.jumps)));
            let different: BTreeSet<String> = points.iter().map(|p| format!("{p:?}")).collect();
            assert_eq!(different.len(), points.len());
        }
        let base_alone = Asked { kinds: vec![PageKind::Base], ..asked(true) };
        assert!(pages(&base_alone, Kinds::here(), Bytes::gib(2)).is_empty());
    }
}
