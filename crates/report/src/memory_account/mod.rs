//! The memory of a program: its parts by kind, the largest first, with their names; the sites of first
//! touches; what remedies could give back; processes. A page also lists all parts of each process.
//!
//! Shares are of the proportional set size of all processes.

mod details;
mod lists;
mod sites;

use crate::number::{counted, percent};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use details::add_details;
pub(crate) use lists::csv;
use pagewise_model::memory_account::{
    AccountMoment, MemoryAccount, MemoryKind, MemoryPart, OwnerEvidence, PeakWatch,
};
use pagewise_model::{Bytes, Fact};
pub(crate) use sites::{others, whole};
use std::collections::BTreeMap;

/// Largest number of names that are listed under a kind.
const MOST_NAMES: usize = 4;
/// Smallest share of a kind that is listed by itself.
const LEAST_SHARE: f64 = 0.005;

/// `part` as a share of `whole`.
pub(crate) fn share(part: Bytes, whole: Bytes) -> f64 {
    part.0 as f64 / whole.0.max(1) as f64
}

/// The account in one sentence.
pub(crate) fn headline(account: &MemoryAccount) -> String {
    let whole = account.pss();
    let named = percent(account.named_share());
    let largest = by_kind(account).into_iter().next();
    let end = largest.map_or_else(String::new, |(kind, bytes)| {
        let share = percent(share(bytes, whole));
        format!("; the largest part, {share}: {}", kind.into_str())
    });
    format!("{whole} of memory, {named} of it by name{end}")
}

/// Bytes by kind, the largest first.
pub(crate) fn by_kind(account: &MemoryAccount) -> Vec<(MemoryKind, Bytes)> {
    sums(account.parts(), |part| part.kind)
}

fn sums<'a, K: Ord>(
    parts: impl Iterator<Item = &'a MemoryPart>,
    key: impl Fn(&'a MemoryPart) -> K,
) -> Vec<(K, Bytes)> {
    let mut sums: BTreeMap<K, Bytes> = BTreeMap::new();
    for part in parts {
        *sums.entry(key(part)).or_default() += part.pss_bytes;
    }
    let mut all: Vec<(K, Bytes)> = sums.into_iter().collect();
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    all
}

/// The account.
#[must_use]
pub fn memory_section(account: &MemoryAccount) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&format!("what its memory is ({}, {})", account.pss(), moment(&account.moment)));
    page.append(kinds(account));
    page.item("named", &evidence(account));
    page.item("beside it", &beside(account));
    add_malloc(account, &mut page);
    add_pages(account, &mut page);
    add_notes(account, &mut page);
    page.section(sites::sites(account.sites.as_ref()));
    page.section(give_backs(account));
    page.section(processes(account));
    add_details(account, &mut page);
    page
}

fn moment(moment: &AccountMoment) -> String {
    match moment {
        AccountMoment::Running => "as of now".to_owned(),
        AccountMoment::End { pid, since_start_ns } => {
            format!("{since_start_ns} after the start, before process {pid} ended")
        }
        AccountMoment::Release { pid, since_start_ns } => {
            format!("{since_start_ns} after the start, before process {pid} gave some back")
        }
    }
}

fn kinds(account: &MemoryAccount) -> ReportDocument {
    let columns = [
        ColumnAlignment::Name,
        ColumnAlignment::Left,
        ColumnAlignment::Decimal,
        ColumnAlignment::Decimal,
    ];
    let mut table = ReportTable::new(&columns.map(|align| ("", align)));
    let whole = account.pss();
    let mut small = Vec::new();
    for (kind, bytes) in by_kind(account) {
        let part = share(bytes, whole);
        if part < LEAST_SHARE {
            small.extend((bytes > Bytes(0)).then(|| format!("{} {bytes}", kind.into_str())));
            continue;
        }
        let cells: Vec<TableCell> = vec![
            kind.into_str().into(),
            TableCell::bar(part),
            percent(part).into(),
            bytes.to_string().into(),
        ];
        table.row_with(cells, vec![Paragraph::new(names(account, kind), 6, TextTone::Faint)]);
    }
    let mut page = ReportDocument::from(table);
    if !small.is_empty() {
        page.para(&format!("and {}", small.join(", ")), 2, TextTone::Faint);
    }
    page
}

