//! An account of memory on one screen: its kinds, its first touches, and what remedies could give back.

use super::{Brief, BriefKind, MOST_ROWS, beside, rows_of};
use crate::escape::{escape_for, shorten};
use crate::faults::site_line;
use crate::memory_account::{by_kind, doubts, names, others, share, watched_text, whole};
use crate::number::{at_most, percent};
use crate::paragraph::Paragraph;
use crate::shell::command_line;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ReportTable, TableCell};
use pagewise_model::Bytes;
use pagewise_model::fault::MemorySites;
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::run::SavedRun;

/// Largest number of remedies that are named.
const MOST_REMEDIES: usize = 3;
/// Cells for the figures beside a name.
const FIGURES: usize = 20;

pub(super) const KIND: BriefKind = BriefKind { parts, next, notes, most_rows: MOST_ROWS };

fn parts(report: &mut Brief<'_>, run: &SavedRun, rows: usize) {
    let Some(account) = &run.memory else { return };
    let inner = report.inner();
    report.add("what", &kinds(account, &inner, rows));
    if let Some(sites) = account.sites.as_ref().and_then(|sites| sites.known()) {
        report.add("sites", &first_touches(sites, &inner, rows));
    }
    let all = account.give_backs.iter().take(MOST_REMEDIES);
    for (at, one) in all.enumerate() {
        let part = at_most(share(one.bytes, account.pss()).min(1.0));
        let text = format!("{}: {part}, {}: {}", one.remedy, one.bytes, one.why);
        report.sentence(if at == 0 { "could" } else { "" }, &text);
    }
    if let Some(watched) = &account.watched {
        report.sentence("peak", &watched_text(watched, account));
    }
}

/// The memory by kind, the largest first, with its names.
fn kinds(account: &MemoryAccount, style: &TerminalStyle, rows: usize) -> String {
    let all = by_kind(account);
    let (shown, rest) = all.split_at(all.len().min(rows));
    let mut table = rows_of(4);
    let mut row = |name: &str, bytes: Bytes, names: String| {
        let part = percent(share(bytes, account.pss()));
        table.row(vec![name.into(), part.into(), bytes.to_string().into(), names.into()]);
    };
    for (kind, bytes) in shown {
        row(kind.into_str(), *bytes, names(account, *kind));
    }
    if !rest.is_empty() {
        let bytes = rest.iter().fold(Bytes(0), |sum, (_, bytes)| sum + *bytes);
        row(&format!("{} more", rest.len()), bytes, String::new());
    }
    beside(table, style)
}

/// The sites of first touches, the largest first.
fn first_touches(sites: &MemorySites, style: &TerminalStyle, rows: usize) -> String {
    let (shown, rest) = sites.sites.split_at(sites.sites.len().min(rows));
    let mut table: ReportTable = rows_of(3);
    for one in shown {
        let name = escape_for(&site_line(&one.site), style.unicode);
        let name = shorten(&name, style.columns().saturating_sub(FIGURES), style.unicode);
        let part = percent(share(one.bytes, whole(sites)));
        table.row(vec![TableCell::from(name), part.into(), one.bytes.to_string().into()]);
    }
    let rest = others(sites, shown, rest.len());
    beside(table, style) + &Paragraph::new(rest, 0, TextTone::Plain).lines(style)
}

/// The command of a session that proves what could be given back, if the program can run again.
fn next(run: &SavedRun) -> Option<String> {
    let account = run.memory.as_ref().filter(|account| !account.give_backs.is_empty())?;
    let is_started = account.watched.is_some() && !run.command.is_empty();
    is_started.then(|| format!("pagewise tune --goal memory -- {}", command_line(&run.command)))
}

fn notes(run: &SavedRun) -> Vec<String> {
    let of_account = run.memory.iter().flat_map(doubts);
    of_account.chain(run.warnings.iter().cloned()).collect()
}
