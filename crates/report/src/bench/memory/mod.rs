//! First touches for people: one document, CSV, and a chart.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: the cost of each way per used page, the kernel's counts,
//!   threads, other findings, unavailable pages, claims, and the three sentences of advice;
//! - [`csv`]: every mapping, for other tools;
//! - [`svg`]: every way as a bar.
//!
//! All times are nanoseconds for each used base page. Refusals are listed under their table.

use crate::bench::BenchSummary;
use crate::chart::{
    BarChart, BarGroup, BarRow, RepeatRange, StackedChart, StackedRow, StackedSegment, SvgPicture,
};
use crate::claims::{self, MissingCapability};
use crate::csv::{known, samples};
use crate::number::{change, counted, ratio_text, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TerminalStyle;
use pagewise_model::bench::memory::{
    MemoryBenchPhase, MemoryBenchPoint, MemoryBenchRatio, MemoryBenchReport, MemoryBenchSample,
    MemoryBenchWay, Unavailable,
};

mod findings;
mod table;

const CLAIMS: &str = "claims about these calls, and what the kernel counted";
const LACKING: &str = "ways that are not available here";

/// First touches as terminal text.
#[must_use]
pub fn section(touches: &MemoryBenchReport, style: &TerminalStyle) -> String {
    document(touches, "").text(style)
}

/// The whole document on first touches; `caption` names the machine.
pub(crate) fn document(touches: &MemoryBenchReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.figure(svg(touches, caption));
    page.figure(parts(touches));
    page.append(table::times(touches));
    page.section(table::threads(touches));
    page.section(table::counts(touches));
    page.section(findings::section(touches));
    page.section(claims::lacking(LACKING, lacking(touches)));
    if let Some(judgement) = &touches.judgement {
        page.section(claims::section(CLAIMS, &judgement.claims));
        page.section(claims::advice(&judgement.advice));
    }
    page
}

/// First touches on one screen: the best ways of each kind beside their baselines.
pub(crate) fn short(touches: &MemoryBenchReport, rows: usize) -> BenchSummary<'_> {
    let judgement = touches.judgement.as_ref();
    let all = || touches.points.iter();
    BenchSummary {
        title: format!("{}; ratios to the row without one above", table::title(touches)),
        table: table::best(touches, rows),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: judgement.map_or(&[], |judgement| &judgement.claims),
        figures: all().filter_map(|point| point.page_ns(MemoryBenchPhase::Whole)).collect(),
        refusals: all().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: lacking(touches).into_iter().map(|one| one.label).collect(),
    }
}

/// Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field does not apply or
/// was not measured. A point without samples has one line with the reason.
#[must_use]
pub fn csv(touches: &MemoryBenchReport) -> String {
    let header = "way,every_pages,threads,mapped_bytes,used_pages,page_bytes,expected_faults,refused,repeat,\
                  place,setup_ns,touch_ns,teardown_ns,cpu_ns,page_ns,setup_faults,touch_faults,resident_bytes";
    let point = |point: &MemoryBenchPoint| {
        let lead = vec![
            point.way.label(),
            point.every_pages.to_string(),
            point.threads.to_string(),
            point.mapped_bytes.0.to_string(),
            point.used_pages.to_string(),
            known(point.page_bytes.known().map(|page| page.bytes())),
            known(point.expected_faults.known()),
            known(point.refused.as_ref()),
        ];
        let sample = |sample: &MemoryBenchSample| {
            vec![
                sample.repeat.to_string(),
                sample.place.to_string(),
                sample.setup_ns.0.to_string(),
                sample.touch_ns.0.to_string(),
                sample.teardown_ns.0.to_string(),
                sample.cpu_ns.0.to_string(),
                format!("{:.2}", point.page_ns_of(sample, MemoryBenchPhase::Whole)),
                sample.setup_faults.to_string(),
                sample.touch_faults.to_string(),
                known(sample.resident_bytes.known().map(|bytes| bytes.0)),
            ]
        };
        (lead, point.samples.iter().map(sample).collect())
    };
    samples(header, touches.points.iter().map(point))
}

/// The verdict on all ways in one sentence.
pub(crate) fn headline(touches: &MemoryBenchReport) -> String {
    let demand = touches
        .plain(MemoryBenchWay::OnDemand)
        .and_then(|point| point.page_ns(MemoryBenchPhase::Whole));
    let Some(demand) = demand else {
        return "first touches: nothing was measured on demand".to_owned();
    };
    let page = touches.base_page_bytes;
    let own = |r: &&MemoryBenchRatio| {
        r.way.baseline() == MemoryBenchWay::OnDemand && (r.every_pages, r.threads) == (1, 1)
    };
    let proven = |r: &&MemoryBenchRatio| r.interval.known().is_some_and(|(_, high)| *high < 1.0);
    let ratios = touches.judgement.iter().flat_map(|judgement| &judgement.ratios);
    let best = ratios.filter(own).filter(proven).min_by(|a, b| a.ratio.total_cmp(&b.ratio));
    let rest = best.map_or_else(
        || "no way is proven to take less".to_owned(),
        |r| format!("{} takes {}", r.way.label(), change(r.ratio)),
    );
    format!("a page of {page} takes {} ns before first use; {rest}", three_digits(demand.median))
}

