//! The curves: what a call costs for each base page, over its size, by way and kind of page.

use crate::chart::{Curves, Lines, Range, Series};
use crate::number::{counted, whole_size};
use pagewise_model::Bytes;
use pagewise_model::bench::pin::{Pins, Point, Way};
use pagewise_model::bench::tlb::PageKind;

/// Pinning as SVG; `caption` says where it was measured.
#[must_use]
pub fn svg(pins: &Pins, caption: &str) -> String {
    let groups: [&[Way]; 4] =
        [&[Way::Vmsplice, Way::Tee], &[Way::Register], &[Way::ReadOwn, Way::Copy], &[Way::GupTest]];
    let panels = groups.into_iter().filter_map(|ways| panel(pins, ways)).collect();
    let mappings = counted(u64::from(pins.repeats), "fresh mapping", "fresh mappings");
    let lines = Lines {
        title: "What does it cost to pin a page?".to_owned(),
        subtitle: caption.to_owned(),
        panels,
        notes: vec![
            format!("Points: a call and its release, for each {}; median of {mappings}.", pins.base_page_bytes),
            "Thin lines reach from the fastest mapping to the slowest. tee and copy: the same without \
             pinning."
                .to_owned(),
        ],
    };
    lines.draw()
}

/// Ways that are set against each other; none where none was measured.
fn panel(pins: &Pins, ways: &[Way]) -> Option<Curves> {
    let mut series = Vec::new();
    for way in ways {
        for kind in PageKind::ALL {
            let points: Vec<(f64, Range)> =
                pins.curve(*way, kind).into_iter().filter_map(|p| each_page(pins, p)).collect();
            if !points.is_empty() {
                let name = format!("{} {}", way.label(), kind.label());
                series.push(Series { name, points });
            }
        }
    }
    let title = ways.first()?.name();
    (!series.is_empty()).then(|| Curves {
        title: title.to_owned(),
        sizes_are: "a call",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "ns a page",
        series,
        marks: Vec::new(),
    })
}

fn each_page(pins: &Pins, point: &Point) -> Option<(f64, Range)> {
    let whole = point.whole_ns()?;
    let pages = pins.pages_of(point).max(1) as f64;
    let range =
        Range { median: whole.median / pages, least: whole.min / pages, most: whole.max / pages };
    Some((point.size_bytes.0 as f64, range))
}
