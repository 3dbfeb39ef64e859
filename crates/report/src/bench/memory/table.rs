//! Tables: the cost of each way, the effect of threads, and the kernel's counts.

use super::{groups, protocol, ratio, ratio_of};
use crate::claims;
use crate::number::{count, counted, range_text, three_digits};
use crate::page::ReportDocument;
use crate::paragraph::Paragraph;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::memory::{
    MemoryBenchPhase, MemoryBenchPoint, MemoryBenchReport, MemoryBenchWay,
};
use pagewise_model::{Bytes, Fact, PageSize};

/// Times of every way with one thread.
pub(super) fn times(touches: &MemoryBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&title(touches));
    page.para(&protocol(touches), 2, TextTone::Faint);
    for (title, points) in groups(touches) {
        page.section(times_table(title, touches, points));
    }
    page.append(short(touches));
    page
}

/// What the times measure.
pub(super) fn title(touches: &MemoryBenchReport) -> String {
    format!("ns for each used {}, from set-up to release: one thread", touches.base_page_bytes)
}

/// About `rows` ways, equally many of each group: its baseline and the fastest others.
pub(super) fn best(touches: &MemoryBenchReport, rows: usize) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("way", ColumnAlignment::Name),
        ("ns", ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
        ("ratio", ColumnAlignment::Left),
    ]);
    let groups = groups(touches);
    let most = rows.div_ceil(groups.len().max(1)).max(2);
    for (_, points) in groups {
        let merit = |point: &&MemoryBenchPoint| match ratio(touches, point) {
            _ if point.is(point.way.baseline(), 1, 1) => 0.0,
            found => found.map_or(f64::INFINITY, |ratio| ratio.ratio),
        };
        let timed = points.into_iter().filter(|point| !point.samples.is_empty());
        let mut timed: Vec<&MemoryBenchPoint> = timed.collect();
        timed.sort_by(|a, b| merit(a).total_cmp(&merit(b)));
        for point in timed.into_iter().take(most) {
            let whole = point.page_ns(MemoryBenchPhase::Whole);
            let spread = whole.as_ref().map_or_else(String::new, range_text);
            let ns = TableCell::figure(whole.as_ref(), "not touched");
            let spread = TableCell::new(spread, TextTone::Faint);
            table.row(vec![point.label().into(), ns, spread, ratio_of(touches, point).into()]);
        }
    }
    table
}

