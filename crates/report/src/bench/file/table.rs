//! Grids as text tables, the parts of each way's time, and refusals.

use super::grid::{RACES, RateEntry, RateGrid, race, usual_block};
use crate::number::{count, percent, range_text, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::Bytes;
use pagewise_model::bench::file::{
    CacheResidency, FileBenchPart, FileBenchReport, FilePoint, ReadWay,
};
use pagewise_model::bench::tlb::AccessOrder;

/// Largest number of columns in a grid.
const MOST: usize = 12;

/// A grid under its title.
pub(super) fn grid(grid: &RateGrid) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&format!("{}, GiB/s by {}", grid.title, grid.columns_are));
    let mut columns = vec![("", ColumnAlignment::Left)];
    columns.resize(1 + grid.columns.len().min(MOST), ("", ColumnAlignment::Decimal));
    let mut table = ReportTable::new(&columns);
    let faint = |text: &String| TableCell::new(text.clone(), TextTone::Faint);
    table.row([TableCell::from("")].into_iter().chain(grid.columns.iter().map(faint)).collect());
    let best = best(grid);
    for (name, entries) in &grid.rows {
        let cells = entries.iter().map(|entry| cell(entry, best));
        table.row([TableCell::from(name.clone())].into_iter().chain(cells).collect());
    }
    page.table(table);
    page.append(reasons(grid));
    page
}

/// The fastest ways for one block size, by the first race that ran, with read() among them.
pub(super) fn fastest(readings: &FileBenchReport, block: Bytes, rows: usize) -> ReportTable {
    let mut columns = vec![("", ColumnAlignment::Left)];
    let mut grids = Vec::new();
    for (residency, order, _, title) in RACES {
        let grid = race(readings, residency, order);
        if let Some(at) = grid.columns.iter().position(|column| *column == whole_size(block)) {
            columns.push((title, ColumnAlignment::Decimal));
            grids.push((grid, at));
        }
    }
    let entry = |(grid, at): &(RateGrid, usize), name: &str| {
        let row = grid.rows.iter().find(|(other, _)| other == name);
        row.and_then(|(_, entries)| entries.get(*at).cloned()).unwrap_or(RateEntry::Empty)
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in grids.iter().flat_map(|(grid, _)| &grid.rows) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let rate = |name: &str| match grids.first().map(|first| entry(first, name)) {
        Some(RateEntry::Rate(rate)) => rate.median,
        _ => 0.0,
    };
    let is_read = |name: &str| name == ReadWay::Read.into_str() || name == "write";
    names.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let others = names.iter().filter(|name| !is_read(name)).take(rows.saturating_sub(1).max(2));
    let shown: Vec<&str> = others.copied().collect();
    let mut table = ReportTable::new(&columns);
    for name in names.iter().filter(|name| is_read(name) || shown.contains(name)) {
        let cells = grids.iter().map(|grid| cell(&entry(grid, name), None));
        table.row([TableCell::from(*name)].into_iter().chain(cells).collect());
    }
    table
}

/// The highest rate of a grid whose ways compete.
fn best(grid: &RateGrid) -> Option<f64> {
    let entries = grid.rows.iter().flat_map(|(_, entries)| entries);
    let rates = entries.filter_map(|entry| match entry {
        RateEntry::Rate(rate) => Some(rate.median),
        _ => None,
    });
    rates.reduce(f64::max).filter(|_| grid.is_race)
}

fn cell(entry: &RateEntry, best: Option<f64>) -> TableCell {
    match entry {
        RateEntry::Rate(rate) => {
            let tone = if best == Some(rate.median) { TextTone::Good } else { TextTone::Plain };
            TableCell::new(three_digits(rate.median), tone).hover(range_text(rate))
        }
        RateEntry::Refused(why) => TableCell::new("refused", TextTone::Warn).hover(why),
        RateEntry::Missing(why) => TableCell::figure(None, why),
        RateEntry::Empty => TableCell::from(""),
    }
}

/// Each reason once, with its ways.
fn reasons(grid: &RateGrid) -> ReportDocument {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, entries) in &grid.rows {
        for entry in entries {
            let text = match entry {
                RateEntry::Refused(why) => format!("refused, {why}"),
                RateEntry::Missing(why) => why.clone(),
                RateEntry::Rate(_) | RateEntry::Empty => continue,
            };
            match found.iter_mut().find(|(reason, _)| *reason == text) {
                Some((_, names)) if names.last() == Some(&name.as_str()) => {}
                Some((_, names)) => names.push(name),
                None => found.push((text, vec![name])),
            }
        }
    }
    let mut page = ReportDocument::default();
    for (why, names) in found {
        page.para(&format!("{}: {why}", names.join(", ")), 2, TextTone::Faint);
    }
    page
}

/// The parts of each way's time, for one block size, warm and in order.
pub(super) fn times(readings: &FileBenchReport) -> ReportDocument {
    let Some(block) = usual_block(readings) else { return ReportDocument::default() };
    let is_shown = |point: &&FilePoint| {
        let cell = &point.cell;
        cell.block_bytes == block
            && cell.order == AccessOrder::Sequential
            && cell.residency == CacheResidency::Warm
            && !point.samples.is_empty()
    };
    let points: Vec<&FilePoint> =
        readings.part(FileBenchPart::Blocks).map(|(_, point)| point).filter(is_shown).collect();
    if points.is_empty() {
        return ReportDocument::default();
    }
    let mut page = ReportDocument::default();
    let title = format!(
        "where the time goes, ms for each GiB: blocks of {}, warm, in order",
        whole_size(block)
    );
    page.heading(&title);
    let right = ColumnAlignment::Decimal;
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Left),
        ("all", right),
        ("set up", right),
        ("use", right),
        ("tear down", right),
        ("kernel", ColumnAlignment::Right),
        ("calls", ColumnAlignment::Right),
        ("faults", ColumnAlignment::Right),
    ]);
    points.into_iter().for_each(|point| table.row(times_row(point)));
    page.table(table);
    page
}

fn times_row(point: &FilePoint) -> Vec<TableCell> {
    let ms =
        |value: Option<f64>| TableCell::from(value.map_or_else(|| "-".to_owned(), three_digits));
    let all = point.ms_per_gib(|s| s.total_ns().0 as f64);
    let kernel = point.ms_per_gib(|s| s.sys_ns.0 as f64).zip(all).map(|(sys, all)| sys / all);
    let first = point.samples.first();
    let number =
        |of: Option<u64>| TableCell::new(of.map_or_else(String::new, count), TextTone::Faint);
    vec![
        point.cell.way().into(),
        ms(all),
        ms(point.ms_per_gib(|s| s.set_up_ns.0 as f64)),
        ms(point.ms_per_gib(|s| s.use_ns().0 as f64)),
        ms(point.ms_per_gib(|s| s.tear_down_ns.0 as f64)),
        kernel.map_or_else(String::new, |share| percent(share.min(1.0))).into(),
        number(first.map(|s| s.calls)),
        number(first.map(|s| s.minor_faults + s.major_faults)),
    ]
}
