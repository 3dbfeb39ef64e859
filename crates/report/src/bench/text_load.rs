//! Throughput of a program with its code on base pages and on huge pages, for people: one document, CSV, and curves.

use crate::bench::BenchSummary;
use crate::chart::{LineChart, LinePanel, LineSeries, RepeatRange, SizeScale, SvgPicture};
use crate::claims;
use crate::csv::samples;
use crate::number::{change, count, counted, interval, percent, three_digits};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::bench::text_load::{
    TextLoadFinding, TextLoadJudgement, TextLoadKind, TextLoadPair, TextLoadPoint, TextLoadRatio,
    TextLoadReport,
};
use pagewise_model::{Fact, Measured};

const THROUGHPUT: &str = "throughput with code on huge pages (on) and on base pages (off)";

/// The whole document; `caption` names the machine.
pub(crate) fn document(load: &TextLoadReport, caption: &str) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.figure(svg(load, caption));
    page.heading(THROUGHPUT);
    page.para(&(protocol(load) + "."), 2, TextTone::Faint);
    let Some(judgement) = &load.judgement else { return page };
    page.table(rates(load, judgement, judgement.findings.len()));
    page.section(cpu(load, judgement));
    page.section(steadiness(load, judgement));
    page.section(claims::advice(&judgement.advice));
    page
}

/// On one screen: throughput by size.
pub(crate) fn short(load: &TextLoadReport, rows: usize) -> BenchSummary<'_> {
    let judgement = load.judgement.as_ref();
    let off = |point: &TextLoadPoint| range(point, |pair| pair.off.rate_per_second);
    BenchSummary {
        title: THROUGHPUT.to_owned(),
        table: judgement
            .map_or_else(|| ReportTable::new(&[]), |judgement| rates(load, judgement, rows)),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: &[],
        figures: load.points.iter().filter_map(off).collect(),
        refusals: Vec::new(),
        lacking: Vec::new(),
    }
}

/// The verdict in one sentence.
pub(crate) fn headline(load: &TextLoadReport) -> String {
    let Some(overall) = load.judgement.as_ref().and_then(|judged| judged.overall.as_ref()) else {
        return "code on huge pages: no pair of loads was measured".to_owned();
    };
    let sizes = load.points.iter().filter(|point| !point.disturbed).count() as u64;
    let over = format!("{} of {}", counted(sizes, "size", "sizes"), load.kind.into_str());
    match overall.is_more() {
        Some(_) => format!("code on huge pages: throughput {} over {over}", figure(overall)),
        None => format!(
            "code on huge pages: no change of throughput is shown over {over}: {}",
            figure(overall)
        ),
    }
}

/// How the figures were obtained.
pub(crate) fn protocol(load: &TextLoadReport) -> String {
    let rounds = load.judgement.as_ref().map_or(0, |judgement| judgement.rounds);
    let rounds = counted(u64::from(rounds), "round", "rounds");
    let how = match load.at_once {
        true if load.kind == TextLoadKind::Jobs => "off and on at once on all CPUs",
        true => "fresh servers off and on, at once on half of the CPUs each",
        false if load.kind == TextLoadKind::Jobs => "off and on in turn on all CPUs",
        false => "fresh servers off and on, loaded in turn on all CPUs",
    };
    format!(
        "copies of {} (text fold --merge): {} of {} of text on huge pages on, {} off; {rounds}, {how} (seed {})",
        load.program, load.on_huge_bytes, load.text_bytes, load.off_huge_bytes, load.seed
    )
}

/// Every pair as CSV (RFC 4180), one line each.
pub(crate) fn csv(load: &TextLoadReport) -> String {
    let header = "size,disturbed,round,off_per_second,on_per_second,off_cpu_ns,on_cpu_ns";
    let pair = |pair: &TextLoadPair| {
        let (off, on) = (&pair.off, &pair.on);
        let rates = [off.rate_per_second, on.rate_per_second].map(|rate| format!("{rate:.3}"));
        let cpu = [off.cpu_ns, on.cpu_ns].map(|ns| format!("{ns:.0}"));
        std::iter::once(pair.round.to_string()).chain(rates).chain(cpu).collect()
    };
    let point = |point: &TextLoadPoint| {
        let lead = vec![point.size.to_string(), point.disturbed.to_string()];
        (lead, point.pairs.iter().map(pair).collect())
    };
    samples(header, load.points.iter().map(point))
}

/// The throughput by size, at most `rows`.
fn rates(load: &TextLoadReport, judgement: &TextLoadJudgement, rows: usize) -> ReportTable {
    let mut table = ReportTable::new(&[
        (load.kind.into_str(), ColumnAlignment::Left),
        ("off, a second", ColumnAlignment::Decimal),
        ("on", ColumnAlignment::Decimal),
        ("throughput, 95%", ColumnAlignment::Left),
        ("shown", ColumnAlignment::Left),
    ]);
    for one in judgement.findings.iter().take(rows) {
        table.row(vec![
            size(one.size, one.disturbed).into(),
            rate(one.off_per_second).into(),
            rate(one.on_per_second).into(),
            figure(&one.rate).into(),
            word(Some(&one.rate), ["faster", "slower"], true),
        ]);
    }
    table
}

/// CPU time by size.
fn cpu(load: &TextLoadReport, judgement: &TextLoadJudgement) -> ReportDocument {
    let mut table = ReportTable::new(&[
        (load.kind.into_str(), ColumnAlignment::Left),
        ("on, 95%", ColumnAlignment::Left),
        ("shown", ColumnAlignment::Left),
    ]);
    for one in &judgement.findings {
        table.row(vec![
            size(one.size, one.disturbed).into(),
            one.cpu.as_ref().map_or_else(String::new, figure).into(),
            word(one.cpu.as_ref(), ["more", "less"], false),
        ]);
    }
    titled("CPU time for each request or run, of that on base pages", table)
}

