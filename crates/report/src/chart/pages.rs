//! A map of pages: one cell each, coloured by the time of first touch.
//!
//! Rows of equal length are stacked, each with the address of its first cell. A cell that was never touched
//! is empty. Colours are those of `scale`, dark for the earliest.

use super::axis::colour;
use super::canvas::{CanvasPoint, PictureFormat, SMALL, SvgCanvas, SvgPicture, TextAnchor, fit};
use pagewise_model::Nanos;

/// Distance between cells; below, the filled part of a cell.
const PITCH: f64 = 10.0;
const CELL: CanvasPoint = CanvasPoint(9.0, 9.0);
const LEFT: f64 = 128.0;
const MARGIN: f64 = 20.0;
/// Height above the panels: title and scale.
const TOP: f64 = 78.0;
/// Height of a panel without its rows.
const AROUND: f64 = 52.0;
const NARROWEST: f64 = 480.0;
/// Boxes of the colour scale; below, their width.
const STEPS: u32 = 24;
const STEP: f64 = 12.0;
const NARROW_STEP: f64 = 5.0;
/// Most cells per row in a narrow picture; longer rows are broken.
const NARROW_ROW: usize = WINDOW as usize;

/// Pages of 4 KiB that one fault may map (64 KiB, the default of the kernel's `fault_around_bytes`).
pub(crate) const WINDOW: u64 = 16;

/// Cells from one address on: position on the colour scale (0..1), and hover text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PageRow {
    pub(crate) label: String,
    pub(crate) cells: Vec<Option<(f64, String)>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PagePanel {
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) rows: Vec<PageRow>,
    /// Cells are pages that a fault maps in groups of [`WINDOW`], separated by lines.
    pub(crate) has_windows: bool,
}

