//! Why code is on huge pages or not, slot by slot, and how much of it each method would bring there.
//!
//! - [`explain_file`]: what a process that starts now will get;
//! - [`explain_mapping`]: what a running process has of a file;
//! - [`explain_generated`]: what it has of code that it generated, and which parts of either can be put on
//!   huge pages unchanged ([`collapsible`]);
//! - [`explain_heap`]: what it has of anonymous memory that it writes;
//! - [`reach`]: what warming, aligning and merging would reach, from the program headers alone;
//! - [`link_advice`]: the options that a linker needs to reach all of it.
//!
//! Each slot has one reason: the first obstacle, from what only another file could change (layout) to what
//! warming changes. A prediction is exact if the base of the image modulo a huge page is certain. If the base
//! is random, that is the reason given.

pub use heap::explain_heap;
pub use mapped::PageSizePair;
use mapped::{TextMapping, aligned_bias, bias, cut, mapped};
use pagewise_model::cache::CacheSlot;
use pagewise_model::fold::LinkAdvice;
use pagewise_model::text::{
    CacheSeen, ElfLayout, HugeStanding, MethodReach, SlotSeen, TextArea, TextAreaKind,
    TextCoverage, TextMappingSeen, TextMethod, TextPiece, coverage,
};
use pagewise_model::{Bytes, Fact, PageSize};

mod heap;
mod mapped;
#[cfg(test)]
mod tests;

/// The text and read-only data of a file as a process that starts now will map it.
#[must_use]
pub fn explain_file(
    layout: &ElfLayout,
    is_placed_aligned: bool,
    cache: &CacheSeen,
    sizes: &PageSizePair,
) -> Vec<TextArea> {
    let bias = bias(layout, is_placed_aligned, sizes);
    let area = |range: TextMapping| {
        let kind = range.kind?;
        let pieces = match (bias, is_too_small(range.len(), sizes)) {
            (_, true) => whole(&range, HugeStanding::TooSmall),
            (Err(one_in), false) => whole(&range, HugeStanding::ByChance { one_in }),
            (Ok(bias), false) => {
                pieces(&range, bias, sizes, &|_, offset| of_cache(cache, offset, sizes))
            }
        };
        Some(TextArea { kind, pieces })
    };
    mapped(layout, sizes.base).into_iter().filter_map(area).collect()
}

/// Explains a current mapping of a process.
#[must_use]
pub fn explain_mapping(
    seen: &TextMappingSeen,
    cache: &CacheSeen,
    is_disabled: bool,
    sizes: &PageSizePair,
) -> TextArea {
    explain_seen(seen, sizes, |slot, offset| {
        of_slot(slot, is_disabled, of_cache(cache, offset, sizes), sizes)
    })
}

/// Executable memory of no file as it is. Its slots are those of its addresses, or for shared memory of
/// both: what the kernel counts as the offset of anonymous memory is its address.
#[must_use]
pub fn explain_generated(
    seen: &TextMappingSeen,
    is_disabled: bool,
    sizes: &PageSizePair,
) -> TextArea {
    explain_seen(seen, sizes, |slot, _| {
        // All of its pages are private: there is no file that they could be copies of.
        let slot = SlotSeen { private_pages: 0, ..slot };
        of_slot(slot, is_disabled, HugeStanding::SmallPages, sizes)
    })
}

/// The addresses of text slots on smaller pages that the kernel can put on a huge page unchanged.
pub fn collapsible(area: &TextArea) -> impl Iterator<Item = u64> {
    let is_text = area.kind == TextAreaKind::Text;
    let may = |piece: &&TextPiece| {
        use HugeStanding::{FileSystem, NotCached, NotKnown, PageTable, SmallFolio, SmallPages};
        matches!(
            piece.standing,
            SmallPages | SmallFolio | PageTable | NotCached | FileSystem { .. } | NotKnown { .. }
        )
    };
    area.pieces.iter().filter(move |piece| is_text && may(piece)).map(|piece| piece.address)
}

/// How much more is resident in the whole slots of mappings than was at a first look.
#[must_use]
pub fn growth(before: &[TextMappingSeen], after: &[TextMappingSeen], base: PageSize) -> Bytes {
    let resident = |mappings: &[TextMappingSeen]| {
        let slots = mappings.iter().flat_map(|mapping| &mapping.slots);
        slots.map(|slot| slot.present_pages).sum::<u64>()
    };
    Bytes(resident(after).saturating_sub(resident(before)).saturating_mul(base.bytes()))
}

