//! What measurements of pinning show: a price for each page and for each call, for every way and kind of
//! page; the share in a transfer through a pipe; what huge pages are worth; which published figures hold;
//! what to do.
//!
//! The entry is [`judge`]. It is pure, so saved measurements are judged again with the same result. Samples
//! of one repeat were taken in the same round and are paired: a price is the median of the differences of
//! each repeat. A result at or below zero is missing.
//!
//! A price is a line through the smallest and the largest size. Its slope is the price of a page, and the
//! remainder at the smallest size is the price of the call. Larger pages are compared with base pages by the
//! whole of a call and its release, because the cost of a way without pinning is the same for both. Huge
//! pages can make lending cheaper than that: one counter is raised for all pages of a folio together, where
//! tee raises one for each. Then there is no price to divide.
//!
//! The published figures are those of a study of 2022 on one laptop (Linux 5.17, pieces of 128 KiB, base
//! pages). Finding the pages is 18% of all samples of writer and reader, a third of vmsplice. On huge pages
//! one entry of the page table serves 32 pages of a piece. A share is claimed to be within a quarter of it,
//! as for the ladder of pipes.

use crate::bench::best::{BestWay, to_settle};
use crate::stats::{interval_text, less_text, paired_figure, paired_ratio};
use pagewise_model::bench::pin::{
    PinBenchReport, PinJudgement, PinPoint, PinPrice, PinRatio, PinSample, PinShare, PinWay,
};
use pagewise_model::bench::{BenchClaim, ClaimEvidence, ClaimFigure, PageKind, RepeatSeries};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Fact, Measured};

/// Below this ratio larger pages are worth asking for.
const WORTH: f64 = 0.9;
/// A call is paid for when it is at most this share of what its pages cost.
const SMALL: f64 = 0.1;
/// Buffer size in the sentences: that of the study of pipes.
const USUAL: Bytes = Bytes::kib(256);

/// Pieces of the published figures: half of 256 KiB.
const PUBLISHED_PIECE: Bytes = Bytes::kib(128);
const OF_CALL: f64 = 1.0 / 3.0;
const OF_TRANSFER: f64 = 0.18;
/// A share this far from the published one, either way, is still the same.
const SAME: f64 = 1.25;

/// All conclusions from `pins`.
#[must_use]
pub fn judge(pins: &PinBenchReport) -> PinJudgement {
    let pinning = || PinWay::ALL.into_iter().filter(|way| way.pins());
    let on = |way: PinWay| kinds(pins, way).into_iter().map(move |pages| (way, pages));
    let prices: Vec<PinPrice> = pinning().flat_map(on).map(|on| price(pins, on)).collect();
    let larger = pinning().flat_map(on).filter(|(_, pages)| *pages != PageKind::Base);
    let ratios: Vec<PinRatio> = larger.filter_map(|on| ratio(pins, on)).collect();
    let lent =
        kinds(pins, PinWay::Vmsplice).into_iter().flat_map(|k| pins.curve(PinWay::Vmsplice, k));
    let lent = lent.filter(|point| !point.samples.is_empty());
    let shares: Vec<PinShare> = lent.map(|point| share(pins, point)).collect();
    let claims = claims(pins, &ratios);
    let advice = advice(pins, &prices, &ratios, &shares);
    PinJudgement { prices, shares, ratios, claims, advice }
}

/// The kinds of pages that a way was measured on.
fn kinds(pins: &PinBenchReport, way: PinWay) -> Vec<PageKind> {
    let used = |kind: &PageKind| !pins.curve(way, *kind).is_empty();
    PageKind::ALL.into_iter().filter(used).collect()
}

/// Why a difference is missing.
fn below_zero(value: f64, unit: &str) -> String {
    format!("the difference is {value:.1} {unit}, not above zero: no price")
}

