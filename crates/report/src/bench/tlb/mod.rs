//! Walks through memory for people: one document, CSV, and curves.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: the most telling list at every size, all lists at five
//!   sizes, unavailable pages, translation with the processor's claims, bandwidth, and the three sentences of
//!   advice;
//! - [`csv`]: every mapping, for other tools;
//! - [`svg`]: the curves, with caches and the reach of TLBs marked.
//!
//! A ratio that may differ in the next run says why. Refusals are listed under their table.

use crate::bench::{BenchSummary, largest_gain, spread};
use crate::chart::{
    LineChart, LinePanel, LineSeries, RepeatRange, SizeMark, SizeScale, SvgPicture,
};
use crate::claims;
use crate::csv::{known, samples};
use crate::number::{counted, percent, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::tlb::{
    AccessOrder, ClaimedTlb, LINE, MemoryBandwidth, PageKind, RatioSteadiness, TlbBenchReport,
    TlbJudgement, TlbPath, TlbPoint, TlbRatio, TlbSample,
};
use pagewise_model::{Bytes, Fact, Measured};

mod table;

/// Heading of the claims.
const CLAIMS: &str = "TLBs as the processor claims, and where loads begin to cost more";

const LACKING: &str = "pages that are not available here";

/// The walks as terminal text.
#[must_use]
pub fn section(walks: &TlbBenchReport, style: &TerminalStyle) -> String {
    document(walks, "").text(style)
}

/// The whole document on the walks; `caption` names the machine.
pub(crate) fn document(walks: &TlbBenchReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.figure(svg(walks, caption));
    let usual = usual(walks);
    if let Some(path) = usual {
        page.append(table::list(walks, path));
        page.section(table::overview(walks));
    }
    for path in walks.lists().into_iter().filter(|path| Some(*path) != usual) {
        page.details(&describe(path), table::list(walks, path));
    }
    page.section(claims::lacking(LACKING, claims::pages(&walks.unavailable)));
    if let Some(judgement) = &walks.judgement {
        page.section(claims::section(CLAIMS, &judgement.claims));
        page.section(backing(judgement));
    }
    page.section(bandwidth(&walks.bandwidth));
    if let Some(judgement) = &walks.judgement {
        page.section(claims::advice(&judgement.advice));
    }
    page
}

/// The walks on one screen: the usual list by the size of its set.
pub(crate) fn short(walks: &TlbBenchReport, rows: usize) -> BenchSummary<'_> {
    let judgement = walks.judgement.as_ref();
    let usual = usual(walks);
    let sets = |path| {
        let best = best_gain(walks, path).map(|ratio| ratio.set_bytes);
        let on_base = walks.curve(path, PageKind::Base).into_iter();
        let timed = on_base.filter(|point| !point.samples.is_empty());
        let sets: Vec<Bytes> = timed.map(TlbPoint::set_bytes).collect();
        table::sizes(walks, path, &spread(&sets, rows, best))
    };
    BenchSummary {
        title: usual
            .map_or_else(String::new, |path| format!("ns for each load, {}", describe(path))),
        table: usual.map_or_else(|| ReportTable::new(&[]), sets),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: judgement.map_or(&[], |judgement| &judgement.claims),
        figures: walks.points.iter().filter_map(TlbPoint::load_ns).collect(),
        refusals: walks.points.iter().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: claims::pages(&walks.unavailable).map(|one| one.label).collect(),
    }
}

/// Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field does not apply or
/// was not measured. A point without samples has one line with the reason.
#[must_use]
pub fn csv(walks: &TlbBenchReport) -> String {
    let header = "path,order,npad,apart_bytes,pages,elements,set_bytes,page_bytes,refused,repeat,place,\
                  load_ns,within_share";
    let sample = |s: &TlbSample| {
        let (load, share) = (format!("{:.4}", s.load_ns), format!("{:.4}", s.within_share));
        vec![s.repeat.to_string(), s.place.to_string(), load, share]
    };
    let point = |point: &TlbPoint| {
        let (path, order, npad, apart) = match point.path {
            TlbPath::List { order, npad } => ("list", order.into_str(), Some(npad), None),
            TlbPath::Lines { apart_bytes } => ("lines", "random", None, Some(apart_bytes.0)),
        };
        let lead = vec![
            path.to_owned(),
            order.to_owned(),
            known(npad),
            known(apart),
            point.pages.into_str().to_owned(),
            point.elements.to_string(),
            point.set_bytes().0.to_string(),
            known(point.page_bytes.known().map(|page| page.bytes())),
            known(point.refused.as_ref()),
        ];
        (lead, point.samples.iter().map(sample).collect())
    };
    samples(header, walks.points.iter().map(point))
}

