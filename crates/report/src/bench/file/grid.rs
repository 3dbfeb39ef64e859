//! Readings as grids of rates: a row for each way, a column for each value that varies. Text, page and
//! picture show the same grids.

use crate::number::whole_size;
use pagewise_model::bench::file::{
    CacheResidency, CopyRates, CopyRow, FileBenchPart, FileBenchReport, FileCell, FilePoint,
    ReadWay,
};
use pagewise_model::bench::tlb::AccessOrder;
use pagewise_model::{Bytes, Fact, Measured};

/// The content of one place in a grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RateEntry {
    /// GiB/s.
    Rate(Measured),
    /// The way did other work than requested; with the reason.
    Refused(String),
    /// The cell was not read; with the reason.
    Missing(String),
    /// There is no such cell.
    Empty,
}

/// A table of rates.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RateGrid {
    pub(super) title: String,
    pub(super) columns_are: &'static str,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<(String, Vec<RateEntry>)>,
    /// The ways compete: the best place gets a frame.
    pub(super) is_race: bool,
}

/// All grids that have a place.
pub(super) fn grids(readings: &FileBenchReport) -> Vec<RateGrid> {
    let mut all = races(readings);
    all.extend([passes(readings), buffers(readings), threads(readings)]);
    all.extend(readings.copies.as_ref().map(copies));
    all.retain(|grid| !grid.rows.is_empty());
    all
}

/// How files are read, each with a long and a short name.
pub(super) const RACES: [(CacheResidency, AccessOrder, &str, &str); 4] = [
    (CacheResidency::Warm, AccessOrder::Sequential, "warm, in order", "in order"),
    (CacheResidency::Warm, AccessOrder::Random, "warm, at random", "at random"),
    (CacheResidency::Cold, AccessOrder::Sequential, "cold, in order", "cold"),
    (CacheResidency::Cold, AccessOrder::Random, "cold, at random", "cold random"),
];

/// Every way over the blocks, for each residency and order.
pub(super) fn races(readings: &FileBenchReport) -> Vec<RateGrid> {
    let all = RACES.into_iter().map(|(residency, order, name, _)| {
        let grid = race(readings, residency, order);
        RateGrid { title: format!("{name}{}", grid.title), ..grid }
    });
    all.filter(|grid| !grid.rows.is_empty()).collect()
}

/// As [`races`], for one residency and order.
pub(super) fn race(
    readings: &FileBenchReport,
    residency: CacheResidency,
    order: AccessOrder,
) -> RateGrid {
    let is_of = |cell: &FileCell| cell.residency == residency && cell.order == order;
    let spans = parts(readings, FileBenchPart::Blocks, &is_of, |cell| cell.span_bytes);
    let title = format!(": {} once", whole_size(spans.last().copied().unwrap_or_default()));
    let column = |cell: &FileCell| cell.block_bytes;
    let grid = by_arm(readings, FileBenchPart::Blocks, &is_of, column, whole_size);
    RateGrid { title, columns_are: "block", is_race: true, ..grid }
}

fn threads(readings: &FileBenchReport) -> RateGrid {
    let column = |cell: &FileCell| cell.threads;
    let write = |count: u32| count.to_string();
    let grid = by_arm(readings, FileBenchPart::Threads, &|_| true, column, write);
    RateGrid { title: "warm, in order: several threads".to_owned(), columns_are: "threads", ..grid }
}

/// Rates of single passes, without set-up and tear-down.
fn passes(readings: &FileBenchReport) -> RateGrid {
    let counts = parts(readings, FileBenchPart::Passes, &|_| true, |cell| cell.passes as usize);
    let count = counts.last().copied().unwrap_or(0);
    let mut shown = vec![0, 1, count.saturating_sub(1)];
    shown.dedup();
    shown.retain(|nth| *nth < count);
    let row = |(at, point): (usize, &FilePoint)| {
        let pass = |nth: &usize| entry(readings, at, point, point.pass_gib_per_s(*nth));
        (point.cell.arm.into_str().to_owned(), shown.iter().map(pass).collect())
    };
    RateGrid {
        title: "warm, in order: repeated passes through the same descriptor or mapping, without open and close"
            .to_owned(),
        columns_are: "pass",
        columns: shown.iter().map(|nth| (nth + 1).to_string()).collect(),
        rows: readings.part(FileBenchPart::Passes).map(row).collect(),
        is_race: false,
    }
}

