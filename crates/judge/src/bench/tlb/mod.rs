//! What walks through memory show: what larger pages are worth at each set size and whether that holds in the
//! next run, where translations run out and which claims of the processor hold, how a host backs huge pages,
//! and what to do on this machine.
//!
//! The entry is [`judge`]. It is pure, so saved walks are judged again with the same result. Samples of one
//! repeat were taken in the same round, some seconds apart, and are paired.
//!
//! Repeats of larger pages against base pages give the Hodges-Lehmann estimate of their ratio with its exact
//! interval. The width of that interval shows whether the next run will agree: a run's median lies anywhere
//! in it. If it is wide, the samples themselves show why. If pieces of one walk differ as much as whole
//! mappings do, the cause is a disturbance. If pieces agree while mappings differ, it is the placement of the
//! pages.
//!
//! Not seen: which of two TLBs of equal size has run out, and the cost that a processor hides if loads do not
//! depend on each other.

pub(crate) mod claims;
pub(crate) mod knees;

use crate::bench::best::to_settle;
use crate::bench::larger::{AccessWording, SizeComparison, page_advice as page_advice_of};
use crate::stats::paired_ratio;
use claims::ProcessorClaims;
use knees::{CurvePoint, TranslationCurve, find};
use pagewise_model::bench::tlb::{
    AccessOrder, LINE, RatioSteadiness, TlbBenchReport, TlbJudgement, TlbKnee, TlbPath, TlbPoint,
    TlbRatio,
};
use pagewise_model::bench::{ClaimAnswer, ClaimFigure, PageKind, RepeatSeries};
use pagewise_model::measured::median;
use pagewise_model::{Bytes, Fact};

/// Lines at base-page distance on huge pages are compared only if they span at most this many huge pages,
/// which any first level holds, and more base pages than any first level holds.
const MOST_HUGE_PAGES: u64 = 16;

/// A ratio whose relative interval is wider than this may differ in the next run.
const STEADY: f64 = 0.05;
/// Pieces of one walk that differ by at least this share of what mappings differ by are the reason.
const SAME: f64 = 0.5;
/// The range of ten normal values is about three times their deviation.
const HALF_RANGE: f64 = 1.54;

/// Cores together this much faster than one are worth the threads.
const MORE: f64 = 1.3;

/// All conclusions from `walks`.
#[must_use]
pub fn judge(walks: &TlbBenchReport) -> TlbJudgement {
    let ratios = ratios(walks);
    let curves: Vec<TranslationCurve> =
        distances(walks).into_iter().map(|at| curve(walks, at)).collect();
    let knees: Vec<TlbKnee> = curves.iter().flat_map(find).collect();
    let claimed = |page| walks.serving_loads(page).collect::<Vec<_>>();
    let claims = ProcessorClaims {
        unit: "load",
        is_hidden: false,
        pages: [walks.base_page_bytes, walks.huge_page_bytes],
        by_page: &claimed,
    }
    .beside(&curves, &knees);
    let huge_translation_share = huge_translation_share(walks, &curves);
    let advice = advice(walks, &ratios, (&curves, &knees));
    TlbJudgement { ratios, knees, claims, huge_translation_share, advice }
}

/// Larger pages against base pages, lists in their order, by growing set.
fn ratios(walks: &TlbBenchReport) -> Vec<TlbRatio> {
    let mut ratios = Vec::new();
    for path in walks.lists() {
        for base in walks.curve(path, PageKind::Base) {
            let larger = PageKind::LARGER.map(|kind| walks.find(path, kind, base.elements));
            ratios.extend(larger.into_iter().flatten().filter_map(|larger| ratio(base, larger)));
        }
    }
    ratios
}

fn ratio(base: &TlbPoint, larger: &TlbPoint) -> Option<TlbRatio> {
    let samples = [base, larger].into_iter().flat_map(|p| &p.samples);
    let logs = larger.loads().log_ratios(&base.loads());
    let JudgedRatio { ratio, interval, steadiness } =
        JudgedRatio::from_logs(&logs, samples.map(|s| s.within_share))?;
    let (path, pages, set_bytes) = (base.path, larger.pages, base.set_bytes());
    Some(TlbRatio { path, pages, set_bytes, ratio, interval, steadiness })
}

