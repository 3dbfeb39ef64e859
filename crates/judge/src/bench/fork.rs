//! What measurements of fork show: its price for each GiB that the parent has touched, what the parent's
//! later writes cost, and how huge pages change both.
//!
//! The entry is [`judge`]. It is pure, so saved measurements are judged again with the same result. Samples
//! of one repeat were taken in the same round and are paired. A price is a line through the smallest and the
//! largest size. Its slope is the price of memory, and the remainder at the smallest size is the price of the
//! call.

use crate::stats::{is_below, less_text, paired_ratio};
use pagewise_model::bench::fork::{
    ForkBenchReport, ForkJudgement, ForkPoint, ForkPrice, ForkRatio, ForkSample,
};
use pagewise_model::bench::{PageKind, RepeatSeries};
use pagewise_model::{Bytes, Fact, Measured, Nanos};

/// Below this ratio larger pages are worth asking for.
const WORTH: f64 = 0.8;

/// All conclusions from `forks`.
#[must_use]
pub fn judge(forks: &ForkBenchReport) -> ForkJudgement {
    let used = |kind: &PageKind| forks.points.iter().any(|point| point.pages == *kind);
    let prices: Vec<ForkPrice> =
        PageKind::ALL.into_iter().filter(used).map(|kind| price(forks, kind)).collect();
    let ratios: Vec<ForkRatio> =
        PageKind::LARGER.into_iter().filter_map(|kind| ratio(forks, kind)).collect();
    let advice =
        vec![fork_advice(&prices, &ratios), write_advice(&prices, &ratios), spawn_advice(&prices)];
    ForkJudgement { prices, ratios, advice }
}

/// The points of a kind that have samples, by growing size.
fn measured(forks: &ForkBenchReport, pages: PageKind) -> Vec<&ForkPoint> {
    forks.curve(pages).into_iter().filter(|point| !point.samples.is_empty()).collect()
}

fn price(forks: &ForkBenchReport, pages: PageKind) -> ForkPrice {
    let points = measured(forks, pages);
    let (gib_ns, call_ns) = match points.as_slice() {
        [small, .., large] => line(small, large),
        [_] => missing("a price for each GiB needs two sizes"),
        [] => missing(&why(forks, pages)),
    };
    let write = points.last().and_then(|point| point.write_ns(forks.base_page_bytes));
    let write_ns = write.map_or_else(|| Fact::missing(why(forks, pages)), Fact::Known);
    ForkPrice { pages, gib_ns, call_ns, write_ns }
}

fn missing(why: &str) -> (Fact<Measured>, Fact<Measured>) {
    (Fact::missing(why), Fact::missing(why))
}

/// Why nothing was measured on these pages.
fn why(forks: &ForkBenchReport, pages: PageKind) -> String {
    let refused = forks.curve(pages).into_iter().find_map(|point| point.refused.clone());
    refused.unwrap_or_else(|| "not measured".to_owned())
}

/// What each further GiB takes, and what remains for the call, for each repeat.
fn line(small: &ForkPoint, large: &ForkPoint) -> (Fact<Measured>, Fact<Measured>) {
    let [few, many] =
        [small, large].map(|point| point.size_bytes.0 as f64 / Bytes::gib(1).0 as f64);
    let [least, most] = [small, large].map(|point| point.series(|sample| sample.fork_ns));
    let gib = most.paired(&least, |most, least| (most - least) / (many - few));
    let call = least.paired(&gib, |least, gib| least - gib * few);
    (above_zero(&gib), above_zero(&call))
}

fn above_zero(series: &RepeatSeries) -> Fact<Measured> {
    match series.measured() {
        Some(measured) if measured.median > 0.0 => Fact::Known(measured),
        Some(measured) => {
            Fact::missing(format!("the difference is {:.0} ns, not above zero", measured.median))
        }
        None => Fact::missing("no round has both sizes"),
    }
}

/// Larger pages against base pages, at the largest size of both.
fn ratio(forks: &ForkBenchReport, pages: PageKind) -> Option<ForkRatio> {
    let base = measured(forks, PageKind::Base);
    let (larger, base) = measured(forks, pages).into_iter().rev().find_map(|larger| {
        let beside = base.iter().find(|point| point.size_bytes == larger.size_bytes)?;
        Some((larger, *beside))
    })?;
    let of = |figure: fn(&ForkSample) -> f64| {
        paired_ratio(&larger.series(figure).log_ratios(&base.series(figure)), "repeats of both")
    };
    let (fork_ratio, fork_interval) = of(|sample| sample.fork_ns)?;
    let (writes_ratio, writes_interval) = of(|sample| sample.writes_ns)?;
    let size_bytes = larger.size_bytes;
    Some(ForkRatio { pages, size_bytes, fork_ratio, fork_interval, writes_ratio, writes_interval })
}

fn of_kind(prices: &[ForkPrice], pages: PageKind) -> Option<&ForkPrice> {
    prices.iter().find(|price| price.pages == pages)
}

