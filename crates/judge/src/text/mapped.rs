//! From program headers to mappings: which ranges of address space loaders map to which part of a file,
//! and where the boundaries of huge pages will be in them.
//!
//! Kernel and dynamic loader map each `PT_LOAD` by itself, whole pages of it (fs/binfmt_elf.c,
//! `elf_load`; glibc, `_dl_map_segments`); a later one takes the page that it shares with the one
//! before, and the kernel joins neighbours that continue each other. The base is 0 for `ET_EXEC`; for a
//! position-independent program a random multiple of its largest alignment; for libraries it goes with
//! the first mapping, which file systems with huge pages place congruent with the file
//! (mm/huge_memory.c, `thp_get_unmapped_area`), or, by glibc 2.35, at a multiple of that alignment.

use pagewise_model::PageSize;
use pagewise_model::text::{ElfLayout, ImagePlacement, LoadSegment, TextAreaKind};

/// A range of addresses that is one mapping of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TextMapping {
    /// The kind of area. `None` if it is writable.
    pub(super) kind: Option<TextAreaKind>,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
}

impl TextMapping {
    pub(super) const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// How far addresses are from offsets.
    pub(super) const fn delta(&self) -> u64 {
        self.start.wrapping_sub(self.offset)
    }
}

/// The mappings of an image, by address.
pub(super) fn mapped(layout: &ElfLayout, base: PageSize) -> Vec<TextMapping> {
    let mut segments: Vec<&LoadSegment> = layout.segments.iter().collect();
    segments.sort_by_key(|segment| segment.address);
    let mut found: Vec<TextMapping> = Vec::new();
    for next in segments.into_iter().filter_map(|segment| of_segment(segment, base)) {
        if let Some(last) = found.last_mut() {
            last.end = last.end.min(next.start);
            if last.end == next.start && last.kind == next.kind && last.delta() == next.delta() {
                last.end = next.end;
                continue;
            }
            if last.len() == 0 {
                found.pop();
            }
        }
        found.push(next);
    }
    found
}

fn of_segment(segment: &LoadSegment, base: PageSize) -> Option<TextMapping> {
    let page = base.bytes();
    let (start, offset) = (segment.address / page * page, segment.offset_bytes.0 / page * page);
    let end = segment.address.checked_add(segment.file_bytes.0)?.checked_next_multiple_of(page)?;
    let kind = match (segment.is_writable, segment.is_executable) {
        (true, _) => None,
        (false, true) => Some(TextAreaKind::Text),
        (false, false) => Some(TextAreaKind::ReadOnly),
    };
    (segment.file_bytes.0 > 0).then_some(TextMapping { kind, start, end, offset })
}

/// What is added to the addresses of an image when it is mapped, by the remainder of a huge page; or in
/// how many starts it has one certain remainder once.
pub(super) fn bias(
    layout: &ElfLayout,
    is_placed_aligned: bool,
    sizes: &PageSizePair,
) -> Result<u64, u64> {
    let PageSizePair { base, huge } = *sizes;
    let aligns = layout.segments.iter().map(|segment| segment.align_bytes.0);
    let align = aligns.filter(|align| align.is_power_of_two()).max().unwrap_or(1).max(base.bytes());
    let first = layout.segments.iter().min_by_key(|segment| segment.address);
    match layout.placement {
        ImagePlacement::Fixed => Ok(0),
        _ if align >= huge.bytes() => Ok(aligned_bias(layout, sizes)),
        // glibc places it by its alignment in anonymous memory, not where its file would be placed.
        ImagePlacement::Library if align > base.bytes() => Err(huge.bytes() / align),
        ImagePlacement::Program => Err(huge.bytes() / align),
        ImagePlacement::Library | ImagePlacement::Mapped if is_placed_aligned => Ok(first
            .map_or(0, |first| first.offset_bytes.0.wrapping_sub(first.address) % huge.bytes())),
        ImagePlacement::Library | ImagePlacement::Mapped => Err(huge.bytes() / base.bytes()),
    }
}

/// The same of an image that is aligned to huge pages: its first page begins at a boundary.
pub(super) fn aligned_bias(layout: &ElfLayout, sizes: &PageSizePair) -> u64 {
    let first = layout.segments.iter().map(|segment| segment.address).min().unwrap_or_default();
    match layout.placement {
        ImagePlacement::Fixed => 0,
        _ => (first / sizes.base.bytes() * sizes.base.bytes()).wrapping_neg() % sizes.huge.bytes(),
    }
}

/// Base page and huge page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSizePair {
    pub base: PageSize,
    pub huge: PageSize,
}

/// A range cut at the boundaries of huge pages: address, offset and length of each piece.
pub(super) fn cut(range: &TextMapping, bias: u64, huge: PageSize) -> Vec<(u64, u64, u64)> {
    let size = huge.bytes();
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let to_boundary = size - at.wrapping_add(bias) % size;
        let len = to_boundary.min(range.end - at);
        found.push((at, range.offset.wrapping_add(at - range.start), len));
        at += len;
    }
    found
}
