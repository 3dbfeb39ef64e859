//! A map of a program's code pages: one cell for each, coloured by the time of its first touch at a start.
//!
//! A page shows it as a picture. A terminal shows characters, from 1 for the first touches to 9 for the last,
//! so that it needs no colour. Cells stand in groups of 16: 64 KiB if a cell is a page of 4 KiB, which is as
//! much as one fault maps. A program may be loaded at any multiple of a page. So the groups show the size of
//! these windows, not where they begin. In large programs, several pages share a cell.

use crate::chart::{PageMap, PagePanel, PageRow, SvgPicture, WINDOW};
use crate::number::{count, counted};
use crate::page::ReportDocument;
use crate::style::{TerminalStyle, TextTone};
use pagewise_model::{Nanos, PageSize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// Cells per row of the picture; below, of a terminal by its width.
const COLUMNS: u64 = 64;
const BY_WIDTH: [u64; 3] = [COLUMNS, 32, WINDOW];
/// Most rows of one layout in the picture; below, in a terminal.
const MOST_ROWS: u64 = 48;
const MOST_LINES: u64 = 16;
/// Terminal columns of an address.
const LABEL: u64 = 10;

/// Position on the scale (0..1) of the first touch, with hover text.
type Cell = Option<(f64, String)>;

/// Pages of code in one layout.
#[derive(Debug, Clone)]
pub(super) struct CodeMap {
    title: String,
    /// Numbers of all pages.
    pages: Range<u64>,
    /// Touched pages, with their position on the scale (0..1) and hover text.
    touched: BTreeMap<u64, (f64, String)>,
}

impl CodeMap {
    /// The code in `addresses`. `touched` holds page addresses with the time of first touch, at most `last`.
    pub(super) fn by_time(
        title: &str,
        addresses: Range<u64>,
        touched: impl Iterator<Item = (u64, Nanos)>,
        last: Nanos,
    ) -> Self {
        let shown = |(at, time)| (at, PagePanel::time_share(time, last), format!("after {time}"));
        Self::new(title, addresses, touched.map(shown))
    }

    /// As `by_time`, with pages touched in the order of `touched`.
    pub(super) fn by_rank(title: &str, addresses: Range<u64>, touched: &[u64]) -> Self {
        let last = touched.len().saturating_sub(1).max(1) as f64;
        let shown = |(rank, at): (usize, &u64)| {
            (*at, rank as f64 / last, format!("{}. of {}", rank + 1, touched.len()))
        };
        Self::new(title, addresses, touched.iter().enumerate().map(shown))
    }

    fn new(
        title: &str,
        addresses: Range<u64>,
        all: impl Iterator<Item = (u64, f64, String)>,
    ) -> Self {
        let page = PageSize::BASE_4K.bytes();
        let pages = addresses.start / page..addresses.end.div_ceil(page);
        let mut touched: BTreeMap<u64, (f64, String)> = BTreeMap::new();
        for (at, share, shown) in all {
            let cell = touched.entry(at / page).or_insert((share, shown.clone()));
            if share < cell.0 {
                *cell = (share, shown);
            }
        }
        touched.retain(|at, _| pages.contains(at));
        Self { title: title.to_owned(), pages, touched }
    }

    /// The number of touched pages and of all pages.
    fn figures(&self) -> String {
        let all = counted(self.pages.end.saturating_sub(self.pages.start), "page", "pages");
        format!("{} of {all} touched", count(self.touched.len() as u64))
    }

    /// Rows of cells: the address of the first cell, and the first touch in each.
    fn rows(&self, columns: u64, most: u64) -> (u64, Vec<(u64, Vec<Cell>)>) {
        let start = self.pages.start / WINDOW * WINDOW;
        let all = self.pages.end.saturating_sub(start);
        let pages_a_cell = all.div_ceil(columns * most).max(1).next_power_of_two();
        let mut cells = vec![None; all.div_ceil(pages_a_cell) as usize];
        for (at, (share, shown)) in &self.touched {
            let cell: Option<&mut Cell> = cells.get_mut(((at - start) / pages_a_cell) as usize);
            if let Some(cell) = cell.filter(|cell| cell.as_ref().is_none_or(|(c, _)| share < c)) {
                *cell = Some((*share, shown.clone()));
            }
        }
        let page = PageSize::BASE_4K.bytes();
        let first = |row: usize| (start + row as u64 * columns * pages_a_cell) * page;
        let rows = cells.chunks(columns as usize).enumerate();
        (pages_a_cell, rows.map(|(row, cells)| (first(row), cells.to_vec())).collect())
    }

    fn panel(&self) -> PagePanel {
        let (pages_a_cell, rows) = self.rows(COLUMNS, MOST_ROWS);
        let row =
            |(address, cells): (u64, Vec<_>)| PageRow { label: format!("{address:#x}"), cells };
        PagePanel {
            title: self.title.clone(),
            detail: format!("{}; {}", self.figures(), each(pages_a_cell)),
            rows: rows.into_iter().map(row).collect(),
            has_windows: pages_a_cell == 1,
        }
    }

    /// The map as lines for a terminal.
    fn lines(&self, style: &TerminalStyle) -> String {
        let fits = |cells: &u64| LABEL + cells + cells / WINDOW <= style.columns() as u64;
        let columns = BY_WIDTH.into_iter().find(fits).unwrap_or(WINDOW);
        let (pages_a_cell, rows) = self.rows(columns, MOST_LINES);
        let mut text = String::new();
        for (address, cells) in rows {
            let _infallible = write!(text, "{address:>10x}");
            for group in cells.chunks(WINDOW as usize) {
                text.push(' ');
                text.extend(group.iter().map(|cell| character(cell.as_ref())));
            }
            text.push('\n');
        }
        let _infallible = writeln!(text, "{:>10} {}", "", each(pages_a_cell));
        text
    }
}

fn each(pages_a_cell: u64) -> String {
    format!("each cell is {}", counted(pages_a_cell, "page", "pages"))
}

/// From 1 for the first touch to 9 for the last; a dot if never touched.
fn character(cell: Option<&(f64, String)>) -> char {
    cell.map_or('.', |(share, _)| {
        let step = 1 + (share.clamp(0.0, 1.0) * 8.0).round() as u32;
        char::from_digit(step, 10).unwrap_or('9')
    })
}

/// The maps as one picture; `end` labels the end of the colour scale.
pub(super) fn picture(title: &str, end: &str, maps: &[CodeMap]) -> SvgPicture {
    let note = "No colour: never touched. Lines stand 64 KiB apart, what one fault maps along.";
    PageMap {
        title: title.to_owned(),
        end: end.to_owned(),
        panels: maps.iter().map(CodeMap::panel).collect(),
        note: note.to_owned(),
    }
    .draw()
}

/// The maps as characters.
pub(super) fn text_maps(maps: Vec<CodeMap>) -> ReportDocument {
    let mut page = ReportDocument::default();
    for map in maps {
        page.blank();
        page.heading(&map.title);
        page.para(&map.figures(), 0, TextTone::Plain);
        page.fitted(move |style| ReportDocument::from(map.lines(style)));
    }
    page.para(
        "From 1, touched first, to 9, touched last; a point: never touched.",
        0,
        TextTone::Faint,
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PageSize::BASE_4K.bytes();

    fn shown(map: &CodeMap, width: usize) -> String {
        map.lines(&TerminalStyle { width, colour: false, unicode: false })
    }

    #[test]
    fn characters_count_up_with_the_touches() {
        let touched = [17 * PAGE, 16 * PAGE + 5, 100 * PAGE, 18 * PAGE];
        let map = CodeMap::by_rank("code", 16 * PAGE..50 * PAGE, &touched);
        let text = shown(&map, 80);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "     10000 419............. ................ ..");
        assert_eq!(lines[1].trim(), "each cell is 1 page");
        assert_eq!(map.figures(), "3 of 34 pages touched");
    }

    #[test]
    fn large_programs_fit_into_the_terminal_and_the_picture() {
        let touched: Vec<u64> = (0..9000).map(|page| page * PAGE).collect();
        let map = CodeMap::by_rank("code", 0..9000 * PAGE, &touched);
        for width in [40, 80, 200] {
            let text = shown(&map, width);
            assert!(text.lines().all(|line| line.len() <= width.min(80)), "{text}");
            assert!(text.lines().count() <= MOST_LINES as usize + 1, "{text}");
        }
        let panel = map.panel();
        assert!(panel.rows.len() <= MOST_ROWS as usize && !panel.has_windows);
    }

    #[test]
    fn the_earliest_touch_of_a_cell_counts() {
        let touched = [(3 * PAGE, Nanos::millis(8)), (3 * PAGE, Nanos(0)), (0, Nanos::millis(8))];
        let map = CodeMap::by_time("code", 0..4 * PAGE, touched.into_iter(), Nanos::millis(8));
        assert!(shown(&map, 80).starts_with("         0 9..1\n"), "{}", shown(&map, 80));
        let svg = picture("pages", "the end", &[map]).wide;
        assert!(svg.contains("<desc>code: 2 of 4 pages touched"), "{svg}");
        assert_eq!(svg.matches("<title>after").count(), 2, "{svg}");
    }
}
