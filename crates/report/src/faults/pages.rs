//! A page with a picture of pages: one cell for each, coloured by the time of its first touch.
//!
//! Pages of a file are placed by file offset, over all processes. Other pages are placed by address,
//! separately for each process. Rows without a touched page are left out. Only the [`MOST_PANELS`] largest
//! mappings are drawn. If a mapping has too many rows, several pages share a cell; the page reports both
//! limits. The rows are shared among the mappings, so that the page of any run stays small. The time scale is
//! linear, unless a logarithmic one separates more cells. Not seen: a page that was mapped without its own
//! fault (fault-around, populating, a huge page beyond its first). It has no cell.

use super::causes;
use super::{place_name, site_line, timed_wall};
use crate::chart::{PageMap, PagePanel, PageRow};
use crate::number::{count, counted, percent};
use crate::page::ReportDocument;
use crate::shell::start_line;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::body::RunBody;
use pagewise_model::fault::{FaultNames, FaultReport, FaultTally, PageFault};
use pagewise_model::run::SavedRun;
use pagewise_model::{Bytes, Fact, Nanos};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Cells of a row.
const COLUMNS: u64 = 64;
/// Most rows of a panel; below, the least that each panel gets.
const MOST_ROWS: usize = 40;
const LEAST_ROWS: usize = 5;
/// Most rows of all panels together; a cell takes some 90 bytes.
const ROWS_IN_ALL: usize = 96;
/// Number of parts that a scale is divided into.
const PARTS_OF_SCALE: usize = 16;
/// Most mappings that are drawn.
const MOST_PANELS: usize = 16;

/// First touches under construction.
#[derive(Debug, Default)]
pub(super) struct TouchedMappings {
    mappings: HashMap<Mapping, PageTouches>,
    last: Nanos,
}

/// A mapping by name, and by process if it has no file.
type Mapping = (String, Option<i32>);

/// First touch of each page, by its offset or address.
#[derive(Debug, Default)]
struct PageTouches(BTreeMap<u64, Nanos>);

impl TouchedMappings {
    pub(super) fn add(&mut self, names: &FaultNames, faults: &[PageFault]) {
        for fault in faults {
            let Some(place) = names.place(fault) else { continue };
            let process = fault.offset_bytes.is_none().then_some(fault.pid);
            let touches = self.mappings.entry((place_name(place), process)).or_default();
            let at = fault.offset_bytes.map_or(fault.page_address, |offset| offset.0);
            let first = touches.0.entry(at).or_insert(fault.since_first_ns);
            *first = (*first).min(fault.since_first_ns);
            self.last = self.last.max(fault.since_first_ns);
        }
    }

    /// The page of `run`.
    pub(super) fn page(&self, run: &SavedRun) -> String {
        let size = run.machine.as_ref().map_or(Bytes::kib(4), |m| Bytes(m.base_page_bytes.bytes()));
        let mut page = ReportDocument::default();
        page.figure(self.map(size, run).draw());
        if let Some(RunBody::Faults(report)) = &run.body {
            page.append(tables(report));
        }
        let text = "Each cell is a page that was faulted on. Pages mapped around a fault, or populated, have no cell.";
        page.para(text, 0, TextTone::Faint);
        crate::run::page(run, page)
    }

    fn map(&self, page: Bytes, run: &SavedRun) -> PageMap {
        let mut all: Vec<(&Mapping, &PageTouches)> = self.mappings.iter().collect();
        all.sort_by_key(|(mapping, touches)| (std::cmp::Reverse(touches.0.len()), *mapping));
        let left = all.split_off(all.len().min(MOST_PANELS));
        let processes: BTreeSet<i32> = self.mappings.keys().filter_map(|(_, pid)| *pid).collect();
        let several = processes.len() > 1;
        let room = (ROWS_IN_ALL / all.len().max(1)).clamp(LEAST_ROWS, MOST_ROWS);
        let scale = self.scale();
        let panel = |((name, pid), touches): &(&Mapping, &PageTouches)| {
            let of =
                pid.filter(|_| several).map_or_else(String::new, |pid| format!(", process {pid}"));
            let by = if pid.is_none() { "offset" } else { "address" };
            touches.panel(format!("{name}{of}"), by, page, (scale, room))
        };
        let rest: usize = left.iter().map(|(_, touches)| touches.0.len()).sum();
        let note = (rest > 0).then(|| {
            format!(
                "Not drawn: {} on {}.",
                counted(rest as u64, "page", "pages"),
                counted(left.len() as u64, "smaller mapping", "smaller mappings")
            )
        });
        let logarithmic = if scale.is_log { ", on a logarithmic scale" } else { "" };
        PageMap {
            title: format!("Pages of {}, by the time of their first touch", start_line(run)),
            end: format!("after {}{logarithmic}", self.last),
            panels: all.iter().map(panel).collect(),
            note: note.unwrap_or_default(),
        }
    }
}

/// The scale of times.
#[derive(Debug, Clone, Copy, PartialEq)]
struct TimeScale {
    last: Nanos,
    is_log: bool,
}

impl TimeScale {
    /// Position of a time, from 0 to 1.
    fn share(self, at: Nanos) -> f64 {
        match self.is_log {
            true => PagePanel::time_share(at, self.last),
            false => at.0 as f64 / self.last.0.max(1) as f64,
        }
    }
}