/// The points of each baseline, with a title.
fn groups(touches: &MemoryBenchReport) -> Vec<(&'static str, Vec<&MemoryBenchPoint>)> {
    let of = |baseline: MemoryBenchWay| {
        let points = touches.points.iter().filter(move |p| p.threads == 1);
        points.filter(|p| p.way.baseline() == baseline).collect::<Vec<&MemoryBenchPoint>>()
    };
    let groups = [
        ("own memory", of(MemoryBenchWay::OnDemand)),
        ("a cached file", of(MemoryBenchWay::FileFaultAround)),
        ("after a fork", of(MemoryBenchWay::ForkCow)),
    ];
    groups.into_iter().filter(|(_, points)| !points.is_empty()).collect()
}

/// The ratio of a point to its baseline.
fn ratio<'a>(
    touches: &'a MemoryBenchReport,
    point: &MemoryBenchPoint,
) -> Option<&'a MemoryBenchRatio> {
    let mut ratios = touches.judgement.iter().flat_map(|judgement| &judgement.ratios);
    ratios.find(|r| point.is(r.way, r.every_pages, r.threads))
}

/// The ratio as text; empty for a baseline.
fn ratio_of(touches: &MemoryBenchReport, point: &MemoryBenchPoint) -> String {
    ratio(touches, point).map_or_else(String::new, |r| ratio_text(r.ratio, &r.interval))
}

/// Ways that are not available; those with the same reason and remedy together.
fn lacking(touches: &MemoryBenchReport) -> Vec<MissingCapability<'_>> {
    let mut all: Vec<MissingCapability<'_>> = Vec::new();
    for Unavailable { way, why, next } in &touches.unavailable {
        match all.iter_mut().find(|other| other.why == why && other.next == next) {
            Some(other) => other.label.push_str(&format!(", {}", way.label())),
            None => all.push(MissingCapability { label: way.label(), why, next }),
        }
    }
    all
}

/// A description of how the mappings were made.
pub(crate) fn protocol(touches: &MemoryBenchReport) -> String {
    format!(
        "median of {} of {} for each way, in shuffled order (seed {}), on CPU {}; at most {} of memory ({})",
        counted(u64::from(touches.repeats), "fresh mapping", "fresh mappings"),
        whole_size(touches.size_bytes),
        touches.seed,
        touches.cpus.first().copied().unwrap_or(0),
        touches.most_bytes,
        touches.bound_by
    )
}

// The charts: every way as a bar, and the parts of each.

/// The parts of a stack, with their colour classes.
const PARTS: [(MemoryBenchPhase, &str); 3] = [
    (MemoryBenchPhase::Setup, "pw-s0"),
    (MemoryBenchPhase::Touch, "pw-s1"),
    (MemoryBenchPhase::Teardown, "pw-s2"),
];

/// All ways as SVG; `caption` names the machine.
#[must_use]
pub fn svg(touches: &MemoryBenchReport, caption: &str) -> SvgPicture {
    let base = touches.base_page_bytes;
    let mappings = counted(u64::from(touches.repeats), "fresh mapping", "fresh mappings");
    let bars = BarChart {
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

fn all_groups(touches: &MemoryBenchReport) -> Vec<BarGroup> {
    let mut all: Vec<BarGroup> = groups(touches)
        .into_iter()
        .map(|(title, points)| group(title, "by one thread", &points))
        .collect();
    let several: Vec<&MemoryBenchPoint> = touches.points.iter().filter(|p| p.threads > 1).collect();
    if !several.is_empty() {
        all.push(group("own memory", "by several threads, wall time of all", &several));
    }
    all
}

fn group(title: &str, detail: &str, points: &[&MemoryBenchPoint]) -> BarGroup {
    let row = |point: &&MemoryBenchPoint| BarRow {
        label: point.label(),
        series: 0,
        value: match point.page_ns(MemoryBenchPhase::Whole) {
            Some(ns) => Ok(RepeatRange { median: ns.median, least: ns.min, most: ns.max }),
            None => Err(point.refused.clone().unwrap_or_else(|| "no mapping".to_owned())),
        },
    };
    BarGroup {
        title: title.to_owned(),
        detail: detail.to_owned(),
        rows: points.iter().map(row).collect(),
    }
}

/// The parts of each way's time with one thread.
fn parts(touches: &MemoryBenchReport) -> SvgPicture {
    let points = touches.points.iter().filter(|p| p.threads == 1 && !p.samples.is_empty());
    let stacks = StackedChart {
        title: "Where the time of each way goes".to_owned(),
        subtitle: "Shares of each way's time; the total is at the end".to_owned(),
        names: PARTS.map(|(part, class)| (part.into_str(), class)).to_vec(),
        rows: points.map(stack).collect(),
    };
    stacks.draw()
}

fn stack(point: &MemoryBenchPoint) -> StackedRow {
    let segment = |(name, (part, _)): (usize, &(MemoryBenchPhase, &str))| {
        let ns = point.page_ns(*part)?.median;
        Some(StackedSegment { name, value: ns, hover: format!("{} ns", three_digits(ns)) })
    };
    let whole = point
        .page_ns(MemoryBenchPhase::Whole)
        .map_or_else(String::new, |ns| three_digits(ns.median));
    StackedRow {
        label: point.label(),
        segments: PARTS.iter().enumerate().filter_map(segment).collect(),
        total: format!("{whole} ns"),
    }
}
