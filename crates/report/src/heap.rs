//! Memory of no file that a process writes, for people: what of it is on huge pages, and why the rest is not.
//!
//! Each mapping has a row for each reason, where that stands first; the saved form has every stretch.

use crate::code::{of, reason};
use crate::number::counted;
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::heap::HeapArea;
use pagewise_model::text::Standing;
use pagewise_model::{Bytes, PageSize};

/// Mappings that are listed.
const MAPPINGS: usize = 12;

/// The mappings that have most, in a section of its own; nothing where nothing is there.
pub(crate) fn heap_section(areas: &[HeapArea], slot: PageSize) -> Document {
    let mut page = Document::default();
    let there = sum(areas, |area| area.populated_bytes);
    if there == Bytes(0) {
        return Document::default();
    }
    page.single("private memory without a file: heap, stacks, arenas", 0, Tone::Strong);
    let huge = sum(areas, HeapArea::huge);
    page.para(&format!("{} of the resident memory on huge pages", of(huge, there)), 2, Tone::Plain);
    let is_large =
        |area: &&HeapArea| area.stretches.iter().any(|s| s.standing != Standing::TooSmall);
    let (mut large, small): (Vec<&HeapArea>, Vec<&HeapArea>) = areas.iter().partition(is_large);
    large.sort_by_key(|area| std::cmp::Reverse(area.populated_bytes));
    if !large.is_empty() {
        let (first, rest) = large.split_at(large.len().min(MAPPINGS));
        page.append(rows(first, slot));
        others(&mut page, rest, "more");
    }
    others(&mut page, &small, "smaller than a huge page");
    let rows = "each row sums the whole slots of a mapping in the same state, ordered by the first slot; --json lists every slot. Shared memory is not shown";
    page.para(rows, 2, Tone::Faint);
    page
}

fn sum<'a>(
    areas: impl IntoIterator<Item = &'a HeapArea>,
    of: impl Fn(&HeapArea) -> Bytes,
) -> Bytes {
    areas.into_iter().fold(Bytes(0), |sum, area| sum + of(area))
}

/// Mappings that have no row.
fn others(page: &mut Document, areas: &[&HeapArea], what: &str) {
    if areas.is_empty() {
        return;
    }
    let there = sum(areas.iter().copied(), |area| area.populated_bytes);
    let n = counted(areas.len() as u64, "mapping", "mappings");
    page.para(&format!("{n} {what}, {there} there"), 2, Tone::Faint);
}

fn rows(areas: &[&HeapArea], usual: PageSize) -> Document {
    let columns = [
        ("", Align::Name),
        ("from", Align::Right),
        ("slots", Align::Decimal),
        ("on a huge page, or why not", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for area in areas {
        for (address, size, standing) in by_reason(area) {
            let tone = if *standing == Standing::Huge { Tone::Good } else { Tone::Plain };
            let mut why = reason(standing, size.0 / area.slot_bytes.bytes());
            if area.slot_bytes != usual && *standing == Standing::Huge {
                why = format!("{why} of {}", area.slot_bytes);
            }
            let name = if area.name.is_empty() { "nameless" } else { &area.name };
            table.row(vec![
                name.into(),
                format!("{address:#x}").into(),
                size.to_string().into(),
                Cell::new(why, tone),
            ]);
        }
    }
    table.into()
}

/// How much of a mapping stands each way, and where the first of it is.
fn by_reason(area: &HeapArea) -> Vec<(u64, Bytes, &Standing)> {
    let mut found: Vec<(u64, Bytes, &Standing)> = Vec::new();
    for stretch in &area.stretches {
        match found.iter_mut().find(|(.., standing)| **standing == stretch.standing) {
            Some((_, size, _)) => *size += stretch.length_bytes,
            None => found.push((stretch.address, stretch.length_bytes, &stretch.standing)),
        }
    }
    found
}
