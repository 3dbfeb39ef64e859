//! What the kernel maps along with a faulting page of a file (fault-around), and how much of it is never
//! touched.
//!
//! A read or a fetch that finds no page maps the surrounding pages that are in the page cache: 64 KiB,
//! aligned by address, cut to the mapping and to one page table. If the mapping begins inside that range, the
//! kernel maps a full 64 KiB from its start (mm/memory.c, `do_fault_around`). Writes map no other pages, nor
//! do faults on other memory. Pages that are already mapped do not change.
//!
//! A recording with a fault for each page (`--exact`) knows every touch. What an ordinary run maps for them
//! is computed fault by fault: a page without a fault was never touched. In an ordinary recording the windows
//! are the kernel's own, but only writes inside them are seen. There the pages without a fault are an upper
//! bound for what is never touched.
//!
//! Assumed: windows of 64 KiB (the default; root can change it in debugfs), and pages that are cached and
//! within the file. Not known: what a file system with larger folios maps beyond its window, and faults of
//! the kernel whose access is unknown.

use super::mappings::MappingExtent;
use super::touched::{PageHistory, PageTouchCounts, WORD_BITS, bits_of, each_within};
use pagewise_model::fault::FaultAround;
use pagewise_model::{Bytes, PageSize};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// What one fault maps, by default (mm/memory.c, `fault_around_pages`).
pub(super) const WINDOW: Bytes = Bytes::kib(64);

/// Sums over all processes.
#[derive(Debug)]
pub(super) struct FaultAroundTotals {
    base: PageSize,
    is_exact: bool,
    faults: u64,
    /// Pages mapped along.
    mapped: u64,
    /// Those of them that later faulted.
    touched: u64,
}

/// The pages of a process that were mapped along with others: a bit each.
#[derive(Debug, Clone, Default)]
pub(super) struct FaultAroundPages(FxHashMap<u64, u64>);

/// A fault on a page of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FilePageFault {
    pub(super) page: u64,
    /// What was known of the page.
    pub(super) before: PageHistory,
    /// It is a read or a fetch that found no page.
    pub(super) may_map: bool,
}

impl FaultAroundTotals {
    pub(super) const fn new(base: PageSize, is_exact: bool) -> Self {
        Self { base, is_exact, faults: 0, mapped: 0, touched: 0 }
    }

    /// A process with these pages has faulted on one of a file mapped over `extent`.
    pub(super) fn fault(
        &mut self,
        beside: &mut FaultAroundPages,
        touched: &PageTouchCounts,
        touch: FilePageFault,
        extent: MappingExtent,
    ) {
        let was_mapped = beside.is_mapped(touch.page);
        // A page that was already touched is not mapped along.
        self.touched += u64::from(was_mapped && touch.before != PageHistory::Touched);
        // A mapped page does not fault on a read: only the exact recording caused this fault.
        if !touch.may_map || (self.is_exact && was_mapped) {
            return;
        }
        self.faults += 1;
        for other in self.window(touch.page, extent) {
            if other != touch.page && !touched.holds(other) && beside.map(other) {
                self.mapped += 1;
            }
        }
    }

    /// The pages that a fault on `page` maps, itself included.
    fn window(&self, page: u64, extent: MappingExtent) -> Range<u64> {
        let base = self.base.bytes();
        let window = (WINDOW.0 / base).max(1);
        // A page table is a page of 8-byte entries.
        let table = base / size_of::<u64>() as u64;
        let first = (page - page % window).max(extent.start / base);
        let end_of_table = (page - page % table).saturating_add(table);
        first..first.saturating_add(window).min(end_of_table).min(extent.end.div_ceil(base))
    }

    pub(super) fn sums(&self) -> FaultAround {
        let bytes = |pages: u64| Bytes(pages.saturating_mul(self.base.bytes()));
        FaultAround {
            faults: self.faults,
            mapped_bytes: bytes(self.mapped),
            untouched_bytes: bytes(self.mapped - self.touched),
        }
    }
}

impl FaultAroundPages {
    fn is_mapped(&self, page: u64) -> bool {
        self.0.get(&(page / WORD_BITS)).is_some_and(|mapped| mapped & bit(page) != 0)
    }

    /// True for a page that was not mapped yet.
    fn map(&mut self, page: u64) -> bool {
        let mapped = self.0.entry(page / WORD_BITS).or_default();
        let is_new = *mapped & bit(page) == 0;
        *mapped |= bit(page);
        is_new
    }

    /// Something else is mapped over the pages from `first` up to `end`.
    pub(super) fn forget(&mut self, first: u64, end: u64) {
        each_within(&mut self.0, WORD_BITS, &(first..end), |start, mapped| {
            *mapped &= !bits_of(start, &(first..end));
        });
    }
}

