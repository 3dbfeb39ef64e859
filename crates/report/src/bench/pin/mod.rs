//! The cost of pinning, for people: one document, CSV, and curves.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: prices per page and call by way and kind of page, calls
//!   by size, shares of a transfer, published figures, unavailable pages, and the three sentences of advice;
//! - [`csv`]: every mapping, for other tools;
//! - [`svg`]: the cost of a call per page, over its size.

use crate::bench::BenchSummary;
use crate::chart::{LineChart, LinePanel, LineSeries, RepeatRange, SizeScale, SvgPicture};
use crate::claims::{self, MissingCapability};
use crate::csv::{known, samples};
use crate::number::{counted, percent, ratio_text, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::{TerminalStyle, TextTone};
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::pin::{
    MissingWay, PinBenchReport, PinJudgement, PinPoint, PinPrice, PinSample, PinShare, PinWay,
};
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::{Bytes, Fact};

/// Heading of the claims.
const CLAIMS: &str = "published figures, and this machine";
const LACKING: &str = "not available here";

/// Pinning as terminal text.
#[must_use]
pub fn section(pins: &PinBenchReport, style: &TerminalStyle) -> String {
    document(pins, "").text(style)
}

/// The whole document on pinning; `caption` names the machine.
pub(crate) fn document(pins: &PinBenchReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.figure(svg(pins, caption));
    if let Some(judgement) = &pins.judgement {
        page.append(prices(pins, judgement));
    }
    for way in PinWay::ALL {
        page.section(calls(pins, way));
    }
    if let Some(judgement) = &pins.judgement {
        page.section(shares(&judgement.shares));
        page.section(claims::section(CLAIMS, &judgement.claims));
    }
    page.section(claims::lacking(LACKING, lacking(pins)));
    if let Some(judgement) = &pins.judgement {
        page.section(claims::advice(&judgement.advice));
    }
    page
}

/// Pinning on one screen: the prices.
pub(crate) fn short(pins: &PinBenchReport, rows: usize) -> BenchSummary<'_> {
    let judgement = pins.judgement.as_ref();
    BenchSummary {
        title: title(pins),
        table: judgement
            .map_or_else(|| ReportTable::new(&[]), |judgement| price_table(judgement, rows)),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: judgement.map_or(&[], |judgement| &judgement.claims),
        figures: pins.points.iter().filter_map(PinPoint::whole_ns).collect(),
        refusals: pins.points.iter().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: lacking(pins).map(|one| one.label).collect(),
    }
}

/// Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field was not measured. A
/// point without samples has one line with the reason.
#[must_use]
pub fn csv(pins: &PinBenchReport) -> String {
    let header =
        "way,pages,size_bytes,page_bytes,refused,repeat,place,call_ns,release_ns,within_share";
    let sample = |s: &PinSample| {
        vec![
            s.repeat.to_string(),
            s.place.to_string(),
            format!("{:.3}", s.call_ns),
            format!("{:.3}", s.release_ns),
            format!("{:.4}", s.within_share),
        ]
    };
    let point = |point: &PinPoint| {
        let lead = vec![
            point.way.into_str().to_owned(),
            point.pages.into_str().to_owned(),
            point.size_bytes.0.to_string(),
            known(point.page_bytes.known().map(|page| page.bytes())),
            known(point.refused.as_ref()),
        ];
        (lead, point.samples.iter().map(sample).collect())
    };
    samples(header, pins.points.iter().map(point))
}

/// The verdict in one sentence.
pub(crate) fn headline(pins: &PinBenchReport) -> String {
    let judgement = pins.judgement.as_ref();
    let prices: &[PinPrice] = judgement.map_or(&[], |judgement| &judgement.prices);
    let page_ns = |way, pages| {
        let price = prices.iter().find(|p| (p.way, p.pages) == (way, pages))?;
        price.page_ns.known().map(|ns| ns.median)
    };
    let ways = [PinWay::Vmsplice, PinWay::Register, PinWay::ReadOwn, PinWay::GupTest];
    let known = ways.into_iter().find_map(|way| Some((way, page_ns(way, PageKind::Base)?)));
    let Some((way, base)) = known else {
        return "pinning: no price could be found on base pages".to_owned();
    };
    let unit = pins.base_page_bytes;
    let on_base = format!(
        "pinning {unit} costs {} ns on base pages by {}",
        three_digits(base),
        way.into_str()
    );
    match page_ns(way, PageKind::Thp) {
        Some(huge) => format!("{on_base}, {} ns on huge ones", three_digits(huge)),
        None => on_base,
    }
}