/// The verdict on all walks in one sentence.
pub(crate) fn headline(walks: &TlbBenchReport) -> String {
    let random = |path: &TlbPath| matches!(path, TlbPath::List { order: AccessOrder::Random, .. });
    let Some(path) = usual(walks).filter(random) else {
        return "loads: no list was walked in random order".to_owned();
    };
    let curve = walks.curve(path, PageKind::Base);
    let timed: Vec<(&TlbPoint, Measured)> =
        curve.into_iter().filter_map(|point| Some((point, point.load_ns()?))).collect();
    let (Some(first), Some(last)) = (timed.first(), timed.last()) else {
        return "loads: nothing could be measured on base pages".to_owned();
    };
    let at = |(point, ns): &(&TlbPoint, Measured)| {
        format!("{} ns in {}", three_digits(ns.median), whole_size(point.set_bytes()))
    };
    let huge = best_gain(walks, path).map_or_else(
        || "no proof that huge pages make it faster".to_owned(),
        |r| {
            format!(
                "huge pages at most {} less (in {})",
                percent(1.0 - r.ratio),
                whole_size(r.set_bytes)
            )
        },
    );
    format!("a dependent random load takes {} and {}; {huge}", at(first), at(last))
}

/// The largest proven gain of larger pages in a list.
fn best_gain(walks: &TlbBenchReport, path: TlbPath) -> Option<&TlbRatio> {
    let here = walks.judgement.iter().flat_map(|j| &j.ratios).filter(|r| r.path == path);
    largest_gain(here, |r| (r.ratio, &r.interval))
}

/// The most telling list: random order and a cache line per element, or the nearest to that.
fn usual(walks: &TlbBenchReport) -> Option<TlbPath> {
    let far = |path: &TlbPath| match path {
        TlbPath::List { order, .. } => (*order, path.pitch().0.abs_diff(LINE.0)),
        TlbPath::Lines { .. } => (AccessOrder::Sequential, u64::MAX),
    };
    walks.lists().into_iter().min_by_key(far)
}

/// A list in words: `random order, elements of 64 B (NPAD 7)`.
fn describe(path: TlbPath) -> String {
    match path {
        TlbPath::List { order, npad } => {
            format!("{} order, elements of {} (NPAD {npad})", order.into_str(), path.pitch())
        }
        TlbPath::Lines { apart_bytes } => format!("lines {} apart", whole_size(apart_bytes)),
    }
}

/// Why a ratio may differ in the next run; empty if it is steady.
const fn unsteady(ratio: &TlbRatio) -> &'static str {
    match ratio.steadiness {
        RatioSteadiness::Steady => "",
        RatioSteadiness::Placement => "placement decides",
        RatioSteadiness::Disturbed => "others disturb",
    }
}

/// How the TLB treats huge pages, in a sentence.
fn backing_text(share: &Fact<f64>) -> String {
    let share = match share {
        Fact::Known(share) => *share,
        Fact::Missing(why) => return format!("how huge pages are backed: {why}"),
    };
    let meaning = match share {
        s if s < 0.3 => "huge pages are translated as huge pages",
        s if s > 0.7 => {
            "huge pages are translated in base pages, as on a host that backs them that way: they shorten page walks, but extend no reach"
        }
        _ => "some huge pages are translated as huge pages and others in base pages",
    };
    format!(
        "over the same lines, translation on huge pages costs {} of that on base pages: {meaning}",
        percent(share)
    )
}

fn backing(judgement: &TlbJudgement) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.hanging(&backing_text(&judgement.huge_translation_share), 2);
    page
}

fn bandwidth(found: &MemoryBandwidth) -> ReportDocument {
    let mut page = ReportDocument::default();
    let title = format!(
        "bandwidth, GiB/s over buffers of {}: one core, and all {} together",
        found.buffer_bytes, found.cpus
    );
    page.heading(&title);
    let right = ColumnAlignment::Decimal;
    let mut table = ReportTable::new(&[
        ("", ColumnAlignment::Left),
        ("one core", right),
        ("spread", ColumnAlignment::Left),
        ("all", right),
        ("spread", ColumnAlignment::Left),
    ]);
    for ((name, one), (_, all)) in found.one.named().into_iter().zip(found.all.named()) {
        let mut row = vec![TableCell::from(name)];
        row.extend(TableCell::with_range(one).into_iter().chain(TableCell::with_range(all)));
        table.row(row);
    }
    page.table(table);
    for (who, rates) in [("one core", &found.one), ("all", &found.all)] {
        if let Some(why) = rates.read_gib_per_s.reason() {
            page.para(&format!("{who}: {why}"), 2, TextTone::Faint);
        }
    }
    page
}