/// Effect of the buffer's position: a row for each way and kind of memory.
fn buffers(readings: &FileBenchReport) -> RateGrid {
    let offsets = parts(readings, FileBenchPart::Buffers, &|_| true, |cell| cell.offset_bytes);
    let mut rows = Vec::new();
    for arm in arms(readings, FileBenchPart::Buffers, &|_| true) {
        for fresh in [false, true] {
            let entries = offsets.iter().map(|offset| {
                let is_it = |cell: &FileCell| {
                    cell.arm == arm && cell.fresh == fresh && cell.offset_bytes == *offset
                };
                found(readings, FileBenchPart::Buffers, &is_it)
            });
            let memory = if fresh { "fresh memory" } else { "same buffer" };
            rows.push((format!("{}, {memory}", arm.into_str()), entries.collect()));
        }
    }
    RateGrid {
        title: "warm, in order: position of the block in its page".to_owned(),
        columns_are: "bytes after the start of a page",
        columns: offsets.iter().map(|offset| offset.0.to_string()).collect(),
        rows,
        is_race: false,
    }
}

/// The kernel's copy compared with others.
fn copies(found: &CopyRates) -> RateGrid {
    let entry = |rate: &Fact<Measured>| match rate {
        Fact::Known(rate) => RateEntry::Rate(*rate),
        Fact::Missing(why) => RateEntry::Missing(why.clone()),
    };
    let row =
        |row: &CopyRow| (row.way.into_str().to_owned(), row.gib_per_s.iter().map(entry).collect());
    RateGrid {
        title: format!("copies of {} from the cache", whole_size(found.block_bytes)),
        columns_are: "bytes after the start of a page",
        columns: found.offset_bytes.iter().map(|offset| offset.0.to_string()).collect(),
        rows: found.rows.iter().map(row).collect(),
        is_race: false,
    }
}

/// A row for each way of a part, a column for each value that varies.
fn by_arm<T: Ord + Copy>(
    readings: &FileBenchReport,
    part: FileBenchPart,
    is_of: &dyn Fn(&FileCell) -> bool,
    column: fn(&FileCell) -> T,
    write: fn(T) -> String,
) -> RateGrid {
    let columns = parts(readings, part, is_of, column);
    let row = |(_, _, way): (_, _, &'static str)| {
        let entries = columns.iter().map(|value| {
            let is_it =
                |cell: &FileCell| is_of(cell) && cell.way() == way && column(cell) == *value;
            found(readings, part, &is_it)
        });
        (way.to_owned(), entries.collect())
    };
    let ways = parts(readings, part, is_of, |cell| (cell.arm, cell.store, cell.way()));
    RateGrid {
        title: String::new(),
        columns_are: "",
        rows: ways.into_iter().map(row).collect(),
        columns: columns.into_iter().map(write).collect(),
        is_race: false,
    }
}

/// The values that vary among the cells of a part, each once, ascending.
fn parts<T: Ord>(
    readings: &FileBenchReport,
    part: FileBenchPart,
    is_of: &dyn Fn(&FileCell) -> bool,
    value: impl Fn(&FileCell) -> T,
) -> Vec<T> {
    let cells = readings.part(part).map(|(_, point)| &point.cell);
    let mut values: Vec<T> = cells.filter(|cell| is_of(cell)).map(value).collect();
    values.sort_unstable();
    values.dedup();
    values
}

fn arms(
    readings: &FileBenchReport,
    part: FileBenchPart,
    is_of: &dyn Fn(&FileCell) -> bool,
) -> Vec<ReadWay> {
    parts(readings, part, is_of, |cell| cell.arm)
}

fn found(
    readings: &FileBenchReport,
    part: FileBenchPart,
    is_it: &dyn Fn(&FileCell) -> bool,
) -> RateEntry {
    let point = readings.part(part).find(|(_, point)| is_it(&point.cell));
    point.map_or(RateEntry::Empty, |(at, point)| entry(readings, at, point, point.rate_gib_per_s()))
}

fn entry(
    readings: &FileBenchReport,
    at: usize,
    point: &FilePoint,
    rate: Option<Measured>,
) -> RateEntry {
    let refusal = readings.judgement.as_ref().and_then(|judgement| judgement.refusal(at));
    match (refusal, rate) {
        (Some(why), _) => RateEntry::Refused(why.to_owned()),
        (None, Some(rate)) => RateEntry::Rate(rate),
        (None, None) => {
            RateEntry::Missing(point.refused.as_deref().unwrap_or("not read").to_owned())
        }
    }
}

/// The block size whose cells are shown in detail: the published study's largest, or the nearest to it.
pub(super) fn usual_block(readings: &FileBenchReport) -> Option<Bytes> {
    let blocks = parts(readings, FileBenchPart::Blocks, &|_| true, |cell| cell.block_bytes);
    blocks.into_iter().min_by_key(|block| block.0.abs_diff(Bytes::kib(16).0))
}
