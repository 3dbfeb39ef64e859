//! Grids as text tables, the parts of each way's time, and refusals.

use super::grid::{Entry, Grid, RACES, race, usual_block};
use crate::number::{count, percent, range_text, three_digits, whole_size};
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::Bytes;
use pagewise_model::bench::file::{Arm, Part, Point, Readings, Residency};
use pagewise_model::bench::tlb::Order;

/// Largest number of columns in a grid.
const MOST: usize = 12;

/// A grid under its title.
pub(super) fn grid(grid: &Grid) -> Document {
    let mut page = Document::default();
    page.heading(&format!("{}, GiB/s by {}", grid.title, grid.columns_are));
    let mut columns = vec![("", Align::Left)];
    columns.resize(1 + grid.columns.len().min(MOST), ("", Align::Decimal));
    let mut table = Table::new(&columns);
    let faint = |text: &String| Cell::new(text.clone(), Tone::Faint);
    table.row([Cell::from("")].into_iter().chain(grid.columns.iter().map(faint)).collect());
    let best = best(grid);
    for (name, entries) in &grid.rows {
        let cells = entries.iter().map(|entry| cell(entry, best));
        table.row([Cell::from(name.clone())].into_iter().chain(cells).collect());
    }
    page.table(table);
    page.append(reasons(grid));
    page
}

/// The fastest ways for one block size, by the first race that ran, with read() among them.
pub(super) fn fastest(readings: &Readings, block: Bytes, rows: usize) -> Table {
    let mut columns = vec![("", Align::Left)];
    let mut grids = Vec::new();
    for (residency, order, _, title) in RACES {
        let grid = race(readings, residency, order);
        if let Some(at) = grid.columns.iter().position(|column| *column == whole_size(block)) {
            columns.push((title, Align::Decimal));
            grids.push((grid, at));
        }
    }
    let entry = |(grid, at): &(Grid, usize), name: &str| {
        let row = grid.rows.iter().find(|(other, _)| other == name);
        row.and_then(|(_, entries)| entries.get(*at).cloned()).unwrap_or(Entry::Empty)
    };
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in grids.iter().flat_map(|(grid, _)| &grid.rows) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let rate = |name: &str| match grids.first().map(|first| entry(first, name)) {
        Some(Entry::Rate(rate)) => rate.median,
        _ => 0.0,
    };
    let is_read = |name: &str| name == Arm::Read.into_str();
    names.sort_by(|a, b| rate(b).total_cmp(&rate(a)));
    let others = names.iter().filter(|name| !is_read(name)).take(rows.saturating_sub(1).max(2));
    let shown: Vec<&str> = others.copied().collect();
    let mut table = Table::new(&columns);
    for name in names.iter().filter(|name| is_read(name) || shown.contains(name)) {
        let cells = grids.iter().map(|grid| cell(&entry(grid, name), None));
        table.row([Cell::from(*name)].into_iter().chain(cells).collect());
    }
    table
}

/// The highest rate of a grid whose ways compete.
fn best(grid: &Grid) -> Option<f64> {
    let entries = grid.rows.iter().flat_map(|(_, entries)| entries);
    let rates = entries.filter_map(|entry| match entry {
        Entry::Rate(rate) => Some(rate.median),
        _ => None,
    });
    rates.reduce(f64::max).filter(|_| grid.is_race)
}

fn cell(entry: &Entry, best: Option<f64>) -> Cell {
    match entry {
        Entry::Rate(rate) => {
            let tone = if best == Some(rate.median) { Tone::Good } else { Tone::Plain };
            Cell::new(three_digits(rate.median), tone).hover(range_text(rate))
        }
        Entry::Refused(why) => Cell::new("refused", Tone::Warn).hover(why),
        Entry::Missing(why) => Cell::figure(None, why),
        Entry::Empty => Cell::from(""),
    }
}

/// Each reason once, with its ways.
fn reasons(grid: &Grid) -> Document {
    let mut found: Vec<(String, Vec<&str>)> = Vec::new();
    for (name, entries) in &grid.rows {
        for entry in entries {
            let text = match entry {
                Entry::Refused(why) => format!("refused, {why}"),
                Entry::Missing(why) => why.clone(),
                Entry::Rate(_) | Entry::Empty => continue,
            };
            match found.iter_mut().find(|(reason, _)| *reason == text) {
                Some((_, names)) if names.last() == Some(&name.as_str()) => {}
                Some((_, names)) => names.push(name),
                None => found.push((text, vec![name])),
            }
        }
    }
    let mut page = Document::default();
    for (why, names) in found {
        page.para(&format!("{}: {why}", names.join(", ")), 2, Tone::Faint);
    }
    page
}

/// The parts of each way's time, for one block size, warm and in order.
pub(super) fn times(readings: &Readings) -> Document {
    let Some(block) = usual_block(readings) else { return Document::default() };
    let is_shown = |point: &&Point| {
        let cell = &point.cell;
        cell.block_bytes == block
            && cell.order == Order::Sequential
            && cell.residency == Residency::Warm
            && !point.samples.is_empty()
    };
    let points: Vec<&Point> =
        readings.part(Part::Blocks).map(|(_, point)| point).filter(is_shown).collect();
    if points.is_empty() {
        return Document::default();
    }
    let mut page = Document::default();
    let title = format!(
        "where the time goes, ms for each GiB: blocks of {}, warm, in order",
        whole_size(block)
    );
    page.heading(&title);
    let right = Align::Decimal;
    let mut table = Table::new(&[
        ("", Align::Left),
        ("all", right),
        ("set up", right),
        ("use", right),
        ("tear down", right),
        ("kernel", Align::Right),
        ("calls", Align::Right),
        ("faults", Align::Right),
    ]);
    points.into_iter().for_each(|point| table.row(times_row(point)));
    page.table(table);
    page
}

fn times_row(point: &Point) -> Vec<Cell> {
    let ms = |value: Option<f64>| Cell::from(value.map_or_else(|| "-".to_owned(), three_digits));
    let all = point.ms_per_gib(|s| s.total_ns().0 as f64);
    let kernel = point.ms_per_gib(|s| s.sys_ns.0 as f64).zip(all).map(|(sys, all)| sys / all);
    let first = point.samples.first();
    let number = |of: Option<u64>| Cell::new(of.map_or_else(String::new, count), Tone::Faint);
    vec![
        point.cell.arm.into_str().into(),
        ms(all),
        ms(point.ms_per_gib(|s| s.set_up_ns.0 as f64)),
        ms(point.ms_per_gib(|s| s.use_ns().0 as f64)),
        ms(point.ms_per_gib(|s| s.tear_down_ns.0 as f64)),
        kernel.map_or_else(String::new, |share| percent(share.min(1.0))).into(),
        number(first.map(|s| s.calls)),
        number(first.map(|s| s.minor_faults + s.major_faults)),
    ]
}
