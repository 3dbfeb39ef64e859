//! Tables: the cost of each way, the effect of threads, and the kernel's counts.

use super::{groups, protocol, ratio, ratio_of};
use crate::claims;
use crate::number::{count, counted, range_text, three_digits};
use crate::page::Document;
use crate::paragraph::Paragraph;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::bench::memory::{FirstTouch, Part, Point, Way};
use pagewise_model::{Bytes, Fact, PageSize};

/// Times of every way with one thread.
pub(super) fn times(touches: &FirstTouch) -> Document {
    let mut page = Document::default();
    page.heading(&title(touches));
    page.para(&protocol(touches), 2, Tone::Faint);
    for (title, points) in groups(touches) {
        page.section(times_table(title, touches, points));
    }
    page.append(short(touches));
    page
}

/// What the times measure.
pub(super) fn title(touches: &FirstTouch) -> String {
    format!("ns for each used {}, from set-up to release: one thread", touches.base_page_bytes)
}

/// About `rows` ways, equally many of each group: its baseline and the fastest others.
pub(super) fn best(touches: &FirstTouch, rows: usize) -> Table {
    let mut table = Table::new(&[
        ("way", Align::Name),
        ("ns", Align::Decimal),
        ("spread", Align::Left),
        ("ratio", Align::Left),
    ]);
    let groups = groups(touches);
    let most = rows.div_ceil(groups.len().max(1)).max(2);
    for (_, points) in groups {
        let merit = |point: &&Point| match ratio(touches, point) {
            _ if point.is(point.way.baseline(), 1, 1) => 0.0,
            found => found.map_or(f64::INFINITY, |ratio| ratio.ratio),
        };
        let timed = points.into_iter().filter(|point| !point.samples.is_empty());
        let mut timed: Vec<&Point> = timed.collect();
        timed.sort_by(|a, b| merit(a).total_cmp(&merit(b)));
        for point in timed.into_iter().take(most) {
            let whole = point.page_ns(Part::Whole);
            let spread = whole.as_ref().map_or_else(String::new, range_text);
            let ns = Cell::figure(whole.as_ref(), "not touched");
            let spread = Cell::new(spread, Tone::Faint);
            table.row(vec![point.label().into(), ns, spread, ratio_of(touches, point).into()]);
        }
    }
    table
}

/// The parts of each point's time, with their ranges.
fn times_table(title: &'static str, touches: &FirstTouch, points: Vec<&Point>) -> Table {
    let mut table = Table::new(&[
        (title, Align::Name),
        (Part::Setup.into_str(), Align::Decimal),
        (Part::Touch.into_str(), Align::Decimal),
        (Part::Teardown.into_str(), Align::Decimal),
        (Part::Whole.into_str(), Align::Decimal),
        ("spread", Align::Left),
        ("of the first", Align::Left),
    ]);
    for point in points {
        table.row_with(time_row(touches, point), refused(point));
    }
    table
}

/// Reasons why ways have fewer mappings than requested, each once with its count.
fn short(touches: &FirstTouch) -> Document {
    let some = touches.points.iter().filter(|point| !point.samples.is_empty());
    let reasons = claims::reasons(some.filter_map(|point| point.refused.as_deref()));
    let mut page = Document::default();
    for (why, ways) in reasons {
        let ways = counted(ways, "way has", "ways have");
        let text = format!("{ways} fewer mappings than requested: {why}");
        page.para(&text, 2, Tone::Faint);
    }
    page
}

fn time_row(touches: &FirstTouch, point: &Point) -> Vec<Cell> {
    let why = point.refused.as_deref().unwrap_or("not touched");
    let time = |part| Cell::figure(point.page_ns(part).as_ref(), why);
    let parts = [Part::Setup, Part::Touch, Part::Teardown, Part::Whole];
    let spread = point.page_ns(Part::Whole).map_or_else(String::new, |ns| range_text(&ns));
    let mut row = vec![Cell::from(point.label()).hover(point.way.about())];
    row.extend(parts.map(time));
    row.extend([Cell::new(spread, Tone::Faint), ratio_of(touches, point).into()]);
    row
}

