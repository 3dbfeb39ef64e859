//! Curves over a size that doubles from step to step, or over time, with one panel below the other.
//!
//! The size axis is logarithmic, the time axis linear. The value axis over sizes is linear from 0 as long as
//! the smallest value is visible beside the largest, else logarithmic. A thin line shows the range of each
//! point's repeats, and its figures appear on hover. Names stand at the right end of their curves, moved
//! apart to avoid overlap, so that the curves are readable without colour. Marks are vertical lines with a
//! name.

use super::axis::{ChartAxis, tick_label};
use super::bars::RepeatRange;
use super::canvas::{
    CanvasPoint, PictureFormat, SMALL, SvgCanvas, SvgPicture, TextAnchor, fit, text_width,
};
use crate::number::three_digits;

const LEFT: f64 = 64.0;
const RIGHT: f64 = 170.0;
const MARGIN: f64 = 20.0;
const TOP: f64 = 62.0;
const HEIGHT: f64 = 250.0;
/// Height of a panel without its plot: title, names of marks, labels of the axis.
const AROUND: f64 = 100.0;
const LINE: f64 = 15.0;
/// Colours of curves, equal to those of bars on a light background.
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];

/// Scale of a panel's size axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SizeScale {
    /// Each step doubles the size.
    Doubling,
    /// Linear from 0, as are the values.
    Linear,
}

impl SizeScale {
    fn place(self, size: f64) -> f64 {
        match self {
            Self::Doubling => size.log2(),
            Self::Linear => size,
        }
    }
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LineSeries {
    pub(crate) name: String,
    /// Size and value, by ascending size.
    pub(crate) points: Vec<(f64, RepeatRange)>,
}

/// A size that the curves are compared with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SizeMark {
    pub(crate) name: String,
    pub(crate) size: f64,
}

/// Curves over one axis of sizes.
#[derive(Debug, Clone)]
pub(crate) struct LinePanel {
    pub(crate) title: String,
    pub(crate) scale: SizeScale,
    pub(crate) sizes_are: &'static str,
    /// Formats a size.
    pub(crate) write: fn(f64) -> String,
    /// Unit of the values.
    pub(crate) unit: &'static str,
    pub(crate) series: Vec<LineSeries>,
    pub(crate) marks: Vec<SizeMark>,
}

/// The whole picture.
#[derive(Debug, Clone)]
pub(crate) struct LineChart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) panels: Vec<LinePanel>,
    /// Lines under the panels.
    pub(crate) notes: Vec<String>,
}

/// Geometry of a plot.
struct LinePlot {
    scale: SizeScale,
    /// Positions of the smallest and the largest size on the axis.
    sizes: (f64, f64),
    values: ChartAxis,
    format: PictureFormat,
    top: f64,
}

impl LinePlot {
    fn x(&self, size: f64) -> f64 {
        let (low, high) = self.sizes;
        let share = if high > low { (self.scale.place(size) - low) / (high - low) } else { 0.5 };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        LEFT + share * (self.right() - LEFT)
    }

    /// Right edge of the plot. Names of curves stand beside a wide plot and below a narrow one.
    const fn right(&self) -> f64 {
        self.format.width() - self.format.pick(RIGHT, MARGIN + 4.0)
    }

    /// The sizes that are labelled.
    fn labelled_sizes(&self) -> Vec<f64> {
        if self.scale == SizeScale::Linear {
            let ticks = ChartAxis::from_zero(self.sizes.1).ticks().into_iter();
            return ticks.filter(|size| *size <= self.sizes.1).collect();
        }
        let (low, high) = (self.sizes.0.ceil() as i32, self.sizes.1.floor() as i32);
        let most = self.format.pick(8.0, 4.0) as i32;
        let step = ((high - low) / most).max(0) + 1;
        let powers = (low..=high).filter(|power| (power - low) % step == 0);
        powers.map(|power| 2_f64.powi(power)).collect()
    }

    fn y(&self, value: f64) -> f64 {
        self.top + (1.0 - self.values.place(value)) * HEIGHT
    }

    const fn bottom(&self) -> f64 {
        self.top + HEIGHT
    }
}

impl LineChart {
    /// The picture as SVG.
    pub(crate) fn draw(&self) -> SvgPicture {
        SvgPicture::of(|format| self.drawn(format))
    }