/// A mapping cut into pieces; `of_whole` says how a whole slot stands, at this offset of the file.
fn explain_seen(
    seen: &TextMappingSeen,
    sizes: &PageSizePair,
    of_whole: impl Fn(SlotSeen, u64) -> HugeStanding,
) -> TextArea {
    let range = of_seen(seen);
    let standing =
        |nth: usize, offset| of_whole(seen.slots.get(nth).copied().unwrap_or_default(), offset);
    let pieces = match is_too_small(range.len(), sizes) {
        true => whole(&range, HugeStanding::TooSmall),
        false => pieces(&range, 0, sizes, &standing),
    };
    TextArea { kind: seen.kind, pieces }
}

/// How much of a process's mappings of one file would be huge if that were warmed and the process
/// started again at the same addresses.
#[must_use]
pub fn after_warm(seen: &[TextMappingSeen], sizes: &PageSizePair) -> TextCoverage {
    let huge = |kind| {
        let mappings = seen.iter().filter(|seen| seen.kind == kind).map(of_seen);
        Bytes(mappings.map(|range| whole_slots(&range, 0, sizes)).sum())
    };
    TextCoverage {
        text_bytes: huge(TextAreaKind::Text),
        read_only_bytes: huge(TextAreaKind::ReadOnly),
    }
}

/// How much there is in areas.
#[must_use]
pub fn size(areas: &[TextArea]) -> TextCoverage {
    coverage(areas, TextArea::size)
}

/// What each method reaches.
#[must_use]
pub fn reach(
    layout: &ElfLayout,
    is_placed_aligned: bool,
    sizes: &PageSizePair,
) -> Vec<MethodReach> {
    let ranges = mapped(layout, sizes.base);
    let (bias, aligned) = (bias(layout, is_placed_aligned, sizes), aligned_bias(layout, sizes));
    let of = |method| match (method, bias) {
        (TextMethod::Warm, Err(_)) => TextCoverage::default(),
        (TextMethod::Warm | TextMethod::Aligned, bias) => {
            apart(&ranges, bias.unwrap_or(aligned), sizes)
        }
        (TextMethod::Merged, bias) => together(&ranges, bias.unwrap_or(aligned), sizes),
    };
    TextMethod::ALL.into_iter().map(|method| MethodReach { method, huge: of(method) }).collect()
}

/// Ranges each by itself.
fn apart(ranges: &[TextMapping], bias: u64, sizes: &PageSizePair) -> TextCoverage {
    let of = |kind| {
        let ranges = ranges.iter().filter(|range| range.kind == Some(kind));
        Bytes(ranges.map(|range| whole_slots(range, bias, sizes)).sum())
    };
    TextCoverage { text_bytes: of(TextAreaKind::Text), read_only_bytes: of(TextAreaKind::ReadOnly) }
}

/// Neighbours that are not writable and as far from their offsets as each other, as one.
fn together(ranges: &[TextMapping], bias: u64, sizes: &PageSizePair) -> TextCoverage {
    let fits = |a: &TextMapping, b: &TextMapping| {
        a.kind.is_some() && b.kind.is_some() && a.delta() == b.delta()
    };
    let mut sum = TextCoverage::default();
    for group in ranges.chunk_by(fits) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let Some(slots) = slots_of(&TextMapping { end: last.end, ..*first }, bias, sizes) else {
            continue;
        };
        for range in group {
            let huge = Bytes(range.end.min(slots.end).saturating_sub(range.start.max(slots.start)));
            match range.kind {
                Some(TextAreaKind::Text) => sum.text_bytes += huge,
                Some(TextAreaKind::ReadOnly) => sum.read_only_bytes += huge,
                None => {}
            }
        }
    }
    sum
}

/// The range of whole slots of a congruent range. `None` if there are none.
fn slots_of(range: &TextMapping, bias: u64, sizes: &PageSizePair) -> Option<std::ops::Range<u64>> {
    if off_by(range, bias, sizes) != 0 {
        return None;
    }
    let placed = range.start.checked_add(bias)?..range.end.checked_add(bias)?;
    let slots = sizes.huge.whole_within(placed)?;
    Some(slots.start - bias..slots.end - bias)
}

fn whole_slots(range: &TextMapping, bias: u64, sizes: &PageSizePair) -> u64 {
    slots_of(range, bias, sizes).map_or(0, |slots| slots.end - slots.start)
}

/// The difference of the remainders of address and offset.
const fn off_by(range: &TextMapping, bias: u64, sizes: &PageSizePair) -> u64 {
    range.delta().wrapping_add(bias) % sizes.huge.bytes()
}

const fn is_too_small(len: u64, sizes: &PageSizePair) -> bool {
    len < sizes.huge.bytes()
}

const fn of_seen(seen: &TextMappingSeen) -> TextMapping {
    let TextMappingSeen { kind, start, end, offset, .. } = *seen;
    TextMapping { kind: Some(kind), start, end, offset }
}

/// A range as one piece.
fn whole(range: &TextMapping, standing: HugeStanding) -> Vec<TextPiece> {
    vec![piece((range.start, range.offset, range.len()), standing)]
}

