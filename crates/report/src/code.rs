//! Code on huge pages for people, in parts that several reports share: a file, its pieces with the reasons
//! why they are not on huge pages, and the machine's totals.
//!
//! Adjacent pieces in the same state share a row; the saved form has each of them.

use crate::cache::cached_file;
use crate::number::{counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::collapse::{CollapsedPart, CollapsedProcess};
use pagewise_model::heap::HeapArea;
use pagewise_model::text::{HugeStanding, HugeTotals, TextArea, TextFile, TextPiece, coverage};
use pagewise_model::{Bytes, PageSize};

/// `18.0 MiB of 21.2 MiB (85%)`.
pub(crate) fn part_of(part: Bytes, all: Bytes) -> String {
    if all == Bytes(0) {
        return "nothing".to_owned();
    }
    format!("{part} of {all} ({})", percent(part.0 as f64 / all.0 as f64))
}

/// A file: its cache, and how much of its code will be on huge pages.
pub(crate) fn warmed(file: &TextFile) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.append(cached_file(&file.cache));
    let (huge, size) = (file.huge(), file.size);
    page.para(
        &format!(
            "new starts have {} of text and {} of read-only data on huge pages",
            part_of(huge.text_bytes, size.text_bytes),
            part_of(huge.read_only_bytes, size.read_only_bytes)
        ),
        2,
        TextTone::Strong,
    );
    page
}

/// Rows of adjacent pieces in the same state.
pub(crate) fn pieces(areas: &[TextArea]) -> ReportDocument {
    let columns = [
        ("", ColumnAlignment::Left),
        ("address", ColumnAlignment::Right),
        ("size", ColumnAlignment::Decimal),
        ("on a huge page, or why not", ColumnAlignment::Left),
    ];
    let mut table = ReportTable::new(&columns);
    for area in areas {
        let stands_alike = |a: &TextPiece, b: &TextPiece| a.standing == b.standing;
        for run in area.pieces.chunk_by(stands_alike) {
            let size = run.iter().fold(Bytes(0), |sum, piece| sum + piece.length_bytes);
            let tone = if run[0].standing == HugeStanding::Huge {
                TextTone::Good
            } else {
                TextTone::Plain
            };
            table.row(vec![
                area.kind.into_str().into(),
                format!("{:#x}", run[0].address).into(),
                size.to_string().into(),
                TableCell::new(reason(&run[0].standing, run.len() as u64), tone),
            ]);
        }
    }
    table.into()
}

/// Why slots are not on huge pages, or that they are.
pub(crate) fn reason(standing: &HugeStanding, slots: u64) -> String {
    match standing {
        HugeStanding::Huge => counted(slots, "huge page", "huge pages"),
        HugeStanding::SmallFolio => "small folios in the page cache".to_owned(),
        HugeStanding::SmallPages => "small pages".to_owned(),
        HugeStanding::NotCached => "not in the page cache".to_owned(),
        HugeStanding::NotTouched => "not touched yet".to_owned(),
        HugeStanding::Incongruent { off_by_bytes } => {
            format!("address and offset {off_by_bytes} apart")
        }
        HugeStanding::ByChance { one_in } => format!("random base: fits in 1 of {one_in} starts"),
        HugeStanding::Boundary => "boundary of the mapping".to_owned(),
        HugeStanding::TooSmall => "smaller than a huge page".to_owned(),
        HugeStanding::PrivateCopy { copied_bytes } => {
            format!("{copied_bytes} written: a private copy")
        }
        HugeStanding::PageTable => "blocked by a table of small pages".to_owned(),
        HugeStanding::Disabled => "switched off for the process".to_owned(),
        HugeStanding::NotOffered => "switched off by the system (never)".to_owned(),
        HugeStanding::NotAsked => "not requested (madvise)".to_owned(),
        HugeStanding::Refused => "kept small by MADV_NOHUGEPAGE or MAP_STACK".to_owned(),
        HugeStanding::PoolEmpty => "no free page in the pool".to_owned(),
        HugeStanding::FileSystem { name } => format!("{name} has only base pages"),
        HugeStanding::NotKnown { why } => format!("not known: {why}"),
    }
}

pub(crate) fn share(part: Bytes, all: Bytes) -> String {
    if all == Bytes(0) {
        return "none there".to_owned();
    }
    format!("{part} ({})", percent(part.0 as f64 / all.0 as f64))
}

