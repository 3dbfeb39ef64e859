//! Addresses as terminal text: constructed ones against reviewed texts in `tests/golden`, and hostile ones.
//! `UPDATE_GOLDEN` writes the texts again.

use crate::support::{HOSTILE, PLAIN, assert_harmless, check};
use pagewise_model::address::{
    ADDRESS_SCHEMA, AddressHalf, AddressLayout, AddressMemory, AddressReport, AddressView,
    ContainingMapping, EntryRole, ExaminedProcess, Folio, MappingResidence, MemoryMapping,
    PageFrame, PageState, PageTableLevel, PageView, SurroundingPages, SwapSlot, VirtualAddress,
};
use pagewise_model::{Bytes, Fact, PageSize};
use pagewise_report::TerminalStyle;
use pagewise_report::address::render;
use pagewise_report::escape::cells;
use proptest::prelude::*;

const START: u64 = 0x7f00_0020_0000;

fn level(name: &str, low_bit: u32, index: u64, role: EntryRole) -> PageTableLevel {
    PageTableLevel {
        name: name.to_owned(),
        high_bit: low_bit + 8,
        low_bit,
        index,
        entry_spans_bytes: Bytes(1 << low_bit),
        role,
    }
}

fn levels(on_huge: bool) -> Vec<PageTableLevel> {
    let (huge, base) = if on_huge {
        (EntryRole::Page, EntryRole::Beyond)
    } else {
        (EntryRole::Table, EntryRole::Page)
    };
    vec![
        level("PGD", 39, 254, EntryRole::Table),
        level("PUD", 30, 0, EntryRole::Table),
        level("PMD", 21, 1, huge),
        level("PTE", 12, 2, base),
    ]
}

fn mapping(start: u64, end: u64, path: &str) -> MemoryMapping {
    MemoryMapping {
        start_address: VirtualAddress(start),
        end_address: VirtualAddress(end),
        permissions: "rw-p".to_owned(),
        offset_bytes: (!path.is_empty()).then_some(Bytes::kib(64)),
        path: path.to_owned(),
    }
}

fn memory(on_huge: bool) -> AddressMemory {
    let size = if on_huge { PageSize::PMD_2M } else { PageSize::BASE_4K };
    let residence = MappingResidence {
        kernel_page_bytes: Some(PageSize::BASE_4K),
        mmu_page_bytes: Some(PageSize::BASE_4K),
        resident_bytes: Bytes::mib(2),
        anon_huge_bytes: Bytes(if on_huge { size.bytes() } else { 0 }),
        file_pmd_mapped_bytes: Bytes(0),
        shmem_pmd_mapped_bytes: Bytes(0),
        pool_bytes: Bytes(0),
        swapped_bytes: Bytes(0),
        flags: ["rd", "wr", "hg", "qq"].map(str::to_owned).to_vec(),
    };
    let position = Bytes::kib(64) + Bytes(0x2010);
    AddressMemory {
        within: Some(ContainingMapping {
            mapping: mapping(START, START + PageSize::PMD_2M.bytes(), "/usr/lib/an example.so"),
            position_bytes: Some(position),
            residence: Fact::Known(residence),
        }),
        before: Some(mapping(START - (1 << 30), START - (1 << 29), "")),
        after: Some(mapping(START + PageSize::PMD_2M.bytes(), START + (1 << 22), "[heap]")),
        page: Fact::Known(PageView {
            state: PageState::Present,
            size_bytes: Fact::Known(size),
            offset_bytes: Bytes(if on_huge { 0x2010 } else { 0x10 }),
            is_of_file_or_shared: false,
            is_exclusive: true,
            is_zero: Fact::Known(false),
            is_soft_dirty: Fact::missing("this kernel keeps no soft-dirty bits"),
            is_write_protected: false,
            swapped_to: None,
        }),
        frame: Fact::Known(PageFrame {
            number: 0x12_3402,
            physical_address: 0x1_2340_2010,
            flags: Fact::Known(["up to date", "LRU", "anonymous"].map(str::to_owned).to_vec()),
            map_count: Fact::Known(1),
            folio: Fact::Known(Folio {
                first_frame: 0x12_3400,
                frames: 512,
                size_bytes: Bytes::mib(2),
            }),
        }),
        around: Fact::Known(around(on_huge)),
    }
}