/// The names of a kind, the largest first.
pub(crate) fn names(account: &MemoryAccount, kind: MemoryKind) -> String {
    let of_kind = account.parts().filter(|part| part.kind == kind && !part.name.is_empty());
    let mut all = sums(of_kind, |part| part.name.as_str());
    let more = all.split_off(all.len().min(MOST_NAMES));
    let mut shown: Vec<String> =
        all.into_iter().map(|(name, bytes)| format!("{} {bytes}", last(name))).collect();
    if !more.is_empty() {
        let bytes = more.iter().fold(Bytes(0), |sum, (_, bytes)| sum + *bytes);
        shown.push(format!("{} more {bytes}", more.len()));
    }
    shown.join(", ")
}

/// The last part of a path.
fn last(name: &str) -> &str {
    match name.starts_with('/') {
        true => name.rsplit('/').next().unwrap_or(name),
        false => name,
    }
}

/// How much is known, by kind of evidence.
fn evidence(account: &MemoryAccount) -> String {
    const WORDS: [(OwnerEvidence, &str); 4] = [
        (OwnerEvidence::Mark, "by marks in it"),
        (OwnerEvidence::Name, "by names of mappings"),
        (OwnerEvidence::Caller, "by the code that mapped it"),
        (OwnerEvidence::Exclusion, "because no other owner is known"),
    ];
    let of = |(evidence, words): &(OwnerEvidence, &str)| {
        let bytes = account.pss_of(|part| part.evidence == *evidence);
        (bytes > Bytes(0)).then(|| format!("{} {words}", percent(share(bytes, account.pss()))))
    };
    let ways: Vec<String> = WORDS.iter().filter_map(of).collect();
    format!("{}: {}", percent(account.named_share()), ways.join(", "))
}

fn beside(account: &MemoryAccount) -> String {
    let tables = account.processes.iter().filter_map(|process| process.beside.page_table_bytes);
    let tables = tables.fold(Bytes(0), |sum, bytes| sum + bytes);
    let stacks = account.processes.iter().map(|process| process.beside.kernel_stack_bytes);
    let stacks = stacks.fold(Bytes(0), |sum, bytes| sum + bytes);
    let swapped = account.processes.iter().map(|process| process.swapped_bytes);
    let swapped = swapped.fold(Bytes(0), |sum, bytes| sum + bytes);
    let threads: u64 = account.processes.iter().map(|process| u64::from(process.threads)).sum();
    let threads = counted(threads, "thread", "threads");
    let mut text = format!("page tables {tables}, kernel stacks of {threads} {stacks}");
    if swapped > Bytes(0) {
        text.push_str(&format!(", swapped out {swapped}"));
    }
    text
}

fn add_malloc(account: &MemoryAccount, page: &mut ReportDocument) {
    for process in &account.processes {
        let Some(malloc) = &process.malloc else { continue };
        let arenas = counted(malloc.arenas, "arena", "arenas");
        let live = counted(malloc.live_blocks, "block", "blocks");
        let freed = counted(malloc.freed_blocks, "block", "blocks");
        let text = format!(
            "{arenas} of {} ({}): {} live in {live}, {} freed in {freed}, {} of that whole pages",
            process.name,
            process.pid,
            malloc.live_bytes,
            malloc.freed_bytes,
            malloc.whole_pages_bytes
        );
        if malloc.live_blocks > 0 {
            page.item("malloc", &text);
        }
    }
}

fn add_pages(account: &MemoryAccount, page: &mut ReportDocument) {
    for process in &account.processes {
        if let Some(half) = process.half_used.known().filter(|half| half.huge_bytes > Bytes(0)) {
            let read = match half.read_bytes < half.huge_bytes {
                true => format!(", by {} of them that were read", half.read_bytes),
                false => String::new(),
            };
            let text = format!(
                "{} of {} ({}), {} of it in base pages of zeros{read}",
                half.huge_bytes, process.name, process.pid, half.zero_bytes
            );
            page.item("huge pages", &text);
        }
    }
    let copied = account.processes.iter().filter_map(|process| process.copied_bytes);
    let copied = copied.fold(Bytes(0), |sum, bytes| sum + bytes);
    if copied > Bytes(0) {
        let text = format!("{copied} at most were copied after a fork, by writes of the children");
        page.item("copies", &text);
    }
    if let Some(time) = account.used_within_ns {
        let used = account.parts().fold(Bytes(0), |sum, part| sum + part.referenced_bytes);
        let all = account.processes.iter().fold(Bytes(0), |sum, process| sum + process.rss_bytes);
        let is_of_file =
            |part: &&MemoryPart| matches!(part.kind, MemoryKind::Code | MemoryKind::File);
        let of_files = account.parts().filter(is_of_file);
        let unused = of_files
            .fold(0, |sum, part| sum + part.rss_bytes.0.saturating_sub(part.referenced_bytes.0));
        let text = format!(
            "within {time} the program used {used} of {all} resident; {} of code and files stayed \
             unused",
            Bytes(unused)
        );
        page.item("used", &text);
    }
}