fn page_cell(page: &Fact<PageSize>) -> Cell {
    page.known().map_or_else(|| Cell::new("-", Tone::Faint), |page| Cell::from(page.to_string()))
}

fn refused(point: &Point) -> Vec<Paragraph> {
    let why = point.refused.as_ref().filter(|_| point.samples.is_empty());
    let text = why.map(|why| format!("not measured: {why}"));
    text.into_iter().map(|text| Paragraph::new(text, 4, Tone::Faint)).collect()
}

/// The effect of several threads; empty if only one thread touched.
pub(super) fn threads(touches: &FirstTouch) -> Document {
    let mut page = Document::default();
    let mut table = Table::new(&[
        ("", Align::Name),
        ("threads", Align::Right),
        ("ns", Align::Decimal),
        ("spread", Align::Left),
        ("CPU ns", Align::Decimal),
        ("of one thread", Align::Left),
    ]);
    for point in touches.points.iter().filter(|p| is_of_threads(touches, p)) {
        let ns = point.page_ns(Part::Whole);
        let alone = touches.plain(point.way).and_then(|p| p.page_ns(Part::Whole));
        let share = ns.zip(alone).map(|(ns, alone)| format!("{:.2}", ns.median / alone.median));
        let figure = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), three_digits);
        let row = vec![
            point.way.label().into(),
            count(u64::from(point.threads)).into(),
            figure(ns.map(|ns| ns.median)).into(),
            Cell::new(ns.map_or_else(String::new, |ns| range_text(&ns)), Tone::Faint),
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
    let several: Vec<&Point> = touches.points.iter().filter(|p| p.threads > 1).collect();
    if !several.is_empty() {
        let mut parts = Document::default();
        parts.table(counts_table(&several));
        parts.table(times_table("by several threads", touches, several));
        page.details("several threads: parts of the time, and what the kernel counted", parts);
    }
    page
}

/// Whether a point has several threads, or is the single-thread point that they are compared with.
fn is_of_threads(touches: &FirstTouch, point: &Point) -> bool {
    let mut several = touches.points.iter().filter(|p| p.threads > 1);
    point.every_pages == 1 && several.any(|p| p.way == point.way)
}

/// The kernel's counts for every way with one thread.
pub(super) fn counts(touches: &FirstTouch) -> Document {
    let mut page = Document::default();
    page.heading("what the kernel counted: before the first touch, and during the touches");
    let points: Vec<&Point> = touches.points.iter().filter(|p| p.threads == 1).collect();
    page.table(counts_table(&points));
    page
}

fn counts_table(points: &[&Point]) -> Table {
    let mut table = Table::new(&[
        ("", Align::Name),
        ("page", Align::Right),
        ("mapped before", Align::Right),
        ("faults", Align::Right),
        ("expected", Align::Right),
        ("", Align::Left),
    ]);
    for point in points.iter().filter(|point| !point.samples.is_empty()) {
        table.row(count_row(point));
    }
    table
}

fn count_row(point: &Point) -> Vec<Cell> {
    let number = |n: Option<u64>| n.map_or_else(|| "-".to_owned(), count);
    let resident = point.resident_bytes();
    vec![
        point.label().into(),
        page_cell(&point.page_bytes),
        resident.as_ref().map_or_else(|| "-".to_owned(), Bytes::to_string).into(),
        number(point.touch_faults()).into(),
        number(point.expected_faults.known().copied()).into(),
        Cell::new(remark(point), Tone::Warn),
    ]
}

/// Remark on counts that differ from what the way should cause.
fn remark(point: &Point) -> &'static str {
    let is_filled = matches!(point.way, Way::MapPopulate | Way::PopulateWrite);
    match (point.has_expected_faults(), point.resident_bytes()) {
        (Some(false), _) => "not as expected",
        (_, Some(resident)) if is_filled && resident < point.mapped_bytes => "not fully populated",
        _ => "",
    }
}
