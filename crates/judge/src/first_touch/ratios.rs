//! Each way against its baseline, with as many threads.

use crate::stats::paired_ratio;
use pagewise_model::first_touch::{FirstTouch, Part, Point, Ratio, Way};

/// All ratios, in the order of the points.
pub(super) fn ratios(touches: &FirstTouch) -> Vec<Ratio> {
    let of = |point: &Point| {
        let baseline = point.way.baseline();
        if point.is(baseline, 1, point.threads) {
            return None;
        }
        ratio(point, touches.find(baseline, 1, point.threads)?)
    };
    touches.points.iter().filter_map(of).collect()
}

fn ratio(point: &Point, base: &Point) -> Option<Ratio> {
    let whole = |point: &Point, sample| point.page_ns_of(sample, Part::Whole);
    let pairs = point.samples.iter().filter_map(|sample| {
        let other = base.samples.iter().find(|other| other.repeat == sample.repeat)?;
        Some((whole(point, sample) / whole(base, other)).ln())
    });
    let (ratio, interval) = paired_ratio(&pairs.collect::<Vec<f64>>())?;
    Some(Ratio {
        way: point.way,
        every_pages: point.every_pages,
        threads: point.threads,
        ratio,
        interval,
    })
}

/// The ratio of a way by one thread.
pub(super) fn find(ratios: &[Ratio], way: Way, every_pages: u64) -> Option<&Ratio> {
    ratios.iter().find(|r| (r.way, r.every_pages, r.threads) == (way, every_pages, 1))
}

/// The most that the ratio is, where there is proof of it.
pub(super) fn at_most(ratio: &Ratio) -> Option<f64> {
    ratio.interval.known().map(|(_, high)| *high)
}