pub(crate) fn machine(heading: &str, totals: &HugeTotals) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(heading);
    let known = |bytes: Option<Bytes>| {
        bytes.map_or_else(|| "not shown by this kernel".to_owned(), |bytes| bytes.to_string())
    };
    let rows = [
        (
            "files",
            format!(
                "{} in huge folios (FileHugePages), {} mapped huge (FilePmdMapped)",
                known(totals.file_huge_bytes),
                known(totals.file_pmd_bytes)
            ),
        ),
        (
            "shared",
            format!(
                "{} in huge folios (ShmemHugePages), {} mapped huge (ShmemPmdMapped)",
                known(totals.shmem_huge_bytes),
                known(totals.shmem_pmd_bytes)
            ),
        ),
        ("anonymous", format!("{} mapped huge (AnonHugePages)", known(totals.anon_huge_bytes))),
    ];
    for (name, text) in rows {
        page.item(name, &text);
    }
    page
}

// Private memory of a process, for people: how much is on huge pages, and why the rest is not.
//
// Each mapping has a row for each reason, at the first address with it; the saved form has every stretch.

/// Largest number of mappings that are listed.
const MAPPINGS: usize = 12;

/// A section with the largest mappings; empty without mappings.
pub(crate) fn heap_section(areas: &[HeapArea], slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    let there = sum(areas, |area| area.populated_bytes);
    if there == Bytes(0) {
        return ReportDocument::default();
    }
    page.single("private memory without a file: heap, stacks, arenas", 0, TextTone::Strong);
    let huge = sum(areas, HeapArea::huge);
    page.para(
        &format!("{} of the resident memory on huge pages", part_of(huge, there)),
        2,
        TextTone::Plain,
    );
    let is_large =
        |area: &&HeapArea| area.stretches.iter().any(|s| s.standing != HugeStanding::TooSmall);
    let (mut large, small): (Vec<&HeapArea>, Vec<&HeapArea>) = areas.iter().partition(is_large);
    large.sort_by_key(|area| std::cmp::Reverse(area.populated_bytes));
    if !large.is_empty() {
        let (first, rest) = large.split_at(large.len().min(MAPPINGS));
        page.append(rows(first, slot));
        others(&mut page, rest, "more");
    }
    others(&mut page, &small, "smaller than a huge page");
    let rows = "each row sums the whole slots of a mapping in the same state, ordered by the first slot; --json lists every slot. Shared memory is not shown";
    page.para(rows, 2, TextTone::Faint);
    page
}

fn sum<'a>(
    areas: impl IntoIterator<Item = &'a HeapArea>,
    of: impl Fn(&HeapArea) -> Bytes,
) -> Bytes {
    areas.into_iter().fold(Bytes(0), |sum, area| sum + of(area))
}

/// Adds the mappings without a row.
fn others(page: &mut ReportDocument, areas: &[&HeapArea], what: &str) {
    if areas.is_empty() {
        return;
    }
    let there = sum(areas.iter().copied(), |area| area.populated_bytes);
    let n = counted(areas.len() as u64, "mapping", "mappings");
    page.para(&format!("{n} {what}, {there} there"), 2, TextTone::Faint);
}

fn rows(areas: &[&HeapArea], usual: PageSize) -> ReportDocument {
    let columns = [
        ("", ColumnAlignment::Name),
        ("from", ColumnAlignment::Right),
        ("slots", ColumnAlignment::Decimal),
        ("on a huge page, or why not", ColumnAlignment::Left),
    ];
    let mut table = ReportTable::new(&columns);
    for area in areas {
        for (address, size, standing) in by_reason(area) {
            let tone =
                if *standing == HugeStanding::Huge { TextTone::Good } else { TextTone::Plain };
            let mut why = reason(standing, size.0 / area.slot_bytes.bytes());
            if area.slot_bytes != usual && *standing == HugeStanding::Huge {
                why = format!("{why} of {}", area.slot_bytes);
            }
            let name = if area.name.is_empty() { "nameless" } else { &area.name };
            table.row(vec![
                name.into(),
                format!("{address:#x}").into(),
                size.to_string().into(),
                TableCell::new(why, tone),
            ]);
        }
    }
    table.into()
}

/// How much of a mapping is in each state, with the first address in it.
fn by_reason(area: &HeapArea) -> Vec<(u64, Bytes, &HugeStanding)> {
    let mut found: Vec<(u64, Bytes, &HugeStanding)> = Vec::new();
    for stretch in &area.stretches {
        match found.iter_mut().find(|(.., standing)| **standing == stretch.standing) {
            Some((_, size, _)) => *size += stretch.length_bytes,
            None => found.push((stretch.address, stretch.length_bytes, &stretch.standing)),
        }
    }
    found
}

