//! A ratio of times that were taken in pairs.

use super::walsh::shift;
use pagewise_model::Fact;
use pagewise_model::measured::median;

/// The ratio that the logarithms of all pairs show, with its exact 95% interval: the Hodges-Lehmann
/// estimate, or the median where there are too few pairs for an interval. `None` without pairs, or when
/// one is not finite.
pub(crate) fn paired_ratio(logs: &[f64]) -> Option<(f64, Fact<(f64, f64)>)> {
    let (estimate, interval) = match shift(logs) {
        Some(s) => (s.estimate, Fact::Known((s.low.exp(), s.high.exp()))),
        None => (median(logs)?, Fact::missing("fewer than 6 mappings of both")),
    };
    let ratio = estimate.exp();
    ratio.is_finite().then_some((ratio, interval))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_have_no_interval_and_many_have() {
        let logs = [0.5_f64.ln(), 0.4_f64.ln(), 0.6_f64.ln()];
        let (ratio, interval) = paired_ratio(&logs).unwrap();
        assert!((ratio - 0.5).abs() < 1e-12 && interval.reason().is_some());
        let (ratio, interval) = paired_ratio(&[2.0_f64.ln(); 8]).unwrap();
        let (low, high) = *interval.known().unwrap();
        assert!([ratio, low, high].iter().all(|r| (r - 2.0).abs() < 1e-12));
        assert!(paired_ratio(&[]).is_none() && paired_ratio(&[f64::NAN; 9]).is_none());
    }
}