fn add_notes(account: &MemoryAccount, page: &mut ReportDocument) {
    if let Some(watched) = &account.watched {
        page.item("peak", &watched_text(watched, account));
    }
    for doubt in doubts(account) {
        page.item_tone("not seen", &doubt, TextTone::Warn);
    }
}

/// What the account leaves out.
pub(crate) fn doubts(account: &MemoryAccount) -> Vec<String> {
    let mut found = Vec::new();
    for process in &account.processes {
        let who = format!("{} ({})", process.name, process.pid);
        let heaps = process.malloc.iter().flat_map(|malloc| &malloc.not_walked);
        found.extend(heaps.map(|why| format!("a heap of {who}: {why}")));
        found.extend(process.unread.iter().map(|why| format!("the memory of {who}: {why}")));
    }
    if account.unseen_processes > 0 {
        let processes = counted(account.unseen_processes, "process", "processes");
        found.push(format!("{processes} could not be observed"));
    }
    if let Some(Fact::Missing(why)) = &account.sites {
        found.push(format!("who first touched it is not known: {why}"));
    }
    found
}

pub(crate) fn watched_text(watched: &PeakWatch, account: &MemoryAccount) -> String {
    let held = account.processes.iter().fold(Bytes(0), |sum, process| sum + process.rss_bytes);
    let looks = counted(watched.looks, "moment", "moments");
    let accounts = counted(watched.accounts, "account", "accounts");
    let part = percent(share(held, watched.peak_rss_bytes.max(held)));
    format!(
        "covers {part} of the largest resident set ({}), from {looks} of release; {accounts}, \
         CPU time {}",
        watched.peak_rss_bytes, watched.cpu_ns
    )
}

fn give_backs(account: &MemoryAccount) -> ReportDocument {
    let mut page = ReportDocument::default();
    if account.give_backs.is_empty() {
        return page;
    }
    page.heading("what remedies could give back, at most (do not add: they overlap)");
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Name),
        ("", ColumnAlignment::Decimal),
        ("", ColumnAlignment::Decimal),
        ("", ColumnAlignment::Text),
    ]);
    for one in &account.give_backs {
        let part = percent(share(one.bytes, account.pss()));
        let cells = [one.remedy.clone(), one.bytes.to_string(), part, one.why.clone()];
        table.row(cells.map(TableCell::from).to_vec());
    }
    page.append(table);
    page.para("try them: pagewise tune --goal memory", 2, TextTone::Faint);
    page
}

fn processes(account: &MemoryAccount) -> ReportDocument {
    let mut page = ReportDocument::default();
    if account.processes.len() < 2 {
        return page;
    }
    let mut table = ReportTable::new(&[
        ("process", ColumnAlignment::Name),
        ("pid", ColumnAlignment::Right),
        ("threads", ColumnAlignment::Right),
        ("memory", ColumnAlignment::Decimal),
        ("the largest part", ColumnAlignment::Text),
    ]);
    for process in &account.processes {
        let largest = process.parts.first().map_or_else(String::new, |part| {
            format!("{} {} {}", part.kind.into_str(), last(&part.name), part.pss_bytes)
        });
        let cells = [
            process.name.clone(),
            process.pid.to_string(),
            process.threads.to_string(),
            process.pss_bytes.to_string(),
            largest,
        ];
        table.row(cells.map(TableCell::from).to_vec());
    }
    page.append(table);
    page
}

/// Bytes by kind of two accounts, the largest of the second first.
pub(crate) fn comparison(a: &MemoryAccount, b: &MemoryAccount) -> ReportDocument {
    let mut table = ReportTable::new(&[
        ("memory", ColumnAlignment::Left),
        ("first", ColumnAlignment::Decimal),
        ("second", ColumnAlignment::Decimal),
    ]);
    let of = |account: &MemoryAccount, kind| account.pss_of(|part| part.kind == kind);
    let mut kinds: Vec<MemoryKind> = a.parts().chain(b.parts()).map(|part| part.kind).collect();
    kinds.sort_by_key(|kind| (std::cmp::Reverse(of(b, *kind)), *kind));
    kinds.dedup();
    table.row(vec!["all".into(), a.pss().to_string().into(), b.pss().to_string().into()]);
    for kind in kinds {
        let cells = [kind.into_str().to_owned(), of(a, kind).to_string(), of(b, kind).to_string()];
        table.row(cells.map(TableCell::from).to_vec());
    }
    table.into()
}
