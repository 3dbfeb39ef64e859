use super::*;
use pagewise_model::PageSize;
use pagewise_model::cache::SlotMap;
use pagewise_model::text::{ImagePlacement, LoadSegment};
use proptest::prelude::*;

const SIZES: PageSizePair = PageSizePair { base: PageSize::BASE_4K, huge: PageSize::PMD_2M };
const HUGE: u64 = SIZES.huge.bytes();
const PAGE: u64 = SIZES.base.bytes();

fn segment(offset: u64, address: u64, file: u64, flags: &str) -> LoadSegment {
    LoadSegment {
        offset_bytes: Bytes(offset),
        address,
        file_bytes: Bytes(file),
        align_bytes: Bytes(PAGE),
        is_writable: flags.contains('w'),
        is_executable: flags.contains('x'),
    }
}

/// The headers of a C++ compiler of a distribution: `ET_EXEC`, offsets and addresses congruent.
fn compiler() -> ElfLayout {
    ElfLayout {
        placement: ImagePlacement::Fixed,
        segments: vec![
            segment(0, 0x40_0000, 0x25_78b0, "r"),
            segment(0x25_8000, 0x65_8000, 0x153_2be5, "rx"),
            segment(0x178_b000, 0x1b8_b000, 0xa3_6673, "r"),
            segment(0x21c_1b80, 0x25c_2b80, 0xfd78, "rw"),
        ],
    }
}

/// Text and data of a database server: position independent, R, R-X, R.
fn server(align: u64) -> ElfLayout {
    let mut segments = vec![
        segment(0, 0, 0x10_0000, "r"),
        segment(0x10_0000, 0x10_0000, 0x52_0000, "rx"),
        segment(0x62_0000, 0x62_0000, 0x23_0000, "r"),
        segment(0x85_0000, 0x85_1000, 0x1_0000, "rw"),
    ];
    segments.iter_mut().for_each(|segment| segment.align_bytes = Bytes(align));
    ElfLayout { placement: ImagePlacement::Program, segments }
}

fn cache(slot: CacheSlot) -> CacheSeen {
    CacheSeen { slots: Fact::Known(SlotMap(vec![slot; 64])), base_pages_alone: None }
}

fn reached(layout: &ElfLayout, placed: bool) -> [TextCoverage; 3] {
    let found = reach(layout, placed, &SIZES);
    [found[0].huge, found[1].huge, found[2].huge]
}

#[test]
fn a_fixed_program_gets_the_whole_slots_of_each_mapping() {
    let [warm, aligned, merged] = reached(&compiler(), true);
    assert_eq!(warm.text_bytes, Bytes(9 * HUGE), "0x800000 to 0x1a00000");
    assert_eq!(warm.read_only_bytes, Bytes(HUGE + 4 * HUGE));
    assert_eq!(aligned, warm);
    let text = 0x1b8_b000 - 0x65_8000;
    assert_eq!(merged.text_bytes, Bytes(text), "all of it lies within other slots' mappings");
    let areas = explain_file(&compiler(), true, &cache(CacheSlot::Huge), &SIZES);
    let kinds: Vec<TextAreaKind> = areas.iter().map(|area| area.kind).collect();
    assert_eq!(kinds, [TextAreaKind::ReadOnly, TextAreaKind::Text, TextAreaKind::ReadOnly]);
    assert_eq!(areas[1].huge(), warm.text_bytes);
    assert_eq!(areas[1].size(), Bytes(text));
    assert_eq!(areas[1].pieces[0].standing, HugeStanding::Boundary);
}

#[test]
fn a_position_independent_program_is_congruent_by_chance_until_it_is_aligned() {
    let [warm, aligned, merged] = reached(&server(PAGE), true);
    assert_eq!(warm, TextCoverage::default());
    assert_eq!(aligned.text_bytes, Bytes(2 * HUGE));
    let all = merged.text_bytes.0 + merged.read_only_bytes.0;
    assert_eq!(all, 4 * HUGE, "all four slots of 0x850000 bytes");
    let areas = explain_file(&server(PAGE), true, &cache(CacheSlot::Huge), &SIZES);
    assert_eq!(areas[1].pieces[0].standing, HugeStanding::ByChance { one_in: 512 });
    assert_eq!(areas[0].pieces[0].standing, HugeStanding::TooSmall);
    assert_eq!(reached(&server(HUGE), true)[0], aligned);
}

