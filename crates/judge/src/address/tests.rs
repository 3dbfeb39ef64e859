use super::*;
use pagewise_model::address::{AddressHalf, EntryRole, FrameFlags, PagemapWindow, SwapSlot};
use proptest::prelude::*;

const PAGE: u64 = PageSize::BASE_4K.bytes();
const HUGE: u64 = PageSize::PMD_2M.bytes();
const X86: AddressLayout =
    AddressLayout { base_page_bytes: PageSize::BASE_4K, address_bits: 48, user_bits: 47 };
const FIVE: AddressLayout = AddressLayout { address_bits: 57, user_bits: 56, ..X86 };
/// arm64 with 64 KiB pages: three levels. The kernel's half has its own bits.
const ARM: AddressLayout =
    AddressLayout { base_page_bytes: PageSize::BASE_64K, address_bits: 48, user_bits: 48 };
const START: u64 = 0x7f00_0020_0000;

fn names(layout: &AddressLayout) -> Vec<String> {
    levels(layout, 0, None).into_iter().map(|level| level.name).collect()
}

fn indices(layout: &AddressLayout, address: u64) -> Vec<u64> {
    levels(layout, address, None).iter().map(|level| level.index).collect()
}

fn roles(size: u64) -> Vec<EntryRole> {
    let levels = levels(&X86, START, PageSize::new(size));
    levels.iter().map(|level| level.role).collect()
}

#[test]
fn the_published_example() {
    // 0x0000f2705af953c0, taken through four levels in the study of pipes: bits 111100100 111000001
    // 011010111 110010101 and 001111000000.
    let address = 0x0000_f270_5af9_53c0;
    assert_eq!(
        indices(&X86, address),
        [0b1_1110_0100, 0b1_1100_0001, 0b0_1101_0111, 0b1_1001_0101]
    );
    assert_eq!(
        take_apart(&X86, VirtualAddress(address)).page_offset_bytes,
        Bytes(0b0011_1100_0000)
    );
    assert_eq!(half(&X86, address), AddressHalf::NotCanonical);
    assert_eq!(half(&FIVE, address), AddressHalf::User);
}

#[test]
fn levels_by_name() {
    assert_eq!(names(&X86), ["PGD", "PUD", "PMD", "PTE"]);
    assert_eq!(names(&FIVE), ["PGD", "P4D", "PUD", "PMD", "PTE"]);
    assert_eq!(names(&ARM), ["PGD", "PMD", "PTE"]);
    let top = &levels(&ARM, u64::MAX, None)[0];
    assert_eq!((top.high_bit, top.low_bit, top.index), (47, 42, 63));
}

#[test]
fn halves() {
    use AddressHalf::{Kernel, NotCanonical, User};
    let all = [0, (1 << 47) - 1, 1 << 47, u64::MAX - (1 << 47), u64::MAX - (1 << 47) + 1, u64::MAX];
    let expected = [User, User, NotCanonical, NotCanonical, Kernel, Kernel];
    assert_eq!(all.map(|address| half(&X86, address)), expected);
    assert_eq!(half(&FIVE, 1 << 55), User);
}

#[test]
fn a_walk_ends_where_the_page_is() {
    use EntryRole::{Beyond, Page, Table};
    assert_eq!(roles(PAGE), [Table, Table, Table, Page]);
    assert_eq!(roles(HUGE), [Table, Table, Page, Beyond]);
    assert_eq!(roles(1 << 30), [Table, Page, Beyond, Beyond]);
    assert_eq!(roles(PAGE * 16), [Table, Table, Table, Page], "joined by the lowest level");
    assert_eq!(levels(&X86, START, None)[0].role, EntryRole::NotKnown);
    assert_eq!(ARM.huge_page().map(PageSize::bytes), Some(512 << 20));
}

/// A mapping of eight pages at [`START`]. The first page has the entry `entry`.
fn seen(entry: PagemapEntry) -> AddressSeen {
    let mut entries = vec![PagemapEntry(0); 512];
    entries[0] = entry;
    let mapping = |start: u64, end: u64, offset| MemoryMapping {
        start_address: VirtualAddress(start),
        end_address: VirtualAddress(end),
        permissions: "rw-p".to_owned(),
        offset_bytes: offset,
        path: String::new(),
    };
    let residence = MappingResidence {
        kernel_page_bytes: Some(PageSize::BASE_4K),
        mmu_page_bytes: Some(PageSize::BASE_4K),
        resident_bytes: Bytes(PAGE),
        anon_huge_bytes: Bytes(0),
        file_pmd_mapped_bytes: Bytes(0),
        shmem_pmd_mapped_bytes: Bytes(0),
        pool_bytes: Bytes(0),
        swapped_bytes: Bytes(0),
        flags: vec!["rd".to_owned()],
    };
    AddressSeen {
        address: VirtualAddress(START + 0x123),
        mappings: vec![
            mapping(START - 8 * PAGE, START - PAGE, None),
            mapping(START, START + 8 * PAGE, Some(Bytes(PAGE))),
            mapping(START + HUGE, START + 2 * HUGE, None),
        ],
        residence: Fact::Known(residence),
        entries: Fact::Known(PagemapWindow { first_address: VirtualAddress(START), entries }),
        scanned: Fact::Known(Vec::new()),
        frame: Fact::missing("hidden"),
        keeps_soft_dirty: Fact::Known(true),
    }
}

