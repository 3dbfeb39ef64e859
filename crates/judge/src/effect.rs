//! What the blocks of an experiment show: the estimate with its interval, its p, where a later
//! repeat is to be expected, and the conditions on an effect in either direction.
//!
//! Per block the logarithm of the arm's time less the mean of the control's two gives the
//! Hodges-Lehmann estimate and its interval. The p comes from naming runs at random within blocks
//! ([`aligned_rank`]), which stays exact where noise is skewed (docs/decisions/009). The control's
//! second run against its first shows what the machine does by itself; a difference of two equal
//! runs is symmetric, so there the signed-rank test is exact.
//!
//! The interval holds for the session. A later repeat has an error of its own, and the machine
//! drifts between sessions by more than chance within one would have it ([`drift`], docs/decisions/010).

use crate::stats::{
    BlockLogs, Shift, aligned_rank, hodges_lehmann, lower_bound, shift, signed_rank,
};
use crate::verdict::{CONTROL_FACTOR, LEAST_EFFECT, required_p};
use pagewise_model::trial::{AllBlocks, Effect};

/// Deviation of the true effect, as a logarithm of the time ratio, from one session to another on
/// the same machine: memory lies elsewhere, the host has other guests. From repeats of receipts
/// within hours (`bench/accept/01-tune/drift`).
pub const DRIFT: f64 = 0.020;
/// The part of it that grows with the effect, as a share of its logarithm.
pub const DRIFT_SHARE: f64 = 0.05;
/// Pairs of runs in the later repeat whose outcome is foretold.
pub const REPEAT_BLOCKS: f64 = 20.0;
/// Variance of a pair's difference over that of a run less the mean of two.
const PAIR_VARIANCE: f64 = 4.0 / 3.0;
/// Deviations within which 95% of a normal distribution lie.
const NORMAL_95: f64 = 1.96;

/// Per block, ln(arm / geometric mean of the control's two runs).
pub(crate) fn log_ratios(blocks: &[BlockLogs]) -> Vec<f64> {
    blocks.iter().map(|[first, again, arm]| arm - f64::midpoint(*first, *again)).collect()
}

/// Per block, ln(second control run / first).
fn control_log_ratios(blocks: &[BlockLogs]) -> Vec<f64> {
    blocks.iter().map(|[first, again, _]| again - first).collect()
}

/// The effect in `blocks`, where they are enough for an interval, and beside it that in `all`,
/// where those are more.
pub(crate) fn estimate(blocks: &[BlockLogs], all: &[BlockLogs]) -> Option<Effect> {
    let shifted = shift(&log_ratios(blocks))?;
    let test = aligned_rank(blocks);
    let control = control_log_ratios(blocks);
    let repeat = repeat_half_width(&shifted, blocks.len());
    let with_host = shift(&log_ratios(all)).filter(|_| all.len() > blocks.len());
    Some(Effect {
        ratio: shifted.estimate.exp(),
        ratio_low: shifted.low.exp(),
        ratio_high: shifted.high.exp(),
        repeat_low: (shifted.estimate - repeat).exp(),
        repeat_high: (shifted.estimate + repeat).exp(),
        p_faster: test.p_less,
        p_slower: test.p_greater,
        control_ratio: hodges_lehmann(&control)?.exp(),
        control_p: signed_rank(&control).p_two_sided(),
        blocks: u32::try_from(blocks.len()).unwrap_or(u32::MAX),
        with_host: with_host.map(|shifted| AllBlocks {
            ratio: shifted.estimate.exp(),
            ratio_low: shifted.low.exp(),
            ratio_high: shifted.high.exp(),
            blocks: u32::try_from(all.len()).unwrap_or(u32::MAX),
        }),
    })
}

/// How far from the estimate a later repeat of [`REPEAT_BLOCKS`] pairs may come out (95%): by this
/// session's error, by the repeat's own, which is larger where it has fewer blocks and for a pair
/// (variance 2 of a run's) than for a block with two controls (1.5), and by [`drift`].
fn repeat_half_width(session: &Shift, blocks: usize) -> f64 {
    let half = (session.high - session.low) / 2.0;
    let errors = half.powi(2) * (1.0 + blocks as f64 / REPEAT_BLOCKS * PAIR_VARIANCE);
    (errors + (NORMAL_95 * drift(session.estimate)).powi(2)).sqrt()
}

/// Deviation of an effect of this size from session to session, both as logarithms.
fn drift(effect: f64) -> f64 {
    DRIFT.hypot(DRIFT_SHARE * effect)
}

/// Which way an effect is to be proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Faster,
    Slower,
}

impl Direction {
    /// A ratio points this way.
    pub(crate) fn agrees(self, ratio: f64) -> bool {
        if self == Self::Faster { ratio < 1.0 } else { ratio > 1.0 }
    }

    /// One-sided 95% bound of the gain or loss, as a share of the control's time.
    fn bound(self, blocks: &[BlockLogs]) -> Option<f64> {
        let sign = if self == Self::Faster { -1.0 } else { 1.0 };
        let turned: Vec<f64> = log_ratios(blocks).iter().map(|v| sign * v).collect();
        let low = lower_bound(&turned, 0.05)?;
        Some(if self == Self::Faster { 1.0 - (-low).exp() } else { low.exp() - 1.0 })
    }