/// How the figures were obtained.
pub(crate) fn protocol(pins: &PinBenchReport) -> String {
    format!(
        "median of {} of each point in shuffled order (seed {}) on CPU {}; pieces go in turn through \
         {} of memory",
        counted(u64::from(pins.repeats), "fresh mapping", "fresh mappings"),
        pins.seed,
        pins.cpu,
        whole_size(pins.region_bytes)
    )
}

/// What a price measures.
fn meaning(way: PinWay) -> String {
    match way.without() {
        Some(without) => format!("beyond {}", without.name()),
        None => "all of it".to_owned(),
    }
}

/// What the prices measure.
fn title(pins: &PinBenchReport) -> String {
    format!("ns to pin and release, for each {} and for each call", pins.base_page_bytes)
}

fn prices(pins: &PinBenchReport, judgement: &PinJudgement) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(&title(pins));
    page.para(&protocol(pins), 2, TextTone::Faint);
    page.table(price_table(judgement, judgement.prices.len()));
    for price in &judgement.prices {
        if let Some(why) = price.page_ns.reason() {
            let who = format!("{} on {}", price.way.into_str(), price.pages.name());
            page.para(&format!("{who}: {why}"), 2, TextTone::Faint);
        }
    }
    for way in PinWay::ALL.into_iter().filter(|way| judgement.prices.iter().any(|p| p.way == *way))
    {
        let text = format!("{}: {}, {}", way.into_str(), way.name(), meaning(way));
        page.para(&text, 2, TextTone::Faint);
    }
    page
}

/// The first `rows` prices.
fn price_table(judgement: &PinJudgement, rows: usize) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("way", ColumnAlignment::Left),
        ("pages", ColumnAlignment::Left),
        ("a page", ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
        ("total, of base", ColumnAlignment::Left),
        ("a call", ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
    ]);
    for price in judgement.prices.iter().take(rows) {
        let [page_ns, page_range] = TableCell::with_range(&price.page_ns);
        let [call_ns, call_range] = TableCell::with_range(&price.call_ns);
        table.row(vec![
            price.way.into_str().into(),
            price.pages.into_str().into(),
            page_ns,
            page_range,
            ratio(judgement, price).into(),
            call_ns,
            call_range,
        ]);
    }
    table
}

/// A price's ratio to that on base pages, as text; empty without a ratio.
fn ratio(judgement: &PinJudgement, price: &PinPrice) -> String {
    let ratio = judgement.ratios.iter().find(|r| (r.way, r.pages) == (price.way, price.pages));
    ratio.map_or_else(String::new, |r| ratio_text(r.ratio, &r.interval))
}

/// The kinds of pages that were requested for a way.
fn kinds(pins: &PinBenchReport, way: PinWay) -> Vec<PageKind> {
    let used = |kind: &PageKind| !pins.curve(way, *kind).is_empty();
    PageKind::ALL.into_iter().filter(used).collect()
}