const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;

fn memory(seen: &AddressSeen) -> AddressMemory {
    understand(&X86, seen).memory.expect("of a process")
}

fn page_of(seen: &AddressSeen) -> PageView {
    memory(seen).page.known().expect("an entry").clone()
}

fn scanned(is_huge: bool, is_zero: bool) -> Fact<Vec<ScannedRange>> {
    let (start, end) = (VirtualAddress(START), VirtualAddress(START + HUGE));
    Fact::Known(vec![ScannedRange { start, end, is_huge, is_zero }])
}

#[test]
fn states_by_their_bits() {
    let state = |bits| page_of(&seen(PagemapEntry(bits))).state;
    assert_eq!(state(PRESENT), PageState::Present);
    assert_eq!(state(SWAPPED), PageState::Swapped);
    assert_eq!(state(SWAPPED | 1 << 58), PageState::Guard);
    assert_eq!(state(0), PageState::Absent);
    let swapped = page_of(&seen(PagemapEntry(SWAPPED | 3 << 5)));
    assert_eq!(swapped.swapped_to, Some(Fact::Known(SwapSlot { space: 0, offset_pages: 3 })));
    let hidden = page_of(&seen(PagemapEntry(SWAPPED))).swapped_to;
    assert!(hidden.is_some_and(|slot| slot.reason().is_some_and(|why| why.contains("CAP_SYS"))));
    assert_eq!(page_of(&seen(PagemapEntry(0))).size_bytes.known(), None);
}

#[test]
fn sizes_are_proven_or_missing() {
    let size = |seen: &AddressSeen| page_of(seen).size_bytes;
    let mut present = seen(PagemapEntry(PRESENT));
    assert_eq!(size(&present), Fact::Known(PageSize::BASE_4K));
    present.scanned = scanned(true, false);
    assert_eq!(size(&present), Fact::Known(PageSize::PMD_2M));
    let levels = understand(&X86, &present).levels;
    assert_eq!(levels[2].role, EntryRole::Page);
    assert_eq!(page_of(&present).offset_bytes, Bytes(0x123));
    // A kernel without the ioctl: the counters of the mapping decide if they can.
    present.scanned = Fact::missing("no such call");
    assert_eq!(size(&present), Fact::Known(PageSize::BASE_4K));
    let with_huge = |huge, resident| {
        let mut seen = present.clone();
        if let Fact::Known(r) = &mut seen.residence {
            (r.anon_huge_bytes, r.resident_bytes) = (Bytes(huge), Bytes(resident));
        }
        size(&seen)
    };
    assert_eq!(with_huge(HUGE, HUGE), Fact::Known(PageSize::PMD_2M));
    let unknown = with_huge(HUGE, HUGE + PAGE);
    assert!(unknown.reason().is_some_and(|why| why.contains("no such call")), "{unknown:?}");
}

#[test]
fn pages_of_a_pool_have_its_size() {
    let mut pool = seen(PagemapEntry(PRESENT));
    let giant = PageSize::new(1 << 30);
    if let Fact::Known(residence) = &mut pool.residence {
        residence.kernel_page_bytes = giant;
    }
    pool.scanned = scanned(true, false);
    assert_eq!(page_of(&pool).size_bytes.known().copied(), giant);
    assert_eq!(understand(&X86, &pool).levels[1].role, EntryRole::Page);
}

#[test]
fn the_zero_page_is_reported() {
    let mut zero = seen(PagemapEntry(PRESENT));
    zero.scanned = scanned(false, true);
    assert_eq!(page_of(&zero).is_zero, Fact::Known(true));
    assert_eq!(page_of(&zero).size_bytes, Fact::Known(PageSize::BASE_4K));
    assert!(memory(&zero).around.known().is_some_and(|around| around.pages.starts_with("z...")));
}

#[test]
fn the_mapping_and_its_neighbours() {
    let inside = memory(&seen(PagemapEntry(0)));
    let within = inside.within.expect("in a mapping");
    assert_eq!(within.position_bytes, Some(Bytes(PAGE + 0x123)));
    assert_eq!(inside.before.map(|m| m.end_address), Some(VirtualAddress(START - PAGE)));
    assert_eq!(inside.after.map(|m| m.start_address), Some(VirtualAddress(START + HUGE)));
    let mut outside = seen(PagemapEntry(0));
    outside.address = VirtualAddress(START + 9 * PAGE);
    let outside = memory(&outside);
    assert_eq!(outside.within, None);
    assert_eq!(outside.before.map(|m| m.end_address), Some(VirtualAddress(START + 8 * PAGE)));
}

