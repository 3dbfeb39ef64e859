//! Evidence from the random order alone.
//!
//! Suppose an arm's ratio is exactly the claimed limit. Then its runs (less that limit) are exchangeable with
//! the control's: every assignment of the runs of a block was equally likely. The e-value of a block is
//! `exp(t * sum of the arm's values)` over its mean for all assignments. It is 1 on average whatever the times
//! are; a ratio beyond the limit only lowers it. The mean is an elementary symmetric polynomial. `t` is a bet,
//! placed before the block is seen. Several bets are placed at once, from what earlier blocks show of effect
//! and noise. Before the first block the bets use that block's own scatter, which does not depend on the
//! assignment.

use super::{ArmBlockRuns, ArmTotals, RatioClaim};

/// Bets of the first block, as multiples of one over the scatter.
const FIRST_BETS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];
/// Bets later: how far from the estimate, in standard errors, and their shares.
const BETS: [(f64, f64); 3] = [(-1.2, 0.25), (0.0, 0.4), (1.2, 0.25)];
/// Share of a cautious bet that a wrong estimate does not spoil: one over twice the scatter.
const CAREFUL_SHARE: f64 = 0.1;
/// No bet is so high that the span of the values takes more than this power of e.
const HIGHEST_POWER: f64 = 60.0;
/// No scatter is taken for less than this: the clock is not finer.
const LEAST_SCATTER: f64 = 1e-5;

/// The e-value of a block; `before` is what earlier blocks showed.
pub(super) fn of_block(runs: &ArmBlockRuns, limit: RatioClaim, before: &ArmTotals) -> f64 {
    let own = runs.arm.iter().map(|value| limit.sign * (value - limit.log_ratio));
    let values: Vec<f64> = own.chain(runs.control.iter().map(|value| limit.sign * value)).collect();
    let (mean, squares) = super::mean_and_squares(&values);
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let high = centred.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let low = centred.iter().copied().fold(f64::INFINITY, f64::min);
    let most = HIGHEST_POWER / (high - low).max(f64::MIN_POSITIVE);
    let arms = runs.arm.len();
    let value = |bet: f64| of_bet(&centred, arms, bet.clamp(0.0, most));
    if before.blocks == 0 {
        let scatter = (squares / values.len() as f64).sqrt().max(LEAST_SCATTER);
        let all: f64 = FIRST_BETS.iter().map(|bet| value(bet / scatter)).sum();
        return all / FIRST_BETS.len() as f64;
    }
    let variance = before.variance().max(LEAST_SCATTER * LEAST_SCATTER);
    let beyond = limit.sign * (before.difference() - limit.log_ratio);
    let error = before.standard_error();
    let guesses =
        BETS.iter().map(|(errors, share)| share * value((beyond + errors * error) / variance));
    guesses.sum::<f64>() + CAREFUL_SHARE * value(0.5 / variance.sqrt())
}

/// exp(bet * sum of the first `arms` values) over its mean for all choices of `arms` values.
fn of_bet(values: &[f64], arms: usize, bet: f64) -> f64 {
    if bet <= 0.0 {
        return 1.0;
    }
    // mean[k]: the mean of the products of k of the values so far.
    let mut mean = vec![0.0; arms + 1];
    mean[0] = 1.0;
    for (seen, value) in values.iter().enumerate() {
        let factor = (bet * value).exp();
        let seen = seen as f64 + 1.0;
        for k in (1..=arms.min(seen as usize)).rev() {
            let k_share = k as f64 / seen;
            mean[k] = mean[k] * (1.0 - k_share) + mean[k - 1] * factor * k_share;
        }
    }
    let own: f64 = values[..arms].iter().sum();
    (bet * own).exp() / mean[arms]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_over_all_dealings_is_one() {
        let values = [0.3, -0.1, 0.2, -0.25, 0.05];
        let mut sum = 0.0;
        let mut dealings = 0;
        for first in 0..values.len() {
            for second in first + 1..values.len() {
                let mut dealt = vec![values[first], values[second]];
                let others = (0..values.len()).filter(|at| *at != first && *at != second);
                dealt.extend(others.map(|at| values[at]));
                sum += of_bet(&dealt, 2, 7.0);
                dealings += 1;
            }
        }
        assert_eq!(dealings, 10);
        assert!((sum / f64::from(dealings) - 1.0).abs() < 1e-12, "{sum}");
    }

    #[test]
    fn a_block_never_shows_more_than_its_dealings_allow() {
        let runs = ArmBlockRuns { control: vec![0.0, 0.001], arm: vec![-1.0, -1.001] };
        let none = RatioClaim { sign: -1.0, log_ratio: 0.0 };
        let value = of_block(&runs, none, &ArmTotals::default());
        assert!(value > 2.0 && value <= 6.0, "{value}");
        let turned = RatioClaim { sign: 1.0, ..none };
        assert!(of_block(&runs, turned, &ArmTotals::default()) < 1.0);
    }

    #[test]
    fn equal_times_show_nothing() {
        let runs = ArmBlockRuns { control: vec![0.5; 2], arm: vec![0.5; 2] };
        let none = RatioClaim { sign: -1.0, log_ratio: 0.0 };
        assert!((of_block(&runs, none, &ArmTotals::default()) - 1.0).abs() < 1e-12);
    }
}
