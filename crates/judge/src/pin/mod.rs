//! What measurements of pinning say: a price for each page and for each call, by every way and kind of page;
//! how much of a transfer through a pipe that is; what huge pages are worth; what becomes of published
//! figures; what to do.
//!
//! The entry is [`judge`]; pure, so saved measurements are judged again with the same result. Samples of one
//! repeat were taken in the same round and are paired: a price is the median of the differences of each
//! repeat. What comes out at or below zero is missing.

mod advice;
mod claims;
mod prices;

use pagewise_model::measured::median;
use pagewise_model::pin::{Judgement, Pins, Point, Share, Way};
use pagewise_model::walk::PageKind;
use pagewise_model::{Bytes, Fact, Measured};

/// Why a difference is missing.
fn below_zero(value: f64, unit: &str) -> String {
    format!("the difference is {value:.1} {unit}, not above zero: no price")
}

/// All conclusions from `pins`.
#[must_use]
pub fn judge(pins: &Pins) -> Judgement {
    let prices = prices::prices(pins);
    let ratios = prices::ratios(pins);
    let shares = shares(pins);
    let claims = claims::claims(&shares, &ratios);
    let advice = advice::advice(pins, &prices, &ratios, &shares);
    Judgement { prices, shares, ratios, claims, advice }
}

/// The kinds of pages that a way was measured on.
fn kinds(pins: &Pins, way: Way) -> Vec<PageKind> {
    let used = |kind: &PageKind| !pins.curve(way, *kind).is_empty();
    PageKind::ALL.into_iter().filter(used).collect()
}

/// The numbers of the repeats that a point has.
fn repeats(point: &Point) -> impl Iterator<Item = u32> {
    point.samples.iter().map(|sample| sample.repeat)
}

/// The median of values that should be above zero.
fn above_zero(values: &[f64], none: &str) -> Fact<f64> {
    match median(values) {
        Some(value) if value > 0.0 => Fact::Known(value),
        Some(value) => Fact::missing(below_zero(value * 100.0, "%")),
        None => Fact::missing(none),
    }
}

/// How much of a transfer by vmsplice is pinning, on every kind of page and by every size.
fn shares(pins: &Pins) -> Vec<Share> {
    let of = |kind: PageKind| pins.curve(Way::Vmsplice, kind).into_iter();
    let all = kinds(pins, Way::Vmsplice).into_iter().flat_map(of);
    all.filter(|point| !point.samples.is_empty()).map(|point| share(pins, point)).collect()
}

fn share(pins: &Pins, point: &Point) -> Share {
    let without = pins.find(Way::Tee, PageKind::Base, point.size_bytes);
    let pairs = || {
        point.samples.iter().filter_map(move |lent| {
            let teed = without?.samples.iter().find(|s| s.repeat == lent.repeat)?;
            Some((lent, teed))
        })
    };
    let of_call: Vec<f64> = pairs().map(|(l, t)| (l.call_ns - t.call_ns) / l.call_ns).collect();
    let whole = pairs().map(|(l, t)| (l.whole_ns() - t.whole_ns()) / l.whole_ns());
    let whole: Vec<f64> = whole.collect();
    let none = "tee was not measured beside it";
    let rates: Vec<f64> = point
        .samples
        .iter()
        .map(|s| point.size_bytes.0 as f64 / s.whole_ns() * 1e9 / Bytes::gib(1).0 as f64)
        .collect();
    Share {
        pages: point.pages,
        size_bytes: point.size_bytes,
        of_call_share: above_zero(&of_call, none),
        of_transfer_share: above_zero(&whole, none),
        transfer_gib_per_s: Measured::of(&rates)
            .map_or_else(|| Fact::missing("not measured"), Fact::Known),
    }
}

#[cfg(test)]
mod tests;
