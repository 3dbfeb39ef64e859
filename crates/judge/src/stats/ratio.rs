//! A ratio of times that were taken in pairs.

use super::walsh::shift;
use pagewise_model::Fact;
use pagewise_model::bench::ClaimFigure;
use pagewise_model::measured::median;

/// The ratio from the logarithms of all pairs, with its exact 95% interval: the Hodges-Lehmann estimate. With
/// too few pairs for an interval it is the median, and the missing interval names the `pairs`. `None` without
/// pairs, or if one is not finite.
pub(crate) fn paired_ratio(logs: &[f64], pairs: &str) -> Option<(f64, Fact<(f64, f64)>)> {
    let (estimate, interval) = match shift(logs) {
        Some(s) => (s.estimate, Fact::Known((s.low.exp(), s.high.exp()))),
        None => (median(logs)?, Fact::missing(format!("fewer than 6 {pairs}"))),
    };
    let ratio = estimate.exp();
    ratio.is_finite().then_some((ratio, interval))
}

/// The same as a figure that a claim can be tested on.
pub(crate) fn paired_figure(logs: &[f64], pairs: &str) -> Option<ClaimFigure> {
    let (ratio, interval) = paired_ratio(logs, pairs)?;
    Some(ClaimFigure::new(ratio, interval, logs.len() as u64))
}

/// ` (95% interval 1.20 to 1.40)`; empty without an interval.
pub(crate) fn interval_text(interval: &Fact<(f64, f64)>) -> String {
    match interval {
        Fact::Known((low, high)) => format!(" (95% interval {low:.2} to {high:.2})"),
        Fact::Missing(_) => String::new(),
    }
}

/// `20% less time (18..22%)`, where `what` is ` time`.
pub(crate) fn less_text(what: &str, ratio: f64, interval: &Fact<(f64, f64)>) -> String {
    let percent = |ratio: f64| format!("{:.0}", 100.0 * (1.0 - ratio));
    let range = match interval {
        Fact::Known((low, high)) => format!(" ({}..{}%)", percent(*high), percent(*low)),
        Fact::Missing(_) => String::new(),
    };
    format!("{}% less{what}{range}", percent(ratio))
}

/// Whether a ratio with this interval is proven to be below `limit`.
pub(crate) fn is_below(interval: &Fact<(f64, f64)>, limit: f64) -> bool {
    interval.known().is_some_and(|(_, high)| *high < limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_have_no_interval_and_many_have() {
        let logs = [0.5_f64.ln(), 0.4_f64.ln(), 0.6_f64.ln()];
        let (ratio, interval) = paired_ratio(&logs, "of both").unwrap();
        assert!((ratio - 0.5).abs() < 1e-12);
        assert_eq!(interval.reason(), Some("fewer than 6 of both"));
        let (ratio, interval) = paired_ratio(&[2.0_f64.ln(); 8], "of both").unwrap();
        let (low, high) = *interval.known().unwrap();
        assert!([ratio, low, high].iter().all(|r| (r - 2.0).abs() < 1e-12));
        assert!(paired_ratio(&[], "").is_none() && paired_ratio(&[f64::NAN; 9], "").is_none());
    }
}
