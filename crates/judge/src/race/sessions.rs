//! Plain runs of two sessions: how the program's time changed from one to the other.

use super::verdict::{NORMAL_95, drift};
use super::{mean_and_squares, shrunk};
use pagewise_model::Nanos;
use pagewise_model::trial::Ratio;

/// The time ratio, `second` / `first`, with a 95% interval: each run's noise, and the drift of a machine
/// from one session to another (docs/decisions/010). None without two runs in each.
#[must_use]
pub fn between_sessions(first: &[Nanos], second: &[Nanos]) -> Option<Ratio> {
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    // Mean of the logarithms, and its variance.
    let typical = |times: &[Nanos]| {
        let logs: Vec<f64> = times.iter().map(|time| (time.0.max(1) as f64).ln()).collect();
        let (mean, squares) = mean_and_squares(&logs);
        let runs = logs.len() as f64;
        (mean, shrunk(squares, runs - 1.0) / runs)
    };
    let (before, after) = (typical(first), typical(second));
    let change = after.0 - before.0;
    let half = NORMAL_95 * (before.1 + after.1).sqrt().hypot(drift(change));
    Some(Ratio {
        ratio: change.exp(),
        ratio_low: (change - half).exp(),
        ratio_high: (change + half).exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(ms: &[u64]) -> Vec<Nanos> {
        ms.iter().map(|ms| Nanos::millis(*ms)).collect()
    }

    #[test]
    fn a_change_beyond_noise_and_drift_is_seen() {
        let before = runs(&[100, 101, 99, 100, 102, 98]);
        let after = runs(&[80, 81, 79, 80, 82, 78]);
        let change = between_sessions(&before, &after).unwrap();
        assert!(change.ratio_high < 0.87 && 0.75 < change.ratio_low, "{change:?}");
        let none = between_sessions(&before, &before).unwrap();
        assert!(none.ratio_low < 0.97 && 1.03 < none.ratio_high, "drift: {none:?}");
        assert_eq!(between_sessions(&before, &runs(&[80])), None);
    }
}
