//! The charts: every way as a bar, and what each is made of.

use super::groups;
use crate::chart::{Bars, Group, Range, Row, Segment, Stack, Stacks};
use crate::number::{counted, three_digits};
use pagewise_model::bench::memory::{FirstTouch, Part, Point};

/// The parts of a stack, with the classes of their colours.
const PARTS: [(Part, &str); 3] =
    [(Part::Setup, "pw-s0"), (Part::Touch, "pw-s1"), (Part::Teardown, "pw-s2")];

/// All ways as SVG; `caption` says where they were measured.
#[must_use]
pub fn svg(touches: &FirstTouch, caption: &str) -> String {
    let base = touches.base_page_bytes;
    let mappings = counted(u64::from(touches.repeats), "fresh mapping", "fresh mappings");
    let bars = Bars {
        title: "What does a page cost before first use?".to_owned(),
        subtitle: caption.to_owned(),
        unit: "ns",
        groups: all_groups(touches),
        marks: Vec::new(),
        notes: vec![
            format!(
                "ns for each used {base}: set up, touched and released. Median of {mappings}, in shuffled order."
            ),
            "Lines reach from the fastest mapping to the slowest.".to_owned(),
        ],
    };
    bars.draw()
}

fn all_groups(touches: &FirstTouch) -> Vec<Group> {
    let mut all: Vec<Group> = groups(touches)
        .into_iter()
        .map(|(title, points)| group(title, "by one thread", &points))
        .collect();
    let several: Vec<&Point> = touches.points.iter().filter(|p| p.threads > 1).collect();
    if !several.is_empty() {
        all.push(group("own memory", "by several threads, wall time of all", &several));
    }
    all
}

fn group(title: &str, detail: &str, points: &[&Point]) -> Group {
    let row = |point: &&Point| Row {
        label: point.label(),
        series: 0,
        value: match point.page_ns(Part::Whole) {
            Some(ns) => Ok(Range { median: ns.median, least: ns.min, most: ns.max }),
            None => Err(point.refused.clone().unwrap_or_else(|| "no mapping".to_owned())),
        },
    };
    Group {
        title: title.to_owned(),
        detail: detail.to_owned(),
        rows: points.iter().map(row).collect(),
    }
}

/// What each way by one thread is made of.
pub(super) fn parts(touches: &FirstTouch) -> String {
    let points = touches.points.iter().filter(|p| p.threads == 1 && !p.samples.is_empty());
    let stacks = Stacks {
        title: "Where the time of each way goes".to_owned(),
        subtitle: "Shares of each way's time; the total is at the end".to_owned(),
        names: PARTS.map(|(part, class)| (part.label(), class)).to_vec(),
        rows: points.map(stack).collect(),
    };
    stacks.draw()
}

fn stack(point: &Point) -> Stack {
    let segment = |(name, (part, _)): (usize, &(Part, &str))| {
        let ns = point.page_ns(*part)?.median;
        Some(Segment { name, value: ns, hover: format!("{} ns", three_digits(ns)) })
    };
    let whole = point.page_ns(Part::Whole).map_or_else(String::new, |ns| three_digits(ns.median));
    Stack {
        label: point.label(),
        segments: PARTS.iter().enumerate().filter_map(segment).collect(),
        total: format!("{whole} ns"),
    }
}
