//! Interprets what was read of an address: the levels that the processor walks, the state and size of the
//! page, its frame and folio, the mapping and the pages around it.
//!
//! Pure. Sizes and offsets are in bytes. The page size is never guessed: either `PAGEMAP_SCAN` or the
//! counters of the mapping prove it, or it is missing.

use pagewise_model::address::{
    AddressHalf, AddressLayout, AddressMemory, AddressSeen, AddressView, ContainingMapping,
    EntryRole, FlagWindow, Folio, FrameSeen, MappingResidence, MemoryMapping, PageFrame, PageState,
    PageTableLevel, PageView, PagemapEntry, ScannedRange, SurroundingPages, VirtualAddress,
};
use pagewise_model::{Bytes, Fact, PageSize};

/// An address by itself, without a process.
#[must_use]
pub fn take_apart(layout: &AddressLayout, address: VirtualAddress) -> AddressView {
    AddressView {
        address,
        half: half(layout, address.0),
        levels: levels(layout, address.0, None),
        page_offset_bytes: offset(address.0, layout.base_page_bytes),
        memory: None,
    }
}

/// Interprets an address of a process from what was read of it.
#[must_use]
pub fn understand(layout: &AddressLayout, seen: &AddressSeen) -> AddressView {
    let page = page(layout, seen);
    let size = page.known().and_then(|page| page.size_bytes.known().copied());
    let frame = seen.frame.clone().map(|frame| explain(layout, seen.address, &frame));
    AddressView {
        levels: levels(layout, seen.address.0, size),
        memory: Some(AddressMemory {
            within: within(seen),
            before: neighbour_below(seen),
            after: neighbour_above(seen),
            page,
            frame,
            around: around(layout, seen),
        }),
        ..take_apart(layout, seen.address)
    }
}

fn offset(address: u64, page: PageSize) -> Bytes {
    Bytes(address % page.bytes())
}

/// The mapping that the address is in.
fn mapping(seen: &AddressSeen) -> Option<&MemoryMapping> {
    seen.mappings.iter().find(|mapping| mapping.contains(seen.address.0))
}

fn within(seen: &AddressSeen) -> Option<ContainingMapping> {
    let mapping = mapping(seen)?.clone();
    let inside = seen.address.0 - mapping.start_address.0;
    let position_bytes = mapping.offset_bytes.map(|begin| begin + Bytes(inside));
    Some(ContainingMapping { mapping, position_bytes, residence: seen.residence.clone() })
}

fn neighbour_below(seen: &AddressSeen) -> Option<MemoryMapping> {
    let below = seen.mappings.iter().filter(|m| m.end_address.0 <= seen.address.0);
    below.max_by_key(|mapping| mapping.end_address).cloned()
}

fn neighbour_above(seen: &AddressSeen) -> Option<MemoryMapping> {
    let above = seen.mappings.iter().filter(|m| m.start_address.0 > seen.address.0);
    above.min_by_key(|mapping| mapping.start_address).cloned()
}

/// The entry of the address itself.
fn entry(layout: &AddressLayout, seen: &AddressSeen) -> Fact<PagemapEntry> {
    let entries = match &seen.entries {
        Fact::Known(entries) => entries,
        Fact::Missing(why) => return Fact::missing(why),
    };
    let from_first = seen.address.0.checked_sub(entries.first_address.0);
    let nth = from_first.and_then(|b| usize::try_from(b / layout.base_page_bytes.bytes()).ok());
    nth.and_then(|nth| entries.entries.get(nth).copied()).map_or_else(
        || Fact::missing("the kernel shows no entry there: it is not an address of a process"),
        Fact::Known,
    )
}

fn page(layout: &AddressLayout, seen: &AddressSeen) -> Fact<PageView> {
    entry(layout, seen).map(|entry| {
        let state = state(entry);
        let size_bytes = match state {
            PageState::Present => size(layout, seen),
            _ => Fact::missing("no page is mapped"),
        };
        let size = size_bytes.known().copied().unwrap_or(layout.base_page_bytes);
        let is_zero = match state {
            PageState::Present => seen.scanned.clone().map(|ranges| {
                ranges.iter().any(|range| range.contains(seen.address.0) && range.is_zero)
            }),
            _ => Fact::Known(false),
        };
        let hidden = "hidden without CAP_SYS_ADMIN";
        let slot = || entry.swap_slot().map_or_else(|| Fact::missing(hidden), Fact::Known);
        PageView {
            state,
            size_bytes,
            offset_bytes: offset(seen.address.0, size),
            is_of_file_or_shared: entry.is_of_file_or_shared(),
            is_exclusive: entry.is_exclusive(),
            is_zero,
            is_soft_dirty: match &seen.keeps_soft_dirty {
                Fact::Known(true) => Fact::Known(entry.is_soft_dirty()),
                Fact::Known(false) => Fact::missing("this kernel keeps no soft-dirty bits"),
                Fact::Missing(why) => Fact::missing(why),
            },
            is_write_protected: entry.is_write_protected(),
            swapped_to: (state == PageState::Swapped).then(slot),
        }
    })
}

