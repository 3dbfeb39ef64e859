//! Groups of rows along one axis: the ladder. Each row is a value with its range over the repeats.
//!
//! Every row has its own label, so it is readable without colour. A row without a value gives the reason.
//! Yardsticks are vertical lines. Their names stand above the plot, on as many levels as keep them apart.
//! Rows are bars from 0 on a linear axis, and points on a logarithmic one.

use super::axis::{ChartAxis, tick_label};
use super::canvas::{
    CanvasPoint, FONT, PictureFormat, SMALL, SvgCanvas, SvgPicture, TextAnchor, fit, text_width,
};
use crate::number::three_digits;

const MARGIN: f64 = 20.0;
const ROW: f64 = 19.0;
const BAR: f64 = 12.0;
const HEADER: f64 = 24.0;
const GAP: f64 = 12.0;
/// Height of one level of yardstick names, and of one line of a footer.
const LEVEL: f64 = 15.0;

/// A median with the smallest and largest repeat.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RepeatRange {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BarRow {
    pub(crate) label: String,
    /// Index of the series colour.
    pub(crate) series: usize,
    /// The value, or the reason why it is missing.
    pub(crate) value: Result<RepeatRange, String>,
}

/// Rows under a heading.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BarGroup {
    pub(crate) title: String,
    pub(crate) detail: String,
    pub(crate) rows: Vec<BarRow>,
}

/// A value that all rows are compared with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BarMark {
    pub(crate) label: String,
    pub(crate) value: f64,
}

/// The whole picture.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BarChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// Unit of all values.
    pub(crate) unit: &'static str,
    pub(crate) groups: Vec<BarGroup>,
    pub(crate) marks: Vec<BarMark>,
    /// Lines under the plot.
    pub(crate) notes: Vec<String>,
}

/// Geometry of the plot.
struct BarPlot {
    axis: ChartAxis,
    left: f64,
    right: f64,
    /// Width of the picture.
    width: f64,
    top: f64,
    bottom: f64,
}

impl BarPlot {
    const fn new(axis: ChartAxis, format: PictureFormat) -> Self {
        let width = format.width();
        let (left, right) = (format.pick(132.0, 100.0), width - format.pick(150.0, 100.0));
        Self { axis, left, right, width, top: 0.0, bottom: 0.0 }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.axis.place(value) * (self.right - self.left)
    }

    /// Width of a line from margin to margin.
    const fn room(&self) -> f64 {
        self.width - 2.0 * MARGIN
    }
}

impl BarChart {
    /// The picture as SVG.
    pub(crate) fn draw(&self) -> SvgPicture {
        SvgPicture::of(|format| self.drawn(format))
    }

    fn drawn(&self, format: PictureFormat) -> String {
        let values = self.groups.iter().flat_map(|g| &g.rows).filter_map(|r| r.value.as_ref().ok());
        let marks = self.marks.iter().map(|m| m.value);
        let axis = ChartAxis::over(values.flat_map(|v| [v.least, v.median, v.most]).chain(marks));
        let mut plot = BarPlot::new(axis, format);
        let levels = self.mark_levels(&plot);
        let level_count = levels.iter().max().map_or(0, |most| most + 1);
        let mut canvas = SvgCanvas::new(format);
        let more =
            canvas.heading(CanvasPoint(MARGIN, 28.0), plot.room(), &self.title, &self.subtitle);
        plot.top = 66.0 + more + level_count as f64 * LEVEL + 6.0;
        plot.bottom = plot.top + self.groups.iter().map(height).sum::<f64>();
        draw_axis(&mut canvas, &plot, self.unit);
        self.draw_marks(&mut canvas, &plot, &levels);
        let mut y = plot.top;
        for group in &self.groups {
            draw_group(&mut canvas, &plot, group, y, self.unit);
            y += height(group);
        }
        let mut y = plot.bottom + 46.0;
        for note in &self.notes {
            y += canvas.lines("pw-faint", CanvasPoint(MARGIN, y), (SMALL, plot.room()), note);
        }
        canvas.finish(CanvasPoint(plot.width, y + 6.0), &self.title)
    }

