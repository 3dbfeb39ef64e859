//! Evidence if noise is normal: a Bayes factor of several effects beyond the limit against the limit.
//!
//! Each block has its own mean and all blocks share one unknown variance, with a prior of [`USUAL_RUNS`] runs
//! at the usual noise. Integrated over both, the density of the difference `d` with weight `k` and residual
//! squares `A` falls as (A + k d^2) to the power -(freedom + 1) / 2. In few runs two speeds can look like an
//! effect. So the evidence is capped at a multiple of the number of ways to assign the runs, which chance
//! alone cannot exceed.

use super::{ArmTotals, RatioClaim, USUAL_RUNS};

/// If the limit is not 0: the weight of no effect at all, which is usually true.
const NO_EFFECT: f64 = 0.5;
/// The cap, as a multiple of the ways to deal the names.
const CAP: f64 = 4.0;

pub(super) fn evidence(totals: &ArmTotals, limit: RatioClaim) -> f64 {
    let beyond = limit.sign * (totals.difference() - limit.log_ratio);
    let squares = USUAL_RUNS * totals.noise.variance + totals.residual();
    let power = f64::midpoint(USUAL_RUNS + totals.freedom(), 1.0);
    let weight = totals.unbiased_weight();
    let spread = |difference: f64| (squares + weight * difference * difference).ln();
    let none = spread(beyond);
    let factor = |effect: f64| (power * (none - spread(beyond - effect))).exp();
    let all = totals.noise.effects;
    let effects =
        all.iter().map(|share| if limit.sign < 0.0 { -(-share).ln_1p() } else { share.ln_1p() });
    let some = effects.map(factor).sum::<f64>() / all.len() as f64;
    let no_effect = -limit.sign * limit.log_ratio;
    let mean = if no_effect > 0.0 {
        NO_EFFECT * factor(no_effect) + (1.0 - NO_EFFECT) * some
    } else {
        some
    };
    mean.min(CAP * dealings(totals.arm_runs, totals.control_runs))
}

/// Number of ways to assign this many runs to arm and control.
fn dealings(arm: u32, control: u32) -> f64 {
    let (few, many) = (arm.min(control), arm.max(control));
    (1..=few).map(|k| f64::from(many + k) / f64::from(k)).product()
}

#[cfg(test)]
mod tests {
    use super::super::ArmBlockRuns;
    use super::*;

    #[test]
    fn names_of_two_and_two_runs_are_dealt_in_six_ways() {
        assert!((dealings(2, 2) - 6.0).abs() < 1e-12);
        assert!((dealings(4, 8) - 495.0).abs() < 1e-9);
    }

    #[test]
    fn a_clear_effect_outgrows_the_limit_and_is_capped() {
        let mut totals = ArmTotals::default();
        let runs = ArmBlockRuns { control: vec![0.0, 0.01], arm: vec![-0.3, -0.31] };
        totals.add(&runs);
        let none = RatioClaim { sign: -1.0, log_ratio: 0.0 };
        let one = evidence(&totals, none);
        assert!(one > 4.0 && one <= 24.0, "{one}");
        for _ in 0..7 {
            totals.add(&runs);
        }
        assert!(evidence(&totals, none) > 1000.0);
        assert!(evidence(&totals, RatioClaim { sign: 1.0, ..none }) < 0.1);
    }
}