/// A range cut into pieces; `of_whole` says how the nth whole slot stands, at this offset of the file.
fn pieces(
    range: &TextMapping,
    bias: u64,
    sizes: &PageSizePair,
    of_whole: &dyn Fn(usize, u64) -> HugeStanding,
) -> Vec<TextPiece> {
    let off_by_bytes = Bytes(off_by(range, bias, sizes));
    let mut nth = 0;
    let stands = |cut: (u64, u64, u64)| {
        let is_whole = cut.2 == sizes.huge.bytes();
        let standing = match (off_by_bytes, is_whole) {
            (Bytes(1..), _) => HugeStanding::Incongruent { off_by_bytes },
            (Bytes(0), false) => HugeStanding::Boundary,
            (Bytes(0), true) => of_whole(nth, cut.1),
        };
        nth += usize::from(is_whole);
        piece(cut, standing)
    };
    cut(range, bias, sizes.huge).into_iter().map(stands).collect()
}

const fn piece((address, offset, length): (u64, u64, u64), standing: HugeStanding) -> TextPiece {
    TextPiece { address, offset_bytes: Bytes(offset), length_bytes: Bytes(length), standing }
}

/// The standing of a whole slot, from what the cache holds at this offset.
fn of_cache(cache: &CacheSeen, offset: u64, sizes: &PageSizePair) -> HugeStanding {
    if let Some(name) = &cache.base_pages_alone {
        return HugeStanding::FileSystem { name: name.clone() };
    }
    match &cache.slots {
        Fact::Missing(why) => HugeStanding::NotKnown { why: why.clone() },
        Fact::Known(slots) => match slots.at(offset, sizes.huge) {
            Some(CacheSlot::Huge) => HugeStanding::Huge,
            Some(CacheSlot::Whole | CacheSlot::Part | CacheSlot::Asked) => HugeStanding::SmallFolio,
            Some(CacheSlot::Absent) | None => HugeStanding::NotCached,
        },
    }
}

/// The standing of a whole slot of a process. `of_cache` is the standing in a fresh mapping.
fn of_slot(
    slot: SlotSeen,
    is_disabled: bool,
    of_cache: HugeStanding,
    sizes: &PageSizePair,
) -> HugeStanding {
    match slot {
        SlotSeen { is_huge: true, .. } => HugeStanding::Huge,
        _ if is_disabled => HugeStanding::Disabled,
        SlotSeen { private_pages: pages @ 1.., .. } => {
            let copied_bytes = Bytes(pages.saturating_mul(sizes.base.bytes()));
            HugeStanding::PrivateCopy { copied_bytes }
        }
        SlotSeen { present_pages: 0, .. } => HugeStanding::NotTouched,
        _ if of_cache == HugeStanding::Huge => HugeStanding::PageTable,
        _ => of_cache,
    }
}

// How a linker lays out a program so that all of its code can be on huge pages. A copy with other headers
// does this only in part, since it cannot move anything.
//
// With `max-page-size` as large as a huge page, GNU ld and lld begin every part at a multiple of it, in the
// file and in memory. So each part is congruent. With `common-page-size` GNU ld does the same for data that
// become read-only after relocation. Sizes are plain numbers: ld does not accept `2M`. The file grows by up
// to one slot of zeros for each part. `separate-code` keeps text and read-only data apart. With
// `noseparate-code` (lld: `--no-rosegment`) they are one part, and read-only data can be executed.
//
// A part still ends within its last slot. The script fills that slot: it adds a section after the last one of
// the part, up to the next multiple. It extends the default script of GNU ld (`INSERT`), and begins with a
// byte because an empty section would take no space.

/// The options and the script; `is_merged` where text and read-only data are to be one part.
#[must_use]
pub fn link_advice(is_merged: bool, huge: PageSize) -> LinkAdvice {
    let size = format!("{:#x}", huge.bytes());
    let (code, rosegment) =
        if is_merged { ("noseparate-code", " -Wl,--no-rosegment") } else { ("separate-code", "") };
    LinkAdvice {
        gnu: format!("-Wl,-z,max-page-size={size} -Wl,-z,common-page-size={size} -Wl,-z,{code}"),
        lld: format!("-Wl,-z,max-page-size={size} -Wl,-z,separate-loadable-segments{rosegment}"),
        script: script(is_merged, &size),
    }
}

fn script(is_merged: bool, size: &str) -> String {
    let fill = |section: &str, after: &str| {
        format!(
            "SECTIONS\n{{\n  {section} : {{ BYTE(0) . = ALIGN({size}); }}\n}}\nINSERT AFTER {after};\n"
        )
    };
    // The last code section in the default script, and the last read-only one.
    let read_only = fill(".huge_read_only_tail", ".exception_ranges");
    if is_merged { read_only } else { fill(".huge_text_tail", ".fini") + &read_only }
}
