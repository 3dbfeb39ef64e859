//! Jumps through code for people: one document, CSV, and curves.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: code of growing size in each order on each kind of page,
//!   unavailable pages, the knees beside the processor's claims, misses if they were counted, and the three
//!   sentences of advice;
//! - [`csv`]: every mapping, for other tools;
//! - [`svg`]: the curves, with the reach of TLBs marked.
//!
//! A ratio that may differ in the next run says why. Refusals are listed under their table.

use crate::bench::{BenchSummary, largest_gain, spread};
use crate::chart::{
    LineChart, LinePanel, LineSeries, RepeatRange, SizeMark, SizeScale, SvgPicture,
};
use crate::claims;
use crate::csv::{known, samples};
use crate::number::{counted, percent, ratio_text, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::text::{
    JumpOrder, TextBenchPoint, TextBenchRatio, TextBenchReport, TextBenchSample,
};
use pagewise_model::bench::tlb::{ClaimedTlb, PageKind, RatioSteadiness};
use pagewise_model::{Bytes, Fact, Measured};

/// Heading of the claims.
const CLAIMS: &str = "TLBs for code as the processor claims, and where jumps begin to cost more";
const LACKING: &str = "pages that are not available here";

/// The jumps as terminal text.
#[must_use]
pub fn section(jumps: &TextBenchReport, style: &TerminalStyle) -> String {
    document(jumps, "").text(style)
}

/// The whole document on the jumps; `caption` names the machine.
pub(crate) fn document(jumps: &TextBenchReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.figure(svg(jumps, caption));
    page.append(by_size(jumps, JumpOrder::Changing));
    page.section(by_size(jumps, JumpOrder::Repeated));
    for order in JumpOrder::ALL {
        let all = table(jumps, order, |_| true);
        if !all.is_empty() {
            page.details(&format!("every size: {}", describe(order)), all.into());
        }
    }
    page.section(claims::lacking(LACKING, claims::pages(&jumps.unavailable)));
    if let Some(judgement) = &jumps.judgement {
        page.section(claims::section(CLAIMS, &judgement.claims));
    }
    page.section(misses(jumps));
    if let Some(judgement) = &jumps.judgement {
        page.section(claims::advice(&judgement.advice));
    }
    page
}

/// The jumps on one screen: unpredictable ones by code size.
pub(crate) fn short(jumps: &TextBenchReport, rows: usize) -> BenchSummary<'_> {
    let judgement = jumps.judgement.as_ref();
    let best = best_gain(jumps).map(|ratio| ratio.set_bytes.0 / jumps.dense().0.max(1));
    let mut sizes = numbers(jumps, JumpOrder::Changing);
    let on_base = |number| jumps.find(JumpOrder::Changing, PageKind::Base, jumps.dense(), number);
    sizes.retain(|number| on_base(*number).is_some_and(|point| !point.samples.is_empty()));
    let shown = spread(&sizes, rows, best);
    BenchSummary {
        title: format!("ns for each jump: {}", describe(JumpOrder::Changing)),
        table: table(jumps, JumpOrder::Changing, |number| shown.contains(&number)),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: judgement.map_or(&[], |judgement| &judgement.claims),
        figures: jumps.points.iter().filter_map(TextBenchPoint::jump_ns).collect(),
        refusals: jumps.points.iter().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: claims::pages(&jumps.unavailable).map(|one| one.label).collect(),
    }
}

/// Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field was not measured. A
/// point without samples has one line with the reason.
#[must_use]
pub fn csv(jumps: &TextBenchReport) -> String {
    let header = "order,pages,apart_bytes,jumps,set_bytes,page_bytes,refused,repeat,place,jump_ns,\
                  within_share,misses_per_1000_instructions";
    let sample = |s: &TextBenchSample| {
        let misses = s.misses_per_1000_instructions.map(|misses| format!("{misses:.4}"));
        vec![
            s.repeat.to_string(),
            s.place.to_string(),
            format!("{:.4}", s.jump_ns),
            format!("{:.4}", s.within_share),
            known(misses),
        ]
    };
    let point = |point: &TextBenchPoint| {
        let lead = vec![
            point.order.into_str().to_owned(),
            point.pages.into_str().to_owned(),
            point.apart_bytes.0.to_string(),
            point.jumps.to_string(),
            point.set_bytes().0.to_string(),
            known(point.page_bytes.known().map(|page| page.bytes())),
            known(point.refused.as_ref()),
        ];
        (lead, point.samples.iter().map(sample).collect())
    };
    samples(header, jumps.points.iter().map(point))
}

/// The verdict on all jumps in one sentence.
pub(crate) fn headline(jumps: &TextBenchReport) -> String {
    let curve = jumps.curve(JumpOrder::Changing, PageKind::Base, jumps.dense());
    let timed: Vec<(&TextBenchPoint, f64)> =
        curve.into_iter().filter_map(|p| Some((p, p.jump_ns()?.median))).collect();
    let (Some(first), Some(last)) = (timed.first(), timed.last()) else {
        return "jumps: nothing could be measured on base pages".to_owned();
    };
    let at = |(point, ns): &(&TextBenchPoint, f64)| {
        format!("{} ns in {} of code", three_digits(*ns), whole_size(point.set_bytes()))
    };
    let huge = best_gain(jumps).map_or_else(
        || "no proof that huge pages make it faster".to_owned(),
        |r| {
            let (less, size) = (percent(1.0 - r.ratio), whole_size(r.set_bytes));
            format!("huge pages at most {less} less (in {size})")
        },
    );
    format!("an unpredictable jump takes {} and {}; {huge}", at(first), at(last))
}

/// The largest proven gain of larger pages in unpredictable jumps.
fn best_gain(jumps: &TextBenchReport) -> Option<&TextBenchRatio> {
    let ratios = jumps.judgement.iter().flat_map(|judgement| &judgement.ratios);
    largest_gain(ratios.filter(|r| r.order == JumpOrder::Changing), |r| (r.ratio, &r.interval))
}

/// A description of how the mappings were made.
pub(crate) fn protocol(jumps: &TextBenchReport) -> String {
    format!(
        "median of {} of each point in shuffled order (seed {}), run on CPU {}; code up to {} ({})",
        counted(u64::from(jumps.repeats), "fresh mapping", "fresh mappings"),
        jumps.seed,
        jumps.cpu,
        jumps.most_bytes,
        jumps.bound_by
    )
}

/// An order as a heading.
fn describe(order: JumpOrder) -> String {
    format!("one jump on each base page, {}", order.name())
}

/// The kinds of pages that were requested for code of growing size.
fn kinds(jumps: &TextBenchReport, order: JumpOrder) -> Vec<PageKind> {
    let used = |kind: &PageKind| !jumps.curve(order, *kind, jumps.dense()).is_empty();
    PageKind::ALL.into_iter().filter(used).collect()
}

