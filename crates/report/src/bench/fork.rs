//! The cost of fork, for people: one document, CSV, and curves.

use crate::bench::BenchSummary;
use crate::chart::{LineChart, LinePanel, LineSeries, RepeatRange, SizeScale, SvgPicture};
use crate::claims;
use crate::csv::{known, samples};
use crate::number::{count, counted, ratio_text, three_digits, whole_size};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::PageKind;
use pagewise_model::bench::fork::{
    ForkBenchReport, ForkJudgement, ForkPoint, ForkPrice, ForkSample,
};
use pagewise_model::{Bytes, Fact, Measured, Nanos};

const PRICES: &str = "what a fork costs the parent";

/// The whole document on forks; `caption` names the machine.
pub(crate) fn document(forks: &ForkBenchReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.figure(svg(forks, caption));
    if let Some(judgement) = &forks.judgement {
        page.append(prices(forks, judgement));
    }
    page.section(sizes(forks));
    page.section(claims::lacking("not available here", claims::pages(&forks.unavailable)));
    if let Some(judgement) = &forks.judgement {
        page.section(claims::advice(&judgement.advice));
    }
    page
}

/// Forks on one screen: the prices.
pub(crate) fn short(forks: &ForkBenchReport, _: usize) -> BenchSummary<'_> {
    let judgement = forks.judgement.as_ref();
    BenchSummary {
        title: PRICES.to_owned(),
        table: judgement.map_or_else(|| ReportTable::new(&[]), price_table),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: &[],
        figures: forks.points.iter().filter_map(ForkPoint::fork_ns).collect(),
        refusals: forks.points.iter().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: claims::pages(&forks.unavailable).map(|one| one.label).collect(),
    }
}

/// The verdict in one sentence.
pub(crate) fn headline(forks: &ForkBenchReport) -> String {
    let prices: &[ForkPrice] = forks.judgement.as_ref().map_or(&[], |judgement| &judgement.prices);
    let gib = |pages| {
        let price = prices.iter().find(|price| price.pages == pages)?;
        Some(Nanos::from_f64(price.gib_ns.known()?.median))
    };
    match (gib(PageKind::Base), gib(PageKind::Thp)) {
        (Some(base), Some(huge)) => {
            format!("a fork costs {base} for each GiB touched on base pages, {huge} on huge pages")
        }
        (Some(base), None) => format!("a fork costs {base} for each GiB touched on base pages"),
        _ => "no price of a fork was found on base pages".to_owned(),
    }
}

/// How the figures were obtained.
pub(crate) fn protocol(forks: &ForkBenchReport) -> String {
    format!(
        "median of {} of each point in shuffled order (seed {}) on CPU {}; CPU time of the parent",
        counted(u64::from(forks.repeats), "fresh mapping", "fresh mappings"),
        forks.seed,
        forks.cpu
    )
}

/// Every mapping as CSV (RFC 4180), one line each.
pub(crate) fn csv(forks: &ForkBenchReport) -> String {
    let header = "pages,size_bytes,page_bytes,refused,repeat,place,fork_ns,writes_ns,write_faults";
    let sample = |s: &ForkSample| {
        vec![
            s.repeat.to_string(),
            s.place.to_string(),
            format!("{:.0}", s.fork_ns),
            format!("{:.0}", s.writes_ns),
            s.write_faults.to_string(),
        ]
    };
    let point = |point: &ForkPoint| {
        let lead = vec![
            point.pages.into_str().to_owned(),
            point.size_bytes.0.to_string(),
            known(point.page_bytes.known().map(|page| page.bytes())),
            known(point.refused.as_ref()),
        ];
        (lead, point.samples.iter().map(sample).collect())
    };
    samples(header, forks.points.iter().map(point))
}

fn prices(forks: &ForkBenchReport, judgement: &ForkJudgement) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(PRICES);
    page.para(&protocol(forks), 2, TextTone::Faint);
    page.table(price_table(judgement));
    if let Some(ratio) = judgement.ratios.first() {
        let size = whole_size(ratio.size_bytes);
        page.para(&format!("ratios at {size}, with their 95% intervals"), 2, TextTone::Faint);
    }
    page
}