fn price(pins: &PinBenchReport, (way, pages): (PinWay, PageKind)) -> PinPrice {
    match ends(pins, way, pages) {
        Ok((small, large)) => {
            let (least, few) = (pins.held(small), pins.pages_of(small) as f64);
            let page = per_page(pins, (small, &least), (large, &pins.held(large)));
            let call = least.paired(&page, |least, page| least - page * few);
            PinPrice { way, pages, page_ns: known(&page), call_ns: known(&call) }
        }
        Err(why) => {
            PinPrice { way, pages, page_ns: Fact::missing(&why), call_ns: Fact::missing(why) }
        }
    }
}

/// What each further page takes, for each repeat, from pieces of two sizes and their cost.
fn per_page(
    pins: &PinBenchReport,
    small: (&PinPoint, &RepeatSeries),
    large: (&PinPoint, &RepeatSeries),
) -> RepeatSeries {
    let (few, many) = (pins.pages_of(small.0) as f64, pins.pages_of(large.0) as f64);
    large.1.paired(small.1, |most, least| (most - least) / (many - few))
}

fn known(series: &RepeatSeries) -> Fact<Measured> {
    match series.measured() {
        Some(measured) if measured.median > 0.0 => Fact::Known(measured),
        Some(measured) => Fact::missing(below_zero(measured.median, "ns")),
        None => Fact::missing("the way it is compared with was not measured in the same rounds"),
    }
}

/// The measured points of the smallest and the largest size.
fn ends(
    pins: &PinBenchReport,
    way: PinWay,
    pages: PageKind,
) -> Result<(&PinPoint, &PinPoint), String> {
    let curve = pins.curve(way, pages);
    let mut measured = curve.iter().copied().filter(|point| !point.samples.is_empty());
    let (first, last) = (measured.next(), measured.next_back());
    match (first, last) {
        (Some(first), Some(last)) => Ok((first, last)),
        (Some(_), None) => Err("prices per page and per call need two sizes".to_owned()),
        (None, _) => {
            let why = curve.iter().find_map(|point| point.refused.clone());
            Err(why.unwrap_or_else(|| "not measured".to_owned()))
        }
    }
}

/// Larger pages against base pages.
fn ratio(pins: &PinBenchReport, (way, pages): (PinWay, PageKind)) -> Option<PinRatio> {
    let page_ns = |pages| {
        let (small, large) = ends(pins, way, pages).ok()?;
        let [least, most] = [small, large].map(|point| point.series(PinSample::whole_ns));
        Some(per_page(pins, (small, &least), (large, &most)))
    };
    let (base, larger) = (page_ns(PageKind::Base)?, page_ns(pages)?);
    let log = |ns: f64, base: f64| if ns > 0.0 && base > 0.0 { (ns / base).ln() } else { f64::NAN };
    let mut logs = larger.paired(&base, log).values();
    logs.retain(|log| !log.is_nan());
    let (ratio, interval) = paired_ratio(&logs, "repeats with both above the noise")?;
    Some(PinRatio { way, pages, ratio, interval })
}

/// What part of a figure of vmsplice is pinning, repeat by repeat.
fn shares(pins: &PinBenchReport, point: &PinPoint, figure: fn(&PinSample) -> f64) -> RepeatSeries {
    let without = pins.find(PinWay::Tee, PageKind::Base, point.size_bytes);
    let teed = without.map(|point| point.series(figure)).unwrap_or_default();
    point.series(figure).paired(&teed, |lent, teed| (lent - teed) / lent)
}

/// The median of shares, or why it is missing.
fn positive_median(shares: &[f64]) -> Result<f64, String> {
    match median(shares) {
        Some(value) if value > 0.0 => Ok(value),
        Some(value) => Err(below_zero(value * 100.0, "%")),
        None => Err("tee was not measured beside it".to_owned()),
    }
}