impl TouchedMappings {
    /// The scale on which times are spread more evenly.
    fn scale(&self) -> TimeScale {
        let [linear, log] = [false, true].map(|is_log| TimeScale { last: self.last, is_log });
        let filled = |scale: TimeScale| {
            let times = self.mappings.values().flat_map(|touches| touches.0.values());
            let mut parts = [0_u64; PARTS_OF_SCALE];
            for at in times {
                let part = (scale.share(*at) * PARTS_OF_SCALE as f64) as usize;
                parts[part.min(PARTS_OF_SCALE - 1)] += 1;
            }
            parts.iter().copied().max().unwrap_or(0)
        };
        // A smaller maximum means that more times are distinguishable.
        if filled(log) < filled(linear) { log } else { linear }
    }
}

impl PageTouches {
    /// The picture with rows by offset or address, on this scale and with at most `room` rows.
    fn panel(
        &self,
        title: String,
        by: &str,
        page: Bytes,
        (scale, room): (TimeScale, usize),
    ) -> PagePanel {
        let pages_a_cell = self.pages_a_cell(page, room);
        let cell_bytes = page.0.max(1).saturating_mul(pages_a_cell);
        let mut cells: BTreeMap<u64, (Nanos, u64)> = BTreeMap::new();
        for (at, first) in &self.0 {
            let cell = cells.entry(at / cell_bytes).or_insert((*first, 0));
            *cell = (cell.0.min(*first), cell.1 + 1);
        }
        let mut rows: BTreeMap<u64, PageRow> = BTreeMap::new();
        for (at, (first, pages)) in cells {
            let row = rows.entry(at / COLUMNS).or_insert_with(|| PageRow {
                label: format!("{:#x}", (at / COLUMNS * COLUMNS).saturating_mul(cell_bytes)),
                cells: vec![None; COLUMNS as usize],
            });
            let from = at.saturating_mul(cell_bytes);
            let many = if pages > 1 { format!(", {pages} pages") } else { String::new() };
            let hover = format!("{from:#x}{many}: after {first}");
            if let Some(cell) = row.cells.get_mut((at % COLUMNS) as usize) {
                *cell = Some((scale.share(first), hover));
            }
        }
        let each = match pages_a_cell {
            1 => "each cell is a page".to_owned(),
            n => format!("each cell is {} pages", count(n)),
        };
        let pages = counted(self.0.len() as u64, "page", "pages");
        PagePanel {
            title,
            detail: format!("{pages}; {each}; rows by {by}"),
            rows: rows.into_values().collect(),
            has_windows: false,
        }
    }

    /// The smallest power of two that keeps the rows within `room`.
    fn pages_a_cell(&self, page: Bytes, room: usize) -> u64 {
        let rows = |pages_a_cell: u64| {
            let row_bytes = page.0.max(1).saturating_mul(pages_a_cell).saturating_mul(COLUMNS);
            let mut rows: Vec<u64> = self.0.keys().map(|at| at / row_bytes).collect();
            rows.dedup();
            rows.len()
        };
        let mut powers = (0..u64::BITS).map(|power| 1_u64 << power);
        powers.find(|pages| rows(*pages) <= room).unwrap_or(1)
    }
}

fn tables(report: &FaultReport) -> ReportDocument {
    let wall = timed_wall(report);
    let mut page = ReportDocument::default();
    let phases =
        report.by_phase.iter().map(|group| (group.kind.into_str().to_owned(), group.tally));
    page.append(table("When they came", phases, wall));
    match &report.callers {
        Fact::Known(callers) => {
            page.append(table("Callers", causes::caller_rows(callers, site_line), wall));
        }
        Fact::Missing(why) => {
            page.para(&format!("callers are not known: {why}"), 0, TextTone::Faint);
        }
    }
    let places = report.places.iter().map(|one| (place_name(&one.place), one.tally));
    page.append(table("What was touched", places, wall));
    let churn = report.churn.by_reason.iter().map(|g| (g.kind.into_str().to_owned(), g.tally));
    page.append(table("Pages faulted on again", churn, wall));
    for saving in &report.savings {
        page.para(&causes::saving_line(saving, report.wall_ns), 0, TextTone::Plain);
    }
    page
}

/// A table of tallies, with times if they are known; empty without rows.
fn table(
    title: &str,
    rows: impl Iterator<Item = (String, FaultTally)>,
    wall: Option<Nanos>,
) -> ReportDocument {
    let mut columns = vec![
        ("", ColumnAlignment::Name),
        ("faults", ColumnAlignment::Right),
        ("major", ColumnAlignment::Right),
    ];
    if wall.is_some() {
        columns.extend([("time", ColumnAlignment::Right), ("of wall", ColumnAlignment::Right)]);
    }
    let mut table = ReportTable::new(&columns);
    for (name, tally) in rows {
        let mut row: Vec<TableCell> =
            vec![name.into(), count(tally.faults).into(), count(tally.major_faults).into()];
        if let Some(wall) = wall {
            let share = percent(super::share(tally.time_ns, wall));
            row.extend([tally.time_ns.to_string().into(), share.into()]);
        }
        table.row(row);
    }
    let mut page = ReportDocument::default();
    if !table.is_empty() {
        page.heading(title);
        page.table(table);
    }
    page
}