/// The sizes of a way on any kind of page.
fn sizes(pins: &PinBenchReport, way: PinWay) -> Vec<Bytes> {
    let of = pins.points.iter().filter(|point| point.way == way).map(|point| point.size_bytes);
    let mut sizes: Vec<Bytes> = of.collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The cost of one way by size: a call with its release.
fn calls(pins: &PinBenchReport, way: PinWay) -> ReportDocument {
    let kinds = kinds(pins, way);
    let mut page = ReportDocument::default();
    if kinds.is_empty() {
        return page;
    }
    page.heading(&format!("ns for each call, {}", way.name()));
    let mut columns = vec![("size", ColumnAlignment::Right)];
    for kind in &kinds {
        columns.extend([
            (kind.into_str(), ColumnAlignment::Decimal),
            ("spread", ColumnAlignment::Left),
        ]);
    }
    let mut table = ReportTable::new(&columns);
    for size in sizes(pins, way) {
        let mut row = vec![TableCell::from(whole_size(size))];
        for kind in &kinds {
            let point = pins.find(way, *kind, size);
            let why = point.and_then(|point| point.refused.as_deref()).unwrap_or("not measured");
            let whole = point.and_then(PinPoint::whole_ns);
            row.extend(TableCell::with_range(
                &whole.map_or_else(|| Fact::missing(why), Fact::Known),
            ));
        }
        table.row(row);
    }
    page.table(table);
    for why in refusals(pins, way) {
        page.para(&why, 2, TextTone::Faint);
    }
    page
}

/// Reasons why samples of a way are missing, each once with its kinds of pages.
fn refusals(pins: &PinBenchReport, way: PinWay) -> Vec<String> {
    let refused = pins.points.iter().filter(|point| point.way == way);
    let reported = refused.filter_map(|point| {
        let why = point.refused.as_deref()?;
        Some(format!("{} not measured, or fewer times than requested: {why}", point.pages.name()))
    });
    let mut all: Vec<String> = reported.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn shares(shares: &[PinShare]) -> ReportDocument {
    let mut page = ReportDocument::default();
    if shares.is_empty() {
        return page;
    }
    page.heading("share of pinning in a transfer by vmsplice and splice");
    let mut table = ReportTable::new(&[
        ("pages", ColumnAlignment::Left),
        ("size", ColumnAlignment::Right),
        ("of the call", ColumnAlignment::Right),
        ("of the transfer", ColumnAlignment::Right),
        ("GiB/s, one thread", ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
    ]);
    for share in shares {
        let part = |fact: &Fact<f64>| match fact {
            Fact::Known(share) => TableCell::from(percent(*share)),
            Fact::Missing(why) => TableCell::new("-", TextTone::Faint).hover(why),
        };
        let [rate, range] = TableCell::with_range(&share.transfer_gib_per_s);
        table.row(vec![
            share.pages.into_str().into(),
            whole_size(share.size_bytes).into(),
            part(&share.of_call_share),
            part(&share.of_transfer_share),
            rate,
            range,
        ]);
    }
    page.table(table);
    let mut reasons: Vec<&str> = shares.iter().filter_map(|s| s.of_call_share.reason()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for why in reasons {
        page.para(&format!("-: {why}"), 2, TextTone::Faint);
    }
    page
}

/// Ways and pages that are not available.
fn lacking(pins: &PinBenchReport) -> impl Iterator<Item = MissingCapability<'_>> {
    let ways = pins.missing_ways.iter().map(|MissingWay { way, why, next }| MissingCapability {
        label: way.into_str().to_owned(),
        why,
        next,
    });
    ways.chain(claims::pages(&pins.unavailable))
}

// The curves: the cost of a call per base page, over its size, by way and kind of page.

/// Pinning as SVG; `caption` names the machine.
#[must_use]
pub fn svg(pins: &PinBenchReport, caption: &str) -> SvgPicture {
    let groups: [&[PinWay]; 4] = [
        &[PinWay::Vmsplice, PinWay::Tee],
        &[PinWay::Register],
        &[PinWay::ReadOwn, PinWay::Copy],
        &[PinWay::GupTest],
    ];
    let panels = groups.into_iter().filter_map(|ways| panel(pins, ways)).collect();
    let mappings = counted(u64::from(pins.repeats), "fresh mapping", "fresh mappings");
    let lines = LineChart {
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

/// Ways compared in one panel; `None` if none was measured.
fn panel(pins: &PinBenchReport, ways: &[PinWay]) -> Option<LinePanel> {
    let mut series = Vec::new();
    for way in ways {
        for kind in PageKind::ALL {
            let points: Vec<(f64, RepeatRange)> =
                pins.curve(*way, kind).into_iter().filter_map(|p| each_page(pins, p)).collect();
            if !points.is_empty() {
                let name = format!("{} {}", way.into_str(), kind.into_str());
                series.push(LineSeries { name, points });
            }
        }
    }
    let title = ways.first()?.name();
    (!series.is_empty()).then(|| LinePanel {
        title: title.to_owned(),
        scale: SizeScale::Doubling,
        sizes_are: "a call",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "ns a page",
        series,
        marks: Vec::new(),
    })
}

fn each_page(pins: &PinBenchReport, point: &PinPoint) -> Option<(f64, RepeatRange)> {
    let whole = point.whole_ns()?;
    let pages = pins.pages_of(point).max(1) as f64;
    let range = RepeatRange {
        median: whole.median / pages,
        least: whole.min / pages,
        most: whole.max / pages,
    };
    Some((point.size_bytes.0 as f64, range))
}