/// How much of a transfer by vmsplice is pinning.
fn share(pins: &PinBenchReport, point: &PinPoint) -> PinShare {
    let of = |figure: fn(&PinSample) -> f64| {
        Fact::from(positive_median(&shares(pins, point, figure).values()))
    };
    let gib = point.size_bytes.0 as f64 / Bytes::gib(1).0 as f64;
    let rates = point.series(|sample| gib / sample.whole_ns() * 1e9).measured();
    PinShare {
        pages: point.pages,
        size_bytes: point.size_bytes,
        of_call_share: of(|sample| sample.call_ns),
        of_transfer_share: of(PinSample::whole_ns),
        transfer_gib_per_s: rates.map_or_else(|| Fact::missing("not measured"), Fact::Known),
    }
}

/// Every published claim with its answer.
fn claims(pins: &PinBenchReport, ratios: &[PinRatio]) -> Vec<BenchClaim> {
    vec![
        share_of(pins, "a third of vmsplice", "of the call", OF_CALL, |s| s.call_ns),
        share_of(
            pins,
            "18% of a transfer by vmsplice and splice",
            "of call and emptying together, with one thread",
            OF_TRANSFER,
            PinSample::whole_ns,
        ),
        huge_is_cheaper(pins, ratios),
    ]
}

fn share_of(
    pins: &PinBenchReport,
    what: &str,
    of: &str,
    published: f64,
    figure: fn(&PinSample) -> f64,
) -> BenchClaim {
    let claim = format!("{what} is finding and holding base pages");
    let lent = pins.curve(PinWay::Vmsplice, PageKind::Base).into_iter();
    let lent = lent.filter(|point| !point.samples.is_empty());
    let Some(point) = lent.min_by_key(|p| p.size_bytes.0.abs_diff(PUBLISHED_PIECE.0)) else {
        return BenchClaim::judged(
            claim,
            ClaimEvidence::Nothing,
            "vmsplice was not measured on base pages",
        );
    };
    let shares = shares(pins, point, figure).values();
    let logs: Vec<f64> =
        shares.iter().filter(|share| **share > 0.0).map(|share| share.ln()).collect();
    // A share that is not above zero in some repeats is lost in noise.
    let share = paired_figure(&logs, "repeats of both").filter(|_| logs.len() == shares.len());
    let Some(share) = share else {
        let why =
            positive_median(&shares).map(|_| "in some repeats the difference is not above zero");
        let why = why.map_or_else(|missing| missing, str::to_owned);
        return BenchClaim::judged(claim, ClaimEvidence::Nothing, why);
    };
    let why = format!(
        "{:.0}% {of}, pieces of {}{}",
        share.estimate * 100.0,
        point.size_bytes,
        interval_text(&share.interval)
    );
    BenchClaim::judged(claim, ClaimEvidence::figure(share.about(published, SAME)), why)
}

fn huge_is_cheaper(pins: &PinBenchReport, ratios: &[PinRatio]) -> BenchClaim {
    let claim = "huge pages are cheaper to find and hold: one entry covers many";
    let Some(found) = ratios.iter().find(|r| (r.way, r.pages) == (PinWay::Vmsplice, PageKind::Thp))
    else {
        return BenchClaim::judged(
            claim,
            ClaimEvidence::Nothing,
            "vmsplice was not measured on both",
        );
    };
    let why = format!(
        "by vmsplice and splice: {:.2} of a base page{}",
        found.ratio,
        interval_text(&found.interval)
    );
    BenchClaim::judged(claim, ClaimEvidence::figure(figure(pins, found).below(1.0)), why)
}

fn figure(pins: &PinBenchReport, ratio: &PinRatio) -> ClaimFigure {
    ClaimFigure::new(ratio.ratio, ratio.interval.clone(), u64::from(pins.repeats))
}

/// Three sentences of advice. A sentence gives the reason if there is no answer.
fn advice(
    pins: &PinBenchReport,
    prices: &[PinPrice],
    ratios: &[PinRatio],
    shares: &[PinShare],
) -> Vec<String> {
    vec![
        page_advice(pins, ratios, shares),
        call_advice(pins, prices),
        register_advice(pins, prices),
    ]
}

