//! A copy laid out for huge pages, for people: what was changed and its effect, the cost, what could not be
//! done and why, and how a linker does it.

use crate::code::{part_of, share};
use crate::number::counted;
use crate::page::ReportDocument;
use crate::shell::quote;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable};
use pagewise_model::fold::{
    FoldChanges, FoldReport, FoldedSegment, LinkAdvice, SegmentTail, TailOutcome,
};
use pagewise_model::text::{LoadSegment, TextCoverage, TextFile};
use pagewise_model::{Bytes, PageSize};

/// The copy in one sentence.
pub(crate) fn headline(folded: &FoldReport) -> String {
    let both = |file: &TextFile| part_of(file.warmed().sum(), file.size.sum());
    let (before, after) = (both(&folded.original), both(&folded.copy));
    if folded.changes.are_none() {
        return format!("nothing to change: {before} of text and read-only data when warmed");
    }
    format!("{after} of text and read-only data on huge pages when warmed, {before} before")
}

/// The copy as lines.
pub(crate) fn fold_section(folded: &FoldReport, slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.append(written(folded));
    page.section(segments(&folded.changes));
    page.section(reached(folded));
    page.section(costs(folded, slot));
    page.section(link(folded));
    page.blank();
    page.heading("to put it there");
    page.exact(&format!("pagewise text warm {}", quote(&folded.copy.cache.path)));
    page
}

fn written(folded: &FoldReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    let (copy, changes) = (&folded.copy.cache, &folded.changes);
    page.single(&copy.path, 0, TextTone::Strong);
    page.single(&format!("a copy of {}", folded.original.cache.path), 2, TextTone::Plain);
    let text =
        format!("{} on {}, written in {}", copy.size_bytes, copy.file_system, folded.took_ns);
    page.para(&text, 2, TextTone::Plain);
    let headers = counted(changes.edited.len() as u64, "program header", "program headers");
    let edited = match changes.edited.first() {
        None => "no byte changed".to_owned(),
        Some(first) => format!(
            "{headers} changed ({} each, from offset {:#x}), no other byte",
            first.length_bytes, first.offset_bytes.0
        ),
    };
    let appended = changes.appended.map_or_else(String::new, |range| {
        format!("; appended {} of zeros at offset {:#x}", range.length_bytes, range.offset_bytes.0)
    });
    page.para(&format!("{edited}{appended}"), 2, TextTone::Plain);
    if !folded.attributes.is_empty() {
        page.para(
            &format!("attributes kept: {}", folded.attributes.join(", ")),
            2,
            TextTone::Plain,
        );
    }
    page
}

/// The loaded segments.
fn segments(changes: &FoldChanges) -> ReportDocument {
    let columns = [
        ("segment", ColumnAlignment::Left),
        ("address", ColumnAlignment::Right),
        ("size", ColumnAlignment::Decimal),
        ("in the copy", ColumnAlignment::Left),
    ];
    let mut table = ReportTable::new(&columns);
    for segment in &changes.segments {
        table.row(vec![
            flags(&segment.before).into(),
            format!("{:#x}", segment.before.address).into(),
            segment.before.file_bytes.to_string().into(),
            now(segment).into(),
        ]);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    for tail in &changes.tails {
        page.para(&last_slot(tail), 2, TextTone::Faint);
    }
    page
}

const fn flags(segment: &LoadSegment) -> &'static str {
    match (segment.is_writable, segment.is_executable) {
        (false, false) => "r--",
        (false, true) => "r-x",
        (true, false) => "rw-",
        (true, true) => "rwx",
    }
}

/// The new state of a segment.
fn now(segment: &FoldedSegment) -> String {
    let FoldedSegment { before, after, off_by_bytes, .. } = segment;
    let Some(after) = after else { return "in the segment above".to_owned() };
    if after == before {
        let is_off = *off_by_bytes > Bytes(0) && !before.is_writable;
        let why = format!(": address and offset {off_by_bytes} apart");
        return format!("as it was{}", if is_off { &why } else { "" });
    }
    let aligned = match after.align_bytes == before.align_bytes {
        true => String::new(),
        false => format!(", aligned to {}", after.align_bytes),
    };
    format!("{}, {}{aligned}", flags(after), after.file_bytes)
}

fn last_slot(tail: &SegmentTail) -> String {
    let SegmentTail { address, tail_bytes, outcome } = tail;
    let slot = format!("the last huge page at {address:#x} has {tail_bytes}");
    match outcome {
        TailOutcome::Filled => format!("{slot}: filled"),
        TailOutcome::BelowThreshold => format!("{slot}: too little to fill (--pad-tail)"),
        TailOutcome::Taken { by_address } => {
            format!(
                "{slot}, and the segment at {by_address:#x} begins in it: only a linker can move that"
            )
        }
        TailOutcome::Payload { payload_bytes } => format!(
            "{slot}, and filling it would append to the file, which ends with {payload_bytes} that are no part of a program: unchanged"
        ),
    }
}

/// What is on huge pages after each file is warmed.
fn reached(folded: &FoldReport) -> ReportDocument {
    let (original, copy) = (&folded.original, &folded.copy);
    let columns = [
        ("when warmed", ColumnAlignment::Left),
        ("file", ColumnAlignment::Left),
        ("copy", ColumnAlignment::Left),
    ];
    let mut table = ReportTable::new(&columns);
    let mut row = |name: &str, part: fn(&TextCoverage) -> Bytes| {
        let of = |file: &TextFile| share(part(&file.warmed()), part(&file.size));
        table.row(vec![name.into(), of(original).into(), of(copy).into()]);
    };
    row("text", |coverage| coverage.text_bytes);
    row("read-only data", |coverage| coverage.read_only_bytes);
    row("both", TextCoverage::sum);
    table.into()
}

/// The cost, and what else to know.
fn costs(folded: &FoldReport, slot: PageSize) -> ReportDocument {
    let mut page = ReportDocument::default();
    let changes = &folded.changes;
    let mut costs = Vec::new();
    if changes.made_executable_bytes > Bytes(0) {
        let bytes = changes.made_executable_bytes;
        costs.push(format!("{bytes} of read-only data can be executed"));
    }
    if changes.base_bits_lost > 0 {
        let bits = counted(changes.base_bits_lost.into(), "bit", "bits");
        costs.push(format!(
            "its address is a multiple of {slot}: up to {bits} less address space randomisation"
        ));
    }
    if !costs.is_empty() || !folded.notes.is_empty() {
        page.heading("what it costs, what to know");
    }
    for cost in &costs {
        page.bullet(cost, TextTone::Plain);
    }
    for note in &folded.notes {
        page.bullet(note, TextTone::Warn);
    }
    page
}

/// How to get the same from a linker.
fn link(folded: &FoldReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("the same or more by linking: with GNU ld, or with lld");
    page.exact(&folded.link.gnu);
    page.exact(&folded.link.lld);
    let asked = if folded.is_merged { "--merge --linker" } else { "--linker" };
    let text =
        format!("pagewise text fold {asked} prints a script that also fills the last huge pages");
    page.para(&text, 2, TextTone::Faint);
    page
}

/// The script for GNU ld as a file, with the options for the compiler driver.
#[must_use]
pub fn link_script(advice: &LinkAdvice) -> String {
    let LinkAdvice { gnu, lld, script } = advice;
    format!(
        "/* Lays out a program so that its code can be on huge pages, with the last ones filled.\n   \
         GNU ld, with this file as huge.ld:\n     {gnu} -Wl,-T,huge.ld\n   \
         lld, which fills none and takes no such script:\n     {lld} */\n{script}"
    )
}
