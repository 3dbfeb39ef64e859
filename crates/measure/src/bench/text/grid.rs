//! Which points are run, and where their elements lie.

use super::TextBenchRequest;
use crate::bench::tlb::{apart, steps};
use crate::kinds::MachinePageSizes;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::text::{JumpOrder, TextBenchPoint};
use pagewise_model::bench::tlb::LINE;
use pagewise_model::{Bytes, PageSize};
use std::collections::BTreeSet;

/// Fewest elements.
const FEWEST: u64 = 16;
/// Most elements on base pages for the knees: twice the largest second-level TLB of today.
const MOST: u64 = 8192;
/// Most of those that have a huge page each, and in the short form.
const MOST_HUGE: u64 = 128;
const MOST_HUGE_QUICK: u64 = 112;

/// Odd and without a pattern in its upper bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// All points of the parts that were asked for, each once.
pub(super) fn points(
    request: &TextBenchRequest,
    kinds: MachinePageSizes,
    most: Bytes,
) -> Vec<TextBenchPoint> {
    let of_sizes = if request.parts.sizes { sizes(request, kinds, most) } else { Vec::new() };
    let of_knees = if request.parts.knees { pages(request, kinds, most) } else { Vec::new() };
    let more: Vec<TextBenchPoint> =
        of_knees.into_iter().filter(|p| !of_sizes.contains(p)).collect();
    [of_sizes, more].concat()
}

/// Code of growing size, on each kind of page in each order.
fn sizes(request: &TextBenchRequest, kinds: MachinePageSizes, most: Bytes) -> Vec<TextBenchPoint> {
    let base = kinds.base();
    let (from, to) = (request.smallest.pages(base), request.largest.pages(base));
    let per_octave = if request.quick { 1 } else { 2 };
    let mut points = Vec::new();
    for jumps in steps(FEWEST, to, per_octave).into_iter().filter(|jumps| *jumps >= from) {
        for &order in &request.orders {
            let point = |kind| TextBenchPoint::new(order, kind, Bytes(base.bytes()), jumps);
            let all = request.kinds.iter().map(|kind| point(*kind));
            points.extend(all.filter(|p| kinds.resident(p.pages, p.set_bytes()) <= most));
        }
    }
    points
}

/// A growing number of pages: base pages far apart, huge pages, and as many elements on few huge ones. Empty
/// if there are no huge pages to compare with.
fn pages(request: &TextBenchRequest, kinds: MachinePageSizes, most: Bytes) -> Vec<TextBenchPoint> {
    if !request.kinds.contains(&PageKind::Thp) {
        return Vec::new();
    }
    let (base, huge) = (kinds.base(), Bytes(kinds.huge().bytes()));
    let point = |kind, apart, jumps| TextBenchPoint::new(JumpOrder::Changing, kind, apart, jumps);
    let per_octave = if request.quick { 3 } else { 6 };
    let mut points = Vec::new();
    if request.kinds.contains(&PageKind::Base) {
        let counts = steps(FEWEST, MOST.min(most.pages(base)), per_octave);
        points.extend(counts.iter().map(|n| point(PageKind::Base, apart(base), *n)));
    }
    let most_huge = if request.quick { MOST_HUGE_QUICK } else { MOST_HUGE };
    let counts = steps(FEWEST, most_huge.min(most.0 / huge.0.max(1)), per_octave);
    points.extend(counts.iter().map(|n| point(PageKind::Thp, huge, *n)));
    let compared: BTreeSet<u64> = points.iter().map(|p| p.jumps).collect();
    points.extend(compared.iter().map(|n| point(PageKind::Thp, Bytes(base.bytes()), *n)));
    points
}

/// Offsets of `count` elements, `apart` from page to page, each on its own line. Successive pages use all
/// lines of a base page in turn. Each such round is rotated by a hash of its number.
pub(super) fn places(apart: Bytes, count: u64, base: PageSize) -> Vec<usize> {
    let lines = (base.bytes() / LINE.0).max(2);
    let place = |page: u64| {
        let turned = (page / lines).wrapping_mul(MULTIPLIER) >> (u64::BITS - lines.ilog2());
        page * apart.0 + (page + turned) % lines * LINE.0
    };
    (0..count).map(|page| usize::try_from(place(page)).unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::text::TextBenchParts;

    fn request(quick: bool) -> TextBenchRequest {
        TextBenchRequest {
            parts: TextBenchParts::ALL,
            kinds: vec![PageKind::Base, PageKind::Thp],
            orders: JumpOrder::ALL.to_vec(),
            smallest: Bytes::kib(64),
            largest: Bytes::mib(256),
            repeats: 10,
            quick,
            seed: 1,
        }
    }

    #[test]
    fn sizes_are_all_that_was_asked_for_and_fits() {
        let kinds = MachinePageSizes::here();
        let all = sizes(&request(false), kinds, Bytes::gib(4));
        let has = |bytes| all.iter().any(|p| p.set_bytes() == bytes && p.pages == PageKind::Base);
        assert!(has(Bytes::mib(256)) && all.iter().all(|p| p.set_bytes() <= Bytes::mib(256)));
        assert!(all.iter().all(|p| p.set_bytes() >= Bytes::kib(64)));
        let small = sizes(&request(false), kinds, Bytes::mib(16));
        assert!(!small.is_empty() && small.iter().all(|p| p.set_bytes() <= Bytes::mib(16)));
    }

    #[test]
    fn every_number_of_pages_is_set_against_few_huge_ones() {
        for quick in [true, false] {
            let kinds = MachinePageSizes::here();
            let dense = Bytes(kinds.base().bytes());
            let points = pages(&request(quick), kinds, Bytes::gib(2));
            let few = |n| {
                points
                    .iter()
                    .any(|p| (p.pages, p.apart_bytes, p.jumps) == (PageKind::Thp, dense, n))
            };
            assert!(points.iter().all(|p| p.order == JumpOrder::Changing && few(p.jumps)));
            let different: BTreeSet<String> = points.iter().map(|p| format!("{p:?}")).collect();
            assert_eq!(different.len(), points.len());
        }
        let base_alone = TextBenchRequest { kinds: vec![PageKind::Base], ..request(true) };
        assert!(pages(&base_alone, MachinePageSizes::here(), Bytes::gib(2)).is_empty());
    }

    #[test]
    fn each_page_has_one_and_all_lines_are_used() {
        let places = places(Bytes::kib(4), 4096, PageSize::BASE_4K);
        assert!(places.iter().enumerate().all(|(page, at)| at / 4096 == page && at % 64 == 0));
        let of_first: BTreeSet<usize> = places[..64].iter().map(|at| at % 4096 / 64).collect();
        assert_eq!(of_first.len(), 64);
        // Sets of a cache of 1024 sets of lines, on memory that is contiguous.
        let mut used = [0_u32; 1024];
        places.iter().for_each(|at| used[at / 64 % 1024] += 1);
        let (least, most) = (used.iter().min(), used.iter().max());
        assert!(
            least.is_some_and(|n| *n >= 1) && most.is_some_and(|n| *n <= 12),
            "{least:?} {most:?}"
        );
    }
}
