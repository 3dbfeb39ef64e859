//! The cost of fork, for people: one document, CSV, and curves.

use crate::bench::Short;
use crate::chart::{Curves, Lines, Picture, Range, Scale, Series};
use crate::claims;
use crate::csv::{known, samples};
use crate::number::{count, counted, ratio_text, three_digits, whole_size};
use crate::page::Document;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::bench::PageKind;
use pagewise_model::bench::fork::{Forks, Judgement, Point, Price, Sample};
use pagewise_model::{Bytes, Fact, Measured, Nanos};

const PRICES: &str = "what a fork costs the parent";

/// The whole document on forks; `caption` names the machine.
pub(crate) fn document(forks: &Forks, caption: &str) -> Document {
    let mut page = Document::default();
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
pub(crate) fn short(forks: &Forks, _: usize) -> Short<'_> {
    let judgement = forks.judgement.as_ref();
    Short {
        title: PRICES.to_owned(),
        table: judgement.map_or_else(|| Table::new(&[]), price_table),
        advice: judgement.map_or(&[], |judgement| &judgement.advice),
        claims: &[],
        figures: forks.points.iter().filter_map(Point::fork_ns).collect(),
        refusals: forks.points.iter().filter_map(|point| point.refused.as_deref()).collect(),
        lacking: claims::pages(&forks.unavailable).map(|one| one.label).collect(),
    }
}

/// The verdict in one sentence.
pub(crate) fn headline(forks: &Forks) -> String {
    let prices: &[Price] = forks.judgement.as_ref().map_or(&[], |judgement| &judgement.prices);
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
pub(crate) fn protocol(forks: &Forks) -> String {
    format!(
        "median of {} of each point in shuffled order (seed {}) on CPU {}; CPU time of the parent",
        counted(u64::from(forks.repeats), "fresh mapping", "fresh mappings"),
        forks.seed,
        forks.cpu
    )
}

/// Every mapping as CSV (RFC 4180), one line each.
pub(crate) fn csv(forks: &Forks) -> String {
    let header = "pages,size_bytes,page_bytes,refused,repeat,place,fork_ns,writes_ns,write_faults";
    let sample = |s: &Sample| {
        vec![
            s.repeat.to_string(),
            s.place.to_string(),
            format!("{:.0}", s.fork_ns),
            format!("{:.0}", s.writes_ns),
            s.write_faults.to_string(),
        ]
    };
    let point = |point: &Point| {
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

fn prices(forks: &Forks, judgement: &Judgement) -> Document {
    let mut page = Document::default();
    page.heading(PRICES);
    page.para(&protocol(forks), 2, Tone::Faint);
    page.table(price_table(judgement));
    if let Some(ratio) = judgement.ratios.first() {
        let size = whole_size(ratio.size_bytes);
        page.para(&format!("ratios at {size}, with their 95% intervals"), 2, Tone::Faint);
    }
    page
}

/// The price on each kind of page.
fn price_table(judgement: &Judgement) -> Table {
    let mut table = Table::new(&[
        ("pages", Align::Left),
        ("ms a GiB", Align::Decimal),
        ("of base", Align::Left),
        ("us a call", Align::Decimal),
        ("us a write", Align::Decimal),
        ("of base", Align::Left),
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
fn scaled(figure: &Fact<Measured>, unit_ns: f64) -> Cell {
    match figure {
        Fact::Known(known) => three_digits(known.median / unit_ns).into(),
        Fact::Missing(why) => Cell::new("-", Tone::Faint).hover(why.as_str()),
    }
}

/// Every size on every kind of page.
fn sizes(forks: &Forks) -> Document {
    let mut page = Document::default();
    page.heading(
        "by memory touched: us of a fork, us of a write to a base page afterwards, faults",
    );
    let mut table = Table::new(&[
        ("pages", Align::Left),
        ("size", Align::Right),
        ("fork", Align::Decimal),
        ("spread", Align::Left),
        ("a write", Align::Decimal),
        ("faults", Align::Right),
    ]);
    for point in PageKind::ALL.into_iter().flat_map(|kind| forks.curve(kind)) {
        let why = point.refused.as_deref().unwrap_or_default();
        let micros = |figure: Option<Measured>| match figure {
            Some(known) => Cell::from(three_digits(known.median / 1e3)),
            None => Cell::new("-", Tone::Faint).hover(why),
        };
        let spread = point.fork_ns().map_or_else(String::new, |fork| {
            format!("{}-{}", three_digits(fork.min / 1e3), three_digits(fork.max / 1e3))
        });
        let faults = point.samples.first().map_or_else(String::new, |s| count(s.write_faults));
        table.row(vec![
            point.pages.into_str().into(),
            whole_size(point.size_bytes).into(),
            micros(point.fork_ns()),
            Cell::new(spread, Tone::Faint),
            micros(point.write_ns(forks.base_page_bytes)),
            faults.into(),
        ]);
    }
    page.table(table);
    page
}

/// Forks as SVG; `caption` names the machine.
pub(crate) fn svg(forks: &Forks, caption: &str) -> Picture {
    let series = PageKind::ALL.into_iter().filter_map(|kind| {
        let range = |point: &Point| {
            let fork = point.fork_ns()?;
            let [median, least, most] = [fork.median, fork.min, fork.max].map(|ns| ns / 1e3);
            Some((point.size_bytes.0 as f64, Range { median, least, most }))
        };
        let points: Vec<(f64, Range)> = forks.curve(kind).into_iter().filter_map(range).collect();
        (!points.is_empty()).then(|| Series { name: kind.into_str().to_owned(), points })
    });
    let curves = Curves {
        title: "time of a fork in the parent".to_owned(),
        scale: Scale::Doubling,
        sizes_are: "memory that the parent has touched",
        write: |size| whole_size(Bytes(size as u64)),
        unit: "us",
        series: series.collect(),
        marks: Vec::new(),
    };
    let panels = if curves.series.is_empty() { Vec::new() } else { vec![curves] };
    Lines {
        title: "What does a fork cost?".to_owned(),
        subtitle: caption.to_owned(),
        panels,
        notes: vec!["Thin lines reach from the fastest mapping to the slowest.".to_owned()],
    }
    .draw()
}
