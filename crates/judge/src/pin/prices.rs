//! Prices: a line through the smallest and the largest size of each repeat. Its rise is the price of a page,
//! what is left of the smallest piece that of the call.
//!
//! Larger pages are set against base pages by the whole of a call and its release: what a way costs without
//! pinning is the same for both, and huge pages can make lending cheaper than that (one counter is raised for
//! all pages of a folio at once, where tee raises one for each), which leaves no price to divide.

use super::below_zero;
use super::{kinds, repeats};
use crate::stats::shift;
use pagewise_model::measured::median;
use pagewise_model::pin::{Pins, Point, Price, Ratio, Way};
use pagewise_model::walk::PageKind;
use pagewise_model::{Fact, Measured};

/// By every way that pins, on every kind of page.
pub(super) fn prices(pins: &Pins) -> Vec<Price> {
    let mut prices = Vec::new();
    for way in Way::ALL.into_iter().filter(|way| way.pins()) {
        prices.extend(kinds(pins, way).into_iter().map(|pages| price(pins, way, pages)));
    }
    prices
}

fn price(pins: &Pins, way: Way, pages: PageKind) -> Price {
    match ends(pins, way, pages) {
        Ok((small, large)) => {
            let lines: Vec<(f64, f64)> = repeats(small)
                .filter_map(|repeat| price_line(pins, small, large, repeat))
                .collect();
            let of = |figure: fn(&(f64, f64)) -> f64| known(lines.iter().map(figure).collect());
            Price { way, pages, page_ns: of(|line| line.0), call_ns: of(|line| line.1) }
        }
        Err(why) => Price { way, pages, page_ns: Fact::missing(&why), call_ns: Fact::missing(why) },
    }
}

fn known(values: Vec<f64>) -> Fact<Measured> {
    match Measured::of(&values) {
        Some(measured) if measured.median > 0.0 => Fact::Known(measured),
        Some(measured) => Fact::missing(below_zero(measured.median, "ns")),
        None => Fact::missing("what it is set against was not measured in the same rounds"),
    }
}

/// The measured points of the smallest and the largest size.
fn ends(pins: &Pins, way: Way, pages: PageKind) -> Result<(&Point, &Point), String> {
    let curve = pins.curve(way, pages);
    let mut measured = curve.iter().copied().filter(|point| !point.samples.is_empty());
    let (first, last) = (measured.next(), measured.next_back());
    match (first, last) {
        (Some(first), Some(last)) => Ok((first, last)),
        (Some(_), None) => {
            Err("a price for each page and one for each call need two sizes".to_owned())
        }
        (None, _) => {
            let why = curve.iter().find_map(|point| point.refused.clone());
            Err(why.unwrap_or_else(|| "not measured".to_owned()))
        }
    }
}

/// Nanoseconds of pinning for each page and for each call in one repeat.
fn price_line(pins: &Pins, small: &Point, large: &Point, repeat: u32) -> Option<(f64, f64)> {
    let held = (pins.held_ns(small, repeat)?, pins.held_ns(large, repeat)?);
    line((pins.pages_of(small), pins.pages_of(large)), held)
}

/// For each page and for each call, from pieces of so many pages and what they cost.
fn line((few, many): (u64, u64), (least, most): (f64, f64)) -> Option<(f64, f64)> {
    let (few, many) = (few as f64, many as f64);
    let page = (most - least) / (many - few);
    let call = least - page * few;
    (page.is_finite() && call.is_finite()).then_some((page, call))
}

/// Larger pages against base pages, by every way that pins.
pub(super) fn ratios(pins: &Pins) -> Vec<Ratio> {
    let mut ratios = Vec::new();
    for way in Way::ALL.into_iter().filter(|way| way.pins()) {
        for kind in kinds(pins, way).into_iter().filter(|kind| *kind != PageKind::Base) {
            ratios.extend(ratio(pins, way, kind));
        }
    }
    ratios
}

fn ratio(pins: &Pins, way: Way, pages: PageKind) -> Option<Ratio> {
    let (base, larger) = (ends(pins, way, PageKind::Base).ok()?, ends(pins, way, pages).ok()?);
    let page_ns = |(small, large): (&Point, &Point), repeat| {
        let whole = (small.whole_ns_of(repeat)?, large.whole_ns_of(repeat)?);
        let line = line((pins.pages_of(small), pins.pages_of(large)), whole)?;
        Some(line.0).filter(|ns| *ns > 0.0)
    };
    let log = |repeat| Some((page_ns(larger, repeat)? / page_ns(base, repeat)?).ln());
    let logs: Vec<f64> = repeats(base.0).filter_map(log).collect();
    let shifted = shift(&logs);
    let ratio = shifted.map_or_else(|| median(&logs), |s| Some(s.estimate))?.exp();
    let interval = match shifted {
        Some(s) => Fact::Known((s.low.exp(), s.high.exp())),
        None => Fact::missing("fewer than 6 repeats with both above the noise"),
    };
    ratio.is_finite().then_some(Ratio { way, pages, ratio, interval })
}
