//! What an experiment can prove before it is run.
//!
//! The rule of [`crate::verdict`] is run on simulated noise. A gain of the arm shifts its runs
//! alike and leaves the control alone, so each simulated experiment has one smallest gain from
//! which on it is kept, and the 80th percentile of these over many experiments is the gain found
//! with 80% power: no search over gains at each power is needed. All of it scales with the
//! run-to-run deviation, except for the 1% that the bound must exceed. Noise is a mixture, one run
//! in ten with three times the deviation of the others, scaled to the deviation given. From
//! [`NORMAL_FROM`] blocks on a normal distribution stands in for the exact one of the p.
//!
//! The p asked for is stricter from 20 blocks on, so that 20 to about 25 blocks prove less than 19:
//! [`best_blocks`] then takes 19.
//!
//! Beyond [`LARGEST_SIMULATED`] blocks the deviation is scaled by the square root instead, which
//! a test checks against the simulation. Not modelled: blocks that will be dropped, two modes.

use crate::effect::log_ratios;
use crate::stats::{
    BlockLogs, Rng, aligned_rank, deviations_below, hodges_lehmann, kth_walsh_average,
    lower_tail_count, normal_upper_tail,
};
use crate::verdict::{CONTROL_FACTOR, LEAST_EFFECT, STRICT_BLOCKS, minimum_blocks, required_p};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Largest number of blocks that is simulated as such.
pub const LARGEST_SIMULATED: u32 = 60;
/// Most blocks that [`blocks_for`] answers.
pub const MOST_BLOCKS: u32 = 100_000;
/// Simulated experiments per answer: the standard error of the power is 2.5%.
const EXPERIMENTS: usize = 256;
/// Wanted power.
const POWER: f64 = 0.8;
/// From so many blocks on the p of an experiment is taken from the normal distribution.
const NORMAL_FROM: usize = 20;
/// How finely the gain that the p asks for is searched, in deviations of a run.
const SEARCH_STEP: f64 = 0.004;
/// The largest such gain that is searched for.
const SEARCH_MOST: f64 = 64.0;

/// The smallest gain, as a share of time, that `blocks` blocks prove with 80% power when `arms`
/// arms are confirmed and the logarithm of a run's time deviates by `run_sd` from run to run.
/// `None` when the blocks are too few for any proof or the deviation is not a number.
#[must_use]
pub fn smallest_provable(blocks: u32, arms: u32, run_sd: f64) -> Option<f64> {
    if blocks < minimum_blocks(arms) || !run_sd.is_finite() || run_sd < 0.0 {
        return None;
    }
    let simulated = blocks.min(LARGEST_SIMULATED);
    let scaled = run_sd * (f64::from(simulated) / f64::from(blocks)).sqrt();
    let demands = demands(simulated, required_p(blocks, arms))?;
    let mut thresholds: Vec<f64> = demands.iter().map(|d| d.threshold(scaled)).collect();
    let rank = (POWER * thresholds.len() as f64).ceil() as usize - 1;
    let (_, at, _) = thresholds.select_nth_unstable_by(rank, f64::total_cmp);
    Some(1.0 - (-*at).exp())
}

/// Of at most `most` blocks, the number that proves the smallest gain: `most`, or the last number
/// with the milder p where that proves more.
#[must_use]
pub fn best_blocks(most: u32, arms: u32, run_sd: f64) -> u32 {
    let milder = STRICT_BLOCKS - 1;
    let gain = |blocks| smallest_provable(blocks, arms, run_sd).unwrap_or(f64::INFINITY);
    if most > milder && gain(milder) < gain(most) { milder } else { most }
}