fn around(on_huge: bool) -> SurroundingPages {
    let pages = if on_huge {
        "H".repeat(512)
    } else {
        format!("##.{}z-{}", "#".repeat(100), "-".repeat(407))
    };
    let count = |cell: char| pages.chars().filter(|c| *c == cell).count() as u64;
    SurroundingPages {
        start_address: VirtualAddress(START),
        present_pages: count('#') + count('H') + count('z'),
        huge_pages: count('H'),
        swapped_pages: 0,
        guard_pages: 0,
        absent_pages: count('.'),
        unmapped_pages: count('-'),
        pages,
    }
}

fn view(memory: AddressMemory, on_huge: bool) -> AddressView {
    AddressView {
        address: VirtualAddress(START + 0x2010),
        half: AddressHalf::User,
        levels: levels(on_huge),
        page_offset_bytes: Bytes(0x10),
        memory: Some(memory),
    }
}

fn report(addresses: Vec<AddressView>) -> AddressReport {
    let is_of_process = addresses.iter().all(|view| view.memory.is_some());
    let command = ["/usr/bin/example", "--with", "words in it"].map(str::to_owned).to_vec();
    AddressReport {
        schema: ADDRESS_SCHEMA,
        pagewise: "0".to_owned(),
        process: is_of_process.then_some(ExaminedProcess { pid: 4242, command }),
        layout: AddressLayout {
            base_page_bytes: PageSize::BASE_4K,
            address_bits: 48,
            user_bits: 47,
        },
        page_sizes_bytes: vec![PageSize::BASE_4K, PageSize::PMD_2M],
        addresses,
    }
}

#[test]
fn an_address_on_a_base_page() {
    check("address.txt", &render(&report(vec![view(memory(false), false)]), &PLAIN));
}

#[test]
fn an_address_on_a_huge_page_without_rights() {
    let mut huge = memory(true);
    huge.frame = Fact::missing("its number is hidden from this account");
    let mut wide = view(huge, true);
    wide.levels[0].role = EntryRole::Table;
    check("address-huge.txt", &render(&report(vec![wide]), &PLAIN));
}

#[test]
fn an_address_alone() {
    let alone = AddressView {
        address: VirtualAddress(0xf270_5af9_53c0),
        half: AddressHalf::NotCanonical,
        levels: levels(false)
            .into_iter()
            .map(|l| PageTableLevel { role: EntryRole::NotKnown, ..l })
            .collect(),
        page_offset_bytes: Bytes(0x3c0),
        memory: None,
    };
    let text = render(&report(vec![alone]), &PLAIN);
    assert!(text.contains("bits 63 to 47 are not all equal") && text.contains("five levels"));
    assert!(text.contains("001111000000") && !text.contains("process 4242"), "{text}");
}

/// An address without a process on a machine with five levels, on a page that an entry of `page` maps if named.
fn deep(page: Option<&str>) -> AddressReport {
    let names = ["PGD", "P4D", "PUD", "PMD", "PTE"];
    let address = 0x00aa_bbcc_ddee_f123u64;
    let ends = names.iter().position(|name| Some(*name) == page);
    let level = |(nth, name): (usize, &&str)| {
        let low_bit = 48 - 9 * u32::try_from(nth).expect("small");
        let role = match ends {
            None => EntryRole::NotKnown,
            Some(end) if nth < end => EntryRole::Table,
            Some(end) if nth == end => EntryRole::Page,
            Some(_) => EntryRole::Beyond,
        };
        level(name, low_bit, address >> low_bit & 511, role)
    };
    let view = AddressView {
        address: VirtualAddress(address),
        half: AddressHalf::User,
        levels: names.iter().enumerate().map(level).collect(),
        page_offset_bytes: Bytes(0x123),
        memory: None,
    };
    let mut report = report(vec![view]);
    (report.layout.address_bits, report.layout.user_bits) = (57, 56);
    report
}

