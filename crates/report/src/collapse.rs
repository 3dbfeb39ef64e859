//! Text of a running process that was put on huge pages from outside, for people: what is huge now and was
//! before, what the kernel refused and why, what is too small; and code that a process has generated.

use crate::code::{of, pieces};
use crate::number::counted;
use crate::page::Document;
use crate::style::Tone;
use pagewise_model::collapse::{CollapsedPart, CollapsedProcess};
use pagewise_model::text::{Area, Standing, coverage};
use pagewise_model::{Bytes, PageSize};

/// What a process has in one sentence.
pub(crate) fn headline(process: &CollapsedProcess) -> String {
    let CollapsedProcess { name, pid, .. } = process;
    if process.text() == Bytes(0) {
        return format!("no code generated in {name} ({pid})");
    }
    let now = of(process.huge(), process.text());
    format!("{now} on huge pages in {name} ({pid}), {} before", process.huge_before())
}

/// A process as lines.
pub(crate) fn collapse_section(process: &CollapsedProcess, slot: PageSize) -> Document {
    let mut page = Document::default();
    if process.is_disabled {
        let text = "huge pages are switched off for this process (PR_SET_THP_DISABLE)";
        page.para(text, 0, Tone::Warn);
    }
    for part in process.parts.iter().filter(|part| !is_idle(part)) {
        page.section(one(process, part));
    }
    let idle = process.parts.iter().filter(|part| is_idle(part));
    let idle: Vec<&str> = idle.filter_map(|part| part.path.as_deref()).collect();
    if !idle.is_empty() {
        page.blank();
        let text = format!("no slot of text to collapse: {}", idle.join(", "));
        page.para(&text, 0, Tone::Faint);
    }
    page.blank();
    page.para(&format!("a huge page is {slot}; took {}", process.took_ns), 0, Tone::Faint);
    page
}

/// A file without a whole slot in its text.
fn is_idle(part: &CollapsedPart) -> bool {
    part.path.is_some() && part.tried_slots == 0 && part.huge() == Bytes(0)
}

fn one(process: &CollapsedProcess, part: &CollapsedPart) -> Document {
    let mut page = Document::default();
    page.single(part.path.as_deref().unwrap_or("generated code"), 0, Tone::Strong);
    let tried = counted(part.tried_slots, "slot", "slots");
    let text = format!(
        "on huge pages {}, {} before; {tried} tried",
        of(part.huge(), part.text()),
        part.huge_before_bytes
    );
    page.para(&text, 2, Tone::Plain);
    if part.grown_bytes > Bytes(0) {
        let text = format!("{} more are resident: pages that the slots lacked", part.grown_bytes);
        page.para(&text, 2, Tone::Plain);
    }
    if let (Some(later), Some(after)) = (part.later_huge_bytes, process.later_ns) {
        let lost = part.huge().0.saturating_sub(later.0);
        let tone = if lost > 0 { Tone::Warn } else { Tone::Plain };
        page.para(&format!("after {after}, {later} of it is still huge"), 2, tone);
    }
    for refused in &part.refused {
        let slots = counted(refused.slots, "slot", "slots");
        page.para(&format!("{slots} refused: {}", refused.why), 2, Tone::Warn);
    }
    page.append(mappings(&part.areas));
    page
}

/// Executable memory of no file in a process, in a section of its own; nothing where there is none.
pub(crate) fn generated(areas: &[Area]) -> Document {
    let mut page = Document::default();
    if areas.is_empty() {
        return Document::default();
    }
    page.single("generated code", 0, Tone::Strong);
    let (huge, text) = (coverage(areas, Area::huge), coverage(areas, Area::size));
    page.para(&format!("on huge pages {}", of(huge.text_bytes, text.text_bytes)), 2, Tone::Plain);
    page.append(mappings(areas));
    page
}

/// Pieces of the mappings that are as large as a huge page; the others in one line.
fn mappings(areas: &[Area]) -> Document {
    let is_small = |area: &&Area| area.pieces.iter().all(|p| p.standing == Standing::TooSmall);
    let (small, large): (Vec<&Area>, Vec<&Area>) = areas.iter().partition(is_small);
    let mut page = Document::default();
    if !large.is_empty() {
        let large: Vec<Area> = large.into_iter().cloned().collect();
        page.append(pieces(&large));
    }
    if !small.is_empty() {
        let size = small.iter().fold(Bytes(0), |sum, area| sum + area.size());
        let n = counted(small.len() as u64, "mapping is", "mappings are");
        let text = format!("{n} smaller than a huge page, {size} in total");
        page.para(&text, 2, Tone::Faint);
    }
    page
}
