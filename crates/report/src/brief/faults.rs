//! Recorded faults on one screen: what was touched, what touched it, and what remedies could save.

use super::{Brief, BriefKind, MOST_ROWS, beside, rows_of, tune_line};
use crate::escape::{escape_for, shorten};
use crate::faults::{
    caller_rows, doubts, function_rows, last_part, place_name, share, site_brief, timed_wall,
    touched,
};
use crate::number::{at_most, count, counted, percent};
use crate::style::TerminalStyle;
use crate::table::{ReportTable, TableCell};
use pagewise_model::Nanos;
use pagewise_model::body::RunBody;
use pagewise_model::fault::{FaultPlace, FaultReport, FaultSaving, FaultTally};
use pagewise_model::run::SavedRun;

/// Largest number of remedies that are named.
const MOST_SAVINGS: usize = 3;
/// Cells for the figures beside a name.
const FIGURES: usize = 28;

pub(super) const KIND: BriefKind = BriefKind { parts, next, notes, most_rows: MOST_ROWS };

fn found(run: &SavedRun) -> Option<&FaultReport> {
    match &run.body {
        Some(RunBody::Faults(report)) => Some(report),
        _ => None,
    }
}

fn parts(report: &mut Brief<'_>, run: &SavedRun, rows: usize) {
    let Some(faults) = found(run) else { return };
    let (inner, wall) = (report.inner(), timed_wall(faults));
    let short = |place: &FaultPlace| {
        place_name(&FaultPlace { path: last_part(&place.path).into(), ..place.clone() })
    };
    let places = faults.places.iter().map(|one| (short(&one.place), one.tally));
    report.add("where", &tallies(places, wall, rows, &inner));
    // The callers, if stacks show them.
    let sites = match faults.callers.known() {
        Some(callers) => tallies(caller_rows(callers, site_brief), wall, rows, &inner),
        None => tallies(function_rows(&faults.functions, site_brief), wall, rows, &inner),
    };
    report.add("sites", &sites);
    for (at, saving) in faults.savings.iter().take(MOST_SAVINGS).enumerate() {
        report.sentence(if at == 0 { "could" } else { "" }, &saving_text(saving, wall));
    }
    if let Some(text) = faults.exact.as_ref().and(touched(faults)) {
        report.sentence("around", &text);
    }
}

/// The largest tallies by name, with their count and, if known, their time.
fn tallies(
    all: impl Iterator<Item = (String, FaultTally)>,
    wall: Option<Nanos>,
    rows: usize,
    style: &TerminalStyle,
) -> String {
    let mut table: ReportTable = rows_of(if wall.is_some() { 4 } else { 2 });
    for (name, tally) in all.take(rows) {
        let name = escape_for(&name, style.unicode);
        let name = shorten(&name, style.columns().saturating_sub(FIGURES), style.unicode);
        let mut cells: Vec<TableCell> = vec![name.into(), count(tally.faults).into()];
        if let Some(wall) = wall {
            cells.push(tally.time_ns.to_string().into());
            cells.push(percent(share(tally.time_ns, wall)).into());
        }
        table.row(cells);
    }
    beside(table, style)
}

/// The saving of a remedy, as an upper bound.
fn saving_text(saving: &FaultSaving, wall: Option<Nanos>) -> String {
    let faults = counted(saving.faults, "fault", "faults");
    let time = wall.map_or_else(String::new, |wall| {
        format!(", {} of wall time", at_most(share(saving.time_ns, wall).min(1.0)))
    });
    format!("{}: up to {faults} fewer{time}", saving.remedy)
}

/// The command that proves the savings, if there are any and the program can run again.
fn next(run: &SavedRun) -> Option<String> {
    let faults = found(run).filter(|faults| faults.attached.is_none())?;
    (!faults.savings.is_empty()).then(|| tune_line(run))
}

fn notes(run: &SavedRun) -> Vec<String> {
    let doubts = found(run).map(doubts).unwrap_or_default();
    doubts.into_iter().chain(run.warnings.iter().cloned()).collect()
}
