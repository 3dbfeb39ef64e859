//! The curves: code of growing size in each order, and what a growing number of pages costs.

use super::describe;
use crate::chart::{Curves, Lines, Range, Series, SizeMark};
use crate::number::{counted, whole_size};
use pagewise_model::bench::code::{Jumps, Order, Point};
use pagewise_model::bench::tlb::{ClaimedTlb, PageKind};
use pagewise_model::{Bytes, Measured};

/// The jumps as SVG; `caption` says where they were measured.
#[must_use]
pub fn svg(jumps: &Jumps, caption: &str) -> String {
    let mut panels: Vec<Curves> =
        Order::ALL.into_iter().rev().filter_map(|order| by_size(jumps, order)).collect();
    panels.extend(by_pages(jumps));
    let mappings = counted(u64::from(jumps.repeats), "fresh mapping", "fresh mappings");
    let lines = Lines {
        title: "What does a jump cost, by code size?".to_owned(),
        subtitle: caption.to_owned(),
        panels,
        notes: vec![
            format!("Points: median of {mappings} of each, in shuffled order."),
            "Thin lines reach from the fastest mapping to the slowest. Dashed: the reach of TLBs, as \
             claimed."
                .to_owned(),
        ],
    };
    lines.draw()
}

fn timed(points: Vec<&Point>, size: impl Fn(&Point) -> f64) -> Vec<(f64, Range)> {
    let one = |point: &Point| {
        let Measured { median, min, max, .. } = point.jump_ns()?;
        Some((size(point), Range { median, least: min, most: max }))
    };
    points.into_iter().filter_map(one).collect()
}

fn entries(tlb: &ClaimedTlb) -> f64 {
    f64::from(tlb.scaled_entries.unwrap_or(tlb.entries))
}

fn by_size(jumps: &Jumps, order: Order) -> Option<Curves> {
    let of = |kind: PageKind| {
        let curve = jumps.curve(order, kind, jumps.dense());
        let points = timed(curve, |point| point.set_bytes().0 as f64);
        (!points.is_empty()).then(|| Series { name: kind.label().to_owned(), points })
    };
    let series: Vec<Series> = PageKind::ALL.into_iter().filter_map(of).collect();
    let page = jumps.base_page_bytes;
    let marks = jumps.serving_code(page).map(|tlb| SizeMark {
        name: format!("L{} TLB, {page} pages", tlb.level),
        size: entries(tlb) * page.bytes() as f64,
    });
    (!series.is_empty()).then(|| Curves {
        title: describe(order),
        sizes_are: "code",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "ns",
        series,
        marks: marks.collect(),
    })
}

/// Elements on a page each, beside as many on few huge pages; none where none were run.
fn by_pages(jumps: &Jumps) -> Option<Curves> {
    let dense = jumps.dense();
    let mut apart: Vec<(PageKind, Bytes)> = jumps
        .points
        .iter()
        .filter(|p| p.order == Order::Changing && p.apart_bytes > dense)
        .map(|p| (p.pages, p.apart_bytes))
        .collect();
    apart.sort_unstable();
    apart.dedup();
    if apart.is_empty() {
        return None;
    }
    let few = (PageKind::Thp, dense);
    let series = apart.into_iter().chain([few]).filter_map(|(kind, distance)| {
        let curve = jumps.curve(Order::Changing, kind, distance);
        let points = timed(curve, |point| point.jumps as f64);
        let name = if distance == dense {
            "on few huge pages".to_owned()
        } else {
            format!("{}, {} apart", kind.label(), whole_size(distance))
        };
        (!points.is_empty()).then_some(Series { name, points })
    });
    let marks = jumps.serving_code(jumps.base_page_bytes).map(|tlb| SizeMark {
        name: format!("L{} TLB: {}", tlb.level, entries(tlb)),
        size: entries(tlb),
    });
    Some(Curves {
        title: format!("number of pages with one jump each, {}", Order::Changing.name()),
        sizes_are: "pages",
        write: |size| format!("{size:.0}"),
        unit: "ns",
        series: series.collect(),
        marks: marks.collect(),
    })
}