/// Steadiness by size.
fn steadiness(load: &TextLoadReport, judgement: &TextLoadJudgement) -> ReportDocument {
    let mut table = ReportTable::new(&[
        (load.kind.into_str(), ColumnAlignment::Left),
        ("off", ColumnAlignment::Decimal),
        ("on", ColumnAlignment::Decimal),
        ("on, 95%", ColumnAlignment::Left),
        ("shown", ColumnAlignment::Left),
    ]);
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), percent);
    for one in &judgement.findings {
        table.row(vec![
            size(one.size, one.disturbed).into(),
            share(one.off_spread).into(),
            share(one.on_spread).into(),
            one.spread.as_ref().map_or_else(String::new, figure).into(),
            word(one.spread.as_ref(), ["less steady", "steadier"], false),
        ]);
    }
    titled("how much rates vary within a round (their deviation)", table)
}

fn titled(title: &str, table: ReportTable) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.heading(title);
    page.table(table);
    page
}

/// The name of a row.
fn size(size: u32, disturbed: bool) -> String {
    let beside = if disturbed { ", disturbed" } else { "" };
    format!("{}{beside}", count(u64::from(size)))
}

/// A rate with three digits at least.
fn rate(per_second: f64) -> String {
    if per_second >= 1000.0 { count(per_second.round() as u64) } else { three_digits(per_second) }
}

/// A ratio as a change, with its interval.
fn figure(ratio: &TextLoadRatio) -> String {
    format!("{}{}", change(ratio.ratio), bounds(ratio))
}

fn bounds(ratio: &TextLoadRatio) -> String {
    match ratio.interval {
        Fact::Known((low, high)) => format!(" ({})", interval(ratio.ratio, low, high)),
        Fact::Missing(_) => String::new(),
    }
}

/// The word for a ratio that is shown to be more, or less.
fn word(ratio: Option<&TextLoadRatio>, [more, less]: [&str; 2], more_is_good: bool) -> TableCell {
    match ratio.and_then(TextLoadRatio::is_more) {
        Some(is_more) => {
            let tone = if is_more == more_is_good { TextTone::Good } else { TextTone::Warn };
            TableCell::new(if is_more { more } else { less }, tone)
        }
        None => TableCell::new("-", TextTone::Faint),
    }
}

fn range(point: &TextLoadPoint, figure: fn(&TextLoadPair) -> f64) -> Option<Measured> {
    Measured::from_values(&point.pairs.iter().map(figure).collect::<Vec<_>>())
}

/// Throughput and its change as SVG; `caption` names the machine.
pub(crate) fn svg(load: &TextLoadReport, caption: &str) -> SvgPicture {
    let panels = if load.points.iter().all(|point| point.pairs.is_empty()) {
        Vec::new()
    } else {
        vec![
            panel(load, "throughput", "a second", absolute(load)),
            panel(load, "throughput on huge pages, of that on base pages", "%", relative(load)),
        ]
    };
    LineChart {
        title: "What does code on huge pages serve?".to_owned(),
        subtitle: caption.to_owned(),
        panels,
        notes: vec![
            "Thin lines: from the slowest window to the fastest; of ratios, the 95% interval."
                .to_owned(),
        ],
    }
    .draw()
}

fn panel(
    load: &TextLoadReport,
    title: &str,
    unit: &'static str,
    series: Vec<LineSeries>,
) -> LinePanel {
    LinePanel {
        title: title.to_owned(),
        scale: SizeScale::Doubling,
        sizes_are: load.kind.into_str(),
        write: |size| count(size as u64),
        unit,
        series,
        marks: Vec::new(),
    }
}

/// Curves without and beside a neighbour that have points.
fn curves(name: &str, points: impl Fn(bool) -> Vec<(f64, RepeatRange)>) -> Vec<LineSeries> {
    let curve = |disturbed| {
        let beside = if disturbed { ", disturbed" } else { "" };
        LineSeries { name: format!("{name}{beside}"), points: points(disturbed) }
    };
    let curves = [false, true].map(curve).into_iter();
    curves.filter(|curve| !curve.points.is_empty()).collect()
}

/// The rates of both arms.
fn absolute(load: &TextLoadReport) -> Vec<LineSeries> {
    let arm = |figure: fn(&TextLoadPair) -> f64| {
        move |disturbed| {
            let points = load.points.iter().filter(|point| point.disturbed == disturbed);
            let range = |point: &TextLoadPoint| {
                let Measured { median, min: least, max: most, .. } = range(point, figure)?;
                Some((f64::from(point.size), RepeatRange { median, least, most }))
            };
            points.filter_map(range).collect()
        }
    };
    let off = curves("off", arm(|pair| pair.off.rate_per_second));
    off.into_iter().chain(curves("on", arm(|pair| pair.on.rate_per_second))).collect()
}

/// The ratios with their intervals, in percent.
fn relative(load: &TextLoadReport) -> Vec<LineSeries> {
    let findings: &[TextLoadFinding] =
        load.judgement.as_ref().map_or(&[], |judgement| &judgement.findings);
    curves("on / off", |disturbed| {
        let shown = findings.iter().filter(|one| one.disturbed == disturbed);
        let range = |one: &TextLoadFinding| {
            let ratio = one.rate.ratio;
            let (low, high) = one.rate.interval.known().copied().unwrap_or((ratio, ratio));
            let [median, least, most] = [ratio, low, high].map(|ratio| 100.0 * ratio);
            (f64::from(one.size), RepeatRange { median, least, most })
        };
        shown.map(range).collect()
    })
}