/// The numbers of jumps in one order, on any kind of page.
fn numbers(jumps: &TextBenchReport, order: JumpOrder) -> Vec<u64> {
    let dense = jumps.dense();
    let is_of = |p: &&TextBenchPoint| p.order == order && p.apart_bytes == dense;
    let mut all: Vec<u64> = jumps.points.iter().filter(is_of).map(|p| p.jumps).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Code of growing size in one order: nanoseconds on each kind of page, and the gain of larger pages. Of many
/// sizes, shows powers of two; the other forms have all.
fn by_size(jumps: &TextBenchReport, order: JumpOrder) -> ReportDocument {
    let mut page = ReportDocument::default();
    let table = table(jumps, order, |number| number.is_power_of_two());
    if kinds(jumps, order).is_empty() {
        return page;
    }
    page.heading(&format!("ns for each jump: {}", describe(order)));
    if order == JumpOrder::Changing {
        page.para(&protocol(jumps), 2, TextTone::Faint);
    }
    page.table(table);
    for (why, count) in refused(jumps, order) {
        let text = format!("{count} not run, or fewer times than requested: {why}");
        page.para(&text, 2, TextTone::Faint);
    }
    page
}

/// The table, with only the numbers of jumps that `is_shown` accepts.
fn table(jumps: &TextBenchReport, order: JumpOrder, is_shown: impl Fn(u64) -> bool) -> ReportTable {
    let kinds = kinds(jumps, order);
    let mut columns = vec![("code", ColumnAlignment::Right)];
    columns.extend(kinds.iter().map(|kind| (kind.into_str(), ColumnAlignment::Decimal)));
    columns.extend([("of base", ColumnAlignment::Left), ("", ColumnAlignment::Left)]);
    let mut table = ReportTable::new(&columns);
    for number in numbers(jumps, order).into_iter().filter(|number| is_shown(*number)) {
        let size = Bytes(number.saturating_mul(jumps.dense().0));
        let mut row = vec![TableCell::from(whole_size(size))];
        let point = |kind: &PageKind| jumps.find(order, *kind, jumps.dense(), number);
        row.extend(kinds.iter().map(|kind| time(point(kind))));
        let ratio = best_ratio(jumps, order, size);
        row.push(ratio.map_or_else(String::new, |r| ratio_text(r.ratio, &r.interval)).into());
        row.push(TableCell::new(ratio.map_or("", unsteady), TextTone::Warn));
        table.row(row);
    }
    table
}

fn time(point: Option<&TextBenchPoint>) -> TableCell {
    let Some(point) = point else { return TableCell::new("-", TextTone::Faint) };
    let why = point.refused.as_deref().unwrap_or("not run");
    TableCell::figure(point.jump_ns().as_ref(), why)
}

/// The ratio of the larger pages on which code of one size is fastest.
fn best_ratio(jumps: &TextBenchReport, order: JumpOrder, size: Bytes) -> Option<&TextBenchRatio> {
    let all = jumps.judgement.iter().flat_map(|judgement| &judgement.ratios);
    let here = all.filter(|ratio| ratio.order == order && ratio.set_bytes == size);
    here.min_by(|a, b| a.ratio.total_cmp(&b.ratio))
}

/// Why a ratio may differ in the next run; empty if it is steady.
const fn unsteady(ratio: &TextBenchRatio) -> &'static str {
    match ratio.steadiness {
        RatioSteadiness::Steady => "",
        RatioSteadiness::Placement => "placement decides",
        RatioSteadiness::Disturbed => "others disturb",
    }
}

/// Reasons why samples of an order are missing, each once with its count.
fn refused(jumps: &TextBenchReport, order: JumpOrder) -> Vec<(&str, u64)> {
    let of = jumps.points.iter().filter(|point| point.order == order);
    claims::reasons(of.filter_map(|point| point.refused.as_deref()))
}

/// The sentence about TLB misses.
fn misses_text(jumps: &TextBenchReport) -> String {
    match &jumps.counter {
        Fact::Missing(why) => format!("misses of the instruction TLB are not counted: {why}"),
        Fact::Known(event) => {
            let dense = jumps.dense();
            let of = |kind| {
                let curve = jumps.curve(JumpOrder::Changing, kind, dense);
                let last = curve.into_iter().rev().find_map(|p| Some((p.set_bytes(), p.misses()?)));
                last.map(|(size, misses)| {
                    let (misses, size) = (three_digits(misses.median), whole_size(size));
                    format!("{misses} on {} in {size} of code", kind.name())
                })
            };
            let all: Vec<String> =
                kinds(jumps, JumpOrder::Changing).into_iter().filter_map(of).collect();
            let reported = if all.is_empty() { "none counted".to_owned() } else { all.join(", ") };
            format!("{event}, in a thousand instructions: {reported}")
        }
    }
}

