//! Median and pooled spread.

/// The median; `None` without values or when one is not finite.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut copy = values.to_vec();
    let mid = copy.len() / 2;
    let (below, upper, _) = copy.select_nth_unstable_by(mid, f64::total_cmp);
    let upper = *upper;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(f64::midpoint(lower, upper))
}

/// Standard deviation within groups, pooled over groups: the run-to-run spread when each group
/// holds the logarithms of the run times of one arm. `None` when no group has two values.
#[must_use]
pub fn pooled_sd(groups: &[Vec<f64>]) -> Option<f64> {
    let mut squares = 0.0;
    let mut freedom = 0usize;
    for group in groups.iter().filter(|g| g.len() > 1) {
        let mean = group.iter().sum::<f64>() / group.len() as f64;
        squares += group.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
        freedom += group.len() - 1;
    }
    let sd = (squares / freedom as f64).sqrt();
    sd.is_finite().then_some(sd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn spread_is_taken_within_groups() {
        let sd = pooled_sd(&[vec![1.0, 3.0], vec![101.0, 103.0], vec![7.0]]).unwrap();
        assert!((sd - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(pooled_sd(&[vec![1.0], vec![]]), None);
    }
}