/// A description of how the mappings were made.
pub(crate) fn protocol(walks: &TlbBenchReport) -> String {
    format!(
        "median of {} of each point in shuffled order (seed {}), walked on CPU {}; sets up to {} ({})",
        counted(u64::from(walks.repeats), "fresh mapping", "fresh mappings"),
        walks.seed,
        walks.cpu,
        walks.most_bytes,
        walks.bound_by
    )
}

// The curves: each list over its sets, and the cost of translation over the number of pages.

/// The walks as SVG; `caption` names the machine.
#[must_use]
pub fn svg(walks: &TlbBenchReport, caption: &str) -> SvgPicture {
    let mut panels: Vec<LinePanel> =
        walks.lists().into_iter().map(|path| list(walks, path)).collect();
    panels.extend(lines(walks));
    let mappings = counted(u64::from(walks.repeats), "fresh mapping", "fresh mappings");
    let lines = LineChart {
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

fn list(walks: &TlbBenchReport, path: TlbPath) -> LinePanel {
    let of = |kind: PageKind| {
        let points = timed(walks.curve(path, kind), |point| point.set_bytes().0 as f64);
        (!points.is_empty()).then(|| LineSeries { name: kind.into_str().to_owned(), points })
    };
    LinePanel {
        title: describe(path),
        scale: SizeScale::Doubling,
        sizes_are: "set",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "ns",
        series: PageKind::ALL.into_iter().filter_map(of).collect(),
        marks: caches(walks).chain(reaches(walks)).collect(),
    }
}

fn timed(points: Vec<&TlbPoint>, size: impl Fn(&TlbPoint) -> f64) -> Vec<(f64, RepeatRange)> {
    let one = |point: &TlbPoint| {
        let Measured { median, min, max, .. } = point.load_ns()?;
        Some((size(point), RepeatRange { median, least: min, most: max }))
    };
    points.into_iter().filter_map(one).collect()
}

fn caches(walks: &TlbBenchReport) -> impl Iterator<Item = SizeMark> {
    walks.caches.iter().map(|cache| SizeMark {
        name: format!("L{} {}", cache.level, whole_size(cache.size_bytes)),
        size: cache.size_bytes.0 as f64,
    })
}

/// The memory that the claimed TLB entries for base pages cover.
fn reaches(walks: &TlbBenchReport) -> impl Iterator<Item = SizeMark> {
    let page = walks.base_page_bytes;
    walks.serving_loads(page).map(move |tlb| SizeMark {
        name: format!("L{} TLB, {page} pages", tlb.level),
        size: f64::from(entries(tlb)) * page.bytes() as f64,
    })
}

fn entries(tlb: &ClaimedTlb) -> u32 {
    tlb.scaled_entries.unwrap_or(tlb.entries)
}

/// One cache line per page beside packed lines; `None` if none were walked.
fn lines(walks: &TlbBenchReport) -> Option<LinePanel> {
    let mut series = Vec::new();
    let mut paths: Vec<(PageKind, TlbPath)> = walks
        .points
        .iter()
        .filter(|p| matches!(p.path, TlbPath::Lines { .. }))
        .map(|p| (p.pages, p.path))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    for (kind, path) in paths {
        let points = timed(walks.curve(path, kind), |point| point.elements as f64);
        let name = match path {
            TlbPath::PACKED => "packed".to_owned(),
            _ => format!("{}, {} apart", kind.into_str(), whole_size(path.pitch())),
        };
        if !points.is_empty() {
            series.push(LineSeries { name, points });
        }
    }
    let marks = walks.serving_loads(walks.base_page_bytes).map(|tlb| SizeMark {
        name: format!("L{} TLB: {}", tlb.level, entries(tlb)),
        size: f64::from(entries(tlb)),
    });
    (!series.is_empty()).then(|| LinePanel {
        title: "one cache line on each of this many pages, random order".to_owned(),
        scale: SizeScale::Doubling,
        sizes_are: "lines",
        write: |size| format!("{size:.0}"),
        unit: "ns",
        series,
        marks: marks.collect(),
    })
}
