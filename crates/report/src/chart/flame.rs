//! A flame graph: each function is a box as wide as its samples or bytes, with callees above their caller.
//!
//! Boxes narrower than [`NARROWEST`], beyond [`MOST_BOXES`] or above [`HIGHEST`] are left out, so that a page
//! stays small. Colours only separate neighbours.

use super::canvas::{
    CanvasPoint, PictureFormat, SMALL, SvgCanvas, SvgPicture, TextAnchor, fit, text_width,
};
use crate::number::{count, percent};
use std::collections::BTreeMap;

const MARGIN: f64 = 12.0;
const TOP: f64 = 58.0;
const ROW: f64 = 17.0;
const NARROWEST: f64 = 0.8;
const MOST_BOXES: usize = 2500;
const HIGHEST: usize = 60;
/// Colour classes of boxes, selected by a sum over the name.
const CLASSES: [&str; 4] = ["pw-s4", "pw-s5", "pw-s8", "pw-s3"];
/// Largest number of names in the description.
const DESCRIBED: usize = 8;

/// A function with its callees.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct FlameNode {
    /// Samples or bytes of the function and its callees.
    pub(crate) weight: u64,
    callees: BTreeMap<String, Self>,
}

impl FlameNode {
    /// The root, with its samples or bytes.
    pub(crate) const fn root(weight: u64) -> Self {
        Self { weight, callees: BTreeMap::new() }
    }

    /// The callee of this name; created if missing.
    pub(crate) fn callee(&mut self, name: &str) -> &mut Self {
        self.callees.entry(name.to_owned()).or_default()
    }

    /// The picture as SVG; this node is the root, which has no box. `amount` formats a weight with its unit.
    pub(crate) fn draw(
        &self,
        title: &str,
        subtitle: &str,
        amount: &dyn Fn(u64) -> String,
    ) -> SvgPicture {
        SvgPicture::of(|format| self.drawn(title, subtitle, amount, format))
    }

    fn drawn(
        &self,
        title: &str,
        subtitle: &str,
        amount: &dyn Fn(u64) -> String,
        format: PictureFormat,
    ) -> String {
        let room = format.width() - 2.0 * MARGIN;
        let (boxes, whole) = (Vec::new(), self.weight);
        let mut drawing = FlameDrawing { boxes, whole, amount, left_out: 0, rows: 0 };
        drawing.callees(self, 0, MARGIN, room);
        let mut canvas = SvgCanvas::new(format);
        let top = TOP + canvas.heading(CanvasPoint(MARGIN, 26.0), room, title, subtitle);
        let bottom = top + drawing.rows as f64 * ROW;
        drawing.boxes.iter().for_each(|one| one.draw(&mut canvas, bottom));
        let mut y = bottom + 6.0;
        if drawing.left_out > 0 {
            y += 14.0;
            let text = format!("{} too narrow or too high to be drawn", count(drawing.left_out));
            canvas.text("pw-faint", TextAnchor::Start, CanvasPoint(MARGIN, y), &text);
        }
        canvas.describe(&drawing.description());
        canvas.finish(CanvasPoint(format.width(), y + 10.0), title)
    }
}

struct FlameDrawing<'a> {
    boxes: Vec<FlameBox<'a>>,
    whole: u64,
    amount: &'a dyn Fn(u64) -> String,
    left_out: u64,
    rows: usize,
}

struct FlameBox<'a> {
    name: &'a str,
    row: usize,
    x: f64,
    width: f64,
    hover: String,
}

