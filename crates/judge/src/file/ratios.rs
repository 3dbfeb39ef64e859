//! Every way against read() of the same blocks, from the first call to the last.
//!
//! Both were read in every round, so repeats of one number are paired: their log ratios give the
//! Hodges-Lehmann estimate with its exact interval.

use crate::stats::shift;
use pagewise_model::Fact;
use pagewise_model::file::{Arm, Point, Ratio, Readings, Refusal};
use pagewise_model::measured::median;

/// All ratios of points that did equal work.
pub(super) fn ratios(readings: &Readings, refusals: &[Refusal]) -> Vec<Ratio> {
    let is_refused = |at: usize| refusals.iter().any(|refusal| refusal.point == at);
    let against_read = |(at, point): (usize, &Point)| {
        let (base, read) = readings.find(&point.cell.by(Arm::Read))?;
        if base == at || is_refused(at) || is_refused(base) {
            return None;
        }
        ratio((at, point), (base, read))
    };
    readings.points.iter().enumerate().filter_map(against_read).collect()
}

fn ratio((at, point): (usize, &Point), (base, read): (usize, &Point)) -> Option<Ratio> {
    let logs: Vec<f64> = point
        .samples
        .iter()
        .filter_map(|sample| {
            let other = read.samples.iter().find(|other| other.repeat == sample.repeat)?;
            Some((sample.total_ns().0 as f64 / other.total_ns().0 as f64).ln())
        })
        .collect();
    let shifted = shift(&logs);
    let estimate = shifted.map_or_else(|| median(&logs), |s| Some(s.estimate))?.exp();
    let interval = match shifted {
        Some(s) => Fact::Known((s.low.exp(), s.high.exp())),
        None => Fact::missing("fewer than 6 repeats of both"),
    };
    estimate.is_finite().then_some(Ratio { point: at, base, ratio: estimate, interval })
}
