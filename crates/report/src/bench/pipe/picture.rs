//! The chart of a ladder: its rows, marks and panels.

use super::{consumption_label, rungs, settings, yardsticks};
use crate::chart::{
    BarChart, BarGroup, BarMark, BarRow, HeatMap, HeatPanel, RepeatRange, StackedChart, StackedRow,
    StackedSegment, SvgPicture,
};
use crate::number::{UNKNOWN, counted, percent, whole_size};
use pagewise_model::bench::pipe::{
    PipeBenchReport, PipeConsumption, PipeJudgement, PipePoint, PipeTimeAccount, PipeWork,
};
use pagewise_model::{Bytes, Nanos};

const UNIT: &str = "GiB/s";

/// Parts of an account, each with its colour; the last is the unexplained rest.
const PARTS: [(&str, &str, &[PipeWork]); 11] = [
    ("copies", "pw-s0", &[PipeWork::Copy]),
    ("between cores", "pw-s5", &[PipeWork::CacheTransfer]),
    ("page allocation", "pw-s1", &[PipeWork::PageAllocation]),
    ("page pinning", "pw-s3", &[PipeWork::Pinning]),
    ("slots and release", "pw-s2", &[PipeWork::Slots]),
    ("system calls and locks", "pw-s4", &[PipeWork::Entry, PipeWork::Locks]),
    ("faults", "pw-s7", &[PipeWork::Faults]),
    ("wake-ups", "pw-s6", &[PipeWork::Wakeups]),
    ("user code", "pw-s8", &[PipeWork::User]),
    ("waiting", "pw-idle", &[PipeWork::Waiting]),
    ("unexplained", "pw-rest", &[]),
];

/// The ladder or the sweep as SVG; `caption` names the machine.
#[must_use]
pub fn svg(ladder: &PipeBenchReport, caption: &str) -> SvgPicture {
    if ladder.sweep { heat(ladder, caption).draw() } else { bars(ladder, caption).draw() }
}

fn bars(ladder: &PipeBenchReport, caption: &str) -> BarChart {
    let known = yardsticks(&ladder.yardsticks).into_iter();
    let marks = known.filter_map(|(label, fact)| {
        Some(BarMark { label: label.to_owned(), value: fact.known()?.median })
    });
    let repeats = counted(u64::from(ladder.repeats), "repeat", "repeats");
    BarChart {
        title: "How fast is a pipe?".to_owned(),
        subtitle: caption.to_owned(),
        unit: UNIT,
        groups: rungs(ladder).map(group).collect(),
        marks: marks.collect(),
        notes: vec![
            format!("Median of {repeats} in shuffled order; lines reach from the smallest to the largest."),
            "By reference: the data is never read. Touched: the consumer read and checked every byte."
                .to_owned(),
            "Dashed: the rate of the memory itself in the same minutes.".to_owned(),
        ],
    }
}

fn group(points: &[PipePoint]) -> BarGroup {
    let row = |point: &PipePoint| BarRow {
        label: consumption_label(point.consumption).to_owned(),
        series: match point.consumption {
            PipeConsumption::Untouched => 0,
            PipeConsumption::Touched => 1,
            PipeConsumption::ForwardedSocket | PipeConsumption::ForwardedFile => 2,
        },
        value: match point.rate() {
            Some(rate) => Ok(RepeatRange { median: rate.median, least: rate.min, most: rate.max }),
            None => Err(point.refused.clone().unwrap_or_else(|| "no repeat".to_owned())),
        },
    };
    BarGroup {
        title: points.first().map_or_else(String::new, |p| p.rung.name.clone()),
        detail: points.first().map_or_else(String::new, settings),
        rows: points.iter().map(row).collect(),
    }
}