fn fork_advice(prices: &[ForkPrice], ratios: &[ForkRatio]) -> String {
    let known = |pages| of_kind(prices, pages).and_then(|price| price.gib_ns.known());
    let Some(base) = known(PageKind::Base) else {
        return "No price of a fork was found on base pages.".to_owned();
    };
    let base = Nanos::from_f64(base.median);
    let thp = ratios.iter().find(|ratio| ratio.pages == PageKind::Thp);
    match (thp, known(PageKind::Thp)) {
        (Some(ratio), Some(huge)) if is_below(&ratio.fork_interval, WORTH) => format!(
            "Put the heap of a parent that forks on huge pages (`pagewise run --with heap-huge`): a fork stops it \
             for {} for each GiB, {base} on base pages ({}).",
            Nanos::from_f64(huge.median),
            less_text(&format!(" at {}", ratio.size_bytes), ratio.fork_ratio, &ratio.fork_interval)
        ),
        _ => format!(
            "A fork stops the parent for {base} for each GiB that it has touched on base pages; huge pages are \
             not proven to change that here."
        ),
    }
}

fn spawn_advice(prices: &[ForkPrice]) -> String {
    let base = of_kind(prices, PageKind::Base).and_then(|price| price.gib_ns.known());
    let spared = base.map_or_else(
        || "how much time that spares was not measured".to_owned(),
        |base| format!("that spares {} for each GiB on base pages", Nanos::from_f64(base.median)),
    );
    format!(
        "Start other programs by posix_spawn or vfork, which share the memory until exec: {spared}."
    )
}

fn write_advice(prices: &[ForkPrice], ratios: &[ForkRatio]) -> String {
    let base = of_kind(prices, PageKind::Base).and_then(|price| price.write_ns.known());
    let Some(base) = base else {
        return "No price of a write after a fork was found on base pages.".to_owned();
    };
    let base = Nanos::from_f64(base.median);
    let less = ratios.iter().find(|ratio| is_below(&ratio.writes_interval, 1.0));
    match less {
        Some(ratio) => format!(
            "While the child lives, each first write of the parent to a base page costs {base}; on {} it is {:.2} \
             of that.",
            ratio.pages.name(),
            ratio.writes_ratio
        ),
        None => format!(
            "While the child lives, each first write of the parent to a base page costs {base}, and no less on \
             huge pages: end the child early, or write little meanwhile."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::PageSize;

    /// Forks that take `per_gib` ns on each kind plus 50 us, with 10 repeats that differ by a percent.
    fn forks(kinds: &[(PageKind, f64)]) -> ForkBenchReport {
        let point = |pages: PageKind, per_gib: f64, size: Bytes| {
            let mut point = ForkPoint::new(pages, size);
            point.samples = (0..10)
                .map(|repeat| {
                    let gib = size.0 as f64 / Bytes::gib(1).0 as f64;
                    let noise = 1.0 + 0.001 * f64::from(repeat);
                    let fork_ns = (50_000.0 + per_gib * gib) * noise;
                    let writes_ns = 500.0 * size.0 as f64 / 4e3 * noise;
                    ForkSample { repeat, place: repeat, fork_ns, writes_ns, write_faults: 1 }
                })
                .collect();
            point
        };
        let sizes = [Bytes::mib(16), Bytes::mib(256)];
        let base = PageSize::new(1 << 12).unwrap();
        ForkBenchReport {
            seed: 1,
            repeats: 10,
            quick: false,
            cpu: 0,
            base_page_bytes: base,
            huge_page_bytes: PageSize::new(1 << 21).unwrap(),
            points: kinds
                .iter()
                .flat_map(|(kind, ns)| sizes.map(|s| point(*kind, *ns, s)))
                .collect(),
            unavailable: vec![],
            judgement: None,
        }
    }

    #[test]
    fn a_price_is_a_line_over_the_size() {
        let judged = judge(&forks(&[(PageKind::Base, 8e6), (PageKind::Thp, 2e5)]));
        let gib = |at: usize| judged.prices[at].gib_ns.known().unwrap().median;
        assert!((gib(0) / 8e6 - 1.0).abs() < 0.02 && (gib(1) / 2e5 - 1.0).abs() < 0.02);
        let call = judged.prices[0].call_ns.known().unwrap().median;
        assert!((call / 50_000.0 - 1.0).abs() < 0.02, "{call}");
        let ratio = &judged.ratios[0];
        assert!(ratio.fork_ratio < 0.1 && (ratio.writes_ratio - 1.0).abs() < 1e-9);
        assert!(judged.advice[0].contains("heap-huge"), "{:?}", judged.advice);
        assert!(judged.advice[0].contains("8.0 ms on base pages (9"), "{:?}", judged.advice);
        assert!(judged.advice[2].contains("spares 8.0 ms for each GiB"), "{:?}", judged.advice);
        assert!(judged.advice[1].contains("no less"), "{:?}", judged.advice);
    }

    #[test]
    fn what_is_missing_says_why() {
        let mut one = forks(&[(PageKind::Base, 8e6)]);
        one.points.truncate(1);
        let judged = judge(&one);
        assert!(judged.prices[0].gib_ns.reason().unwrap().contains("two sizes"));
        assert!(judged.ratios.is_empty());
        one.points[0].samples.clear();
        one.points[0].refused = Some("no memory".to_owned());
        assert_eq!(judge(&one).prices[0].gib_ns.reason(), Some("no memory"));
        assert!(judge(&one).advice[0].contains("No price"));
    }
}