/// The fewest blocks that prove a `gain` (share of time) with 80% power; `None` when
/// [`MOST_BLOCKS`] do not, as for any gain of 1% or less.
#[must_use]
pub fn blocks_for(gain: f64, arms: u32, run_sd: f64) -> Option<u32> {
    let proves = |blocks| smallest_provable(blocks, arms, run_sd).is_some_and(|g| g <= gain);
    let least = minimum_blocks(arms);
    let milder = STRICT_BLOCKS - 1;
    // More blocks prove more on either side of the step in p, not across it.
    if least <= milder && proves(milder) {
        return Some(fewest(least, milder, proves));
    }
    let low = least.max(STRICT_BLOCKS);
    let mut high = low;
    while !proves(high) {
        high = high.saturating_mul(2);
        if high > MOST_BLOCKS {
            return None;
        }
    }
    Some(fewest(low, high, proves))
}

/// The first of `low..=high` that `proves`, which `high` does and each after the first.
fn fewest(mut low: u32, mut high: u32, proves: impl Fn(u32) -> bool) -> u32 {
    while low < high {
        let mid = low + (high - low) / 2;
        if proves(mid) { high = mid } else { low = mid + 1 }
    }
    high
}

/// What one simulated experiment at deviation 1 asks of a gain (as -ln of the ratio).
#[derive(Debug, Clone, Copy)]
struct Demand {
    /// By the p and by the control's own difference; proportional to the deviation.
    proportional: f64,
    /// By the bound, over the 1% that it must exceed.
    over_least: f64,
}

impl Demand {
    /// The smallest gain that is kept at this deviation.
    fn threshold(self, run_sd: f64) -> f64 {
        let least = -(1.0 - LEAST_EFFECT).ln();
        (run_sd * self.proportional).max(least + run_sd * self.over_least)
    }
}

/// Demands by blocks and p: they depend on nothing else, and a session asks for the same again.
type Table = HashMap<(u32, u64), Arc<[Demand]>>;

fn demands(blocks: u32, p: f64) -> Option<Arc<[Demand]>> {
    static TABLE: Mutex<Option<Table>> = Mutex::new(None);
    let key = (blocks, p.to_bits());
    let lock = || TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = lock().as_ref().and_then(|table| table.get(&key)) {
        return Some(Arc::clone(known));
    }
    let found: Arc<[Demand]> = simulate(blocks as usize, p)?.into();
    lock().get_or_insert_default().insert(key, Arc::clone(&found));
    Some(found)
}

fn simulate(blocks: usize, p: f64) -> Option<Vec<Demand>> {
    let by_bound = lower_tail_count(blocks, 0.05)? + 1;
    let mut rng = Rng::new(blocks as u64);
    let demands = (0..EXPERIMENTS).filter_map(|_| {
        let noise = noise(&mut rng, blocks, 1.0);
        let mut gains: Vec<f64> = log_ratios(&noise).iter().map(|ratio| -ratio).collect();
        gains.sort_by(f64::total_cmp);
        let control: Vec<f64> = noise.iter().map(|[first, again, _]| again - first).collect();
        let by_control = CONTROL_FACTOR * hodges_lehmann(&control)?.abs() - hodges_lehmann(&gains)?;
        Some(Demand {
            proportional: by_control.max(gain_for_p(&noise, p)),
            over_least: -kth_walsh_average(&gains, by_bound),
        })
    });
    Some(demands.collect())
}

/// The smallest gain, in deviations, at which the arm in this noise reaches `p`.
fn gain_for_p(noise: &[BlockLogs], p: f64) -> f64 {
    let reaches = |gain: f64| {
        let moved: Vec<BlockLogs> = noise.iter().map(|[a, b, arm]| [*a, *b, arm - gain]).collect();
        let found = if moved.len() < NORMAL_FROM {
            aligned_rank(&moved).p_less
        } else {
            normal_upper_tail(deviations_below(&moved))
        };
        found <= p
    };
    let mut high = 1.0;
    while !reaches(high) && high < SEARCH_MOST {
        high *= 2.0;
    }
    let mut low = if high > 1.0 { high / 2.0 } else { -1.0 };
    while high - low > SEARCH_STEP {
        let mid = f64::midpoint(low, high);
        if reaches(mid) { high = mid } else { low = mid }
    }
    high
}