    fn drawn(&self, format: PictureFormat) -> String {
        let room = format.width() - 2.0 * MARGIN;
        let mut canvas = SvgCanvas::new(format);
        let mut y =
            TOP + canvas.heading(CanvasPoint(MARGIN, 28.0), room, &self.title, &self.subtitle);
        for panel in &self.panels {
            draw_panel(&mut canvas, panel, y, format);
            y += HEIGHT + AROUND + format.pick(0.0, panel.series.len() as f64 * LINE);
        }
        for note in &self.notes {
            y += canvas.lines("pw-faint", CanvasPoint(MARGIN, y + 8.0), (SMALL, room), note);
        }
        canvas.finish(CanvasPoint(format.width(), y + 14.0), &self.title)
    }
}

fn draw_panel(canvas: &mut SvgCanvas, panel: &LinePanel, top: f64, format: PictureFormat) {
    let title = fit(&panel.title, 14.5, format.width() - 2.0 * MARGIN);
    canvas.text("pw-strong", TextAnchor::Start, CanvasPoint(MARGIN, top + 18.0), &title);
    let points = || panel.series.iter().flat_map(|s| &s.points);
    let sizes = points().map(|(size, _)| panel.scale.place(*size)).filter(|size| size.is_finite());
    let bounds = sizes.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), s| (a.min(s), b.max(s)));
    if bounds.0 > bounds.1 {
        canvas.text(
            "pw-faint",
            TextAnchor::Start,
            CanvasPoint(LEFT, top + 60.0),
            "nothing was measured",
        );
        return;
    }
    let values = points().flat_map(|(_, v)| [v.least, v.median, v.most]);
    let (sizes, values) = match panel.scale {
        SizeScale::Doubling => (bounds, ChartAxis::over(values)),
        SizeScale::Linear => ((0.0, bounds.1), ChartAxis::from_zero(values.fold(0.0, f64::max))),
    };
    let plot = LinePlot { scale: panel.scale, sizes, values, format, top: top + 52.0 };
    draw_axes(canvas, &plot, panel);
    draw_marks(canvas, &plot, panel);
    for (at, series) in panel.series.iter().enumerate() {
        draw_series(canvas, &plot, series, at, panel);
    }
    draw_names(canvas, &plot, panel);
}

fn draw_axes(canvas: &mut SvgCanvas, plot: &LinePlot, panel: &LinePanel) {
    let (right, bottom) = (plot.right(), plot.bottom());
    for tick in plot.values.ticks() {
        let y = plot.y(tick);
        canvas.line("pw-grid", CanvasPoint(LEFT, y), CanvasPoint(right, y));
        canvas.text(
            "pw-faint",
            TextAnchor::End,
            CanvasPoint(LEFT - 6.0, y + 4.0),
            &tick_label(tick),
        );
    }
    for size in plot.labelled_sizes() {
        let at = CanvasPoint(plot.x(size), bottom + 16.0);
        canvas.line("pw-axis", CanvasPoint(at.0, bottom), CanvasPoint(at.0, bottom + 4.0));
        canvas.text("pw-faint", TextAnchor::Middle, at, &(panel.write)(size));
    }
    canvas.line("pw-axis", CanvasPoint(LEFT, bottom), CanvasPoint(right, bottom));
    let scale = if plot.values.is_log() { ", logarithmic" } else { "" };
    let unit = format!("{}{scale}", panel.unit);
    canvas.text("pw-faint", TextAnchor::Start, CanvasPoint(MARGIN, plot.top - 10.0), &unit);
    canvas.text("pw-faint", TextAnchor::End, CanvasPoint(right, bottom + 30.0), panel.sizes_are);
}

/// Draws each mark with its name, by ascending size on two alternating levels. A name without room is left out.
fn draw_marks(canvas: &mut SvgCanvas, plot: &LinePlot, panel: &LinePanel) {
    let within =
        |mark: &&SizeMark| (plot.sizes.0..=plot.sizes.1).contains(&plot.scale.place(mark.size));
    let mut marks: Vec<&SizeMark> = panel.marks.iter().filter(within).collect();
    marks.sort_by(|a, b| a.size.total_cmp(&b.size));
    let mut free = [0.0; 2];
    for (at, mark) in marks.into_iter().enumerate() {
        let (x, level) = (plot.x(mark.size), at % 2);
        let y = plot.top - 8.0 - level as f64 * LINE;
        canvas.line("pw-mark", CanvasPoint(x, y + 3.0), CanvasPoint(x, plot.bottom()));
        let half = text_width(&mark.name, SMALL) / 2.0;
        let most = plot.format.width() - MARGIN - half;
        let centre = x.clamp(LEFT + half, most.max(LEFT + half));
        if centre - half >= free[level] {
            canvas.text(
                "pw-mark-text pw-halo",
                TextAnchor::Middle,
                CanvasPoint(centre, y),
                &mark.name,
            );
            free[level] = centre + half;
        }
    }
}

