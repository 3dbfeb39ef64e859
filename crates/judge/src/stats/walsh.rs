//! The Hodges-Lehmann estimate of a shift, with the interval that belongs to the signed-rank
//! test.
//!
//! The averages of all pairs of values (each value with itself included) are Walsh's averages.
//! Their median is the estimate; the values of the shift that the signed-rank test does not
//! reject form an interval between two of them. The k-th of the n(n+1)/2 averages is found
//! without forming them: averages up to a bound are counted in one pass over the sorted values,
//! and the bound is bisected over the representable numbers, so the answer is exact and takes
//! 64 passes at most.

use super::signed_rank::lower_tail_count;

/// A shift with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ShiftEstimate {
    /// Hodges-Lehmann estimate.
    pub estimate: f64,
    /// Lower end of the two-sided 95% interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The estimate alone. `None` without values or if one is not finite.
#[must_use]
pub fn hodges_lehmann(values: &[f64]) -> Option<f64> {
    let sorted = sort_finite(values)?;
    let total = sorted.len() * (sorted.len() + 1) / 2;
    let upper = kth_walsh_average(&sorted, total / 2 + 1);
    if total % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(kth_walsh_average(&sorted, total / 2), upper))
}

/// The estimate and its interval. `None` below 6 values, because no 95% interval exists then.
#[must_use]
pub fn shift(values: &[f64]) -> Option<ShiftEstimate> {
    let sorted = sort_finite(values)?;
    let outside = lower_tail_count(sorted.len(), 0.025)?;
    let total = sorted.len() * (sorted.len() + 1) / 2;
    Some(ShiftEstimate {
        estimate: hodges_lehmann(&sorted)?,
        low: kth_walsh_average(&sorted, outside + 1),
        high: kth_walsh_average(&sorted, total - outside),
    })
}

fn sort_finite(values: &[f64]) -> Option<Vec<f64>> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// The `k`-th smallest (from 1) of the Walsh averages of `sorted`, which must be in ascending
/// order and finite. A `k` beyond the last gives the last, an empty slice gives NaN.
#[must_use]
pub fn kth_walsh_average(sorted: &[f64], k: usize) -> f64 {
    let (Some(first), Some(last)) = (sorted.first(), sorted.last()) else { return f64::NAN };
    let (mut low, mut high) = (order_key(*first), order_key(*last));
    while low < high {
        let mid = low + (high - low) / 2;
        if count_up_to(sorted, from_key(mid)) >= k { high = mid } else { low = mid + 1 }
    }
    from_key(high)
}

/// Walsh averages of `sorted` that are at most `bound`.
fn count_up_to(sorted: &[f64], bound: f64) -> usize {
    let mut count = 0;
    let mut end = sorted.len();
    for (start, value) in sorted.iter().enumerate() {
        while end > start && f64::midpoint(*value, sorted[end - 1]) > bound {
            end -= 1;
        }
        if end <= start {
            break;
        }
        count += end - start;
    }
    count
}

/// Maps numbers to integers in the same order (the total order of IEEE 754).
fn order_key(value: f64) -> i128 {
    let bits = value.to_bits() as i64;
    i128::from(bits ^ (((bits >> 63) as u64) >> 1) as i64)
}

fn from_key(key: i128) -> f64 {
    let bits = key as i64;
    f64::from_bits((bits ^ (((bits >> 63) as u64) >> 1) as i64) as u64)
}

#[cfg(test)]
mod tests {
    use super::super::signed_rank;
    use super::*;
    use crate::stats::Rng;
    use pagewise_model::measured::median;

    fn all_averages(values: &[f64]) -> Vec<f64> {
        let mut averages = Vec::new();
        for (i, a) in values.iter().enumerate() {
            averages.extend(values[i..].iter().map(|b| f64::midpoint(*a, *b)));
        }
        averages.sort_by(f64::total_cmp);
        averages
    }

    #[test]
    fn every_order_statistic_equals_brute_force() {
        let mut rng = Rng::new(5);
        for round in 0..60 {
            let n = 1 + rng.below(12) as usize;
            let mut values: Vec<f64> = (0..n)
                .map(|_| if round % 3 == 0 { rng.below(5) as f64 - 2.0 } else { rng.normal() })
                .collect();
            values.sort_by(f64::total_cmp);
            let averages = all_averages(&values);
            for (k, expected) in averages.iter().enumerate() {
                assert_eq!(kth_walsh_average(&values, k + 1), *expected, "{values:?} {k}");
            }
            assert_eq!(hodges_lehmann(&values), median(&averages));
        }
    }

    #[test]
    fn interval_is_what_the_test_does_not_reject() {
        let mut rng = Rng::new(6);
        for _ in 0..40 {
            let n = 6 + rng.below(9) as usize;
            let values: Vec<f64> = (0..n).map(|_| rng.normal() + 0.3).collect();
            let found = shift(&values).unwrap();
            let p_at = |centre: f64| {
                let moved: Vec<f64> = values.iter().map(|v| v - centre).collect();
                signed_rank(&moved).p_two_sided()
            };
            assert!(p_at(found.low - 1e-9) <= 0.05 && p_at(found.low + 1e-9) > 0.05);
            assert!(p_at(found.high + 1e-9) <= 0.05 && p_at(found.high - 1e-9) > 0.05);
            assert!(found.low <= found.estimate && found.estimate <= found.high);
        }
    }

    #[test]
    fn interval_covers_the_truth_as_often_as_it_says() {
        let mut rng = Rng::new(8);
        let covered = (0..1000)
            .filter(|_| {
                let values: Vec<f64> = (0..12).map(|_| rng.normal()).collect();
                shift(&values).is_some_and(|s| s.low <= 0.0 && 0.0 <= s.high)
            })
            .count();
        assert!((930..=975).contains(&covered), "{covered}");
    }

    #[test]
    fn too_few_or_unusable_values_give_none() {
        assert_eq!(shift(&[1.0; 5]), None);
        assert_eq!(hodges_lehmann(&[]), None);
        assert_eq!(hodges_lehmann(&[1.0, f64::INFINITY]), None);
        assert!(kth_walsh_average(&[], 1).is_nan());
    }
}