const fn state(entry: PagemapEntry) -> PageState {
    match (entry.is_present(), entry.is_guard(), entry.is_swapped()) {
        (true, ..) => PageState::Present,
        (_, true, _) => PageState::Guard,
        (.., true) => PageState::Swapped,
        _ => PageState::Absent,
    }
}

/// The size of a present page. A reserved pool has a fixed size. Otherwise `PAGEMAP_SCAN` decides, or the
/// counters of the mapping if only one size fits them.
fn size(layout: &AddressLayout, seen: &AddressSeen) -> Fact<PageSize> {
    let base = layout.base_page_bytes;
    let pool = |r: &MappingResidence| r.kernel_page_bytes.filter(|page| *page > base);
    if let Some(page) = seen.residence.known().and_then(pool) {
        return Fact::Known(page);
    }
    let Some(huge) = layout.huge_page() else { return Fact::Known(base) };
    let why = match &seen.scanned {
        Fact::Known(ranges) => {
            let is_huge = |r: &ScannedRange| r.is_huge;
            let found = ranges.iter().find(|range| range.contains(seen.address.0));
            return Fact::Known(if found.is_some_and(is_huge) { huge } else { base });
        }
        Fact::Missing(why) => why,
    };
    match seen.residence.known().map(|r| (mapped_huge(r), r.resident_bytes)) {
        Some((Bytes(0), _)) => Fact::Known(base),
        Some((mapped, resident)) if mapped == resident => Fact::Known(huge),
        _ => Fact::missing(format!(
            "some of the mapping is mapped huge; which part is unknown: {why}"
        )),
    }
}

fn mapped_huge(residence: &MappingResidence) -> Bytes {
    residence.anon_huge_bytes + residence.file_pmd_mapped_bytes + residence.shmem_pmd_mapped_bytes
}

fn explain(layout: &AddressLayout, address: VirtualAddress, seen: &FrameSeen) -> PageFrame {
    let of_window = |window: &FlagWindow| {
        let nth = usize::try_from(seen.number.checked_sub(window.first)?).ok()?;
        window.flags.get(nth).copied()
    };
    let none = || Fact::missing("the kernel has no flags for this frame");
    let flags = match &seen.flags {
        Fact::Known(window) => of_window(window).map_or_else(none, |f| Fact::Known(f.names())),
        Fact::Missing(why) => Fact::missing(why),
    };
    let folio = match &seen.flags {
        Fact::Known(window) => folio(window, seen.number, layout.base_page_bytes),
        Fact::Missing(why) => Fact::missing(why),
    };
    let base = layout.base_page_bytes;
    let first_byte = seen.number.saturating_mul(base.bytes());
    PageFrame {
        number: seen.number,
        physical_address: first_byte.saturating_add(offset(address.0, base).0),
        flags,
        map_count: seen.map_count.clone(),
        folio,
    }
}

fn around(layout: &AddressLayout, seen: &AddressSeen) -> Fact<SurroundingPages> {
    let entries = match &seen.entries {
        Fact::Known(entries) if entries.entries.is_empty() => {
            return Fact::missing("the kernel shows no entries there");
        }
        Fact::Known(entries) => entries,
        Fact::Missing(why) => return Fact::missing(why),
    };
    let page = layout.base_page_bytes.bytes();
    let none = Vec::new();
    let ranges = seen.scanned.known().unwrap_or(&none);
    let mut pages = String::with_capacity(entries.entries.len());
    for (nth, entry) in entries.entries.iter().enumerate() {
        let address = entries.first_address.0.saturating_add(nth as u64 * page);
        let range = ranges.iter().find(|range| range.contains(address));
        pages.push(match state(*entry) {
            PageState::Present if range.is_some_and(|range| range.is_huge) => 'H',
            PageState::Present if range.is_some_and(|range| range.is_zero) => 'z',
            PageState::Present => '#',
            PageState::Guard => 'g',
            PageState::Swapped => 's',
            PageState::Absent if seen.mappings.iter().any(|m| m.contains(address)) => '.',
            PageState::Absent => '-',
        });
    }
    let count = |wanted: &str| pages.chars().filter(|cell| wanted.contains(*cell)).count() as u64;
    let (present_pages, huge_pages, swapped_pages) = (count("Hz#"), count("H"), count("s"));
    let (guard_pages, absent_pages, unmapped_pages) = (count("g"), count("."), count("-"));
    Fact::Known(SurroundingPages {
        start_address: entries.first_address,
        pages,
        present_pages,
        huge_pages,
        swapped_pages,
        guard_pages,
        absent_pages,
        unmapped_pages,
    })
}