#[test]
fn five_levels_are_drawn_in_80_columns() {
    let style = TerminalStyle { unicode: false, ..PLAIN };
    let text = render(&deep(None), &style);
    check("address-deep.txt", &text);
    assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 80), "{text}");
}

#[test]
fn the_offset_has_the_bits_that_the_walk_leaves() {
    let offset = |page| {
        let text = render(&deep(Some(page)), &PLAIN);
        let row = text.lines().find(|line| line.trim_start().starts_with("offset"));
        let words: Vec<String> =
            row.expect("a row").split_whitespace().take(3).map(str::to_owned).collect();
        assert!(text.lines().all(|line| cells(line) <= 80), "{text}");
        (words[1].clone(), words[2].parse::<u64>().expect("decimal"), text)
    };
    let (bits, value, text) = offset("PTE");
    assert_eq!((bits.as_str(), value), ("11-0", 0x123));
    assert!(text.contains("4 KiB page") && text.contains("+0x123"), "{text}");
    let (bits, value, text) = offset("PMD");
    assert_eq!((bits.as_str(), value), ("20-0", 0xe_f123));
    assert!(text.contains("2 MiB page") && !text.contains("PTE"), "{text}");
    let (bits, value, text) = offset("PUD");
    assert_eq!((bits.as_str(), value), ("29-0", 0x1dee_f123));
    assert!(text.contains("1 GiB page") && !text.contains("PMD"), "{text}");
    assert!(text.contains(&format!("{:030b}", 0x1dee_f123)), "{text}");
}

#[test]
fn without_room_for_the_drawing_the_rows_have_the_bits() {
    let text = render(&deep(Some("PTE")), &TerminalStyle { width: 71, ..PLAIN });
    assert!(text.contains("in binary") && text.contains("000100100011"), "{text}");
    assert!(!text.contains("CR3"), "{text}");
    let drawn = render(&deep(Some("PTE")), &TerminalStyle { width: 72, ..PLAIN });
    assert!(drawn.contains("CR3") && !drawn.contains("in binary"), "{drawn}");
}

#[test]
fn states_are_reported_first() {
    let first = |state, within: bool| {
        let mut memory = memory(false);
        if let Fact::Known(page) = &mut memory.page {
            page.state = state;
            page.size_bytes = Fact::missing("no page is mapped");
            let slot = SwapSlot { space: 0, offset_pages: 7 };
            page.swapped_to = (state == PageState::Swapped).then_some(Fact::Known(slot));
        }
        memory.within = memory.within.filter(|_| within);
        render(&report(vec![view(memory, false)]), &PLAIN)
    };
    assert!(first(PageState::Absent, true).contains("no page present: the next touch is a fault"));
    assert!(first(PageState::Absent, false).contains("not mapped: any touch is fatal"));
    assert!(first(PageState::Guard, true).contains("a guard"));
    assert!(first(PageState::Swapped, true).contains("swap space 0, page 7"));
}

proptest! {
    #[test]
    fn lines_fit_and_do_no_harm(width in 40usize..100, unicode: bool, address: u64, bits in 0u64..1 << 40) {
        let mut memory = memory(false);
        if let Some(within) = &mut memory.within {
            within.mapping.path = HOSTILE.repeat(3);
        }
        if let Fact::Known(around) = &mut memory.around {
            around.start_address = VirtualAddress(address);
        }
        if let Fact::Known(frame) = &mut memory.frame {
            frame.flags = Fact::missing(HOSTILE);
            frame.number = frame.number.max(bits);
        }
        let mut view = view(memory, false);
        view.address = VirtualAddress(address);
        let style = TerminalStyle { colour: false, width, unicode };
        let text = render(&report(vec![view]), &style);
        assert_harmless(&text);
        for line in text.lines() {
            prop_assert!(cells(line) <= width.clamp(40, 160), "{}", line);
        }
    }
}