#[test]
fn a_library_goes_with_the_place_of_its_file() {
    let library = ElfLayout { placement: ImagePlacement::Library, ..server(PAGE) };
    assert_eq!(reached(&library, true)[0].text_bytes, Bytes(2 * HUGE));
    assert_eq!(reached(&library, false)[0], TextCoverage::default());
    let moved = ElfLayout {
        placement: ImagePlacement::Mapped,
        segments: vec![segment(0, 0x10_0000, 3 * HUGE, "rx")],
    };
    let areas = explain_file(&moved, true, &cache(CacheSlot::Huge), &SIZES);
    assert_eq!(areas[0].huge(), Bytes(3 * HUGE), "address and offset differ by a constant alone");
}

#[test]
fn a_library_with_an_alignment_of_its_own_goes_by_that() {
    let of = |placement| ElfLayout { placement, ..server(16 * PAGE) };
    assert_eq!(reached(&of(ImagePlacement::Library), true)[0], TextCoverage::default());
    let areas = explain_file(&of(ImagePlacement::Library), true, &cache(CacheSlot::Huge), &SIZES);
    assert_eq!(areas[1].pieces[0].standing, HugeStanding::ByChance { one_in: 32 });
    assert_eq!(reached(&of(ImagePlacement::Mapped), true)[0].text_bytes, Bytes(2 * HUGE));
}

#[test]
fn an_aligned_image_begins_at_a_boundary_whatever_its_first_address_is() {
    let mut part = segment(PAGE, PAGE, 4 * HUGE, "rx");
    part.align_bytes = Bytes(HUGE);
    let layout = ElfLayout { placement: ImagePlacement::Program, segments: vec![part] };
    let areas = explain_file(&layout, true, &cache(CacheSlot::Huge), &SIZES);
    let off = HugeStanding::Incongruent { off_by_bytes: Bytes(HUGE - PAGE) };
    assert_eq!(areas[0].pieces[0].standing, off);
    assert_eq!(reached(&layout, true)[0], TextCoverage::default());
}

#[test]
fn addresses_that_are_off_say_by_how_much() {
    let layout = ElfLayout {
        placement: ImagePlacement::Fixed,
        segments: vec![segment(0, 0x40_1000, 3 * HUGE, "rx")],
    };
    let areas = explain_file(&layout, true, &cache(CacheSlot::Huge), &SIZES);
    let off = HugeStanding::Incongruent { off_by_bytes: Bytes(PAGE) };
    assert!(areas[0].pieces.iter().all(|piece| piece.standing == off));
    assert_eq!(areas[0].size(), Bytes(3 * HUGE));
}

#[test]
fn a_page_that_two_segments_share_is_the_later_ones_and_neighbours_are_joined() {
    let layout = ElfLayout {
        placement: ImagePlacement::Fixed,
        segments: vec![
            segment(0, 0x40_0000, PAGE + 1, "rx"),
            segment(PAGE + 1, 0x40_0000 + PAGE + 1, 3 * PAGE, "rw"),
        ],
    };
    let ranges = mapped(&layout, SIZES.base);
    assert_eq!((ranges[0].end, ranges[1].start), (0x40_0000 + PAGE, 0x40_0000 + PAGE));
    let joined = ElfLayout {
        placement: ImagePlacement::Fixed,
        segments: vec![
            segment(0, 0x40_0000, HUGE / 2, "rx"),
            segment(HUGE / 2, 0x40_0000 + HUGE / 2, HUGE / 2, "rx"),
        ],
    };
    assert_eq!(reached(&joined, true)[0].text_bytes, Bytes(HUGE));
}

#[test]
fn every_state_of_the_cache_has_its_reason() {
    let standing = |seen: &CacheSeen| {
        let areas = explain_file(&compiler(), true, seen, &SIZES);
        areas[1].pieces[1].standing.clone()
    };
    assert_eq!(standing(&cache(CacheSlot::Whole)), HugeStanding::SmallFolio);
    assert_eq!(standing(&cache(CacheSlot::Asked)), HugeStanding::SmallFolio);
    assert_eq!(standing(&cache(CacheSlot::Absent)), HugeStanding::NotCached);
    let hidden = CacheSeen { slots: Fact::missing("x"), base_pages_alone: None };
    assert_eq!(standing(&hidden), HugeStanding::NotKnown { why: "x".into() });
    let small = CacheSeen { base_pages_alone: Some("vfat".into()), ..cache(CacheSlot::Whole) };
    assert_eq!(standing(&small), HugeStanding::FileSystem { name: "vfat".into() });
}

