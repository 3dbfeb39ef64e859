//! An SVG picture under construction: shapes with classes, escaped text, finite numbers.
//!
//! Coordinates are CSS pixels from the top left. Every picture carries its own style, with fixed colours for
//! a light background and, if the viewer prefers it, for a dark one. The background is part of the picture,
//! so text is readable everywhere. Class names begin with `pw-`, because a style inside an SVG applies to the
//! whole page around it. Series colours are those of Okabe and Ito, which are distinct for all common kinds
//! of colour blindness.
//!
//! Fonts are the viewer's, so widths are estimated on the wide side ([`text_width`]). Text that would not fit
//! is wrapped or cut ([`fit`]). Letters shrink with a picture, so each picture is drawn twice ([`SvgPicture`]).

use crate::escape::{cells, shorten, wrap};
use crate::markup::escape_markup;
use std::fmt::Write as _;

/// Font size of labels and values.
pub(super) const FONT: f64 = 13.0;
/// Font size of the text beside them.
pub(super) const SMALL: f64 = 11.0;
/// Heights of a line of a title, and of small text.
const TITLE: f64 = 20.0;
const LINE: f64 = 15.0;
/// Width of one character as a share of the font size, for a wide sans-serif font.
const CHARACTER: f64 = 0.58;

const STYLE: &str = "\
.pw{font-family:system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif;font-size:13px}\
.pw-bg{fill:#fff}.pw-ink{fill:#1f2328}.pw-faint{fill:#59636e;font-size:11px}\
.pw-title{fill:#1f2328;font-size:17px;font-weight:600}.pw-strong{fill:#1f2328;font-weight:600}\
.pw-grid{stroke:#d1d9e0;stroke-width:1}.pw-axis{stroke:#818b98;stroke-width:1}\
.pw-whisker{stroke:#1f2328;stroke-width:1.5;fill:none}.pw-leader{stroke:#d1d9e0;stroke-dasharray:1 4}\
.pw-mark{stroke:#8250df;stroke-width:1.2;stroke-dasharray:5 3}.pw-mark-text{fill:#8250df;font-size:11px}\
.pw-halo{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}\
.pw-s0{fill:#0072b2}.pw-s1{fill:#d55e00}.pw-s2{fill:#009e73}.pw-s3{fill:#cc79a7}\
.pw-s4{fill:#e69f00}.pw-s5{fill:#56b4e9}.pw-s6{fill:#937860}.pw-s7{fill:#8d6bc4}\
.pw-s8{fill:#d8c94a}.pw-idle{fill:#b9c6d3}.pw-rest{fill:#7a828c}\
.pw-on{fill:#0b0d10;font-size:11px}.pw-label{fill:#1f2328;font-size:11px}\
.pw-none{fill:#f6f8fa;stroke:#d1d9e0}.pw-best{fill:none;stroke:#d55e00;stroke-width:2.5}\
@media (prefers-color-scheme:dark){\
.pw-bg{fill:#0d1117}.pw-ink,.pw-title,.pw-strong{fill:#e6edf3}.pw-faint{fill:#9198a1}\
.pw-grid{stroke:#2f353d}.pw-axis{stroke:#656c76}.pw-whisker{stroke:#e6edf3}.pw-leader{stroke:#3d444d}\
.pw-mark{stroke:#ab7df8}.pw-mark-text{fill:#ab7df8}.pw-halo{stroke:#0d1117}\
.pw-s0{fill:#3b9ede}.pw-s1{fill:#f0883e}.pw-s2{fill:#2bb98c}.pw-label{fill:#e6edf3}\
.pw-none{fill:#151b23;stroke:#2f353d}.pw-best{stroke:#f0883e}}";

/// The end of a text that its position refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(super) enum TextAnchor {
    Start,
    Middle,
    End,
}

/// A point of the picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct CanvasPoint(pub(super) f64, pub(super) f64);

/// The window widths that a picture is drawn for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PictureFormat {
    Wide,
    Narrow,
}

impl PictureFormat {
    /// One of two lengths, by format.
    pub(super) const fn pick(self, wide: f64, narrow: f64) -> f64 {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }

    /// The width of a picture.
    pub(super) const fn width(self) -> f64 {
        self.pick(880.0, 360.0)
    }
}

/// A picture for files and wide windows, and a second one for narrow windows, which a page includes beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct SvgPicture {
    pub wide: String,
    pub narrow: String,
}

impl SvgPicture {
    pub(super) fn of(draw: impl Fn(PictureFormat) -> String) -> Self {
        Self { wide: draw(PictureFormat::Wide), narrow: draw(PictureFormat::Narrow) }
    }
}

/// Shapes so far.
pub(super) struct SvgCanvas {
    format: PictureFormat,
    body: String,
    about: String,
}

impl SvgCanvas {
    pub(super) const fn new(format: PictureFormat) -> Self {
        Self { format, body: String::new(), about: String::new() }
    }

    /// A rectangle of this size; `hover` appears in viewers that show titles.
    pub(super) fn rect(&mut self, class: &str, at: CanvasPoint, size: CanvasPoint, hover: &str) {
        let (CanvasPoint(x, y), CanvasPoint(width, height)) = (at, size);
        let shape = format!(
            "<rect class=\"{class}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            number(x),
            number(y),
            number(width.max(0.0)),
            number(height.max(0.0))
        );
        self.push(&shape, "rect", hover);
    }