    /// The first condition that the `effect` in `blocks` does not meet, in words; `None` when it is
    /// proven among `arms` arms.
    pub(crate) fn unmet(self, blocks: &[BlockLogs], effect: &Effect, arms: u32) -> Option<String> {
        let p = if self == Self::Faster { effect.p_faster } else { effect.p_slower };
        let required = required_p(effect.blocks, arms);
        if p > required {
            let needed = format!("{required:.5}");
            let needed = needed.trim_end_matches('0');
            return Some(format!("{} where {needed} is needed", p_text(p)));
        }
        let bound = self.bound(blocks).unwrap_or(f64::NEG_INFINITY);
        if bound <= LEAST_EFFECT {
            return Some("its 95% bound is not beyond 1%".to_owned());
        }
        let control = effect.control_ratio.ln().abs();
        let size = effect.ratio.ln().abs();
        (size <= CONTROL_FACTOR * control).then(|| {
            format!(
                "the control differs from itself by {}",
                percent((effect.control_ratio - 1.0).abs())
            )
        })
    }
}

/// `12.3% faster (95% interval 10.1% to 14.0%; a later repeat: 8.0% to 16.4%), p = 0.0004 in 24
/// blocks`.
pub(crate) fn describe(effect: &Effect) -> String {
    let faster = effect.ratio <= 1.0;
    let p = if faster { effect.p_faster } else { effect.p_slower };
    let range = |low: f64, high: f64| {
        let (from, to) = if faster { (1.0 - high, 1.0 - low) } else { (low - 1.0, high - 1.0) };
        format!("{} to {}", percent(from), percent(to))
    };
    format!(
        "{} (95% interval {}; a later repeat: {}), {} in {} blocks",
        turned(effect.ratio),
        range(effect.ratio_low, effect.ratio_high),
        range(effect.repeat_low, effect.repeat_high),
        p_text(p),
        effect.blocks
    )
}

/// A ratio as `12.3% faster` or `4.0% slower`.
pub(crate) fn turned(ratio: f64) -> String {
    let word = if ratio <= 1.0 { "faster" } else { "slower" };
    format!("{} {word}", percent((1.0 - ratio).abs()))
}

/// A share as a percentage with one decimal and without a negative zero.
pub(crate) fn percent(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    format!("{:.1}%", if rounded == 0.0 { 0.0 } else { rounded })
}

pub(crate) fn p_text(p: f64) -> String {
    if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    /// Blocks of an arm that takes `effect` longer, as a logarithm.
    fn session(rng: &mut Rng, blocks: usize, sd: f64, effect: f64) -> Vec<BlockLogs> {
        let mut run = || sd * rng.heavy_tailed();
        (0..blocks).map(|_| [run(), run(), effect + run()]).collect()
    }

    #[test]
    fn a_repeat_falls_where_it_was_foretold() {
        let mut rng = Rng::new(21);
        let mut within = 0;
        for _ in 0..1000 {
            let [here, there] = [0; 2].map(|_: i32| drift(-0.2) * rng.normal() / 2f64.sqrt());
            let effect = estimate(&session(&mut rng, 24, 0.03, -0.2 + here), &[]).unwrap();
            let pairs: Vec<f64> = session(&mut rng, 20, 0.03, -0.2 + there)
                .iter()
                .map(|[plain, _, arm]| arm - plain)
                .collect();
            let repeat = hodges_lehmann(&pairs).unwrap().exp();
            within += u32::from((effect.repeat_low..=effect.repeat_high).contains(&repeat));
        }
        assert!((925..=985).contains(&within), "{within} of 1000");
    }

    #[test]
    fn the_repeat_is_wider_than_the_session_and_wider_for_long_sessions() {
        let mut rng = Rng::new(22);
        let effect = estimate(&session(&mut rng, 100, 0.05, -0.3), &[]).unwrap();
        assert!(effect.repeat_low < effect.ratio_low && effect.ratio_high < effect.repeat_high);
        let still = estimate(&[[0.0, 0.0, -0.1]; 10], &[]).unwrap();
        let width = still.repeat_high.ln() - still.repeat_low.ln();
        let narrow = 2.0 * 1.96 * 0.02_f64.hypot(0.005);
        assert!((width - narrow).abs() < 1e-12, "{width}");
        let large = estimate(&[[0.0, 0.0, -1.5]; 10], &[]).unwrap();
        let wide = (large.repeat_high / large.repeat_low).ln() - 2.0 * 1.96 * 0.02_f64.hypot(0.075);
        assert!(wide.abs() < 1e-12, "{wide}");
    }

    #[test]
    fn the_words_of_both_directions() {
        let effect = |ratio| estimate(&[[0.0, 0.0, f64::ln(ratio)]; 10], &[]).unwrap();
        assert_eq!(
            describe(&effect(0.8)),
            "20.0% faster (95% interval 20.0% to 20.0%; a later repeat: 16.3% to 23.5%), \
             p < 0.0001 in 10 blocks"
        );
        assert!(describe(&effect(1.25)).starts_with("25.0% slower (95% interval 25.0% to 25.0%"));
    }
}