fn misses(jumps: &TextBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.hanging(&misses_text(jumps), 2);
    page
}

// The curves: code of growing size in each order, and the cost of a growing number of pages.

/// The jumps as SVG; `caption` names the machine.
#[must_use]
pub fn svg(jumps: &TextBenchReport, caption: &str) -> SvgPicture {
    let mut panels: Vec<LinePanel> =
        JumpOrder::ALL.into_iter().rev().filter_map(|order| curves_by_size(jumps, order)).collect();
    panels.extend(by_pages(jumps));
    let mappings = counted(u64::from(jumps.repeats), "fresh mapping", "fresh mappings");
    let lines = LineChart {
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

fn timed(
    points: Vec<&TextBenchPoint>,
    size: impl Fn(&TextBenchPoint) -> f64,
) -> Vec<(f64, RepeatRange)> {
    let one = |point: &TextBenchPoint| {
        let Measured { median, min, max, .. } = point.jump_ns()?;
        Some((size(point), RepeatRange { median, least: min, most: max }))
    };
    points.into_iter().filter_map(one).collect()
}

fn entries(tlb: &ClaimedTlb) -> f64 {
    f64::from(tlb.scaled_entries.unwrap_or(tlb.entries))
}

fn curves_by_size(jumps: &TextBenchReport, order: JumpOrder) -> Option<LinePanel> {
    let of = |kind: PageKind| {
        let curve = jumps.curve(order, kind, jumps.dense());
        let points = timed(curve, |point| point.set_bytes().0 as f64);
        (!points.is_empty()).then(|| LineSeries { name: kind.into_str().to_owned(), points })
    };
    let series: Vec<LineSeries> = PageKind::ALL.into_iter().filter_map(of).collect();
    let page = jumps.base_page_bytes;
    let marks = jumps.serving_code(page).map(|tlb| SizeMark {
        name: format!("L{} TLB, {page} pages", tlb.level),
        size: entries(tlb) * page.bytes() as f64,
    });
    (!series.is_empty()).then(|| LinePanel {
        title: describe(order),
        scale: SizeScale::Doubling,
        sizes_are: "code",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "ns",
        series,
        marks: marks.collect(),
    })
}

/// One jump on each page against as many jumps on few huge pages; `None` if none ran.
fn by_pages(jumps: &TextBenchReport) -> Option<LinePanel> {
    let dense = jumps.dense();
    let mut apart: Vec<(PageKind, Bytes)> = jumps
        .points
        .iter()
        .filter(|p| p.order == JumpOrder::Changing && p.apart_bytes > dense)
        .map(|p| (p.pages, p.apart_bytes))
        .collect();
    apart.sort_unstable();
    apart.dedup();
    if apart.is_empty() {
        return None;
    }
    let few = (PageKind::Thp, dense);
    let series = apart.into_iter().chain([few]).filter_map(|(kind, distance)| {
        let curve = jumps.curve(JumpOrder::Changing, kind, distance);
        let points = timed(curve, |point| point.jumps as f64);
        let name = if distance == dense {
            "on few huge pages".to_owned()
        } else {
            format!("{}, {} apart", kind.into_str(), whole_size(distance))
        };
        (!points.is_empty()).then_some(LineSeries { name, points })
    });
    let marks = jumps.serving_code(jumps.base_page_bytes).map(|tlb| SizeMark {
        name: format!("L{} TLB: {}", tlb.level, entries(tlb)),
        size: entries(tlb),
    });
    Some(LinePanel {
        title: format!("number of pages with one jump each, {}", JumpOrder::Changing.name()),
        scale: SizeScale::Doubling,
        sizes_are: "pages",
        write: |size| format!("{size:.0}"),
        unit: "ns",
        series: series.collect(),
        marks: marks.collect(),
    })
}
