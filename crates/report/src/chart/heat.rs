//! A table of colours: one value for each pair of sizes, one panel for each mode.
//!
//! Each cell holds its figure; the colour only guides the eye. Colours run from dark blue to yellow in steps
//! of equal lightness (the viridis scale), by the logarithm of the value over all panels, so that panels are
//! comparable. The best cell of a panel, or of each column, has a frame. A cell without a value has no
//! colour, and shows the reason on hover.

use super::axis::colour;
use super::canvas::{
    CanvasPoint, PictureFormat, SMALL, SvgCanvas, SvgPicture, TextAnchor, fit, text_width,
};
use crate::number::three_digits;
use std::ops::Range;

const CELL: CanvasPoint = CanvasPoint(56.0, 27.0);
/// Room for the names of rows, unless they need more.
const LEFT: f64 = 92.0;
const MARGIN: f64 = 20.0;
const TOP: f64 = 62.0;
const NARROWEST: f64 = 480.0;
/// Height of a panel without its cells: title, axis labels, gap.
const AROUND: f64 = 74.0;

/// One table of values, row by row; a missing value has its reason.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeatPanel {
    pub(crate) title: String,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<String>,
    pub(crate) cells: Vec<Vec<Result<f64, String>>>,
}

/// All panels.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeatMap {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) unit: &'static str,
    /// What the column sizes measure.
    pub(crate) columns_are: &'static str,
    /// What the row sizes measure.
    pub(crate) rows_are: &'static str,
    /// The best cell of each column has a frame, instead of the best of the panel.
    pub(crate) is_best_by_column: bool,
    pub(crate) panels: Vec<HeatPanel>,
}

impl HeatMap {
    /// The picture as SVG.
    pub(crate) fn draw(&self) -> SvgPicture {
        SvgPicture::of(|format| self.drawn(format))
    }

    /// Draws a panel that is too wide in parts, one below the other.
    fn drawn(&self, format: PictureFormat) -> String {
        let widest = self.panels.iter().map(|p| p.columns.len()).max().unwrap_or(0).max(1);
        let fitting =
            ((PictureFormat::Narrow.width() - self.left() - 4.0) / CELL.0).max(1.0) as usize;
        let (width, a_part) = match format {
            PictureFormat::Narrow => (format.width(), fitting),
            PictureFormat::Wide => {
                ((self.left() + widest as f64 * CELL.0 + MARGIN).max(NARROWEST), widest)
            }
        };
        let room = width - 2.0 * MARGIN;
        let mut canvas = SvgCanvas::new(format);
        let mut y =
            TOP + canvas.heading(CanvasPoint(MARGIN, 28.0), room, &self.title, &self.subtitle);
        for panel in &self.panels {
            for from in (0..panel.columns.len().max(1)).step_by(a_part) {
                let part = from..panel.columns.len().min(from + a_part);
                self.draw_panel(&mut canvas, panel, part, CanvasPoint(width, y));
                y += AROUND + panel.rows.len() as f64 * CELL.1;
            }
        }
        canvas.finish(CanvasPoint(width, y), &self.title)
    }

    /// Left edge of the cells.
    fn left(&self) -> f64 {
        let names = self.panels.iter().flat_map(|p| &p.rows).map(|name| text_width(name, SMALL));
        names.map(|width| MARGIN + width + 8.0).fold(LEFT, f64::max)
    }

    /// Smallest and largest value over all panels.
    fn bounds(&self) -> (f64, f64) {
        let cells = self.panels.iter().flat_map(|p| p.cells.iter().flatten());
        let values = cells.filter_map(|c| c.as_ref().ok()).filter(|v| v.is_finite() && **v > 0.0);
        values.fold((f64::INFINITY, 0.0_f64), |(a, b), v| (a.min(*v), b.max(*v)))
    }

