//! What a number of runs can prove.

use super::{ArmRace, BlockTimes, NoisePrior};
use crate::stats::NORMAL_80;

/// Usual deviation of the logarithm of a run's time among runs at once (docs/at-once.md).
const USUAL: f64 = 0.012;
/// The gains in question, in percent.
const PERCENT: std::ops::RangeInclusive<u32> = 2..=60;

/// The least gain that runs at once of one arm, as many as runs of the control, prove in 9 of 10 sessions.
/// `None` if they prove none.
#[must_use]
pub fn provable_gain(runs: u32) -> Option<f64> {
    PERCENT.map(|percent| f64::from(percent) / 100.0).find(|gain| is_proven(runs, *gain))
}

fn is_proven(runs: u32, gain: f64) -> bool {
    let (mut race, count) = (ArmRace::default(), f64::from(runs));
    let arm = race.join(NoisePrior::AT_ONCE);
    let of_pair = USUAL * std::f64::consts::SQRT_2;
    // In 1 of 10 sessions the measured gain is smaller still.
    let found = (-gain).ln_1p() + NORMAL_80 * of_pair / count.sqrt();
    // Evenly spread with the usual deviation: the variance of 1, 2, ... n is n (n + 1) / 12.
    let spread = of_pair / (count * (count + 1.0) / 12.0).sqrt();
    for at in 0..runs {
        let noise = spread * (f64::from(at) - (count - 1.0) / 2.0);
        race.add(&BlockTimes { control: vec![0.0], arms: vec![(arm, vec![found + noise])] });
    }
    race.is_proven(arm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_runs_prove_smaller_gains() {
        let all: Vec<Option<f64>> = [1, 2, 4, 8, 16, 64].map(provable_gain).to_vec();
        assert!(
            all.windows(2).all(|two| two[0].unwrap_or(1.0) >= two[1].unwrap_or(1.0)),
            "{all:?}"
        );
        assert_eq!(all[0], None, "one pair shows no noise");
        // As the sessions of bench/accept/tune/at-once/effects needed.
        assert!(all[3].is_some_and(|gain| (0.03..=0.06).contains(&gain)), "{all:?}");
        assert!(all[5].is_some_and(|gain| gain <= 0.03), "{all:?}");
        assert_eq!(provable_gain(0), None);
    }
}