/// A congruent mapping of three slots, the middle one as seen.
fn running(slot: SlotSeen, cached: CacheSlot, is_disabled: bool) -> HugeStanding {
    let start = 8 * HUGE + HUGE / 2;
    let seen = TextMappingSeen {
        kind: TextAreaKind::Text,
        start,
        end: start + 2 * HUGE,
        offset: HUGE / 2,
        slots: vec![slot],
    };
    let area = explain_mapping(&seen, &cache(cached), is_disabled, &SIZES);
    assert_eq!(area.pieces.len(), 3);
    assert_eq!(after_warm(&[seen], &SIZES).text_bytes, Bytes(HUGE));
    area.pieces[1].standing.clone()
}

#[test]
fn a_running_process_has_one_reason_for_each_slot() {
    let small = SlotSeen { present_pages: 9, ..SlotSeen::default() };
    let huge = SlotSeen { is_huge: true, present_pages: 512, private_pages: 0 };
    assert_eq!(running(huge, CacheSlot::Whole, true), HugeStanding::Huge);
    assert_eq!(running(small, CacheSlot::Whole, true), HugeStanding::Disabled);
    assert_eq!(running(small, CacheSlot::Whole, false), HugeStanding::SmallFolio);
    assert_eq!(running(small, CacheSlot::Huge, false), HugeStanding::PageTable);
    assert_eq!(running(SlotSeen::default(), CacheSlot::Huge, false), HugeStanding::NotTouched);
    let copied = SlotSeen { private_pages: 2, ..small };
    let standing = running(copied, CacheSlot::Huge, false);
    assert_eq!(standing, HugeStanding::PrivateCopy { copied_bytes: Bytes(2 * PAGE) });
}

/// Memory of no file from the middle of a slot on, with these whole slots.
fn generated(slots: &[SlotSeen]) -> TextMappingSeen {
    let start = 8 * HUGE + HUGE / 2;
    let end = start + HUGE / 2 + slots.len() as u64 * HUGE;
    TextMappingSeen { kind: TextAreaKind::Text, start, end, offset: start, slots: slots.to_vec() }
}

#[test]
fn generated_code_on_small_pages_can_be_collapsed_where_it_was_touched() {
    let small = SlotSeen { present_pages: 9, private_pages: 9, is_huge: false };
    let huge = SlotSeen { is_huge: true, present_pages: 512, private_pages: 512 };
    let seen = generated(&[small, huge, SlotSeen::default(), small]);
    let area = explain_generated(&seen, false, &SIZES);
    let standings: Vec<&HugeStanding> = area.pieces.iter().map(|piece| &piece.standing).collect();
    use HugeStanding::{Boundary, Disabled, Huge, NotTouched, SmallPages};
    assert_eq!(standings, [&Boundary, &SmallPages, &Huge, &NotTouched, &SmallPages]);
    assert_eq!(collapsible(&area).collect::<Vec<_>>(), [9 * HUGE, 12 * HUGE]);
    let off = explain_generated(&seen, true, &SIZES);
    assert_eq!((&off.pieces[1].standing, &off.pieces[2].standing), (&Disabled, &Huge));
    assert_eq!(collapsible(&off).count(), 0);
    let filled = generated(&[huge, huge, SlotSeen::default(), small]);
    let (seen, filled) = ([seen], [filled]);
    assert_eq!(growth(&seen, &filled, SIZES.base), Bytes(503 * PAGE));
    assert_eq!(growth(&filled, &seen, SIZES.base), Bytes(0));
    // Shared memory lies by its offset too.
    let [seen] = seen;
    let shared = TextMappingSeen { offset: PAGE, ..seen };
    let area = explain_generated(&shared, false, &SIZES);
    assert!(area.pieces.iter().all(|p| matches!(p.standing, HugeStanding::Incongruent { .. })));
}

#[test]
fn read_only_data_and_private_copies_are_not_collapsed() {
    let slot = SlotSeen { present_pages: 9, ..SlotSeen::default() };
    let copied = SlotSeen { private_pages: 1, ..slot };
    let of = |kind, slot, cached| {
        let seen =
            TextMappingSeen { kind, start: HUGE, end: 2 * HUGE, offset: 0, slots: vec![slot] };
        collapsible(&explain_mapping(&seen, &cache(cached), false, &SIZES)).count()
    };
    assert_eq!(of(TextAreaKind::Text, slot, CacheSlot::Whole), 1);
    assert_eq!(
        of(TextAreaKind::Text, slot, CacheSlot::Huge),
        1,
        "blocked by a table of small pages"
    );
    assert_eq!(of(TextAreaKind::Text, copied, CacheSlot::Whole), 0);
    assert_eq!(of(TextAreaKind::ReadOnly, slot, CacheSlot::Whole), 0);
}

