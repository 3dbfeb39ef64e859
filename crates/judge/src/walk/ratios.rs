//! Larger pages against base pages, list by list and set by set.
//!
//! Both were walked in every round, so repeats of one number are paired: their log ratios give the
//! Hodges-Lehmann estimate with its exact interval. Whether the next run finds the same is read from the
//! width of that interval: a run's median lies anywhere in it. Where it is wide, the samples themselves
//! say why: pieces of one walk that differ as much as whole mappings do are a disturbance; pieces that
//! agree while mappings differ are the placement of the pages.

use super::paired_ns;
use crate::stats::paired_ratio;
use pagewise_model::Fact;
use pagewise_model::measured::median;
use pagewise_model::walk::{PageKind, Path, Point, Ratio, Steadiness, Walks};

/// A ratio whose interval is wider than this, relative to itself, may be another in the next run.
const STEADY: f64 = 0.05;
/// Pieces of one walk that differ by at least this share of what mappings differ by are the reason.
const SAME: f64 = 0.5;
/// The range of ten normal values is about three times their deviation.
const HALF_RANGE: f64 = 1.54;

/// All ratios, lists in their order, by growing set.
pub(super) fn ratios(walks: &Walks) -> Vec<Ratio> {
    let larger = PageKind::ALL.into_iter().filter(|kind| *kind != PageKind::Base);
    let larger: Vec<PageKind> = larger.collect();
    let mut ratios = Vec::new();
    for path in walks.lists() {
        for base in walks.curve(path, PageKind::Base) {
            let on = |kind: &PageKind| ratio(path, base, walks.find(path, *kind, base.elements)?);
            ratios.extend(larger.iter().filter_map(on));
        }
    }
    ratios
}

fn ratio(path: Path, base: &Point, larger: &Point) -> Option<Ratio> {
    let logs: Vec<f64> = paired_ns(larger, base).map(|(ns, base_ns)| (ns / base_ns).ln()).collect();
    let samples = [base, larger].into_iter().flat_map(|p| &p.samples);
    let Judged { ratio, interval, steadiness } =
        Judged::of(&logs, samples.map(|s| s.within_share))?;
    let set_bytes = base.set_bytes();
    Some(Ratio { path, pages: larger.pages, set_bytes, ratio, interval, steadiness })
}

/// Larger pages against base pages, without what they are about.
pub(crate) struct Judged {
    pub(crate) ratio: f64,
    pub(crate) interval: Fact<(f64, f64)>,
    pub(crate) steadiness: Steadiness,
}

impl Judged {
    /// From the logarithms of the ratio, repeat by repeat, and the range of the pieces within each sample.
    pub(crate) fn of(logs: &[f64], within_shares: impl Iterator<Item = f64>) -> Option<Self> {
        let (ratio, interval) = paired_ratio(logs)?;
        let within = |(low, high): &(f64, f64)| high / low;
        let width = interval.known().map_or_else(|| range(logs).exp(), within) - 1.0;
        let is_steady = width <= STEADY;
        let steadiness = if is_steady { Steadiness::Steady } else { reason(within_shares, logs) };
        Some(Self { ratio, interval, steadiness })
    }
}

/// From the smallest to the largest.
fn range(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least
}

/// Why mappings differ.
fn reason(within_shares: impl Iterator<Item = f64>, logs: &[f64]) -> Steadiness {
    let between = range(logs) / 2.0 / HALF_RANGE;
    let shares = within_shares.map(|share| share / HALF_RANGE);
    let within = median(&shares.collect::<Vec<f64>>()).unwrap_or(0.0);
    if within >= SAME * between { Steadiness::Disturbed } else { Steadiness::Placement }
}
