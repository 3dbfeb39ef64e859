//! The page cache of files for people. After a sentence over all, each file shows what is cached, on which
//! pages, a map of characters, the result of a change, and the holders.
//!
//! A map is one line: a character for each slot, or for several adjacent ones if the line would be too long.
//! In the latter case, `H` and `#` stand for groups that are entirely huge or cached, `+` for mixed ones.

use crate::number::{counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use pagewise_model::cache::{
    CacheAction, CacheOutcome, CacheReport, CacheSlot, CacheState, FileCacheReport, FileHolders,
    SlotMap,
};
use pagewise_model::{Bytes, Fact, PageSize};

/// Cells before a map.
const INDENT: usize = 2;
/// Largest number of holders that are named.
const NAMED: usize = 5;

/// All files in one sentence.
pub(crate) fn headline(report: &CacheReport) -> String {
    let files = |n: usize| counted(n as u64, "file", "files");
    let all = report.files.len();
    let done = report.files.iter().filter(|file| is_as_asked(file)).count();
    match report.verb {
        CacheAction::Show => format!("the page cache of {}", files(all)),
        CacheAction::Evict => format!("{done} of {} dropped from the page cache", files(all)),
        CacheAction::Huge => format!("{done} of {} all in huge folios now", files(all)),
        CacheAction::Lock => format!("{done} of {} locked in memory", files(all)),
    }
}

fn is_as_asked(file: &FileCacheReport) -> bool {
    matches!(file.outcome, Some(CacheOutcome::Done | CacheOutcome::Already))
}

/// The files as lines.
#[must_use]
pub fn cache_section(report: &CacheReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    for file in &report.files {
        page.section(cached_file(file));
    }
    if !report.files.is_empty() {
        page.section(legend(report));
    }
    page
}

/// One file: its name, its figures, its map, what was done.
pub(crate) fn cached_file(file: &FileCacheReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.single(&file.path, 0, TextTone::Strong);
    let state = file.now();
    page.para(&figures(file, state), INDENT, TextTone::Plain);
    let slots = state.slots.clone();
    page.fitted(move |style| {
        let mut map = ReportDocument::default();
        map.single(&map_line(&slots, style.columns() - INDENT), INDENT, TextTone::Plain);
        map
    });
    if let Fact::Known(counts) = &state.counts {
        let parts = [
            (counts.dirty_bytes, "not on disk yet"),
            (counts.writeback_bytes, "on its way to the disk"),
            (counts.evicted_bytes, "cached before and dropped"),
        ];
        let some = parts.iter().filter(|(bytes, _)| *bytes > Bytes(0));
        let words: Vec<String> = some.map(|(bytes, what)| format!("{bytes} {what}")).collect();
        page.para(&words.join(", "), INDENT, TextTone::Plain);
    }
    page.para(&folios(state), INDENT, TextTone::Faint);
    page.append(came_of_it(file));
    if let Some(holders) = &file.holders {
        page.append(held(holders));
    }
    page
}

/// How much of a file is cached, and how much of that is on huge pages.
fn figures(file: &FileCacheReport, state: &CacheState) -> String {
    let size = file.size_bytes;
    let cached = match &state.cached_bytes {
        Fact::Known(Bytes(0)) => "nothing of it cached".to_owned(),
        // The last cached page is whole, but the file may end within it.
        Fact::Known(cached) if *cached >= size => "all of it cached".to_owned(),
        Fact::Known(cached) => {
            format!("{cached} cached ({})", percent(cached.0 as f64 / size.0 as f64))
        }
        Fact::Missing(why) => format!(
            "the first page of {} of {} slots is cached, the rest was not checked: {why}",
            state.slots.0.len() as u64 - state.slots.count(CacheSlot::Absent),
            state.slots.0.len()
        ),
    };
    let huge = match &state.huge_bytes {
        Fact::Known(huge) => format!("{huge} on huge pages when mapped"),
        Fact::Missing(why) => format!("page sizes not known: {why}"),
    };
    format!("{size} on {}; {huge}; {cached}", file.file_system)
}

fn folios(state: &CacheState) -> String {
    match &state.folios {
        Fact::Known(shares) if shares.is_empty() => String::new(),
        Fact::Known(shares) => {
            let share = |s: &pagewise_model::cache::FolioShare| {
                format!("{} in {}", s.total_bytes, s.folio_bytes)
            };
            let all: Vec<String> = shares.iter().rev().map(share).collect();
            format!("folios: {}", all.join(", "))
        }
        Fact::Missing(why) => format!("folios: {why}"),
    }
}

/// The result of a change.
fn came_of_it(file: &FileCacheReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    let took = file.took_ns.map_or_else(String::new, |took| format!(" in {took}"));
    let change = file.after.as_ref().map_or_else(String::new, |after| {
        format!(
            "cached {} -> {}, on huge pages {} -> {}{took}",
            amount(&file.before.cached_bytes),
            amount(&after.cached_bytes),
            amount(&file.before.huge_bytes),
            amount(&after.huge_bytes)
        )
    });
    match &file.outcome {
        None => {}
        Some(CacheOutcome::Done) if file.after.is_none() => {
            page.para("done", INDENT, TextTone::Good)
        }
        Some(CacheOutcome::Done) => page.para(&format!("done: {change}"), INDENT, TextTone::Good),
        Some(CacheOutcome::Already) => {
            page.para("already done: nothing was changed", INDENT, TextTone::Good);
        }
        Some(CacheOutcome::Refused { why, help }) => {
            page.para(&format!("refused, nothing was changed: {why}"), INDENT, TextTone::Warn);
            page.para(&format!("next step: {help}"), INDENT, TextTone::Plain);
        }
        Some(CacheOutcome::Short { why }) => {
            page.para(&format!("done in part: {why}"), INDENT, TextTone::Warn);
            page.para(&change, INDENT, TextTone::Plain);
        }
        Some(CacheOutcome::Worse { why }) => {
            let text = format!("less than before; the whole file is in the cache again: {why}");
            page.para(&text, INDENT, TextTone::Bad);
            page.para(&change, INDENT, TextTone::Plain);
        }
    }
    page
}

fn amount(bytes: &Fact<Bytes>) -> String {
    bytes.known().map_or_else(|| "an unknown amount".to_owned(), Bytes::to_string)
}

fn held(holders: &FileHolders) -> ReportDocument {
    let mut page = ReportDocument::default();
    let named = holders.seen.iter().take(NAMED);
    let names: Vec<String> = named
        .map(|holder| format!("{} ({}, {})", holder.name, holder.pid, holder.mapped_bytes))
        .collect();
    if !names.is_empty() {
        let more = holders.seen.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        page.para(&format!("mapped by {}{more}", names.join(", ")), INDENT, TextTone::Plain);
    }
    if holders.hidden_processes > 0 {
        let n = counted(holders.hidden_processes, "process", "processes");
        let text = format!("{n} could not be examined");
        page.para(&text, INDENT, TextTone::Faint);
    }
    page
}

/// The meaning of the characters.
fn legend(report: &CacheReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    let size = report.slot_bytes;
    page.para(&format!("{}; {}", letters(), scale(size)), 0, TextTone::Faint);
    page
}

pub(crate) fn letters() -> String {
    let word = |slot: CacheSlot| match slot {
        CacheSlot::Huge => "a huge page",
        CacheSlot::Whole => "cached in smaller pieces",
        CacheSlot::Part => "in part",
        CacheSlot::Asked => "cached where checked",
        CacheSlot::Absent => "not cached",
    };
    let all: Vec<String> =
        CacheSlot::ALL.iter().map(|(slot, letter)| format!("{letter} {}", word(*slot))).collect();
    all.join(", ")
}

fn scale(slot: PageSize) -> String {
    format!("each character stands for {slot}, or more on long lines")
}

/// The slots in at most `room` characters.
fn map_line(slots: &SlotMap, room: usize) -> String {
    let each = slots.0.len().div_ceil(room.max(1)).max(1);
    slots.0.chunks(each).map(group_letter).collect()
}

/// The character for adjacent slots.
fn group_letter(slots: &[CacheSlot]) -> char {
    let all = |of: &[CacheSlot]| slots.iter().all(|slot| of.contains(slot));
    let slot = match slots {
        [one] => *one,
        _ if all(&[CacheSlot::Huge]) => CacheSlot::Huge,
        _ if all(&[CacheSlot::Huge, CacheSlot::Whole]) => CacheSlot::Whole,
        _ if all(&[CacheSlot::Absent]) => CacheSlot::Absent,
        _ if all(&[CacheSlot::Huge, CacheSlot::Asked]) => CacheSlot::Asked,
        _ => CacheSlot::Part,
    };
    slot.letter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::cache::CacheSlot::{Absent, Asked, Huge, Part, Whole};

    #[test]
    fn maps_fit_their_line_and_lose_no_slot() {
        let map = |slots: &[CacheSlot], room| map_line(&SlotMap(slots.to_vec()), room);
        assert_eq!(map(&[Huge, Whole, Part, Asked, Absent], 80), "H#+o.");
        assert_eq!(map(&[Huge, Huge, Huge, Whole, Absent, Absent, Huge, Absent], 4), "H#.+");
        assert_eq!(map(&[Asked, Huge, Asked, Absent, Absent], 3), "o+.");
        assert_eq!(map(&[Huge; 1000], 78).len(), 77);
        assert_eq!(map(&[], 78), "");
    }
}
