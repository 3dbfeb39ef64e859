//! Memory of no file, slot by slot: on a huge page, or the first reason why not.

use pagewise_model::address::ScannedRange;
use pagewise_model::heap::{HeapArea, HeapSeen, HeapStretch, HugeAdvice};
use pagewise_model::text::HugeStanding;
use pagewise_model::{Bytes, Fact, PageSize};

/// Explains a current mapping. `setting` is the machine's setting for such memory.
#[must_use]
pub fn explain_heap(
    seen: &HeapSeen,
    is_disabled: bool,
    setting: &Fact<String>,
    huge: PageSize,
) -> HeapArea {
    let slot = seen.pool.map_or(huge, |pool| pool.page);
    let sum = seen.populated.iter().filter(|range| !range.is_zero).map(length).sum();
    let mut area = HeapArea {
        name: seen.name.clone(),
        slot_bytes: slot,
        populated_bytes: Bytes(sum),
        stretches: Vec::new(),
    };
    let size = slot.bytes();
    let whole = slot.whole_within(seen.start..seen.end).unwrap_or(seen.end..seen.end);
    let edge = match seen.end - seen.start < size {
        true => HugeStanding::TooSmall,
        false => HugeStanding::Boundary,
    };
    push(&mut area, seen.start..whole.start, &edge);
    let small = on_small_pages(seen.advice, is_disabled, setting);
    let absent = match seen.pool {
        Some(pool) if pool.is_empty => HugeStanding::PoolEmpty,
        _ => HugeStanding::NotTouched,
    };
    let mut at = whole.start;
    let mut ranges = seen.populated.as_slice();
    while at < whole.end {
        let done = ranges.partition_point(|range| range.end.0 <= at);
        ranges = &ranges[done..];
        let (to, standing) = match ranges.first() {
            None => (whole.end, &absent),
            Some(next) if next.start.0 >= at + size => (next.start.0 / size * size, &absent),
            Some(next) if next.is_huge && next.start.0 <= at && next.end.0 >= at + size => {
                (next.end.0 / size * size, if next.is_zero { &absent } else { &HugeStanding::Huge })
            }
            Some(_) => {
                let mut inside = ranges.iter().take_while(|range| range.start.0 < at + size);
                (at + size, if inside.all(|range| range.is_zero) { &absent } else { &small })
            }
        };
        push(&mut area, at..to.min(whole.end), standing);
        at = to;
    }
    push(&mut area, whole.end..seen.end, &edge);
    area
}

/// Why touched memory is on small pages.
fn on_small_pages(advice: HugeAdvice, is_disabled: bool, setting: &Fact<String>) -> HugeStanding {
    let word = match setting {
        _ if is_disabled => return HugeStanding::Disabled,
        _ if advice == HugeAdvice::Refused => return HugeStanding::Refused,
        Fact::Missing(why) => return HugeStanding::NotKnown { why: why.clone() },
        Fact::Known(word) => word.as_str(),
    };
    match (word, advice) {
        ("never", _) => HugeStanding::NotOffered,
        ("madvise", HugeAdvice::None) => HugeStanding::NotAsked,
        _ => HugeStanding::SmallPages,
    }
}

fn push(area: &mut HeapArea, range: std::ops::Range<u64>, standing: &HugeStanding) {
    if range.is_empty() {
        return;
    }
    let length_bytes = Bytes(range.end - range.start);
    match area.stretches.last_mut() {
        Some(last) if last.standing == *standing => last.length_bytes += length_bytes,
        _ => area.stretches.push(HeapStretch {
            address: range.start,
            length_bytes,
            standing: standing.clone(),
        }),
    }
}