const fn bit(page: u64) -> u64 {
    1 << (page % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::super::mappings::ProcessMappings;
    use super::*;

    const BASE: u64 = PageSize::BASE_4K.bytes();
    /// The first page of a page table.
    const TABLE: u64 = 512 * 1000;

    /// Faults, pages mapped along and never touched, after faults on these pages of a file that is
    /// mapped over `mapping`; those that do not write.
    fn seen(is_exact: bool, mapping: Range<u64>, faults: &[(u64, bool)]) -> (u64, u64, u64) {
        let mut mappings = ProcessMappings::default();
        mappings.insert_plain(mapping.start * BASE, mapping.end * BASE, Some(0));
        let mut around = FaultAroundTotals::new(PageSize::BASE_4K, is_exact);
        let (mut beside, mut touched) = (FaultAroundPages::default(), PageTouchCounts::default());
        for (page, may_map) in faults {
            let extent = mappings.extent(page * BASE);
            let touch =
                FilePageFault { page: *page, before: touched.add(*page), may_map: *may_map };
            around.fault(&mut beside, &touched, touch, extent);
        }
        let sums = around.sums();
        (sums.faults, sums.mapped_bytes.0 / BASE, sums.untouched_bytes.0 / BASE)
    }

    fn read(pages: impl Iterator<Item = u64>) -> Vec<(u64, bool)> {
        pages.map(|page| (TABLE + page, true)).collect()
    }

    #[test]
    fn what_is_read_in_a_window_is_no_waste() {
        let whole = TABLE..TABLE + 64;
        assert_eq!(seen(true, whole.clone(), &read(0..64)), (4, 60, 0));
        assert_eq!(seen(true, whole.clone(), &read((0..64).rev())), (4, 60, 0));
        // One page of each window; then the last three of the second as well.
        let sparse = read((0..64).step_by(16));
        assert_eq!(seen(true, whole.clone(), &sparse), (4, 60, 60));
        let more: Vec<_> = sparse.iter().copied().chain(read(29..32)).collect();
        assert_eq!(seen(true, whole.clone(), &more), (4, 60, 57));
        // Without an exact recording, a second fault in a window means that its page was not mapped.
        assert_eq!(seen(false, whole.clone(), &read([3, 5].into_iter())), (2, 15, 14));
        assert_eq!(seen(true, whole, &read([3, 5].into_iter())), (1, 15, 14));
    }

    #[test]
    fn windows_end_with_the_mapping_and_the_page_table() {
        // A full window from where the mapping begins. The next one is aligned and overlaps it.
        let from_middle = TABLE + 8..TABLE + 40;
        assert_eq!(seen(true, from_middle.clone(), &read([9].into_iter())), (1, 15, 15));
        assert_eq!(seen(true, from_middle.clone(), &read([9, 23].into_iter())), (1, 15, 14));
        assert_eq!(seen(true, from_middle, &read([9, 24].into_iter())), (2, 22, 22));
        let short = TABLE..TABLE + 3;
        assert_eq!(seen(true, short, &read([1].into_iter())), (1, 2, 2));
        let across = TABLE + 505..TABLE + 600;
        assert_eq!(seen(true, across, &read([506].into_iter())), (1, 6, 6));
    }

    #[test]
    fn writes_map_nothing_and_touch_what_was_mapped() {
        let whole = TABLE..TABLE + 16;
        assert_eq!(seen(true, whole.clone(), &[(TABLE + 2, false)]), (0, 0, 0));
        // A page that is already present is not mapped along.
        assert_eq!(seen(true, whole.clone(), &[(TABLE + 2, false), (TABLE, true)]), (1, 14, 14));
        let again = [(TABLE, true), (TABLE + 2, false), (TABLE + 2, false)];
        assert_eq!(seen(false, whole, &again), (1, 15, 14));
    }

    #[test]
    fn a_new_mapping_begins_anew_and_what_was_wasted_stays_so() {
        for range in [TABLE..TABLE + 16, 0..u64::MAX, TABLE - 700..TABLE + 90] {
            let mut mappings = ProcessMappings::default();
            mappings.insert_plain(TABLE * BASE, (TABLE + 16) * BASE, Some(0));
            let extent = mappings.extent(TABLE * BASE);
            let mut around = FaultAroundTotals::new(PageSize::BASE_4K, true);
            let (mut beside, mut touched) =
                (FaultAroundPages::default(), PageTouchCounts::default());
            for _ in 0..2 {
                let touch =
                    FilePageFault { page: TABLE, before: touched.add(TABLE), may_map: true };
                around.fault(&mut beside, &touched, touch, extent);
                beside.forget(range.start, range.end);
                touched.remap(range.start, range.end);
            }
            let sums = around.sums();
            assert_eq!((sums.faults, sums.untouched_bytes.0 / BASE), (2, 30), "{range:?}");
        }
        let mut kept = FaultAroundPages::default();
        kept.map(TABLE);
        kept.forget(TABLE + 1, TABLE + 500);
        kept.forget(TABLE, TABLE);
        assert!(kept.is_mapped(TABLE));
    }
}
