//! The cost of pinning, for people: one document, CSV, and curves.
//!
//! Entries, all pure functions of the saved form:
//! - [`document`], and as terminal text [`section`]: prices per page and call by way and kind of page, calls
//!   by size, shares of a transfer, published figures, unavailable pages, and the three sentences of advice;
//! - [`csv`]: every mapping, for other tools;
//! - [`svg`]: the cost of a call per page, over its size.

use crate::bench::Short;
use crate::chart::{Curves, Lines, Picture, Range, Scale, Series};
use crate::claims::{self, Lacking};
use crate::csv::{known, samples};
use crate::number::{counted, percent, ratio_text, three_digits, whole_size};
use crate::page::Document;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use pagewise_model::bench::pin::{Judgement, MissingWay, Pins, Point, Price, Sample, Share, Way};
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::{Bytes, Fact};

/// Heading of the claims.
const CLAIMS: &str = "published figures, and this machine";
const LACKING: &str = "not available here";

/// Pinning as terminal text.
#[must_use]
pub fn section(pins: &Pins, style: &Style) -> String {
    document(pins, "").text(style)
}

/// The whole document on pinning; `caption` names the machine.
pub(crate) fn document(pins: &Pins, caption: &str) -> Document {
    let mut page = Document::default();
    page.figure(svg(pins, caption));
    if let Some(judgement) = &pins.judgement {
        page.append(prices(pins, judgement));
    }
    for way in Way::ALL {
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
pub(crate) fn short(pins: &Pins, rows: usize) -> Short<'_> {
    let judgement = pins.judgement.as_ref();
    Short {
        title: title(pins),
        table: judgement.map_or_else(|| Table::new(&[]), |judgement| price_table(judgement, rows)),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: judgement.map_or(&[], |judgement| &judgement.claims),
        figures: pins.points.iter().filter_map(Point::whole_ns).collect(),
        refusals: pins.points.iter().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: lacking(pins).map(|one| one.label).collect(),
    }
}

/// Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field was not measured. A
/// point without samples has one line with the reason.
#[must_use]
pub fn csv(pins: &Pins) -> String {
    let header =
        "way,pages,size_bytes,page_bytes,refused,repeat,place,call_ns,release_ns,within_share";
    let sample = |s: &Sample| {
        vec![
            s.repeat.to_string(),
            s.place.to_string(),
            format!("{:.3}", s.call_ns),
            format!("{:.3}", s.release_ns),
            format!("{:.4}", s.within_share),
        ]
    };
    let point = |point: &Point| {
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
pub(crate) fn headline(pins: &Pins) -> String {
    let judgement = pins.judgement.as_ref();
    let prices: &[Price] = judgement.map_or(&[], |judgement| &judgement.prices);
    let page_ns = |way, pages| {
        let price = prices.iter().find(|p| (p.way, p.pages) == (way, pages))?;
        price.page_ns.known().map(|ns| ns.median)
    };
    let ways = [Way::Vmsplice, Way::Register, Way::ReadOwn, Way::GupTest];
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
pub(crate) fn protocol(pins: &Pins) -> String {
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
fn meaning(way: Way) -> String {
    match way.without() {
        Some(without) => format!("beyond {}", without.name()),
        None => "all of it".to_owned(),
    }
}

/// What the prices measure.
fn title(pins: &Pins) -> String {
    format!("ns to pin and release, for each {} and for each call", pins.base_page_bytes)
}

fn prices(pins: &Pins, judgement: &Judgement) -> Document {
    let mut page = Document::default();
    page.heading(&title(pins));
    page.para(&protocol(pins), 2, Tone::Faint);
    page.table(price_table(judgement, judgement.prices.len()));
    for price in &judgement.prices {
        if let Some(why) = price.page_ns.reason() {
            let who = format!("{} on {}", price.way.into_str(), price.pages.name());
            page.para(&format!("{who}: {why}"), 2, Tone::Faint);
        }
    }
    for way in Way::ALL.into_iter().filter(|way| judgement.prices.iter().any(|p| p.way == *way)) {
        let text = format!("{}: {}, {}", way.into_str(), way.name(), meaning(way));
        page.para(&text, 2, Tone::Faint);
    }
    page
}

/// The first `rows` prices.
fn price_table(judgement: &Judgement, rows: usize) -> Table {
    let mut table = Table::new(&[
        ("way", Align::Left),
        ("pages", Align::Left),
        ("a page", Align::Decimal),
        ("spread", Align::Left),
        ("total, of base", Align::Left),
        ("a call", Align::Decimal),
        ("spread", Align::Left),
    ]);
    for price in judgement.prices.iter().take(rows) {
        let [page_ns, page_range] = Cell::with_range(&price.page_ns);
        let [call_ns, call_range] = Cell::with_range(&price.call_ns);
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
fn ratio(judgement: &Judgement, price: &Price) -> String {
    let ratio = judgement.ratios.iter().find(|r| (r.way, r.pages) == (price.way, price.pages));
    ratio.map_or_else(String::new, |r| ratio_text(r.ratio, &r.interval))
}

/// The kinds of pages that were requested for a way.
fn kinds(pins: &Pins, way: Way) -> Vec<PageKind> {
    let used = |kind: &PageKind| !pins.curve(way, *kind).is_empty();
    PageKind::ALL.into_iter().filter(used).collect()
}

/// The sizes of a way on any kind of page.
fn sizes(pins: &Pins, way: Way) -> Vec<Bytes> {
    let of = pins.points.iter().filter(|point| point.way == way).map(|point| point.size_bytes);
    let mut sizes: Vec<Bytes> = of.collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The cost of one way by size: a call with its release.
fn calls(pins: &Pins, way: Way) -> Document {
    let kinds = kinds(pins, way);
    let mut page = Document::default();
    if kinds.is_empty() {
        return page;
    }
    page.heading(&format!("ns for each call, {}", way.name()));
    let mut columns = vec![("size", Align::Right)];
    for kind in &kinds {
        columns.extend([(kind.into_str(), Align::Decimal), ("spread", Align::Left)]);
    }
    let mut table = Table::new(&columns);
    for size in sizes(pins, way) {
        let mut row = vec![Cell::from(whole_size(size))];
        for kind in &kinds {
            let point = pins.find(way, *kind, size);
            let why = point.and_then(|point| point.refused.as_deref()).unwrap_or("not measured");
            let whole = point.and_then(Point::whole_ns);
            row.extend(Cell::with_range(&whole.map_or_else(|| Fact::missing(why), Fact::Known)));
        }
        table.row(row);
    }
    page.table(table);
    for why in refusals(pins, way) {
        page.para(&why, 2, Tone::Faint);
    }
    page
}

/// Reasons why samples of a way are missing, each once with its kinds of pages.
fn refusals(pins: &Pins, way: Way) -> Vec<String> {
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

fn shares(shares: &[Share]) -> Document {
    let mut page = Document::default();
    if shares.is_empty() {
        return page;
    }
    page.heading("share of pinning in a transfer by vmsplice and splice");
    let mut table = Table::new(&[
        ("pages", Align::Left),
        ("size", Align::Right),
        ("of the call", Align::Right),
        ("of the transfer", Align::Right),
        ("GiB/s, one thread", Align::Decimal),
        ("spread", Align::Left),
    ]);
    for share in shares {
        let part = |fact: &Fact<f64>| match fact {
            Fact::Known(share) => Cell::from(percent(*share)),
            Fact::Missing(why) => Cell::new("-", Tone::Faint).hover(why),
        };
        let [rate, range] = Cell::with_range(&share.transfer_gib_per_s);
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
        page.para(&format!("-: {why}"), 2, Tone::Faint);
    }
    page
}

/// Ways and pages that are not available.
fn lacking(pins: &Pins) -> impl Iterator<Item = Lacking<'_>> {
    let ways = pins.missing_ways.iter().map(|MissingWay { way, why, next }| Lacking {
        label: way.into_str().to_owned(),
        why,
        next,
    });
    ways.chain(claims::pages(&pins.unavailable))
}

// The curves: the cost of a call per base page, over its size, by way and kind of page.

/// Pinning as SVG; `caption` names the machine.
#[must_use]
pub fn svg(pins: &Pins, caption: &str) -> Picture {
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

/// Ways compared in one panel; `None` if none was measured.
fn panel(pins: &Pins, ways: &[Way]) -> Option<Curves> {
    let mut series = Vec::new();
    for way in ways {
        for kind in PageKind::ALL {
            let points: Vec<(f64, Range)> =
                pins.curve(*way, kind).into_iter().filter_map(|p| each_page(pins, p)).collect();
            if !points.is_empty() {
                let name = format!("{} {}", way.into_str(), kind.into_str());
                series.push(Series { name, points });
            }
        }
    }
    let title = ways.first()?.name();
    (!series.is_empty()).then(|| Curves {
        title: title.to_owned(),
        scale: Scale::Doubling,
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