/// Larger pages against base pages, without what they are about.
pub(crate) struct JudgedRatio {
    pub(crate) ratio: f64,
    pub(crate) interval: Fact<(f64, f64)>,
    pub(crate) steadiness: RatioSteadiness,
}

impl JudgedRatio {
    /// From the logarithms of the ratio, repeat by repeat, and the range of the pieces within each sample.
    pub(crate) fn from_logs(
        logs: &[f64],
        within_shares: impl Iterator<Item = f64>,
    ) -> Option<Self> {
        let (ratio, interval) = paired_ratio(logs, "mappings of both")?;
        let within = |(low, high): &(f64, f64)| high / low;
        let width = interval.known().map_or_else(|| range(logs).exp(), within) - 1.0;
        let is_steady = width <= STEADY;
        let steadiness =
            if is_steady { RatioSteadiness::Steady } else { reason(within_shares, logs) };
        Some(Self { ratio, interval, steadiness })
    }
}

/// From the smallest to the largest.
fn range(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least
}

/// Why mappings differ.
fn reason(within_shares: impl Iterator<Item = f64>, logs: &[f64]) -> RatioSteadiness {
    let between = range(logs) / 2.0 / HALF_RANGE;
    let shares = within_shares.map(|share| share / HALF_RANGE);
    let within = median(&shares.collect::<Vec<f64>>()).unwrap_or(0.0);
    if within >= SAME * between { RatioSteadiness::Disturbed } else { RatioSteadiness::Placement }
}

/// Distance of lines that have a page each, smallest pages first.
fn distances(walks: &TlbBenchReport) -> Vec<(PageKind, Bytes)> {
    let apart = |p: &TlbPoint| match p.path {
        TlbPath::Lines { apart_bytes } if p.path != TlbPath::PACKED => Some((p.pages, apart_bytes)),
        _ => None,
    };
    let mut all: Vec<(PageKind, Bytes)> = walks.points.iter().filter_map(apart).collect();
    // A huge page each, or a base page each: not base pages' distance on huge pages.
    let own = |(kind, apart): &(PageKind, Bytes)| {
        *kind == PageKind::Base || apart.0 >= walks.huge_page_bytes.bytes()
    };
    all.retain(own);
    all.sort_unstable();
    all.dedup();
    all
}

/// The curve of one kind of page at one distance, beside packed lines, on whichever pages they were walked.
fn curve(walks: &TlbBenchReport, (pages, apart_bytes): (PageKind, Bytes)) -> TranslationCurve {
    let of = |path, pages| -> Vec<(u64, RepeatSeries)> {
        walks.curve(path, pages).into_iter().map(|p| (p.elements, p.loads())).collect()
    };
    let packed = PageKind::ALL.into_iter().map(|kind| of(TlbPath::PACKED, kind));
    let packed = packed.into_iter().find(|curve| !curve.is_empty()).unwrap_or_default();
    TranslationCurve::from_points(
        (pages, apart_bytes),
        &of(TlbPath::Lines { apart_bytes }, pages),
        &packed,
    )
}

/// Cost of translation on huge pages over that on base pages, at the largest number of lines that a few
/// huge pages hold.
fn huge_translation_share(walks: &TlbBenchReport, curves: &[TranslationCurve]) -> Fact<f64> {
    let Some(base) = curves.iter().find(|curve| curve.pages == PageKind::Base) else {
        return Fact::missing("no lines on base pages");
    };
    let huge = curve(walks, (PageKind::Thp, base.apart_bytes));
    let most = MOST_HUGE_PAGES * walks.huge_page_bytes.bytes() / base.apart_bytes.0.max(1);
    let on_base = |step| base.steps.iter().find(|other: &&CurvePoint| other.pages == step);
    let few = huge.steps.iter().rev().filter(|step| step.pages <= most);
    let both = few.filter_map(|step| Some((step, on_base(step.pages)?))).next();
    let Some((huge, base)) = both else {
        return Fact::missing("no lines on huge pages at the distance of base pages");
    };
    // Below this the difference that is looked for drowns in noise.
    let seen = 4.0 * (huge.noise_ns + base.noise_ns);
    if base.extra_ns <= seen.max(0.1 * base.load_ns) {
        return Fact::missing("translation of base pages costs too little here for a verdict");
    }
    Fact::Known((huge.extra_ns / base.extra_ns).max(0.0))
}