/// The price on each kind of page.
fn price_table(judgement: &ForkJudgement) -> ReportTable {
    let mut table = ReportTable::new(&[
        ("pages", ColumnAlignment::Left),
        ("ms a GiB", ColumnAlignment::Decimal),
        ("of base", ColumnAlignment::Left),
        ("us a call", ColumnAlignment::Decimal),
        ("us a write", ColumnAlignment::Decimal),
        ("of base", ColumnAlignment::Left),
    ]);
    for price in &judgement.prices {
        let ratio = judgement.ratios.iter().find(|ratio| ratio.pages == price.pages);
        let [fork, writes] = ratio.map_or_else(Default::default, |ratio| {
            let fork = ratio_text(ratio.fork_ratio, &ratio.fork_interval);
            [fork, ratio_text(ratio.writes_ratio, &ratio.writes_interval)]
        });
        table.row(vec![
            price.pages.into_str().into(),
            scaled(&price.gib_ns, 1e6),
            fork.into(),
            scaled(&price.call_ns, 1e3),
            scaled(&price.write_ns, 1e3),
            writes.into(),
        ]);
    }
    table
}

/// A figure in a larger unit, or a dash with the reason.
fn scaled(figure: &Fact<Measured>, unit_ns: f64) -> TableCell {
    match figure {
        Fact::Known(known) => three_digits(known.median / unit_ns).into(),
        Fact::Missing(why) => TableCell::new("-", TextTone::Faint).hover(why.as_str()),
    }
}

/// Every size on every kind of page.
fn sizes(forks: &ForkBenchReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(
        "by memory touched: us of a fork, us of a write to a base page afterwards, faults",
    );
    let mut table = ReportTable::new(&[
        ("pages", ColumnAlignment::Left),
        ("size", ColumnAlignment::Right),
        ("fork", ColumnAlignment::Decimal),
        ("spread", ColumnAlignment::Left),
        ("a write", ColumnAlignment::Decimal),
        ("faults", ColumnAlignment::Right),
    ]);
    for point in PageKind::ALL.into_iter().flat_map(|kind| forks.curve(kind)) {
        let why = point.refused.as_deref().unwrap_or_default();
        let micros = |figure: Option<Measured>| match figure {
            Some(known) => TableCell::from(three_digits(known.median / 1e3)),
            None => TableCell::new("-", TextTone::Faint).hover(why),
        };
        let spread = point.fork_ns().map_or_else(String::new, |fork| {
            format!("{}-{}", three_digits(fork.min / 1e3), three_digits(fork.max / 1e3))
        });
        let faults = point.samples.first().map_or_else(String::new, |s| count(s.write_faults));
        table.row(vec![
            point.pages.into_str().into(),
            whole_size(point.size_bytes).into(),
            micros(point.fork_ns()),
            TableCell::new(spread, TextTone::Faint),
            micros(point.write_ns(forks.base_page_bytes)),
            faults.into(),
        ]);
    }
    page.table(table);
    page
}

/// Forks as SVG; `caption` names the machine.
pub(crate) fn svg(forks: &ForkBenchReport, caption: &str) -> SvgPicture {
    let series = PageKind::ALL.into_iter().filter_map(|kind| {
        let range = |point: &ForkPoint| {
            let fork = point.fork_ns()?;
            let [median, least, most] = [fork.median, fork.min, fork.max].map(|ns| ns / 1e3);
            Some((point.size_bytes.0 as f64, RepeatRange { median, least, most }))
        };
        let points: Vec<(f64, RepeatRange)> =
            forks.curve(kind).into_iter().filter_map(range).collect();
        (!points.is_empty()).then(|| LineSeries { name: kind.into_str().to_owned(), points })
    });
    let curves = LinePanel {
        title: "time of a fork in the parent".to_owned(),
        scale: SizeScale::Doubling,
        sizes_are: "memory that the parent has touched",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "us",
        series: series.collect(),
        marks: Vec::new(),
    };
    let panels = if curves.series.is_empty() { Vec::new() } else { vec![curves] };
    LineChart {
        title: "What does a fork cost?".to_owned(),
        subtitle: caption.to_owned(),
        panels,
        notes: vec!["Thin lines reach from the fastest mapping to the slowest.".to_owned()],
    }
    .draw()
}