    /// Draws these columns of a panel, in a picture of this width.
    fn draw_panel(
        &self,
        canvas: &mut SvgCanvas,
        panel: &HeatPanel,
        part: Range<usize>,
        at: CanvasPoint,
    ) {
        let (CanvasPoint(width, top), bounds) = (at, self.bounds());
        canvas.text("pw-strong", TextAnchor::Start, CanvasPoint(MARGIN, top + 16.0), &panel.title);
        let (head, left) = (top + 36.0, self.left());
        let corner = format!("{} \u{2193}  {} \u{2192}", self.rows_are, self.columns_are);
        let at = CanvasPoint(MARGIN + text_width(&panel.title, 14.5) + 14.0, top + 16.0);
        let about = fit(&format!("{} ({corner})", self.unit), SMALL, width - at.0);
        canvas.text("pw-faint", TextAnchor::Start, at, &about);
        let x = |column: usize| left + (column - part.start) as f64 * CELL.0;
        let columns = panel.columns.iter().enumerate();
        for (i, column) in columns.filter(|(i, _)| part.contains(i)) {
            let at = CanvasPoint(x(i) + 0.5 * CELL.0, head);
            canvas.text("pw-faint", TextAnchor::Middle, at, column);
        }
        let best = if self.is_best_by_column {
            (0..panel.columns.len()).filter_map(|column| best_cell(panel, Some(column))).collect()
        } else {
            Vec::from_iter(best_cell(panel, None))
        };
        for (r, row) in panel.rows.iter().enumerate() {
            let y = head + 6.0 + r as f64 * CELL.1;
            canvas.text(
                "pw-faint",
                TextAnchor::End,
                CanvasPoint(left - 8.0, y + CELL.1 / 2.0 + 4.0),
                row,
            );
            let cells = panel.cells.get(r).into_iter().flatten().enumerate();
            for (c, value) in cells.filter(|(c, _)| part.contains(c)) {
                let at = CanvasPoint(x(c), y);
                let column = panel.columns.get(c).map_or("", String::as_str);
                let place = format!("{} {row}, {} {column}", self.rows_are, self.columns_are);
                draw_cell(canvas, at, value, bounds, &place);
            }
        }
        for (r, c) in best.into_iter().filter(|(_, c)| part.contains(c)) {
            let at = CanvasPoint(x(c), head + 6.0 + r as f64 * CELL.1);
            canvas.rect(
                "pw-best",
                CanvasPoint(at.0 + 1.0, at.1 + 1.0),
                CanvasPoint(CELL.0 - 3.0, CELL.1 - 3.0),
                "",
            );
        }
    }
}

fn draw_cell(
    canvas: &mut SvgCanvas,
    at: CanvasPoint,
    value: &Result<f64, String>,
    (least, most): (f64, f64),
    place: &str,
) {
    let size = CanvasPoint(CELL.0 - 1.0, CELL.1 - 1.0);
    let middle = CanvasPoint(at.0 + size.0 / 2.0, at.1 + size.1 / 2.0 + 4.5);
    match value {
        Ok(value) => {
            let share = if most > least { (value / least).ln() / (most / least).ln() } else { 1.0 };
            let (fill, ink) = colour(share);
            canvas.cell(&fill, at, size, &format!("{place}: {}", three_digits(*value)));
            canvas.label(ink, middle, &three_digits(*value));
        }
        Err(why) => {
            canvas.rect("pw-none", at, size, &format!("{place}: {why}"));
            canvas.text("pw-faint", TextAnchor::Middle, middle, "\u{2013}");
        }
    }
}

/// Row and column of the largest value in a panel or column; `None` unless there are several values.
fn best_cell(panel: &HeatPanel, column: Option<usize>) -> Option<(usize, usize)> {
    let known = panel.cells.iter().enumerate().flat_map(|(r, row)| {
        row.iter().enumerate().filter_map(move |(c, v)| Some(((r, c), *v.as_ref().ok()?)))
    });
    let known = known.filter(|((_, c), _)| column.is_none_or(|column| column == *c));
    let all: Vec<((usize, usize), f64)> = known.collect();
    let best = all.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    (all.len() > 1).then_some(best.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_framed_and_the_missing_says_why() {
        let panel = HeatPanel {
            title: "write".into(),
            columns: vec!["64 KiB".into(), "1 MiB".into()],
            rows: vec!["256 KiB".into()],
            cells: vec![vec![Err("over <the> limit".into()), Ok(5.0)]],
        };
        let mut two = panel.clone();
        two.cells[0][0] = Ok(1.0);
        assert_eq!((best_cell(&panel, None), best_cell(&two, None)), (None, Some((0, 1))));
        assert_eq!(best_cell(&two, Some(0)), None, "alone in its column");
        let heat = HeatMap {
            title: "t".into(),
            subtitle: String::new(),
            unit: "GiB/s",
            columns_are: "pipe",
            rows_are: "buffer",
            is_best_by_column: false,
            panels: vec![panel, two],
        };
        let svg = heat.draw().wide;
        assert!(svg.contains("over &lt;the&gt; limit"), "{svg}");
        assert_eq!(svg.matches("class=\"pw-best\"").count(), 1, "{svg}");
    }
}