const fn length(range: &ScannedRange) -> u64 {
    range.end.0 - range.start.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::address::VirtualAddress;
    use pagewise_model::heap::PoolSeen;
    use proptest::prelude::*;

    const HUGE: u64 = PageSize::PMD_2M.bytes();
    const PAGE: u64 = PageSize::BASE_4K.bytes();

    fn range(start: u64, end: u64, is_huge: bool, is_zero: bool) -> ScannedRange {
        ScannedRange { start: VirtualAddress(start), end: VirtualAddress(end), is_huge, is_zero }
    }

    fn seen(start: u64, end: u64, populated: Vec<ScannedRange>) -> HeapSeen {
        let advice = HugeAdvice::None;
        HeapSeen { name: "[heap]".into(), start, end, advice, pool: None, populated }
    }

    fn word(setting: &str) -> Fact<String> {
        Fact::Known(setting.to_owned())
    }

    fn standings(area: &HeapArea) -> Vec<(u64, &HugeStanding)> {
        area.stretches.iter().map(|s| (s.length_bytes.0, &s.standing)).collect()
    }

    #[test]
    fn each_slot_has_one_reason_and_like_ones_are_one() {
        let heap = seen(
            HUGE - PAGE,
            9 * HUGE + PAGE,
            vec![
                range(HUGE - PAGE, HUGE, false, false),
                range(HUGE, 3 * HUGE, true, false),
                range(3 * HUGE, 3 * HUGE + PAGE, false, false),
                range(5 * HUGE - PAGE, 5 * HUGE + PAGE, false, false),
                range(6 * HUGE, 6 * HUGE + PAGE, false, true),
                range(7 * HUGE, 8 * HUGE, true, true),
            ],
        );
        let area = explain_heap(&heap, false, &word("madvise"), PageSize::PMD_2M);
        let edge = (PAGE, &HugeStanding::Boundary);
        let found = [
            edge,
            (2 * HUGE, &HugeStanding::Huge),
            (3 * HUGE, &HugeStanding::NotAsked),
            (3 * HUGE, &HugeStanding::NotTouched),
            edge,
        ];
        assert_eq!(standings(&area), found);
        assert_eq!((area.size(), area.huge()), (Bytes(8 * HUGE + 2 * PAGE), Bytes(2 * HUGE)));
        assert_eq!(area.populated_bytes, Bytes(2 * HUGE + 4 * PAGE), "the zero page is nobody's");
    }

    #[test]
    fn why_pages_are_small() {
        let why = |advice, is_disabled, setting: &str| {
            let heap = seen(HUGE, 2 * HUGE, vec![range(HUGE, HUGE + PAGE, false, false)]);
            let heap = HeapSeen { advice, ..heap };
            let area = explain_heap(&heap, is_disabled, &word(setting), PageSize::PMD_2M);
            area.stretches[0].standing.clone()
        };
        use HugeAdvice::{None, Refused, Wanted};
        assert_eq!(why(Wanted, true, "always"), HugeStanding::Disabled);
        assert_eq!(why(Refused, false, "always"), HugeStanding::Refused);
        assert_eq!(why(Wanted, false, "never"), HugeStanding::NotOffered);
        assert_eq!(why(None, false, "madvise"), HugeStanding::NotAsked);
        assert_eq!(why(Wanted, false, "madvise"), HugeStanding::SmallPages);
        assert_eq!(why(None, false, "always"), HugeStanding::SmallPages);
        let heap = seen(HUGE, 2 * HUGE, vec![range(HUGE, HUGE + PAGE, false, false)]);
        let unknown = Fact::missing("no such file");
        let area = explain_heap(&heap, false, &unknown, PageSize::PMD_2M);
        let not_known = HugeStanding::NotKnown { why: "no such file".into() };
        assert_eq!(area.stretches[0].standing, not_known);
    }

    #[test]
    fn a_pool_has_pages_of_its_own_size() {
        let page = PageSize::new(Bytes::mib(1024).0).unwrap();
        let size = page.bytes();
        let there = vec![range(size, 2 * size, true, false)];
        let pool = Some(PoolSeen { page, is_empty: true });
        let heap = HeapSeen { pool, ..seen(size, 3 * size, there) };
        let area = explain_heap(&heap, false, &word("never"), PageSize::PMD_2M);
        let found = [(size, &HugeStanding::Huge), (size, &HugeStanding::PoolEmpty)];
        assert_eq!((standings(&area), area.slot_bytes), (found.to_vec(), page));
    }

    #[test]
    fn what_is_smaller_than_a_huge_page_says_so() {
        let heap = seen(HUGE - PAGE, HUGE + PAGE, vec![]);
        let area = explain_heap(&heap, false, &word("always"), PageSize::PMD_2M);
        assert_eq!(standings(&area), [(2 * PAGE, &HugeStanding::TooSmall)]);
    }

    proptest! {
        #[test]
        fn stretches_tile_the_mapping(
            start in 0..4 * HUGE / PAGE,
            parts in prop::collection::vec((1..900_u64, 1..900_u64, any::<bool>()), 0..20),
        ) {
            let start = start * PAGE;
            let mut at = start;
            let mut ranges = Vec::new();
            for (gap, pages, is_zero) in parts {
                at += gap * PAGE;
                ranges.push(range(at, at + pages * PAGE, false, is_zero));
                at += pages * PAGE;
            }
            let end = at + PAGE;
            let heap = seen(start, end, ranges.clone());
            let area = explain_heap(&heap, false, &word("always"), PageSize::PMD_2M);
            let mut next = start;
            for stretch in &area.stretches {
                prop_assert_eq!(stretch.address, next);
                next += stretch.length_bytes.0;
            }
            prop_assert_eq!(next, end);
            for pair in area.stretches.windows(2) {
                prop_assert_ne!(&pair[0].standing, &pair[1].standing);
            }
            // Slot by slot, asked the plain way.
            let is_touched = |slot: u64| ranges.iter().any(|range| {
                !range.is_zero && range.start.0 < slot + HUGE && range.end.0 > slot
            });
            let whole = (start.next_multiple_of(HUGE)..end).step_by(HUGE as usize);
            for slot in whole.filter(|slot| slot + HUGE <= end) {
                let stretch = area.stretches.iter().rfind(|stretch| stretch.address <= slot);
                let small = stretch.is_some_and(|s| s.standing == HugeStanding::SmallPages);
                prop_assert_eq!(small, is_touched(slot));
            }
        }
    }
}
