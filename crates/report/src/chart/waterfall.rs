//! A whole in its parts, each bar beginning where the one above it ends: the bars add up to the last row, which is the
//! whole.
//!
//! Values are in one unit and not below 0. Parts that exceed the whole together are cut where it ends, in their order,
//! and the note below says by how much.

use super::canvas::{Anchor, At, Canvas, FONT, SMALL, fit, text_width};
use crate::number::percent;

const WIDTH: f64 = 920.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 150.0;
const MARGIN: f64 = 20.0;
const TOP: f64 = 62.0;
const ROW: f64 = 24.0;
const BAR: f64 = 16.0;

/// One bar.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The value with its unit.
    pub(crate) shown: String,
    /// Class of its colour.
    pub(crate) class: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Waterfall {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// In the order in which they stand.
    pub(crate) parts: Vec<Part>,
    pub(crate) whole: Part,
    /// What is left of the whole.
    pub(crate) rest: &'static str,
    /// A line under the bars; may be empty.
    pub(crate) note: String,
}

/// Where a bar begins and how long it is, as shares of the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Span {
    from: f64,
    share: f64,
}

impl Waterfall {
    /// The picture as SVG.
    pub(crate) fn draw(&self) -> String {
        let room = WIDTH - 2.0 * MARGIN;
        let mut canvas = Canvas::new();
        canvas.heading(At(MARGIN, 28.0), room, &self.title, &self.subtitle);
        let spans = self.spans();
        let left: f64 = 1.0 - spans.iter().map(|span| span.share).sum::<f64>();
        let mut y = TOP;
        let mut about = Vec::new();
        for (part, span) in self.parts.iter().zip(&spans) {
            draw_bar(&mut canvas, part, *span, y);
            about.push(format!("{} {}", part.label, percent(span.share)));
            y += ROW;
        }
        let rest = Part {
            label: self.rest.to_owned(),
            value: left.max(0.0) * self.whole.value,
            shown: String::new(),
            class: "pw-idle",
        };
        let from = 1.0 - left.max(0.0);
        draw_bar(&mut canvas, &rest, Span { from, share: left.max(0.0) }, y);
        about.push(format!("{} {}", rest.label, percent(left.max(0.0))));
        y += ROW;
        canvas.line("pw-axis", At(LEFT, y), At(WIDTH - RIGHT, y));
        draw_bar(&mut canvas, &self.whole, Span { from: 0.0, share: 1.0 }, y + 5.0);
        y += ROW + 16.0;
        if !self.note.is_empty() {
            canvas.text(
                "pw-faint",
                Anchor::Start,
                At(MARGIN, y + 4.0),
                &fit(&self.note, SMALL, room),
            );
            y += 16.0;
        }
        canvas.describe(&format!("Of {}: {}.", self.whole.shown, about.join(", ")));
        canvas.finish(At(WIDTH, y + 8.0), &self.title)
    }

    fn spans(&self) -> Vec<Span> {
        let mut from = 0.0;
        let span = |part: &Part| {
            let share = (part.value / self.whole.value).clamp(0.0, 1.0 - from);
            let span = Span { from, share: if share.is_finite() { share } else { 0.0 } };
            from += span.share;
            span
        };
        self.parts.iter().map(span).collect()
    }
}

fn draw_bar(canvas: &mut Canvas, part: &Part, span: Span, y: f64) {
    let width = WIDTH - LEFT - RIGHT;
    let base = y + BAR / 2.0 + 4.5;
    let label = fit(&part.label, SMALL, LEFT - MARGIN - 8.0);
    canvas.text("pw-label", Anchor::End, At(LEFT - 8.0, base), &label);
    let (x, length) = (LEFT + span.from * width, span.share * width);
    let share = percent(span.share);
    let hover = format!("{}: {share} {}", part.label, part.shown);
    canvas.rect(part.class, At(x, y), At(length.max(1.0), BAR), hover.trim_end());
    canvas.line("pw-leader", At(x + length, y + BAR), At(x + length, y + ROW));
    let text = if part.shown.is_empty() { share } else { format!("{share}  {}", part.shown) };
    // Beyond the right end of the bars there is room for all of it.
    let fits = x + length + 6.0 + text_width(&text, FONT) < WIDTH - 4.0;
    let (anchor, at) = match fits {
        true => (Anchor::Start, x + length + 6.0),
        false => (Anchor::End, x - 6.0),
    };
    canvas.text("pw-ink pw-halo", anchor, At(at, base), &text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waterfall(values: &[f64]) -> Waterfall {
        let part = |value: &f64| Part {
            label: "<faults>".to_owned(),
            value: *value,
            shown: "some ms".to_owned(),
            class: "pw-s0",
        };
        Waterfall {
            title: "costs".to_owned(),
            subtitle: String::new(),
            parts: values.iter().map(part).collect(),
            whole: Part { label: "all".to_owned(), ..part(&100.0) },
            rest: "all else",
            note: String::new(),
        }
    }

    #[test]
    fn each_bar_begins_where_the_last_one_ends() {
        let spans = waterfall(&[30.0, 50.0]).spans();
        assert_eq!(spans, [Span { from: 0.0, share: 0.3 }, Span { from: 0.3, share: 0.5 }]);
        let drawn = waterfall(&[30.0, 50.0]).draw();
        assert!(drawn.contains("all else 20%"), "{drawn}");
        assert!(drawn.contains("&lt;faults&gt;") && !drawn.contains("<faults>"), "{drawn}");
    }

    #[test]
    fn bars_never_exceed_the_whole() {
        for values in [&[80.0, 50.0, 10.0][..], &[f64::NAN, f64::INFINITY], &[-5.0, 200.0], &[]] {
            let spans = waterfall(values).spans();
            let sum: f64 = spans.iter().map(|span| span.share).sum();
            assert!((0.0..=1.0 + 1e-9).contains(&sum), "{spans:?}");
            assert!(!waterfall(values).draw().contains("NaN"));
        }
    }
}