    /// The level of each yardstick's name: the lowest on which it overlaps no other.
    fn mark_levels(&self, plot: &BarPlot) -> Vec<usize> {
        let mut taken: Vec<Vec<(f64, f64)>> = Vec::new();
        let mut levels = Vec::with_capacity(self.marks.len());
        for mark in &self.marks {
            let half = text_width(&mark_text(plot, mark), SMALL) / 2.0 + 4.0;
            let centre = mark_centre(plot, mark);
            let (from, to) = (centre - half, centre + half);
            let free = |spans: &Vec<(f64, f64)>| spans.iter().all(|s| to < s.0 || from > s.1);
            let level = taken.iter().position(free).unwrap_or(taken.len());
            if level == taken.len() {
                taken.push(Vec::new());
            }
            taken[level].push((from, to));
            levels.push(level);
        }
        levels
    }

    fn draw_marks(&self, canvas: &mut SvgCanvas, plot: &BarPlot, levels: &[usize]) {
        for (mark, level) in self.marks.iter().zip(levels) {
            let (x, y) = (plot.x(mark.value), plot.top - 8.0 - *level as f64 * LEVEL);
            canvas.line("pw-mark", CanvasPoint(x, y + 3.0), CanvasPoint(x, plot.bottom));
            let centre = CanvasPoint(mark_centre(plot, mark), y);
            canvas.text("pw-mark-text pw-halo", TextAnchor::Middle, centre, &mark_text(plot, mark));
        }
    }
}

fn mark_text(plot: &BarPlot, mark: &BarMark) -> String {
    fit(&format!("{} {}", mark.label, three_digits(mark.value)), SMALL, plot.room())
}

/// The middle of a yardstick's name: over its line, but within the picture.
fn mark_centre(plot: &BarPlot, mark: &BarMark) -> f64 {
    let half = text_width(&mark_text(plot, mark), SMALL) / 2.0;
    plot.x(mark.value).clamp(MARGIN + half, (plot.width - MARGIN - half).max(MARGIN + half))
}

fn height(group: &BarGroup) -> f64 {
    HEADER + group.rows.len() as f64 * ROW + GAP
}

fn draw_axis(canvas: &mut SvgCanvas, plot: &BarPlot, unit: &str) {
    let mut free = 0.0;
    for tick in plot.axis.ticks() {
        let (x, label) = (plot.x(tick), tick_label(tick));
        canvas.line("pw-grid", CanvasPoint(x, plot.top), CanvasPoint(x, plot.bottom));
        let half = text_width(&label, SMALL) / 2.0;
        if x - half >= free {
            canvas.text("pw-faint", TextAnchor::Middle, CanvasPoint(x, plot.bottom + 16.0), &label);
            free = x + half + 4.0;
        }
    }
    canvas.line(
        "pw-axis",
        CanvasPoint(plot.left, plot.bottom),
        CanvasPoint(plot.right, plot.bottom),
    );
    let scale = if plot.axis.is_log() { ", logarithmic" } else { "" };
    let at = CanvasPoint(plot.right, plot.bottom + 30.0);
    canvas.text("pw-faint", TextAnchor::End, at, &format!("{unit}{scale}"));
}

fn draw_group(canvas: &mut SvgCanvas, plot: &BarPlot, group: &BarGroup, top: f64, unit: &str) {
    let title = fit(&group.title, FONT, plot.room());
    let at = CanvasPoint(MARGIN, top + 15.0);
    canvas.text("pw-strong pw-halo", TextAnchor::Start, at, &title);
    let x = MARGIN + text_width(&title, FONT) * 1.08 + 12.0;
    let detail = fit(&group.detail, SMALL, plot.width - MARGIN - x);
    canvas.text("pw-faint pw-halo", TextAnchor::Start, CanvasPoint(x, top + 15.0), &detail);
    for (i, row) in group.rows.iter().enumerate() {
        let middle = top + HEADER + (i as f64 + 0.5) * ROW;
        let at = CanvasPoint(plot.left - 10.0, middle + 4.0);
        let label = fit(&row.label, SMALL, plot.left - 20.0);
        canvas.text("pw-faint", TextAnchor::End, at, &label);
        match &row.value {
            Ok(range) => draw_range(canvas, plot, row, *range, middle, unit),
            Err(why) => {
                let room = plot.width - MARGIN - plot.left;
                let text = fit(&format!("not measured: {why}"), SMALL, room);
                let at = CanvasPoint(plot.left + 6.0, middle + 4.0);
                canvas.text("pw-faint pw-halo", TextAnchor::Start, at, &text);
            }
        }
    }
}

