//! Which points are walked.

use super::TlbBenchRequest;
use crate::kinds::MachinePageSizes;
use pagewise_model::bench::PageKind;
use pagewise_model::bench::tlb::{TlbPath, TlbPoint};
use pagewise_model::{Bytes, PageSize};
use std::collections::BTreeSet;

/// Distance of lines on base pages, in pages: beyond what processors join into one entry, and odd.
const APART: u64 = 17;
/// Fewest lines: below, no TLB has run out.
const FEWEST: u64 = 16;
/// Most lines on base pages: twice the largest second-level TLB of today.
const MOST: u64 = 8192;
/// Most lines that have a huge page each, and those of the short form.
const MOST_HUGE: u64 = 512;
const MOST_HUGE_QUICK: u64 = 112;
/// Lines at the distance of base pages, on huge ones: how the host backs huge pages.
const BACKING: [u64; 5] = [64, 128, 256, 512, 1024];
/// Fewest elements of a list.
const FEWEST_ELEMENTS: u64 = 4;

/// Lists over growing sets, each on every kind of page.
pub(super) fn lists(
    request: &TlbBenchRequest,
    kinds: MachinePageSizes,
    most: Bytes,
) -> Vec<TlbPoint> {
    let mut points = Vec::new();
    for &order in &request.orders {
        for &npad in &request.npads {
            let path = TlbPath::List { order, npad };
            for set in sets(request.smallest, request.largest) {
                let elements = set.0 / path.pitch().0;
                let fits = |kind: &&PageKind| kinds.resident(**kind, set) <= most;
                if elements >= FEWEST_ELEMENTS {
                    let on = request.kinds.iter().filter(fits);
                    points.extend(on.map(|kind| TlbPoint::new(path, *kind, elements)));
                }
            }
        }
    }
    points
}

/// The powers of two from `smallest` to `largest`.
fn sets(smallest: Bytes, largest: Bytes) -> impl Iterator<Item = Bytes> {
    (0..u64::BITS)
        .map(|bits| Bytes(1 << bits))
        .filter(move |set| (smallest..=largest).contains(set))
}

/// The distance of lines on base pages.
pub(crate) const fn apart(base: PageSize) -> Bytes {
    Bytes(APART * base.bytes())
}

/// Lines by growing number: on base pages, on huge pages, and packed for comparison.
pub(super) fn lines(
    request: &TlbBenchRequest,
    kinds: MachinePageSizes,
    most: Bytes,
) -> Vec<TlbPoint> {
    let within = |each: u64| most.0 / each.max(1);
    let per_octave = if request.quick { 4 } else { 8 };
    let has = |kind| request.kinds.contains(&kind);
    let (base, huge) = (kinds.base(), kinds.huge());
    let mut points = Vec::new();
    let mut add = |apart_bytes, kind, counts: &[u64]| {
        let path = TlbPath::Lines { apart_bytes };
        points.extend(counts.iter().map(|count| TlbPoint::new(path, kind, *count)));
    };
    let mut counts = BTreeSet::new();
    if has(PageKind::Base) {
        let on_base = steps(FEWEST, MOST.min(within(base.bytes())), per_octave);
        add(apart(base), PageKind::Base, &on_base);
        counts.extend(on_base);
    }
    if has(PageKind::Thp) {
        let most_huge = if request.quick { MOST_HUGE_QUICK } else { MOST_HUGE };
        let on_huge = steps(FEWEST, most_huge.min(within(huge.bytes())), per_octave);
        add(Bytes(huge.bytes()), PageKind::Thp, &on_huge);
        let backing: Vec<u64> =
            BACKING.into_iter().filter(|n| *n <= within(apart(base).0)).collect();
        if has(PageKind::Base) {
            add(apart(base), PageKind::Thp, &backing);
            counts.extend(backing);
        }
        counts.extend(on_huge);
    }
    let reference = if has(PageKind::Thp) { PageKind::Thp } else { PageKind::Base };
    let counts: Vec<u64> = counts.into_iter().collect();
    add(TlbPath::PACKED.pitch(), reference, &counts);
    points
}

/// Numbers from `from` (a power of two) to `to`, with `per_octave` numbers for each doubling.
pub(crate) fn steps(from: u64, to: u64, per_octave: u64) -> Vec<u64> {
    let octaves = (0..u64::BITS).map_while(|n| from.checked_mul(1_u64.checked_shl(n)?));
    let within = octaves.take_while(|start| *start <= to);
    let all = within.flat_map(|start| (0..per_octave).map(move |i| start + start * i / per_octave));
    all.filter(|n| *n <= to).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tlb::TlbParts;
    use pagewise_model::bench::tlb::AccessOrder;

    fn request(quick: bool) -> TlbBenchRequest {
        TlbBenchRequest {
            parts: TlbParts::ALL,
            kinds: vec![PageKind::Base, PageKind::Thp],
            orders: vec![AccessOrder::Random, AccessOrder::Sequential],
            npads: vec![0, 7, 15, 31],
            smallest: Bytes::kib(1),
            largest: Bytes::gib(1),
            repeats: 10,
            quick,
            seed: 1,
        }
    }

    #[test]
    fn lists_are_all_that_was_asked_for_and_fits() {
        let kinds = MachinePageSizes::here();
        let all = lists(&request(false), kinds, Bytes::gib(4));
        assert_eq!(all.len(), 2 * 4 * 21 * 2);
        assert!(all.iter().all(|p| p.elements.is_power_of_two() && p.elements >= 4));
        let small = lists(&request(false), kinds, Bytes::mib(64));
        assert!(small.iter().all(|p| p.set_bytes() <= Bytes::mib(64)));
        assert_eq!(small.len(), 2 * 4 * 17 * 2);
    }

    #[test]
    fn steps_have_the_same_number_to_each_doubling() {
        assert_eq!(steps(16, 40, 4), [16, 20, 24, 28, 32, 40]);
        assert!(steps(16, 15, 4).is_empty());
        assert!(steps(16, 8192, 8).is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn every_number_of_lines_has_its_packed_one() {
        for quick in [true, false] {
            let points = lines(&request(quick), MachinePageSizes::here(), Bytes::gib(2));
            let packed: BTreeSet<u64> =
                points.iter().filter(|p| p.path == TlbPath::PACKED).map(|p| p.elements).collect();
            assert!(points.iter().all(|p| packed.contains(&p.elements)));
            let different: BTreeSet<String> = points.iter().map(|p| format!("{p:?}")).collect();
            assert_eq!(different.len(), points.len());
        }
    }
}