    /// A rectangle in its own colour, for scales of many colours.
    pub(super) fn cell(&mut self, colour: &str, at: CanvasPoint, size: CanvasPoint, hover: &str) {
        let (CanvasPoint(x, y), CanvasPoint(width, height)) = (at, size);
        let shape = format!(
            "<rect fill=\"{colour}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
            number(x),
            number(y),
            number(width),
            number(height)
        );
        self.push(&shape, "rect", hover);
    }

    pub(super) fn line(&mut self, class: &str, from: CanvasPoint, to: CanvasPoint) {
        self.add(&format!(
            "<line class=\"{class}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
            number(from.0),
            number(from.1),
            number(to.0),
            number(to.1)
        ));
    }

    /// A title at `at` with a subtitle, wrapped to `room`. Returns the height beyond one line of each.
    pub(super) fn heading(
        &mut self,
        at: CanvasPoint,
        room: f64,
        title: &str,
        subtitle: &str,
    ) -> f64 {
        let more = self.lines("pw-title", at, (17.0, room), title) - TITLE;
        let under = CanvasPoint(at.0, at.1 + more + TITLE);
        more + self.lines("pw-faint", under, (SMALL, room), subtitle) - LINE
    }

    /// Text in a font size, wrapped to `room`. Returns its height.
    pub(super) fn lines(
        &mut self,
        class: &str,
        at: CanvasPoint,
        (size, room): (f64, f64),
        text: &str,
    ) -> f64 {
        let step = if size > FONT { TITLE } else { LINE };
        let lines = wrap(text, columns(size, room));
        for (number, line) in lines.iter().enumerate() {
            self.text(
                class,
                TextAnchor::Start,
                CanvasPoint(at.0, at.1 + number as f64 * step),
                line,
            );
        }
        lines.len() as f64 * step
    }

    /// A line from point to point in its own colour.
    pub(super) fn polyline(&mut self, colour: &str, points: &[CanvasPoint]) {
        let places: Vec<String> =
            points.iter().map(|at| format!("{},{}", number(at.0), number(at.1))).collect();
        self.add(&format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" points=\"{}\"/>\n",
            places.join(" ")
        ));
    }

    pub(super) fn circle(&mut self, class: &str, at: CanvasPoint, radius: f64, hover: &str) {
        let (x, y) = (number(at.0), number(at.1));
        let shape =
            format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{}\"", number(radius));
        self.push(&shape, "circle", hover);
    }

    pub(super) fn text(&mut self, class: &str, anchor: TextAnchor, at: CanvasPoint, text: &str) {
        self.add(&format!(
            "<text class=\"{class}\" x=\"{}\" y=\"{}\" text-anchor=\"{}\">{}</text>\n",
            number(at.0),
            number(at.1),
            anchor.into_str(),
            escape_markup(text)
        ));
    }

    /// A label in its own colour.
    pub(super) fn label(&mut self, colour: &str, at: CanvasPoint, text: &str) {
        self.add(&format!(
            "<text fill=\"{colour}\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            number(at.0),
            number(at.1),
            escape_markup(text)
        ));
    }

    /// Sets the description for screen readers.
    pub(super) fn describe(&mut self, text: &str) {
        self.about = format!("<desc>{}</desc>\n", escape_markup(text));
    }

    /// The finished picture in this size, with `title` for screen readers.
    pub(super) fn finish(self, size: CanvasPoint, title: &str) -> String {
        let (width, height) = (number(size.0), number(size.1));
        let (class, style) = match self.format {
            PictureFormat::Wide => ("pw", STYLE),
            // The wide picture on the same page supplies the style.
            PictureFormat::Narrow => ("pw pw-narrow", ""),
        };
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" \
             width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">\n\
             <title>{}</title>\n{}<style>{style}</style>\n\
             <rect class=\"pw-bg\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            escape_markup(title),
            self.about,
            self.body
        )
    }

    fn push(&mut self, open: &str, name: &str, hover: &str) {
        if hover.is_empty() {
            self.add(&format!("{open}/>\n"));
        } else {
            self.add(&format!("{open}><title>{}</title></{name}>\n", escape_markup(hover)));
        }
    }

    fn add(&mut self, element: &str) {
        // Writing to a String cannot fail.
        let _ = self.body.write_str(element);
    }
}

/// Estimated width of `text` at this font size: an upper bound for most fonts.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    cells(text) as f64 * size * CHARACTER
}

/// `text` cut to at most `room` at this font size.
pub(super) fn fit(text: &str, size: f64, room: f64) -> String {
    shorten(text, columns(size, room), true)
}

/// The number of characters of this font size that fit in `room`.
fn columns(size: f64, room: f64) -> usize {
    (room / text_width("x", size)) as usize
}

/// A coordinate with one decimal; 0 if it is not finite.
fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let shown = format!("{value:.1}");
    shown.strip_suffix(".0").map_or_else(|| shown.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short_and_finite() {
        assert_eq!(number(12.0), "12");
        assert_eq!(number(12.34), "12.3");
        assert_eq!(number(f64::NAN), "0");
    }

    #[test]
    fn a_picture_is_complete() {
        let mut canvas = SvgCanvas::new(PictureFormat::Wide);
        canvas.rect("pw-s0", CanvasPoint(1.0, 2.0), CanvasPoint(-3.0, 4.0), "a<b");
        canvas.text("pw-ink", TextAnchor::End, CanvasPoint(1.0, 2.0), "x & y");
        let svg = canvas.finish(CanvasPoint(10.0, 20.0), "t");
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"), "{svg}");
        assert!(svg.contains("width=\"0\" height=\"4\"><title>a&lt;b</title></rect>"), "{svg}");
        assert!(svg.contains(">x &amp; y</text>"), "{svg}");
    }
}