/// One experiment without any effect.
fn noise(rng: &mut Rng, blocks: usize, run_sd: f64) -> Vec<BlockLogs> {
    (0..blocks).map(|_| std::array::from_fn(|_| run_sd * rng.heavy_tailed())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Blocks, Costs, Evidence, Mechanism, judge};
    use pagewise_model::trial::Word;

    /// Share of experiments that the real rule keeps.
    fn power_of_rule(gain: f64, blocks: u32, arms: u32, run_sd: f64) -> f64 {
        let mut rng = Rng::new(99);
        let rounds = 800;
        let kept = (0..rounds).filter(|_| {
            let mut counted = noise(&mut rng, blocks as usize, run_sd);
            for block in &mut counted {
                block[2] += (1.0 - gain).ln();
            }
            let evidence = Evidence {
                without_host: counted.clone(),
                with_host: counted.clone(),
                counted,
                mechanism: Mechanism::None,
                output_equal: true,
                arms_confirmed: arms,
                host_share_arm: 0.0,
                host_share_control: 0.0,
                blocks: Blocks { run: blocks, complete: true, ..Blocks::default() },
            };
            judge("b", &evidence, Costs::default()).word == Word::Keep
        });
        kept.count() as f64 / f64::from(rounds)
    }

    #[test]
    fn the_rule_keeps_the_smallest_provable_gain_in_four_of_five() {
        for (blocks, arms, run_sd) in
            [(8, 1, 0.03), (10, 3, 0.06), (19, 1, 0.06), (20, 2, 0.12), (60, 1, 0.06)]
        {
            let gain = smallest_provable(blocks, arms, run_sd).unwrap();
            let power = power_of_rule(gain, blocks, arms, run_sd);
            assert!((0.72..=0.88).contains(&power), "{blocks} {arms} {run_sd}: {gain} {power}");
        }
    }

    #[test]
    fn scaling_by_the_square_root_agrees_with_the_rule() {
        for (blocks, arms) in [(100, 1), (240, 3)] {
            let gain = smallest_provable(blocks, arms, 0.06).unwrap();
            let power = power_of_rule(gain, blocks, arms, 0.06);
            assert!((0.72..=0.88).contains(&power), "{blocks}: {gain} {power}");
        }
    }

    #[test]
    fn more_blocks_and_less_noise_prove_less() {
        let at = |blocks, sd| smallest_provable(blocks, 1, sd).unwrap();
        assert!(at(60, 0.06) < at(20, 0.06) && at(200, 0.06) < at(60, 0.06));
        assert!(at(20, 0.03) < at(20, 0.06));
        assert!(at(20, 0.0) > 0.0099 && at(20, 0.0) < 0.0101);
        assert_eq!(smallest_provable(7, 1, 0.03), None);
        assert_eq!(smallest_provable(20, 1, f64::NAN), None);
    }

    #[test]
    fn blocks_for_a_gain_prove_that_gain() {
        let blocks = blocks_for(0.07, 1, 0.06).unwrap();
        assert!((9..=30).contains(&blocks), "{blocks}");
        assert!(smallest_provable(blocks, 1, 0.06).unwrap() <= 0.07);
        assert_eq!(blocks_for(0.10, 1, 0.001), Some(8));
        assert_eq!(blocks_for(0.01, 1, 0.06), None);
    }

    #[test]
    fn nineteen_blocks_prove_more_than_a_few_more() {
        let at = |blocks| smallest_provable(blocks, 1, 0.06).unwrap();
        assert!(at(19) < at(20), "{} {}", at(19), at(20));
        assert_eq!(best_blocks(20, 1, 0.06), 19);
        assert_eq!(best_blocks(60, 1, 0.06), 60);
        assert_eq!(best_blocks(12, 1, 0.06), 12);
        assert_eq!(blocks_for(at(19), 1, 0.06), Some(19));
        for gain in [0.03, 0.05, at(20), at(22)] {
            let blocks = blocks_for(gain, 1, 0.06).unwrap();
            assert!(at(blocks) <= gain && (8..blocks).all(|fewer| at(fewer) > gain), "{gain}");
        }
    }
}
