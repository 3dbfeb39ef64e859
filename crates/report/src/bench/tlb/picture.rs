//! The curves: each list over its sets, and what translation costs over the number of pages.

use super::describe;
use crate::chart::{Curves, Lines, Range, Series, SizeMark};
use crate::number::{counted, whole_size};
use pagewise_model::bench::tlb::{ClaimedTlb, PageKind, Path, Point, Walks};
use pagewise_model::{Bytes, Measured};

/// The walks as SVG; `caption` says where they were measured.
#[must_use]
pub fn svg(walks: &Walks, caption: &str) -> String {
    let mut panels: Vec<Curves> = walks.lists().into_iter().map(|path| list(walks, path)).collect();
    panels.extend(lines(walks));
    let mappings = counted(u64::from(walks.repeats), "fresh mapping", "fresh mappings");
    let lines = Lines {
        title: "What does a dependent load cost?".to_owned(),
        subtitle: caption.to_owned(),
        panels,
        notes: vec![
            format!("Points: median of {mappings} of each, in shuffled order."),
            "Thin lines reach from the fastest mapping to the slowest. Dashed: caches and the reach of \
             TLBs, as claimed."
                .to_owned(),
        ],
    };
    lines.draw()
}

fn list(walks: &Walks, path: Path) -> Curves {
    let of = |kind: PageKind| {
        let points = timed(walks.curve(path, kind), |point| point.set_bytes().0 as f64);
        (!points.is_empty()).then(|| Series { name: kind.label().to_owned(), points })
    };
    Curves {
        title: describe(path),
        sizes_are: "set",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "ns",
        series: PageKind::ALL.into_iter().filter_map(of).collect(),
        marks: caches(walks).chain(reaches(walks)).collect(),
    }
}

fn timed(points: Vec<&Point>, size: impl Fn(&Point) -> f64) -> Vec<(f64, Range)> {
    let one = |point: &Point| {
        let Measured { median, min, max, .. } = point.load_ns()?;
        Some((size(point), Range { median, least: min, most: max }))
    };
    points.into_iter().filter_map(one).collect()
}

fn caches(walks: &Walks) -> impl Iterator<Item = SizeMark> {
    walks.caches.iter().map(|cache| SizeMark {
        name: format!("L{} {}", cache.level, whole_size(cache.size_bytes)),
        size: cache.size_bytes.0 as f64,
    })
}

/// How far the claimed entries for base pages reach.
fn reaches(walks: &Walks) -> impl Iterator<Item = SizeMark> {
    let page = walks.base_page_bytes;
    walks.serving_loads(page).map(move |tlb| SizeMark {
        name: format!("L{} TLB, {page} pages", tlb.level),
        size: f64::from(entries(tlb)) * page.bytes() as f64,
    })
}

fn entries(tlb: &ClaimedTlb) -> u32 {
    tlb.scaled_entries.unwrap_or(tlb.entries)
}

/// Lines on a page each beside packed ones; none where none were walked.
fn lines(walks: &Walks) -> Option<Curves> {
    let mut series = Vec::new();
    let mut paths: Vec<(PageKind, Path)> = walks
        .points
        .iter()
        .filter(|p| matches!(p.path, Path::Lines { .. }))
        .map(|p| (p.pages, p.path))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    for (kind, path) in paths {
        let points = timed(walks.curve(path, kind), |point| point.elements as f64);
        let name = match path {
            Path::PACKED => "packed".to_owned(),
            _ => format!("{}, {} apart", kind.label(), whole_size(path.pitch())),
        };
        if !points.is_empty() {
            series.push(Series { name, points });
        }
    }
    let marks = walks.serving_loads(walks.base_page_bytes).map(|tlb| SizeMark {
        name: format!("L{} TLB: {}", tlb.level, entries(tlb)),
        size: f64::from(entries(tlb)),
    });
    (!series.is_empty()).then(|| Curves {
        title: "one cache line on each of this many pages, random order".to_owned(),
        sizes_are: "lines",
        write: |size| format!("{size:.0}"),
        unit: "ns",
        series,
        marks: marks.collect(),
    })
}
