//! The races as a table of colours: every way over the blocks, one panel for each residency and order. The
//! fastest way of each block has a frame: where it changes from block to block the ways cross.

use super::grid::{Entry, Grid, races};
use crate::chart::{Heat, Panel};
use pagewise_model::bench::file::Readings;

/// The readings as SVG; `caption` says where they were measured.
#[must_use]
pub fn svg(readings: &Readings, caption: &str) -> String {
    let heat = Heat {
        title: "Which way to read a file is fastest?".to_owned(),
        subtitle: caption.to_owned(),
        unit: "GiB/s",
        columns_are: "block",
        rows_are: "way",
        is_best_by_column: true,
        panels: races(readings).into_iter().map(panel).collect(),
    };
    heat.draw()
}

fn panel(grid: Grid) -> Panel {
    let value = |entry: Entry| match entry {
        Entry::Rate(rate) => Ok(rate.median),
        Entry::Refused(why) => Err(format!("refused: {why}")),
        Entry::Missing(why) => Err(why),
        Entry::Empty => Err("not requested".to_owned()),
    };
    let (rows, cells) = grid
        .rows
        .into_iter()
        .map(|(name, entries)| (name, entries.into_iter().map(value).collect()))
        .unzip();
    Panel { title: grid.title, columns: grid.columns, rows, cells }
}