// Text of a running process that was moved to huge pages from outside, for people: what is on huge pages now
// and was before, what the kernel refused and why, and what is too small. Also code that the process has
// generated.

/// The result for a process in one sentence.
pub(crate) fn collapse_headline(process: &CollapsedProcess) -> String {
    let CollapsedProcess { name, pid, .. } = process;
    if process.text() == Bytes(0) {
        return format!("no code generated in {name} ({pid})");
    }
    let now = part_of(process.huge(), process.text());
    format!("{now} on huge pages in {name} ({pid}), {} before", process.huge_before())
}

/// A process as lines.
pub(crate) fn collapse_section(process: &CollapsedProcess, slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    if process.is_disabled {
        let text = "huge pages are switched off for this process (PR_SET_THP_DISABLE)";
        page.para(text, 0, TextTone::Warn);
    }
    let is_there = |part: &&CollapsedPart| part.path.is_some() || !part.areas.is_empty();
    for part in process.parts.iter().filter(is_there).filter(|part| !is_idle(part)) {
        page.section(one(process, part));
    }
    let idle = process.parts.iter().filter(|part| is_idle(part));
    let idle: Vec<&str> = idle.filter_map(|part| part.path.as_deref()).collect();
    if !idle.is_empty() {
        page.blank();
        let text = format!("no slot of text to collapse: {}", idle.join(", "));
        page.para(&text, 0, TextTone::Faint);
    }
    page.blank();
    let stop =
        process.longest_stop_ns.map(|stop| format!(", threads stood still for up to {stop}"));
    let text = format!("a huge page is {slot}; took {}", process.took_ns);
    page.para(&(text + &stop.unwrap_or_default()), 0, TextTone::Faint);
    page
}

/// Whether the text of a file contains no whole slot.
fn is_idle(part: &CollapsedPart) -> bool {
    part.path.is_some() && part.tried_slots == 0 && part.huge() == Bytes(0)
}

fn one(process: &CollapsedProcess, part: &CollapsedPart) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.single(part.path.as_deref().unwrap_or("generated code"), 0, TextTone::Strong);
    let tried = counted(part.tried_slots, "slot", "slots");
    let text = format!(
        "on huge pages {}, {} before; {tried} tried",
        part_of(part.huge(), part.text()),
        part.huge_before_bytes
    );
    page.para(&text, 2, TextTone::Plain);
    if part.grown_bytes > Bytes(0) {
        let text = format!("{} more are resident: pages that the slots lacked", part.grown_bytes);
        page.para(&text, 2, TextTone::Plain);
    }
    if let (Some(later), Some(after)) = (part.later_huge_bytes, process.later_ns) {
        let lost = part.huge().0.saturating_sub(later.0);
        let tone = if lost > 0 { TextTone::Warn } else { TextTone::Plain };
        page.para(&format!("after {after}, {later} of it is still huge"), 2, tone);
    }
    for refused in &part.refused {
        let slots = counted(refused.slots, "slot", "slots");
        page.para(&format!("{slots} refused: {}", refused.why), 2, TextTone::Warn);
    }
    page.append(mappings(&part.areas));
    page
}

/// A section on executable memory without a file; empty if the process has none.
pub(crate) fn generated(areas: &[TextArea]) -> ReportDocument {
    let mut page = ReportDocument::default();
    if areas.is_empty() {
        return ReportDocument::default();
    }
    page.single("generated code", 0, TextTone::Strong);
    let (huge, text) = (coverage(areas, TextArea::huge), coverage(areas, TextArea::size));
    page.para(
        &format!("on huge pages {}", part_of(huge.text_bytes, text.text_bytes)),
        2,
        TextTone::Plain,
    );
    page.append(mappings(areas));
    page
}

/// Pieces of the mappings that are at least as large as a huge page; one line for the others.
fn mappings(areas: &[TextArea]) -> ReportDocument {
    let is_small =
        |area: &&TextArea| area.pieces.iter().all(|p| p.standing == HugeStanding::TooSmall);
    let (small, large): (Vec<&TextArea>, Vec<&TextArea>) = areas.iter().partition(is_small);
    let mut page = ReportDocument::default();
    if !large.is_empty() {
        let large: Vec<TextArea> = large.into_iter().cloned().collect();
        page.append(pieces(&large));
    }
    if !small.is_empty() {
        let size = small.iter().fold(Bytes(0), |sum, area| sum + area.size());
        let n = counted(small.len() as u64, "mapping is", "mappings are");
        let text = format!("{n} smaller than a huge page, {size} in total");
        page.para(&text, 2, TextTone::Faint);
    }
    page
}