impl<'a> FlameDrawing<'a> {
    fn callees(&mut self, of: &'a FlameNode, row: usize, x: f64, width: f64) {
        // The widest first, so that they are found on the left.
        let mut callees: Vec<(&String, &FlameNode)> = of.callees.iter().collect();
        callees.sort_by_key(|(_, flame)| std::cmp::Reverse(flame.weight));
        let mut x = x;
        for (name, flame) in callees {
            let own = width * flame.weight as f64 / of.weight.max(1) as f64;
            if own < NARROWEST || row >= HIGHEST || self.boxes.len() >= MOST_BOXES {
                self.left_out += 1;
                continue;
            }
            let share = percent(flame.weight as f64 / self.whole.max(1) as f64);
            let hover = format!("{name}: {share}, {}", (self.amount)(flame.weight));
            self.boxes.push(FlameBox { name, row, x, width: own, hover });
            self.rows = self.rows.max(row + 1);
            self.callees(flame, row + 1, x, own);
            x += own;
        }
    }

    fn description(&self) -> String {
        let mut widest: Vec<&FlameBox<'_>> = self.boxes.iter().collect();
        widest.sort_by(|a, b| b.width.total_cmp(&a.width));
        let names: Vec<&str> =
            widest.iter().take(DESCRIBED).map(|one| one.hover.as_str()).collect();
        format!("The widest: {}.", names.join("; "))
    }
}

impl FlameBox<'_> {
    fn draw(&self, canvas: &mut SvgCanvas, bottom: f64) {
        let y = bottom - (self.row + 1) as f64 * ROW;
        let sum = self.name.bytes().fold(0_usize, |sum, byte| sum.wrapping_add(usize::from(byte)));
        let class = CLASSES[sum % CLASSES.len()];
        let size = CanvasPoint((self.width - 0.5).max(0.3), ROW - 1.0);
        canvas.rect(class, CanvasPoint(self.x, y), size, &self.hover);
        let room = self.width - 6.0;
        if room > text_width("xxx", SMALL) {
            let text = fit(self.name, SMALL, room);
            canvas.text("pw-on", TextAnchor::Start, CanvasPoint(self.x + 3.0, y + 12.0), &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_samples(weight: u64) -> String {
        format!("{weight} samples")
    }

    fn tree() -> FlameNode {
        let mut root = FlameNode::root(100);
        let main = root.callee("main");
        main.weight = 90;
        main.callee("<copy>").weight = 60;
        main.callee("rare").weight = 1;
        root.callee("other").weight = 10;
        root
    }

    #[test]
    fn boxes_are_as_wide_as_their_samples() {
        let root = tree();
        let (boxes, amount) = (Vec::new(), &in_samples);
        let mut drawing = FlameDrawing { boxes, whole: 100, amount, left_out: 0, rows: 0 };
        drawing.callees(&root, 0, 0.0, 100.0);
        let boxes: Vec<_> =
            drawing.boxes.iter().map(|b| (b.name, b.row, b.x.round(), b.width.round())).collect();
        let expected = [
            ("main", 0, 0.0, 90.0),
            ("<copy>", 1, 0.0, 60.0),
            ("rare", 1, 60.0, 1.0),
            ("other", 0, 90.0, 10.0),
        ];
        assert_eq!((boxes, drawing.rows), (expected.to_vec(), 2));
    }

    #[test]
    fn names_are_escaped_and_told_to_those_who_do_not_see() {
        let drawn = tree().draw("t", "s", &in_samples).wide;
        assert!(drawn.contains("<desc>The widest: main: 90%, 90 samples; &lt;copy&gt;"), "{drawn}");
        assert!(!drawn.contains("<copy>"), "{drawn}");
    }

    #[test]
    fn a_picture_of_any_tree_stays_small() {
        let mut root = FlameNode::root(1 << 20);
        for n in 0..3000 {
            root.callee(&format!("f{n}")).weight = 300;
        }
        let mut deep = &mut root;
        for n in 0..500 {
            deep = deep.callee(&format!("deep {n}"));
            deep.weight = 1 << 18;
        }
        let drawn = root.draw("t", "s", &in_samples).wide;
        assert!(drawn.len() < 100_000, "{}", drawn.len());
        assert!(drawn.contains("too narrow or too high"), "{drawn}");
    }
}
