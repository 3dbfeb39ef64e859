//! Rows of equal length, each divided into its parts: where each rung spends its time.
//!
//! Rows show shares of their own total, because totals differ too much for one picture. The total stands at
//! the end of each row, so that equal shares are not mistaken for equal times. A share holds its percentage
//! if there is room, and shows its name on hover.

use super::canvas::{
    CanvasPoint, PictureFormat, SMALL, SvgCanvas, SvgPicture, TextAnchor, fit, text_width,
};
use crate::number::percent;

const MARGIN: f64 = 20.0;
const TOP: f64 = 62.0;
const ROW: f64 = 26.0;
const BAR: f64 = 18.0;
const LEGEND: f64 = 18.0;

/// One part of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StackedSegment {
    pub(crate) name: usize,
    pub(crate) value: f64,
    /// Value and evidence, shown on hover.
    pub(crate) hover: String,
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StackedRow {
    pub(crate) label: String,
    pub(crate) segments: Vec<StackedSegment>,
    /// The total of the row as text.
    pub(crate) total: String,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StackedChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Names of the parts with their colour classes.
    pub(crate) names: Vec<(&'static str, &'static str)>,
    pub(crate) rows: Vec<StackedRow>,
}

/// Left and right ends of rows.
fn ends(format: PictureFormat) -> (f64, f64) {
    (format.pick(150.0, 96.0), format.width() - format.pick(150.0, 76.0))
}

impl StackedChart {
    /// The picture as SVG.
    pub(crate) fn draw(&self) -> SvgPicture {
        SvgPicture::of(|format| self.drawn(format))
    }

    fn drawn(&self, format: PictureFormat) -> String {
        let room = format.width() - 2.0 * MARGIN;
        let mut canvas = SvgCanvas::new(format);
        let mut y =
            TOP + canvas.heading(CanvasPoint(MARGIN, 28.0), room, &self.title, &self.subtitle);
        let (left, right) = ends(format);
        for row in &self.rows {
            let label = fit(&row.label, SMALL, left - 18.0);
            let base = y + BAR / 2.0 + 4.5;
            canvas.text("pw-label", TextAnchor::End, CanvasPoint(left - 8.0, base), &label);
            draw_row(&mut canvas, row, y, (left, right), &self.names);
            canvas.text("pw-ink", TextAnchor::Start, CanvasPoint(right + 8.0, base), &row.total);
            y += ROW;
        }
        y = self.draw_legend(&mut canvas, y + 12.0, format);
        canvas.finish(CanvasPoint(format.width(), y + 8.0), &self.title)
    }

    /// Draws the names that occur, over several lines if needed. Returns their bottom edge.
    fn draw_legend(&self, canvas: &mut SvgCanvas, top: f64, format: PictureFormat) -> f64 {
        let left = format.pick(ends(format).0, MARGIN);
        let (mut x, mut y) = (left, top);
        let occurs = |at: usize| {
            let mut segments = self.rows.iter().flat_map(|row| &row.segments);
            segments.any(|s| s.name == at && s.value > 0.0)
        };
        let named = self.names.iter().enumerate().filter(|(at, _)| occurs(*at));
        for (_, (name, class)) in named {
            let width = 18.0 + text_width(name, SMALL) + 14.0;
            if x + width > format.width() - MARGIN {
                (x, y) = (left, y + LEGEND);
            }
            canvas.rect(class, CanvasPoint(x, y), CanvasPoint(11.0, 11.0), "");
            canvas.text("pw-faint", TextAnchor::Start, CanvasPoint(x + 16.0, y + 9.5), name);
            x += width;
        }
        y + LEGEND
    }
}

fn draw_row(
    canvas: &mut SvgCanvas,
    row: &StackedRow,
    y: f64,
    (left, right): (f64, f64),
    names: &[(&str, &str)],
) {
    let whole: f64 = row.segments.iter().map(|s| s.value.max(0.0)).sum();
    if whole <= 0.0 {
        return;
    }
    let mut x = left;
    for segment in row.segments.iter().filter(|s| s.value > 0.0) {
        let share = segment.value / whole;
        let width = share * (right - left);
        let (name, class) = names.get(segment.name).copied().unwrap_or(("", "pw-rest"));
        let text = percent(share);
        let hover = format!("{name}: {text}, {}", segment.hover);
        canvas.rect(class, CanvasPoint(x, y), CanvasPoint((width - 1.0).max(0.4), BAR), &hover);
        if text_width(&text, SMALL) + 6.0 < width {
            let at = CanvasPoint(x + width / 2.0, y + BAR / 2.0 + 4.0);
            canvas.text("pw-on", TextAnchor::Middle, at, &text);
        }
        x += width;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_row_and_the_total_stands_beside_it() {
        let segment = |name, value| StackedSegment { name, value, hover: "3 x <1>".into() };
        let stacks = StackedChart {
            title: "t".into(),
            subtitle: String::new(),
            names: vec![("copies", "pw-s0"), ("locks", "pw-s1"), ("none", "pw-s2")],
            rows: vec![
                StackedRow {
                    label: "a".into(),
                    segments: vec![segment(0, 3.0), segment(1, 1.0), segment(2, 0.0)],
                    total: "4 s".into(),
                },
                StackedRow { label: "b".into(), segments: vec![], total: String::new() },
            ],
        };
        let svg = stacks.draw().wide;
        assert!(svg.contains("<title>copies: 75%, 3 x &lt;1&gt;</title>"), "{svg}");
        assert!(svg.contains(">25%</text>") && svg.contains(">4 s</text>"), "{svg}");
        assert!(!svg.contains(">none</text>"), "{svg}");
    }
}
