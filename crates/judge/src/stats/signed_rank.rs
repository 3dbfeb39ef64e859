//! Wilcoxon's signed-rank test, exact up to [`EXACT_MAX`] pairs, ties included.
//!
//! Under the null hypothesis each rank is positive with probability one half, independently. The
//! distribution of the sum of positive ranks follows by adding the ranks one at a time. Tied
//! sizes share their middle rank, which may be a half: ranks are kept doubled, so that they are
//! whole numbers and the enumeration stays exact for the very multiset of ranks that was seen.
//! Zeros tell no direction and are left out (Wilcoxon's own rule). Above [`EXACT_MAX`] pairs the
//! normal approximation with correction for ties and continuity is used; it errs to the safe
//! side: at 60 pairs a p of 0.002 comes out an eighth too large.

/// Largest number of non-zero pairs for which the distribution is enumerated.
pub const EXACT_MAX: usize = 60;

/// Outcome of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SignedRank {
    /// Non-zero values.
    pub n: usize,
    /// Sum of the ranks of the positive values.
    pub positive: f64,
    /// Probability that positive ranks sum to at least the value seen, if the centre is 0.
    pub p_greater: f64,
    /// The same for as little as seen or less.
    pub p_less: f64,
}

impl SignedRank {
    /// Two-sided p.
    #[must_use]
    pub fn p_two_sided(&self) -> f64 {
        (2.0 * self.p_greater.min(self.p_less)).min(1.0)
    }
}

/// Tests whether `values` are centred on 0. Without a non-zero value both p are 1.
#[must_use]
pub fn signed_rank(values: &[f64]) -> SignedRank {
    let mut sorted: Vec<f64> =
        values.iter().copied().filter(|v| *v != 0.0 && !v.is_nan()).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let ranks = doubled_ranks(&sorted);
    let positive: usize =
        sorted.iter().zip(&ranks).filter(|(v, _)| **v > 0.0).map(|(_, rank)| rank).sum();
    let n = sorted.len();
    let (p_greater, p_less) = if n <= EXACT_MAX {
        tails_exact(&ranks, positive)
    } else {
        tails_normal(&ranks, positive as f64 / 2.0)
    };
    SignedRank { n, positive: positive as f64 / 2.0, p_greater, p_less }
}

/// Twice the middle rank of each of `sorted` (by size).
fn doubled_ranks(sorted: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    for tied in sorted.chunk_by(|a, b| a.abs() == b.abs()) {
        let first = ranks.len() + 1;
        let last = ranks.len() + tied.len();
        ranks.resize(last, first + last);
    }
    ranks
}

/// Probability of each sum of the ranks that come out positive.
fn distribution(ranks: &[usize]) -> Vec<f64> {
    let mut chance = vec![0.0; ranks.iter().sum::<usize>() + 1];
    chance[0] = 1.0;
    let mut reached = 0;
    for &rank in ranks {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with = if sum >= rank { chance[sum - rank] } else { 0.0 };
            chance[sum] = 0.5 * (chance[sum] + with);
        }
    }
    chance
}

fn tails_exact(ranks: &[usize], positive: usize) -> (f64, f64) {
    let chance = distribution(ranks);
    let less: f64 = chance[..=positive].iter().sum();
    let greater: f64 = chance[positive..].iter().sum();
    (greater.min(1.0), less.min(1.0))
}

fn tails_normal(ranks: &[usize], positive: f64) -> (f64, f64) {
    let total: f64 = ranks.iter().map(|r| *r as f64 / 2.0).sum();
    let sd = ranks.iter().map(|r| (*r as f64 / 4.0).powi(2)).sum::<f64>().sqrt();
    let mean = total / 2.0;
    let greater = normal_upper_tail((positive - 0.5 - mean) / sd);
    let less = normal_upper_tail((mean - positive - 0.5) / sd);
    (greater, less)
}

/// Probability that a standard normal value exceeds `z`.
///
/// Zelen and Severo's approximation (Abramowitz and Stegun 26.2.17), absolute error below 7.5e-8,
/// replaced beyond 4 by the asymptotic series, whose relative error there is below 1%.
pub(crate) fn normal_upper_tail(z: f64) -> f64 {
    if z < 0.0 {
        return 1.0 - normal_upper_tail(-z);
    }
    let density = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt();
    if z > 4.0 {
        let s = 1.0 / (z * z);
        return density / z * (1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s)));
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * z);
    const TERMS: [f64; 5] =
        [0.319_381_53, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    density * t * TERMS.iter().rev().fold(0.0, |sum, term| sum * t + term)
}