fn page_advice(pins: &PinBenchReport, ratios: &[PinRatio], shares: &[PinShare]) -> String {
    let base = shares.iter().filter(|share| share.pages == PageKind::Base);
    let usual = base.min_by_key(|share| share.size_bytes.0.abs_diff(USUAL.0));
    let share = usual.and_then(|share| share.of_transfer_share.known());
    let part = share.map_or_else(String::new, |share| {
        format!("; on base pages {:.0}% of it is finding and holding them", share * 100.0)
    });
    let of_way = ratios.iter().filter(|r| r.way == PinWay::Vmsplice);
    match BestWay::smallest(of_way.map(|r| (r, figure(pins, r).below(WORTH)))) {
        BestWay::Proven(best, _) => format!(
            "Pass huge pages to pipes: with vmsplice and splice a page on {} takes {}{part}.",
            best.pages.name(),
            less_text(" time", best.ratio, &best.interval)
        ),
        BestWay::Open(best, figure) => format!(
            "Whether to use huge pages because of pinning: open. On {} a page takes {:.2} times as long{}{}{part}.",
            best.pages.name(),
            best.ratio,
            interval_text(&best.interval),
            to_settle(&figure)
        ),
        BestWay::No(_) => format!(
            "Do not use huge pages only because of pinning: they save less than a tenth per page{part}."
        ),
        BestWay::Unmeasured => {
            "Whether to pin huge pages: not measured. Only one page size has figures.".to_owned()
        }
    }
}

/// The price of a way on base pages.
fn on_base(prices: &[PinPrice], way: PinWay) -> Option<&PinPrice> {
    prices.iter().find(|price| (price.way, price.pages) == (way, PageKind::Base))
}

fn call_advice(pins: &PinBenchReport, prices: &[PinPrice]) -> String {
    let price = on_base(prices, PinWay::Vmsplice).or_else(|| on_base(prices, PinWay::ReadOwn));
    let Some(price) = price else {
        return "No verdict on the size of a call: no way was measured on base pages.".to_owned();
    };
    match (&price.page_ns, &price.call_ns) {
        (Fact::Known(page), Fact::Known(call)) => {
            let count = (call.median / page.median / SMALL).ceil().max(1.0);
            let size = Bytes((count * pins.base_page_bytes.bytes() as f64) as u64);
            format!(
                "Pin at least {size} per call of {}: a call costs {:.0} ns plus {:.1} ns per page, so from that size on the call itself is less than a tenth.",
                price.way.into_str(),
                call.median,
                page.median
            )
        }
        (Fact::Missing(why), _) | (_, Fact::Missing(why)) => {
            format!("No verdict on the size of a call: {}: {why}.", price.way.into_str())
        }
    }
}

fn register_advice(pins: &PinBenchReport, prices: &[PinPrice]) -> String {
    let known = |way| {
        let price = on_base(prices, way)?;
        Some((price.page_ns.known()?.median, price.call_ns.known().map_or(0.0, |c| c.median)))
    };
    let pages = USUAL.pages(pins.base_page_bytes) as f64;
    match (known(PinWay::Register), known(PinWay::GupTest).or_else(|| known(PinWay::Vmsplice))) {
        (Some((page, call)), Some((each, _))) => {
            let (once, spared) = (call + page * pages, each * pages);
            format!(
                "Register a buffer of {USUAL} with io_uring if you use it {:.0} times or more: on base pages, registering costs {:.1} us, and pinning it each time {:.1} us.",
                (once / spared).ceil().max(1.0),
                once / 1e3,
                spared / 1e3
            )
        }
        (Some((page, call)), None) => format!(
            "Allow {:.1} us for registering a buffer of {USUAL} with io_uring on base pages; the cost of pinning it each time is not known here.",
            (call + page * pages) / 1e3
        ),
        (None, _) => "No verdict on registered buffers: their price is not known here.".to_owned(),
    }
}

#[cfg(test)]
mod tests;