/// The parts of each point's time, with their ranges.
fn times_table(
    title: &'static str,
    touches: &MemoryBenchReport,
    points: Vec<&MemoryBenchPoint>,
) -> ReportTable {
    let mut table = ReportTable::new(&[
        (title, ColumnAlignment::Name),
        (MemoryBenchPhase::Setup.into_str(), ColumnAlignment::Decimal),
        (MemoryBenchPhase::Touch.into_str(), ColumnAlignment::Decimal),
        (MemoryBenchPhase::Teardown.into_str(), ColumnAlignment::Decimal),
        (MemoryBenchPhase::Whole.into_str(), ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
        ("of the first", ColumnAlignment::Left),
    ]);
    for point in points {
        table.row_with(time_row(touches, point), refused(point));
    }
    table
}

/// Reasons why ways have fewer mappings than requested, each once with its count.
fn short(touches: &MemoryBenchReport) -> ReportDocument {
    let some = touches.points.iter().filter(|point| !point.samples.is_empty());
    let reasons = claims::reasons(some.filter_map(|point| point.refused.as_deref()));
    let mut page = ReportDocument::default();
    for (why, ways) in reasons {
        let ways = counted(ways, "way has", "ways have");
        let text = format!("{ways} fewer mappings than requested: {why}");
        page.para(&text, 2, TextTone::Faint);
    }
    page
}

fn time_row(touches: &MemoryBenchReport, point: &MemoryBenchPoint) -> Vec<TableCell> {
    let why = point.refused.as_deref().unwrap_or("not touched");
    let time = |part| TableCell::figure(point.page_ns(part).as_ref(), why);
    let parts = [
        MemoryBenchPhase::Setup,
        MemoryBenchPhase::Touch,
        MemoryBenchPhase::Teardown,
        MemoryBenchPhase::Whole,
    ];
    let spread =
        point.page_ns(MemoryBenchPhase::Whole).map_or_else(String::new, |ns| range_text(&ns));
    let mut row = vec![TableCell::from(point.label()).hover(point.way.about())];
    row.extend(parts.map(time));
    row.extend([TableCell::new(spread, TextTone::Faint), ratio_of(touches, point).into()]);
    row
}

fn page_cell(page: &Fact<PageSize>) -> TableCell {
    page.known().map_or_else(
        || TableCell::new("-", TextTone::Faint),
        |page| TableCell::from(page.to_string()),
    )
}

fn refused(point: &MemoryBenchPoint) -> Vec<Paragraph> {
    let why = point.refused.as_ref().filter(|_| point.samples.is_empty());
    let text = why.map(|why| format!("not measured: {why}"));
    text.into_iter().map(|text| Paragraph::new(text, 4, TextTone::Faint)).collect()
}

/// The effect of several threads; empty if only one thread touched.
pub(super) fn threads(touches: &MemoryBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Name),
        ("threads", ColumnAlignment::Right),
        ("ns", ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
        ("CPU ns", ColumnAlignment::Decimal),
        ("of one thread", ColumnAlignment::Left),
    ]);
    for point in touches.points.iter().filter(|p| is_of_threads(touches, p)) {
        let ns = point.page_ns(MemoryBenchPhase::Whole);
        let alone = touches.plain(point.way).and_then(|p| p.page_ns(MemoryBenchPhase::Whole));
        let share = ns.zip(alone).map(|(ns, alone)| format!("{:.2}", ns.median / alone.median));
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
        let row = vec![
            point.way.label().into(),
            count(u64::from(point.threads)).into(),
            figure(ns.map(|ns| ns.median)).into(),
            TableCell::new(ns.map_or_else(String::new, |ns| range_text(&ns)), TextTone::Faint),
            figure(point.cpu_page_ns()).into(),
            share.unwrap_or_default().into(),
        ];
        table.row_with(row, refused(point));
    }
    if !table.is_empty() {
        let base = touches.base_page_bytes;
        page.heading(&format!(
            "ns for each {base} used by several threads, each with its own part"
        ));
        page.table(table);
    }
    let several: Vec<&MemoryBenchPoint> = touches.points.iter().filter(|p| p.threads > 1).collect();
    if !several.is_empty() {
        let mut parts = ReportDocument::default();
        parts.table(counts_table(&several));
        parts.table(times_table("by several threads", touches, several));
        page.details("several threads: parts of the time, and what the kernel counted", parts);
    }
    page
}

/// Whether a point has several threads, or is the single-thread point that they are compared with.
fn is_of_threads(touches: &MemoryBenchReport, point: &MemoryBenchPoint) -> bool {
    let mut several = touches.points.iter().filter(|p| p.threads > 1);
    point.every_pages == 1 && several.any(|p| p.way == point.way)
}

/// The kernel's counts for every way with one thread.
pub(super) fn counts(touches: &MemoryBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading("what the kernel counted: before the first touch, and during the touches");
    let points: Vec<&MemoryBenchPoint> = touches.points.iter().filter(|p| p.threads == 1).collect();
    page.table(counts_table(&points));
    page
}

fn counts_table(points: &[&MemoryBenchPoint]) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Name),
        ("page", ColumnAlignment::Right),
        ("mapped before", ColumnAlignment::Right),
        ("faults", ColumnAlignment::Right),
        ("expected", ColumnAlignment::Right),
        ("", ColumnAlignment::Left),
    ]);
    for point in points.iter().filter(|point| !point.samples.is_empty()) {
        table.row(count_row(point));
    }
    table
}

fn count_row(point: &MemoryBenchPoint) -> Vec<TableCell> {
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), count);
    let resident = point.resident_bytes();
    vec![
        point.label().into(),
        page_cell(&point.page_bytes),
        resident.as_ref().map_or_else(|| "-".to_owned(), Bytes::to_string).into(),
        number(point.touch_faults()).into(),
        number(point.expected_faults.known().copied()).into(),
        TableCell::new(remark(point), TextTone::Warn),
    ]
}

/// Remark on counts that differ from what the way should cause.
fn remark(point: &MemoryBenchPoint) -> &'static str {
    let is_filled =
        matches!(point.way, MemoryBenchWay::MapPopulate | MemoryBenchWay::PopulateWrite);
    match (point.has_expected_faults(), point.resident_bytes()) {
        (Some(false), _) => "not as expected",
        (_, Some(resident)) if is_filled && resident < point.mapped_bytes => "not fully populated",
        _ => "",
    }
}
