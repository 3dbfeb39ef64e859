//! Two modes in a series of times: the same arm running at two speeds.
//!
//! Page placement, frequency steps and host decisions give a program two speeds rather than one
//! with noise. The sorted values are split in two where the squares within the parts are least
//! (two means in one dimension, solved exactly). The split counts only if the parts are far
//! apart for their width, if nothing lies between them, and if both are more than a few strays;
//! that is conservative: modes that overlap are not seen.

use pagewise_model::measured::mean;

/// Modes are searched only from this many values on.
const LEAST_VALUES: usize = 8;
/// Distance of the means, in standard deviations within the parts. The best split of uniform values has 3.5,
/// of normal values 2.7.
const LEAST_SEPARATION: f64 = 6.0;
/// Empty space between the parts, as a share of the distance of their means.
const LEAST_GAP_SHARE: f64 = 0.5;
/// Distance below which two speeds are of no interest, in logarithms (2%).
const LEAST_DISTANCE: f64 = 0.02;

/// Two speeds of one arm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BimodalTimes {
    /// Mean of the lower mode, in the unit of the values.
    pub low: f64,
    /// Mean of the upper mode.
    pub high: f64,
    /// Share of the values in the upper mode.
    pub high_share: f64,
    /// Changes from one mode to the other in the order given.
    pub switches: usize,
}

/// Looks for two modes in `values`, logarithms of times in the order they were measured.
#[must_use]
pub fn find_two_modes(values: &[f64]) -> Option<BimodalTimes> {
    if values.len() < LEAST_VALUES || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let smallest_part = 3.max(sorted.len() / 5);
    let (cut, within) = (smallest_part..=sorted.len() - smallest_part)
        .map(|cut| (cut, squares(&sorted[..cut]) + squares(&sorted[cut..])))
        .min_by(|a, b| a.1.total_cmp(&b.1))?;
    let (low, high) = (mean(&sorted[..cut]), mean(&sorted[cut..]));
    let distance = high - low;
    let width = (within / (sorted.len() - 2) as f64).sqrt();
    let gap = sorted[cut] - sorted[cut - 1];
    let apart = distance >= LEAST_SEPARATION * width
        && gap >= LEAST_GAP_SHARE * distance
        && distance >= LEAST_DISTANCE;
    apart.then(|| {
        let border = f64::midpoint(sorted[cut - 1], sorted[cut]);
        let upper: Vec<bool> = values.iter().map(|v| *v > border).collect();
        BimodalTimes {
            low,
            high,
            high_share: (sorted.len() - cut) as f64 / sorted.len() as f64,
            switches: upper.windows(2).filter(|pair| pair[0] != pair[1]).count(),
        }
    })
}

fn squares(values: &[f64]) -> f64 {
    let centre = mean(values);
    values.iter().map(|v| (v - centre).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    #[test]
    fn two_speeds_are_found_with_their_shares() {
        let mut rng = Rng::new(11);
        let values: Vec<f64> =
            (0..30).map(|i| 0.01 * rng.normal() + if i % 3 == 0 { 0.3 } else { 0.0 }).collect();
        let modes = find_two_modes(&values).unwrap();
        assert!((modes.high - modes.low - 0.3).abs() < 0.02);
        assert!((modes.high_share - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(modes.switches, 19);
    }

    #[test]
    fn one_speed_rarely_looks_like_two() {
        let mut rng = Rng::new(12);
        let mut alarms = 0;
        for round in 0..2000 {
            let n = 8 + rng.below(40) as usize;
            let values: Vec<f64> = (0..n)
                .map(|_| if round % 2 == 0 { 0.05 * rng.normal() } else { 0.2 * rng.uniform() })
                .collect();
            alarms += usize::from(find_two_modes(&values).is_some());
        }
        assert!(alarms <= 10, "{alarms} of 2000");
    }

    #[test]
    fn strays_and_short_series_are_no_mode() {
        assert_eq!(find_two_modes(&[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), None);
        let mut values = vec![0.0; 20];
        values[3] = 0.5;
        assert_eq!(find_two_modes(&values), None);
    }
}