fn draw_range(
    canvas: &mut SvgCanvas,
    plot: &BarPlot,
    row: &BarRow,
    range: RepeatRange,
    y: f64,
    unit: &str,
) {
    let (least, median, most) = (plot.x(range.least), plot.x(range.median), plot.x(range.most));
    let series = format!("pw-s{}", row.series);
    let hover = format!(
        "{}: {} {unit}, repeats {} to {}",
        row.label,
        three_digits(range.median),
        three_digits(range.least),
        three_digits(range.most)
    );
    if plot.axis.is_log() {
        canvas.line("pw-leader", CanvasPoint(plot.left, y), CanvasPoint(least.min(median), y));
        draw_whisker(canvas, least, most, y);
        canvas.circle(&series, CanvasPoint(median, y), BAR / 2.0, &hover);
    } else {
        let at = CanvasPoint(plot.left, y - BAR / 2.0);
        canvas.rect(&series, at, CanvasPoint(median - plot.left, BAR), &hover);
        draw_whisker(canvas, least, most, y);
    }
    let x = most.max(median) + if plot.axis.is_log() { 11.0 } else { 7.0 };
    let text = three_digits(range.median);
    canvas.text("pw-ink pw-halo", TextAnchor::Start, CanvasPoint(x, y + 4.5), &text);
    if range.most > range.least {
        let spread = format!("{}–{}", three_digits(range.least), three_digits(range.most));
        let x = x + text_width(&text, FONT) + 6.0;
        if x + text_width(&spread, SMALL) < plot.width {
            canvas.text("pw-faint pw-halo", TextAnchor::Start, CanvasPoint(x, y + 4.5), &spread);
        }
    }
}

/// A line with caps over the range; omitted if it would be shorter than thick.
fn draw_whisker(canvas: &mut SvgCanvas, least: f64, most: f64, y: f64) {
    if most - least < 2.0 {
        return;
    }
    canvas.line("pw-whisker", CanvasPoint(least, y), CanvasPoint(most, y));
    for x in [least, most] {
        canvas.line("pw-whisker", CanvasPoint(x, y - 3.5), CanvasPoint(x, y + 3.5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ladder(marks: Vec<BarMark>) -> BarChart {
        let row = |median| BarRow {
            label: "touched".into(),
            series: 1,
            value: Ok(RepeatRange { median, least: median * 0.9, most: median * 1.1 }),
        };
        let missing =
            BarRow { label: "forwarded".into(), series: 2, value: Err("no <socket>".into()) };
        BarChart {
            title: "A & B".into(),
            subtitle: "here".into(),
            unit: "GiB/s",
            groups: vec![BarGroup {
                title: "write".into(),
                detail: "4 KiB".into(),
                rows: vec![row(1.0), row(5.0), missing],
            }],
            marks,
            notes: vec!["a note".into()],
        }
    }

    #[test]
    fn rows_without_a_value_say_why() {
        let svg = ladder(Vec::new()).draw().wide;
        assert!(svg.contains("not measured: no &lt;socket&gt;") && svg.contains("A &amp; B"));
        assert_eq!(svg.matches("<rect class=\"pw-s1\"").count(), 2, "{svg}");
    }

    #[test]
    fn names_of_yardsticks_never_touch() {
        let mark = |label: &str, value| BarMark { label: label.into(), value };
        let bars = ladder(vec![
            mark("copy of memory", 4.0),
            mark("reading memory", 4.1),
            mark("between cores", 1.0),
        ]);
        let plot = BarPlot::new(ChartAxis::over([1.0, 5.0].into_iter()), PictureFormat::Wide);
        assert_eq!(bars.mark_levels(&plot), [0, 1, 0]);
    }

    #[test]
    fn far_values_are_points() {
        let mut bars = ladder(Vec::new());
        bars.groups[0].rows[1].value = Ok(RepeatRange { median: 60.0, least: 55.0, most: 61.0 });
        let svg = bars.draw().wide;
        assert!(svg.contains("logarithmic") && svg.matches("<circle").count() == 2, "{svg}");
    }
}