/// Segments as linkers lay them out: rising, each page aligned with its offset.
fn layouts() -> impl Strategy<Value = ElfLayout> {
    let part = (0..3000_u64, 1..6 * HUGE, 0..3_usize, 0..4_u64);
    let placements = [
        ImagePlacement::Fixed,
        ImagePlacement::Program,
        ImagePlacement::Library,
        ImagePlacement::Mapped,
    ];
    let aligns = [PAGE, 16 * PAGE, HUGE];
    let parts = prop::collection::vec(part, 1..6);
    (parts, 0..4_usize, 0..3_usize, 0..4 * HUGE / PAGE).prop_map(move |(parts, p, a, first)| {
        let (mut offset, mut address) = (0, first * PAGE);
        let mut segments = Vec::new();
        for (gap, file, flags, shift) in parts {
            offset += gap * PAGE;
            address += (gap + shift) * PAGE;
            let mut next = segment(offset, address, file, ["r", "rx", "rw"][flags]);
            next.align_bytes = Bytes(aligns[a]);
            segments.push(next);
            offset = (offset + file).next_multiple_of(PAGE);
            address = (address + file).next_multiple_of(PAGE);
        }
        ElfLayout { placement: placements[p], segments }
    })
}

proptest! {
    #[test]
    fn pieces_tile_their_areas_and_huge_ones_are_whole(layout in layouts(), placed: bool) {
        let areas = explain_file(&layout, placed, &cache(CacheSlot::Huge), &SIZES);
        for area in &areas {
            for pair in area.pieces.windows(2) {
                let end = pair[0].address + pair[0].length_bytes.0;
                prop_assert_eq!(end, pair[1].address);
                let from = pair[0].offset_bytes.0 + pair[0].length_bytes.0;
                prop_assert_eq!(from, pair[1].offset_bytes.0);
            }
            for piece in area.pieces.iter().filter(|piece| piece.standing == HugeStanding::Huge) {
                prop_assert_eq!(piece.length_bytes, Bytes(HUGE));
                prop_assert_eq!(piece.offset_bytes.0 % HUGE, 0, "one folio holds it");
            }
        }
        let sum: u64 = areas.iter().map(|area| area.size().0).sum();
        let read_only = mapped(&layout, SIZES.base).into_iter().filter(|range| range.kind.is_some());
        prop_assert_eq!(sum, read_only.map(|range| range.len()).sum::<u64>());
    }

    #[test]
    fn what_is_predicted_is_what_a_warm_cache_gives(layout in layouts(), placed: bool) {
        let seen = CacheSeen {
            slots: Fact::Known(SlotMap(vec![CacheSlot::Huge; 128])),
            base_pages_alone: None,
        };
        let areas = explain_file(&layout, placed, &seen, &SIZES);
        let [warm, aligned, merged] = reached(&layout, placed);
        prop_assert_eq!(coverage(&areas, TextArea::huge), warm);
        let sum = |c: TextCoverage| c.text_bytes.0 + c.read_only_bytes.0;
        prop_assert!(sum(warm) <= sum(aligned) && sum(aligned) <= sum(merged));
        prop_assert!(merged.text_bytes <= size(&areas).text_bytes);
    }

    #[test]
    fn hostile_headers_are_taken(
        offset: u64, address: u64, file in 0..64 * HUGE, align: u64, flags in 0..3_usize, placed: bool,
    ) {
        let mut hostile = segment(offset, address, file, ["r", "rx", "rw"][flags]);
        hostile.align_bytes = Bytes(align);
        for placement in [ImagePlacement::Fixed, ImagePlacement::Program, ImagePlacement::Mapped] {
            let layout = ElfLayout { placement, segments: vec![hostile, hostile] };
            let _areas = explain_file(&layout, placed, &cache(CacheSlot::Part), &SIZES);
            prop_assert_eq!(reach(&layout, placed, &SIZES).len(), 3);
        }
    }
}

#[test]
fn sizes_are_numbers_that_linkers_take() {
    for is_merged in [false, true] {
        let advice = link_advice(is_merged, PageSize::PMD_2M);
        for text in [&advice.gnu, &advice.lld, &advice.script] {
            assert!(text.contains("0x200000") && !text.contains("2M"), "{text}");
        }
        assert_eq!(advice.script.matches("INSERT AFTER").count(), 2 - usize::from(is_merged));
    }
}