impl PagePanel {
    /// Position of a time on a logarithmic scale from one microsecond to `last`.
    pub(crate) fn time_share(at: Nanos, last: Nanos) -> f64 {
        let scale = |at: Nanos| (at.0 as f64 / 1000.0).ln_1p();
        if last.0 == 0 { 0.0 } else { scale(at) / scale(last) }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PageMap {
    pub(crate) title: String,
    /// Label at the end of the colour scale; the scale begins at the first touch.
    pub(crate) end: String,
    pub(crate) panels: Vec<PagePanel>,
    /// What is not drawn; may be empty.
    pub(crate) note: String,
}

impl PageMap {
    /// The picture as SVG.
    pub(crate) fn draw(&self) -> SvgPicture {
        SvgPicture::of(|format| self.drawn(format))
    }

    fn drawn(&self, format: PictureFormat) -> String {
        let cells = self.panels.iter().flat_map(|p| &p.rows).map(|row| row.cells.len()).max();
        let wide = (LEFT + cells.unwrap_or(0) as f64 * PITCH + MARGIN).max(NARROWEST);
        let width = format.pick(wide, format.width());
        let room = width - 2.0 * MARGIN;
        let mut canvas = SvgCanvas::new(format);
        let title = canvas.lines("pw-title", CanvasPoint(MARGIN, 28.0), (17.0, room), &self.title);
        self.draw_scale(&mut canvas, 24.0 + title, format);
        let mut y = TOP - 20.0 + title;
        for panel in &self.panels {
            let broken =
                PagePanel { rows: panel.rows.iter().flat_map(broken).collect(), ..panel.clone() };
            let panel = if format == PictureFormat::Narrow { &broken } else { panel };
            draw_panel(&mut canvas, panel, y, width);
            y += AROUND + panel.rows.len() as f64 * PITCH;
        }
        if !self.note.is_empty() {
            y += 12.0;
            y += canvas.lines("pw-faint", CanvasPoint(MARGIN, y), (SMALL, room), &self.note);
        }
        let about = |panel: &PagePanel| format!("{}: {}.", panel.title, panel.detail);
        canvas.describe(&self.panels.iter().map(about).collect::<Vec<_>>().join(" "));
        canvas.finish(CanvasPoint(width, y + MARGIN), &self.title)
    }

    fn draw_scale(&self, canvas: &mut SvgCanvas, y: f64, format: PictureFormat) {
        let (start, width) = (MARGIN + 64.0, format.pick(STEP, NARROW_STEP));
        for step in 0..STEPS {
            let (fill, _) = colour(f64::from(step) / f64::from(STEPS - 1));
            let at = CanvasPoint(start + f64::from(step) * width, y);
            canvas.cell(&fill, at, CanvasPoint(width, PITCH), "");
        }
        canvas.text("pw-faint", TextAnchor::End, CanvasPoint(start - 8.0, y + 9.0), "the first");
        let end = CanvasPoint(start + f64::from(STEPS) * width + 8.0, y + 9.0);
        canvas.text("pw-faint", TextAnchor::Start, end, &self.end);
    }
}

/// A row broken into rows of a narrow picture; only the first has the label.
fn broken(row: &PageRow) -> impl Iterator<Item = PageRow> {
    let label = |at| if at == 0 { row.label.clone() } else { String::new() };
    let parts = row.cells.chunks(NARROW_ROW).enumerate();
    parts.map(move |(at, cells)| PageRow { label: label(at), cells: cells.to_vec() })
}

fn draw_panel(canvas: &mut SvgCanvas, panel: &PagePanel, top: f64, width: f64) {
    let room = width - 2.0 * MARGIN;
    let (title, detail) = (fit(&panel.title, 14.5, room), fit(&panel.detail, SMALL, room));
    canvas.text("pw-strong", TextAnchor::Start, CanvasPoint(MARGIN, top + 16.0), &title);
    canvas.text("pw-faint", TextAnchor::Start, CanvasPoint(MARGIN, top + 32.0), &detail);
    for (number, row) in panel.rows.iter().enumerate() {
        let y = top + 40.0 + number as f64 * PITCH;
        canvas.text("pw-faint", TextAnchor::End, CanvasPoint(LEFT - 8.0, y + 9.0), &row.label);
        let size = CanvasPoint(row.cells.len() as f64 * PITCH - 1.0, CELL.1);
        canvas.rect("pw-none", CanvasPoint(LEFT, y), size, "");
        for (column, cell) in row.cells.iter().enumerate() {
            let Some((share, hover)) = cell else { continue };
            let at = CanvasPoint(LEFT + column as f64 * PITCH, y);
            canvas.cell(&colour(*share).0, at, CELL, hover);
        }
    }
    let bottom = top + 40.0 + panel.rows.len() as f64 * PITCH;
    let cells = panel.rows.iter().map(|row| row.cells.len() as u64).max().unwrap_or(0);
    for at in (WINDOW..cells).step_by(WINDOW as usize).filter(|_| panel.has_windows) {
        let x = LEFT + at as f64 * PITCH - 0.5;
        canvas.line("pw-axis", CanvasPoint(x, top + 38.0), CanvasPoint(x, bottom + 1.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn touched_cells_have_a_colour_and_others_none() {
        let cells = vec![Some((0.0, "first".to_owned())), None, Some((1.0, "last".to_owned()))];
        let row = PageRow { label: "0x0".into(), cells };
        let (title, detail) = ("a<b".to_owned(), String::new());
        let panel = PagePanel { title, detail, rows: vec![row], has_windows: false };
        let end = "the end".to_owned();
        let map = PageMap { title: "t".into(), end, panels: vec![panel], note: "rest".into() };
        let svg = map.draw().wide;
        assert_eq!(svg.matches("<title>first</title>").count(), 1, "{svg}");
        assert!(svg.contains("#440154") && svg.contains("#fde725"), "{svg}");
        assert!(svg.contains("a&lt;b") && svg.contains(">rest</text>"), "{svg}");
        assert_eq!(svg.matches("class=\"pw-none\"").count(), 1, "{svg}");
    }

    #[test]
    fn windows_are_set_apart_where_cells_are_pages() {
        let lines = |has_windows| {
            let rows = vec![PageRow { label: String::new(), cells: vec![None; 40] }; 2];
            let panel =
                PagePanel { title: String::new(), detail: String::new(), rows, has_windows };
            let (title, end, note) = Default::default();
            PageMap { title, end, panels: vec![panel], note }.draw().wide.matches("<line").count()
        };
        assert_eq!((lines(true), lines(false)), (2, 0));
    }
}