/// The largest `c` such that, without ties, the sum of positive ranks of `n` pairs is at most
/// `c` with probability at most `tail`; `None` when even a sum of 0 is likelier than that.
#[must_use]
pub fn lower_tail_count(n: usize, tail: f64) -> Option<usize> {
    if n <= EXACT_MAX {
        let ranks: Vec<usize> = (1..=n).collect();
        let chances = distribution(&ranks);
        let mut below = 0.0;
        let within = chances.iter().take_while(|chance| {
            below += **chance;
            below <= tail
        });
        return within.count().checked_sub(1);
    }
    let ranks: Vec<usize> = (1..=n).map(|r| 2 * r).collect();
    let (mut low, mut high) = (0, n * (n + 1) / 4);
    while low < high {
        let mid = (low + high).div_ceil(2);
        if tails_normal(&ranks, mid as f64).1 <= tail { low = mid } else { high = mid - 1 }
    }
    (tails_normal(&ranks, low as f64).1 <= tail).then_some(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    fn brute_force(values: &[f64]) -> (f64, f64) {
        let mut kept: Vec<f64> = values.iter().copied().filter(|v| *v != 0.0).collect();
        kept.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
        let rank = |v: f64| {
            let less = kept.iter().filter(|o| o.abs() < v.abs()).count() as f64;
            let equal = kept.iter().filter(|o| o.abs() == v.abs()).count() as f64;
            less + (equal + 1.0) / 2.0
        };
        let ranks: Vec<f64> = kept.iter().map(|v| rank(*v)).collect();
        let seen: f64 = kept.iter().zip(&ranks).filter(|(v, _)| **v > 0.0).map(|(_, r)| r).sum();
        let (mut greater, mut less) = (0u32, 0u32);
        for signs in 0..1u32 << kept.len() {
            let sum: f64 = (0..kept.len()).filter(|i| signs >> i & 1 == 1).map(|i| ranks[i]).sum();
            greater += u32::from(sum >= seen);
            less += u32::from(sum <= seen);
        }
        let all = f64::from(1u32 << kept.len());
        (f64::from(greater) / all, f64::from(less) / all)
    }

    #[test]
    fn equals_brute_force_with_and_without_ties() {
        let mut rng = Rng::new(1);
        for round in 0..300 {
            let n = 1 + rng.below(11) as usize;
            let values: Vec<f64> = (0..n)
                .map(|_| if round % 2 == 0 { rng.normal() } else { rng.below(7) as f64 - 3.0 })
                .collect();
            let test = signed_rank(&values);
            let (greater, less) = brute_force(&values);
            assert!((test.p_greater - greater).abs() < 1e-12, "{values:?}");
            assert!((test.p_less - less).abs() < 1e-12, "{values:?}");
        }
    }

    #[test]
    fn all_positive_is_two_to_the_minus_n() {
        for n in 1..=EXACT_MAX {
            let values: Vec<f64> = (1..=n).map(|v| v as f64).collect();
            let p = signed_rank(&values).p_greater;
            assert!((p / 0.5f64.powi(n as i32) - 1.0).abs() < 1e-9, "n {n}: {p}");
        }
    }

    #[test]
    fn nothing_to_rank_proves_nothing() {
        let test = signed_rank(&[0.0, 0.0]);
        assert_eq!((test.n, test.p_greater, test.p_less), (0, 1.0, 1.0));
    }

    #[test]
    fn approximation_joins_the_exact_test() {
        let ranks: Vec<usize> = (1..=EXACT_MAX).map(|r| 2 * r).collect();
        for positive in [600, 800, 915, 1100, 1300] {
            let exact = tails_exact(&ranks, 2 * positive).0;
            let normal = tails_normal(&ranks, positive as f64).0;
            let excess = normal / exact - 1.0;
            assert!((-0.01..0.15).contains(&excess), "{positive} {normal} {exact}");
        }
    }

    #[test]
    fn tail_counts_match_published_tables() {
        // Two-sided 5% and one-sided 0.5% critical values of the standard tables.
        for (n, tail, expected) in
            [(6, 0.025, 0), (8, 0.025, 3), (10, 0.025, 8), (20, 0.025, 52), (20, 0.005, 37)]
        {
            assert_eq!(lower_tail_count(n, tail), Some(expected), "n {n}");
        }
        assert_eq!(lower_tail_count(5, 0.025), None);
        let exact = lower_tail_count(EXACT_MAX, 0.025).unwrap();
        let normal = lower_tail_count(EXACT_MAX + 1, 0.025).unwrap();
        assert!((20..40).contains(&(normal - exact)), "{exact} {normal}");
    }

    #[test]
    fn normal_tail_has_known_values() {
        for (z, p) in [(0.0, 0.5), (1.644_854, 0.05), (3.090_232, 0.001), (4.753_424, 1e-6)] {
            assert!((normal_upper_tail(z) / p - 1.0).abs() < 0.01, "{z}");
        }
        assert!((normal_upper_tail(-1.644_854) - 0.95).abs() < 1e-6);
    }
}