fn heat(ladder: &PipeBenchReport, caption: &str) -> HeatMap {
    let mut kinds: Vec<Vec<&PipePoint>> = Vec::new();
    for point in &ladder.points {
        let alike = |kind: &&mut Vec<&PipePoint>| {
            kind[0].consumption == point.consumption && kind[0].rung.is_alike(&point.rung)
        };
        match kinds.iter_mut().find(alike) {
            Some(kind) => kind.push(point),
            None => kinds.push(vec![point]),
        }
    }
    HeatMap {
        title: "How fast is a pipe, by buffer and pipe size?".to_owned(),
        subtitle: caption.to_owned(),
        unit: UNIT,
        columns_are: "pipe",
        rows_are: "buffer",
        is_best_by_column: false,
        panels: kinds.iter().map(|kind| panel(kind)).collect(),
    }
}

/// The pipe's capacity at a point: the actual one, or the requested one if the point never ran.
fn pipe_bytes(point: &PipePoint) -> Bytes {
    if point.pipe_bytes.0 > 0 {
        point.pipe_bytes
    } else {
        point.rung.pipe_bytes.unwrap_or_default()
    }
}

fn panel(points: &[&PipePoint]) -> HeatPanel {
    let sizes = |of: &dyn Fn(&PipePoint) -> Bytes| {
        let mut all: Vec<Bytes> = points.iter().map(|p| of(p)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (columns, rows) = (sizes(&pipe_bytes), sizes(&|p| p.rung.buffer_bytes));
    let cell = |row: Bytes, column: Bytes| {
        let point = points
            .iter()
            .find(|p| p.rung.buffer_bytes == row && pipe_bytes(p) == column)
            .ok_or_else(|| "not in this grid".to_owned())?;
        let why = || point.refused.clone().unwrap_or_else(|| "no repeat".to_owned());
        point.rate().map(|rate| rate.median).ok_or_else(why)
    };
    let cells =
        rows.iter().map(|row| columns.iter().map(|column| cell(*row, *column)).collect()).collect();
    let head = points.first();
    HeatPanel {
        title: head.map_or_else(String::new, |p| {
            format!("{}, {}", p.technique(), consumption_label(p.consumption))
        }),
        columns: columns.into_iter().map(whole_size).collect(),
        rows: rows.into_iter().map(whole_size).collect(),
        cells,
    }
}

/// The parts of each rung's time under one consumption; `None` without accounts.
pub(super) fn accounts(
    ladder: &PipeBenchReport,
    judgement: &PipeJudgement,
    consumption: PipeConsumption,
) -> Option<SvgPicture> {
    let of = |account: &&PipeTimeAccount| {
        ladder.points.get(account.point).is_some_and(|point| point.consumption == consumption)
    };
    let rows: Vec<StackedRow> =
        judgement.accounts.iter().filter(of).map(|account| stack(ladder, account)).collect();
    (!rows.is_empty()).then(|| {
        let stacks = StackedChart {
            title: format!("Where the time goes: {}", consumption_label(consumption)),
            subtitle:
                "Time of both ends for each GiB (at the right), by counts times prices measured before. In brackets: the prices exceed the measured time by this much"
                    .to_owned(),
            names: PARTS.iter().map(|(name, class, _)| (*name, *class)).collect(),
            rows,
        };
        stacks.draw()
    })
}

fn stack(ladder: &PipeBenchReport, account: &PipeTimeAccount) -> StackedRow {
    let segment = |(name, (_, _, works)): (usize, &(&str, &str, &[PipeWork]))| {
        let value = match works {
            [] => account.unexplained_per_gib_ns,
            works => works.iter().map(|work| account.part_ns(*work)).sum(),
        };
        StackedSegment { name, value, hover: format!("{} per GiB", Nanos::from_f64(value)) }
    };
    let over = -account.unexplained_per_gib_ns / account.per_gib_ns;
    let excess = if over > 0.005 { format!(" (+{})", percent(over)) } else { String::new() };
    StackedRow {
        label: rung_name(ladder, account.point).to_owned(),
        segments: PARTS.iter().enumerate().map(segment).collect(),
        total: format!("{}{excess}", Nanos::from_f64(account.per_gib_ns)),
    }
}

/// The rung of point number `at`.
pub(super) fn rung_name(ladder: &PipeBenchReport, at: usize) -> &str {
    ladder.points.get(at).map_or(UNKNOWN, |point| point.rung.name.as_str())
}