/// Three sentences of advice. A sentence gives the reason if there is no answer.
fn advice(
    walks: &TlbBenchReport,
    ratios: &[TlbRatio],
    (curves, knees): (&[TranslationCurve], &[TlbKnee]),
) -> Vec<String> {
    vec![page_advice(walks, ratios), together(walks, curves, knees), scans(walks)]
}

/// The list that the first sentence is about: random, one line to an element if that was walked.
fn usual(ratios: &[TlbRatio]) -> Option<TlbPath> {
    let random = |r: &&TlbRatio| matches!(r.path, TlbPath::List { order: AccessOrder::Random, .. });
    let distance = |path: &TlbPath| path.pitch().0.abs_diff(LINE.0);
    ratios.iter().filter(random).map(|r| r.path).min_by_key(distance)
}

fn page_advice(walks: &TlbBenchReport, ratios: &[TlbRatio]) -> String {
    const LOADS: AccessWording = AccessWording {
        what: "data that you read at random",
        how: |pages| if pages == PageKind::Thp { "MADV_HUGEPAGE" } else { "the reserved pool" },
        all: "dependent random loads",
        one: "a load",
    };
    let path = usual(ratios);
    let here = ratios.iter().filter(|r| Some(r.path) == path).map(|r| SizeComparison {
        bytes: r.set_bytes,
        pages: r.pages,
        ratio: r.ratio,
        interval: &r.interval,
        steadiness: r.steadiness,
    });
    page_advice_of(&LOADS, &here.collect::<Vec<_>>(), walks.repeats)
}

fn together(walks: &TlbBenchReport, curves: &[TranslationCurve], knees: &[TlbKnee]) -> String {
    let base: Vec<&TlbKnee> = knees.iter().filter(|k| k.pages == PageKind::Base).collect();
    let reach =
        |knee: &TlbKnee| Bytes(knee.about_pages.saturating_mul(walks.base_page_bytes.bytes()));
    let cost = |knee: &TlbKnee| format!("{:.1} ns", knee.to_ns - knee.from_ns);
    match base.as_slice() {
        _ if knees::is_thin(curves) => knees::no_end(curves, "of data"),
        [] => knees::no_end(curves, "of data"),
        [one] => format!(
            "Keep data that is used together on at most {} base pages ({}): beyond that, each load on another page costs {} more.",
            one.about_pages,
            reach(one),
            cost(one)
        ),
        [first, .., last] => format!(
            "Keep data that is used together on at most {} base pages ({}), or {} ({}) at {} more per load on another page; beyond that, another {} more.",
            first.about_pages,
            reach(first),
            last.about_pages,
            reach(last),
            cost(first),
            cost(last)
        ),
    }
}

fn scans(walks: &TlbBenchReport) -> String {
    let (one, all) = (&walks.bandwidth.one.read_gib_per_s, &walks.bandwidth.all.read_gib_per_s);
    let cpus = walks.bandwidth.cpus;
    match (one.known(), all.known()) {
        (Some(one), Some(all)) => {
            let figure = ClaimFigure::over(all, one).above(MORE);
            let rates = format!(
                "together they read {:.1} GiB/s, a single core {:.1}",
                all.median, one.median
            );
            match figure.answer() {
                ClaimAnswer::Confirmed => {
                    format!("Split scans of memory over the {cpus} cores: {rates}.")
                }
                ClaimAnswer::Refuted => {
                    format!(
                        "Do not split scans of memory over the {cpus} cores for speed: {rates}."
                    )
                }
                ClaimAnswer::CannotTell => format!(
                    "Whether scans of memory should be split over the {cpus} cores: open. Now {rates}{}.",
                    to_settle(&figure)
                ),
            }
        }
        (Some(one), None) => format!(
            "Take {:.1} GiB/s as the ceiling for reading memory here: only one core may be used.",
            one.median
        ),
        (None, _) => format!(
            "Whether scans should be split over cores: not measured. {}.",
            one.reason().unwrap_or("no bandwidth has a figure")
        ),
    }
}

#[cfg(test)]
mod tests;