fn draw_series(
    canvas: &mut SvgCanvas,
    plot: &LinePlot,
    series: &LineSeries,
    at: usize,
    panel: &LinePanel,
) {
    let places: Vec<CanvasPoint> = series
        .points
        .iter()
        .map(|(size, v)| CanvasPoint(plot.x(*size), plot.y(v.median)))
        .collect();
    canvas.polyline(COLOURS[at % COLOURS.len()], &places);
    for ((size, range), place) in series.points.iter().zip(places) {
        let (low, high) = (plot.y(range.least), plot.y(range.most));
        if low - high > 2.0 {
            canvas.line("pw-whisker", CanvasPoint(place.0, low), CanvasPoint(place.0, high));
        }
        let hover = format!(
            "{}, {}: {} {}, {} to {}",
            series.name,
            (panel.write)(*size),
            three_digits(range.median),
            panel.unit,
            three_digits(range.least),
            three_digits(range.most)
        );
        canvas.circle(&format!("pw-s{}", at % COLOURS.len()), place, 3.5, &hover);
    }
}

/// Draws the names at the ends of the curves, from the top down without overlap; below a narrow plot.
fn draw_names(canvas: &mut SvgCanvas, plot: &LinePlot, panel: &LinePanel) {
    let end = |(at, series): (usize, &LineSeries)| {
        let last = series.points.last()?;
        Some((plot.y(last.1.median), at, series.name.clone()))
    };
    let mut names: Vec<(f64, usize, String)> =
        panel.series.iter().enumerate().filter_map(end).collect();
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    let is_narrow = plot.format == PictureFormat::Narrow;
    let (x, mut free) =
        if is_narrow { (LEFT, plot.bottom() + 44.0) } else { (plot.right() + 8.0, plot.top) };
    let room = plot.format.width() - MARGIN - x;
    for (y, at, name) in names {
        let y = y.max(free);
        free = y + LINE;
        canvas.circle(&format!("pw-s{}", at % COLOURS.len()), CanvasPoint(x + 4.0, y), 4.0, "");
        let name = fit(&name, SMALL, room - 6.0);
        canvas.text("pw-label pw-halo", TextAnchor::Start, CanvasPoint(x + 14.0, y + 4.0), &name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(series: Vec<LineSeries>) -> LinePanel {
        LinePanel {
            title: "a < b".into(),
            scale: SizeScale::Doubling,
            sizes_are: "set",
            write: |size| format!("{size:.0}"),
            unit: "ns",
            series,
            marks: vec![
                SizeMark { name: "inside".into(), size: 2.0 },
                SizeMark { name: "outside".into(), size: 1e9 },
            ],
        }
    }

    fn series(name: &str, values: &[f64]) -> LineSeries {
        let range = |v: f64| RepeatRange { median: v, least: v * 0.9, most: v * 1.2 };
        let points = (0..).zip(values).map(|(n, v)| (2_f64.powi(n), range(*v)));
        LineSeries { name: name.into(), points: points.collect() }
    }

    fn draw(panels: Vec<LinePanel>) -> String {
        let lines = LineChart {
            title: "t".into(),
            subtitle: String::new(),
            panels,
            notes: vec!["n".into()],
        };
        lines.draw().wide
    }

    #[test]
    fn every_point_is_drawn_and_reported() {
        let svg = draw(vec![panel(vec![series("one", &[1.0, 2.0, 9.0]), series("two", &[1.0])])]);
        assert_eq!(svg.matches("<polyline").count(), 2, "{svg}");
        assert_eq!(svg.matches("<circle").count(), 4 + 2, "points and names: {svg}");
        assert!(svg.contains("one, 4: 9.00 ns, 8.10 to 10.8"), "{svg}");
        assert!(svg.contains(">inside</text>") && !svg.contains(">outside</text>"), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let svg = draw(vec![panel(Vec::new()), panel(vec![series("empty", &[])])]);
        assert_eq!(svg.matches("nothing was measured").count(), 2, "{svg}");
    }

    #[test]
    fn time_is_linear_from_zero_and_so_are_its_values() {
        let over_time =
            LinePanel { scale: SizeScale::Linear, ..panel(vec![series("one", &[1.0, 2.0, 90.0])]) };
        let svg = draw(vec![over_time]);
        assert!(svg.contains(">0</text>") && svg.contains(">20</text>"), "{svg}");
        assert!(!svg.contains("logarithmic"), "{svg}");
    }

    #[test]
    fn any_value_gives_numbers() {
        let svg = draw(vec![panel(vec![series("odd", &[f64::NAN, 0.0, 1e300, -4.0])])]);
        assert!(!svg.contains("NaN") && !svg.contains("inf\""), "{svg}");
    }
}
