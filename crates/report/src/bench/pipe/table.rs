//! The table: a heading for each rung, a row for each consumption.

use super::{consumption_label, rungs, settings};
use crate::number::{UNKNOWN, count, range_text, three_digits};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipePoint, PipeSample, RungWriter,
};
use pagewise_model::{Fact, Nanos};

/// All rungs of `ladder`.
pub(super) fn table(ladder: &PipeBenchReport) -> ReportDocument {
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Left),
        ("GiB/s", ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
        ("CPU s/GiB", ColumnAlignment::Decimal),
        ("wakes/GiB", ColumnAlignment::Right),
        ("per slot", ColumnAlignment::Right),
        ("pages", ColumnAlignment::Right),
    ]);
    for points in rungs(ladder) {
        for (at, point) in points.iter().enumerate() {
            let above = if at == 0 { heading(point) } else { Vec::new() };
            table.row_between(above, row(point), notes(ladder, point));
        }
    }
    table.into()
}

/// The first way, and the fastest of the others, each at its fastest sizes.
pub(super) fn fastest(ladder: &PipeBenchReport, rows: usize) -> ReportTable {
    let rate = |points: &&[PipePoint]| {
        points.iter().filter_map(PipePoint::rate).map(|rate| rate.median).fold(0.0, f64::max)
    };
    // The best sizes of each name, in order of appearance.
    let mut best: Vec<&[PipePoint]> = Vec::new();
    for points in rungs(ladder) {
        let same = best.iter().position(|other| other[0].rung.name == points[0].rung.name);
        match same {
            Some(at) if rate(&best[at]) < rate(&points) => best[at] = points,
            Some(_) => {}
            None => best.push(points),
        }
    }
    let mut others: Vec<&[PipePoint]> = best.iter().skip(1).copied().collect();
    others.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    others.truncate(rows.saturating_sub(1).max(1));
    let is_shown = |points: &[PipePoint]| {
        let is_program = points[0].rung.writer == RungWriter::FizzBuzz;
        is_program || others.iter().any(|other| std::ptr::eq(*other, points))
    };
    let mut table = ReportTable::new(&[
        ("way", ColumnAlignment::Left),
        ("passed", ColumnAlignment::Decimal),
        ("read", ColumnAlignment::Decimal),
        ("safe", ColumnAlignment::Left),
        ("how", ColumnAlignment::Text),
    ]);
    for (at, points) in best.into_iter().enumerate() {
        if at > 0 && !is_shown(points) {
            continue;
        }
        let figure = |consumption| {
            let point = points.iter().find(|point| point.consumption == consumption);
            let why = point.and_then(|point| point.refused.as_deref()).unwrap_or("not measured");
            TableCell::figure(point.and_then(PipePoint::rate).as_ref(), why)
        };
        let first = &points[0];
        let how = if ladder.sweep { settings(first) } else { first.rung.technique() };
        table.row(vec![
            first.rung.name.as_str().into(),
            figure(PipeConsumption::Untouched),
            figure(PipeConsumption::Touched),
            if points.iter().all(|point| point.safe) { "yes" } else { "no" }.into(),
            how.into(),
        ]);
    }
    table
}

fn heading(point: &PipePoint) -> Vec<Paragraph> {
    vec![
        Paragraph::new(&point.rung.name, 1, TextTone::Strong),
        Paragraph::new(settings(point), 2, TextTone::Faint),
    ]
}

fn row(point: &PipePoint) -> Vec<TableCell> {
    // The heading names the rung's reader. If the bytes must be looked at, another reader may do it.
    let reader = if point.reader == point.rung.reader { "" } else { point.reader.into_str() };
    let by = if reader.is_empty() { "" } else { " by " };
    let label = format!("  {}{by}{reader}", consumption_label(point.consumption));
    let tone = match point.consumption {
        PipeConsumption::Untouched => TextTone::Faint,
        _ => TextTone::Plain,
    };
    let Some(rate) = point.rate() else {
        return vec![TableCell::new(label, tone), "not measured".into()];
    };
    let figure = |of: fn(&PipeSample) -> Option<f64>| point.measured(of).map(|m| m.median);
    let shown = |value: Option<f64>, show: &dyn Fn(f64) -> String| {
        TableCell::from(value.map_or_else(|| UNKNOWN.to_owned(), show))
    };
    let page = point.page_bytes.known();
    let wrong = if point.verified == Fact::Known(false) { "wrong bytes" } else { "" };
    vec![
        TableCell::new(label, tone).hover(wrong),
        TableCell::new(three_digits(rate.median), TextTone::Strong),
        TableCell::new(range_text(&rate), TextTone::Faint),
        shown(figure(PipeSample::cpu_s_per_gib), &|v| format!("{v:.3}")),
        shown(figure(PipeSample::wakeups_per_gib), &|v| count(v.round().max(0.0) as u64)),
        shown(figure(PipeSample::ns_per_slot), &slot_time),
        page.map_or_else(
            || TableCell::new("?", TextTone::Warn),
            |page| TableCell::from(page.to_string()),
        ),
    ]
}

/// `61.0 ns`, `3.8 us`.
fn slot_time(ns: f64) -> String {
    if ns < 99.95 { format!("{ns:.1} ns") } else { Nanos::from_f64(ns).to_string() }
}

/// Notes that a reader of the row must know.
fn notes(ladder: &PipeBenchReport, point: &PipePoint) -> Vec<Paragraph> {
    let mut notes = Vec::new();
    if let Some(why) = &point.refused {
        notes.push(Paragraph::new(why, 6, TextTone::Faint));
    }
    if point.verified == Fact::Known(false) {
        notes.push(Paragraph::new(
            "the consumer did not receive the bytes that were sent",
            6,
            TextTone::Bad,
        ));
    }
    if ladder.yardsticks.is_implausible(point) {
        notes.push(Paragraph::new(
            "implausible: more than one core can read from memory",
            6,
            TextTone::Bad,
        ));
    }
    if let (Fact::Missing(why), Some(_)) = (&point.page_bytes, point.rate()) {
        notes.push(Paragraph::new(format!("page size not known: {why}"), 6, TextTone::Faint));
    }
    notes
}
