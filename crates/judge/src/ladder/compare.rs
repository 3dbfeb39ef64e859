//! Which of two points is faster.
//!
//! Repeats are run in shuffled order, so that those of one number belong together by chance alone:
//! their log ratios give the Hodges-Lehmann estimate with its exact interval, from six repeats on.
//! With four or five the ranges decide: when all repeats of one point are faster than all of the
//! other, chance did it in at most 1 of 35 cases (2 in 70 orders of four and four). Below four,
//! and where ranges overlap, the answer is that nobody can tell.

use crate::stats::{Shift, shift};
use pagewise_model::Fact;
use pagewise_model::ladder::{Comparison, Pace, Point, Sample};

/// Fewest repeats with which disjoint ranges are an answer.
const LEAST_REPEATS: usize = 4;

/// Point `second` against point `first`; `None` where one has no rate.
#[must_use]
pub fn compare(first: &Point, second: &Point) -> Option<Comparison> {
    let (a, b) = (first.rate()?, second.rate()?);
    let logs = paired_logs(first, second);
    let shifted = shift(&logs);
    let ratio = shifted.map_or(b.median / a.median, |s| s.estimate.exp());
    let least = first.samples.len().min(second.samples.len());
    let pace = match shifted {
        Some(Shift { low, .. }) if low > 0.0 => Pace::Faster,
        Some(Shift { high, .. }) if high < 0.0 => Pace::Slower,
        None if least >= LEAST_REPEATS && b.min > a.max => Pace::Faster,
        None if least >= LEAST_REPEATS && b.max < a.min => Pace::Slower,
        _ => Pace::CannotTell,
    };
    let interval = match shifted {
        Some(s) => Fact::Known((s.low.exp(), s.high.exp())),
        None => Fact::missing("fewer than 6 repeats that both have"),
    };
    ratio.is_finite().then_some(Comparison { ratio, interval, pace })
}

/// ln(rate of second / rate of first) for each number of repeat that both have.
fn paired_logs(first: &Point, second: &Point) -> Vec<f64> {
    let rate = |sample: &Sample| sample.gib_per_s().filter(|rate| *rate > 0.0);
    first
        .samples
        .iter()
        .filter_map(|a| {
            let b = second.samples.iter().find(|b| b.repeat == a.repeat)?;
            Some((rate(b)? / rate(a)?).ln())
        })
        .collect()
}