#[test]
fn the_pages_around_are_counted() {
    let around = memory(&seen(PagemapEntry(PRESENT))).around;
    let around = around.known().expect("entries");
    assert_eq!(around.pages.len(), 512);
    assert_eq!(&around.pages[..10], "#.......--");
    let counts = (around.present_pages, around.absent_pages, around.unmapped_pages);
    assert_eq!(counts, (1, 7, 504));
}

#[test]
fn nothing_is_reported_of_what_the_kernel_does_not_show() {
    let mut kernel = seen(PagemapEntry(0));
    kernel.address = VirtualAddress(u64::MAX - 5);
    kernel.entries = Fact::Known(PagemapWindow {
        first_address: VirtualAddress(u64::MAX - HUGE + 1),
        entries: vec![],
    });
    let memory = memory(&kernel);
    assert!(memory.page.reason().is_some_and(|why| why.contains("not an address of a process")));
    assert!(memory.around.reason().is_some());
}

fn window(first: u64, flags: &[u64]) -> FlagWindow {
    FlagWindow { first, flags: flags.iter().map(|bits| FrameFlags(*bits)).collect() }
}

#[test]
fn folios_by_heads_and_tails() {
    const HEAD: u64 = 1 << 15;
    const TAIL: u64 = 1 << 16;
    let flags = window(8, &[0, HEAD, TAIL, TAIL, TAIL, HEAD, TAIL, 0]);
    let found = |number| {
        let folio = folio(&flags, number, PageSize::BASE_4K);
        folio.known().map(|folio| (folio.first_frame, folio.frames))
    };
    assert_eq!(found(8), Some((8, 1)));
    assert_eq!([9, 10, 12].map(found), [Some((9, 4)); 3]);
    assert_eq!([13, 14].map(found), [Some((13, 2)); 2]);
    assert_eq!((found(7), found(16)), (None, None));
    assert_eq!(folio(&window(0, &[TAIL, TAIL]), 1, PageSize::BASE_4K).known(), None);
    let torn = folio(&window(0, &[HEAD, 0, TAIL]), 2, PageSize::BASE_4K);
    assert!(torn.reason().is_some_and(|why| why.contains("changed")));
}

#[test]
fn the_physical_address_is_in_the_frame() {
    // The frame under the address itself, also on a huge page.
    let physical = |layout: &AddressLayout, address: u64| {
        let flags = || Fact::missing("hidden");
        let mut seen = seen(PagemapEntry(PRESENT));
        seen.address = VirtualAddress(address);
        seen.frame =
            Fact::Known(FrameSeen { number: 0x12_3402, flags: flags(), map_count: Fact::Known(1) });
        let memory = understand(layout, &seen).memory.expect("of a process");
        memory.frame.known().map(|frame| frame.physical_address)
    };
    assert_eq!(physical(&X86, START + 0x123), Some(0x1_2340_2123));
    assert_eq!(physical(&ARM, START + 0x1_0123), Some(0x12_3402_0123), "frames of 64 KiB");
    assert_eq!(memory(&seen(PagemapEntry(PRESENT))).frame.known(), None);
}

proptest! {
    #[test]
    fn indices_and_offset_are_the_address(address: u64, bits in 20u32..=64, shift in 12u32..=16) {
        let page = PageSize::new(1 << shift).expect("a power of two");
        let layout = AddressLayout { base_page_bytes: page, address_bits: bits, user_bits: bits - 1 };
        let view = take_apart(&layout, VirtualAddress(address));
        let mut again = view.page_offset_bytes.0;
        for level in &view.levels {
            prop_assert!(level.low_bit <= level.high_bit && level.high_bit < bits);
            again |= level.index << level.low_bit;
        }
        let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
        prop_assert_eq!(again, address & mask);
        prop_assert!(view.levels.windows(2).all(|pair| pair[0].low_bit == pair[1].high_bit + 1));
    }

    #[test]
    fn each_address_is_somebodys_or_nobodys(address: u64) {
        let sign = address >> 47;
        let expected = match sign {
            0 => AddressHalf::User,
            s if s == u64::MAX >> 47 => AddressHalf::Kernel,
            _ => AddressHalf::NotCanonical,
        };
        prop_assert_eq!(half(&X86, address), expected);
    }

    #[test]
    fn anything_read_is_understood(
        address: u64,
        bits: Vec<u64>,
        flags: Vec<u64>,
        number: u64,
        first: u64,
        near in 0u64..4096,
    ) {
        let mut seen = seen(PagemapEntry(0));
        seen.address = VirtualAddress(address);
        let entries = bits.iter().map(|bits| PagemapEntry(*bits)).collect();
        let first_address = VirtualAddress(address.saturating_sub(near * PAGE));
        seen.entries = Fact::Known(PagemapWindow { first_address, entries });
        let window = window(first, &flags);
        seen.frame = Fact::Known(FrameSeen {
            number,
            flags: Fact::Known(window),
            map_count: Fact::Known(number),
        });
        for layout in [X86, FIVE, ARM] {
            let view = understand(&layout, &seen);
            let memory = view.memory.expect("of a process");
            if let Fact::Known(around) = memory.around {
                prop_assert_eq!(around.pages.len(), bits.len());
            }
        }
    }
}