#[cfg(test)]
mod tests;

// The folio of a frame, by the marks that its frames carry: the first one is a head, all others are
// tails, and a frame with neither is a folio by itself.

/// The folio that contains frame `number`, if all of it lies in `window`. A folio that ends at the end of the
/// window counts as whole: folios and windows both lie at multiples of their size.
fn folio(window: &FlagWindow, number: u64, base: PageSize) -> Fact<Folio> {
    let beyond = || Fact::missing("the folio begins before the frames that were read");
    let inside = number.checked_sub(window.first).and_then(|nth| usize::try_from(nth).ok());
    let Some((own, nth)) = inside.and_then(|nth| Some((window.flags.get(nth)?, nth))) else {
        return beyond();
    };
    if !own.is_head() && !own.is_tail() {
        return Fact::Known(Folio {
            first_frame: number,
            frames: 1,
            size_bytes: Bytes(base.bytes()),
        });
    }
    let Some(head) = window.flags[..=nth].iter().rposition(|flags| flags.is_head()) else {
        return beyond();
    };
    let tails = window.flags[head + 1..].iter().take_while(|flags| flags.is_tail()).count();
    if head + tails < nth {
        return Fact::missing("its frames changed while they were read");
    }
    let frames = tails as u64 + 1;
    Fact::Known(Folio {
        first_frame: window.first + head as u64,
        frames,
        size_bytes: Bytes(frames.saturating_mul(base.bytes())),
    })
}

// The levels of the page table. A table fills one base page with entries of 8 bytes. So each level uses
// log2(entries per table) bits of the address, and the top level uses the remaining bits.

/// The name of a level, by how many are below and above it.
const fn name(below: u32, above: u32) -> &'static str {
    match (below, above) {
        (0, _) => "PTE",
        (_, 0) => "PGD",
        (1, _) => "PMD",
        (2, _) => "PUD",
        _ => "P4D",
    }
}

/// Whose an address is.
#[must_use]
pub fn half(layout: &AddressLayout, address: u64) -> AddressHalf {
    let user = 1u64.checked_shl(layout.user_bits).unwrap_or(0);
    match address {
        _ if address < user => AddressHalf::User,
        _ if address >= user.wrapping_neg() && user != 0 => AddressHalf::Kernel,
        _ => AddressHalf::NotCanonical,
    }
}

/// The levels on the way to `address`, top level first. Ends at a page of `size` if the size is known.
#[must_use]
pub fn levels(layout: &AddressLayout, address: u64, size: Option<PageSize>) -> Vec<PageTableLevel> {
    let (shift, width) = (layout.page_bits(), layout.table_bits().max(1));
    let top = layout.address_bits.min(u64::BITS);
    let count = top.saturating_sub(shift).div_ceil(width);
    let span = |nth: u32| 1u64 << (shift + nth * width);
    // The walk ends at the highest level whose entry covers no more than the page.
    let last =
        size.map(|size| (1..count).rev().find(|nth| span(*nth) <= size.bytes()).unwrap_or(0));
    let level = |nth: u32| {
        let low_bit = shift + nth * width;
        let end = (low_bit + width).min(top);
        PageTableLevel {
            name: name(nth, count - 1 - nth).to_owned(),
            high_bit: end - 1,
            low_bit,
            index: address >> low_bit & ((1 << (end - low_bit)) - 1),
            entry_spans_bytes: Bytes(span(nth)),
            role: match last {
                None => EntryRole::NotKnown,
                Some(last) if nth > last => EntryRole::Table,
                Some(last) if nth == last => EntryRole::Page,
                Some(_) => EntryRole::Beyond,
            },
        }
    };
    (0..count).rev().map(level).collect()
}
