//! Is the arm's run shorter or longer than its block's two control runs? A randomisation test
//! within blocks, on aligned ranks (Hodges and Lehmann, 1962).
//!
//! Were the arm the control under another name, each of a block's three runs would be the arm's
//! with probability one third, whatever the noise looks like: the order in a block is random. So
//! each run less the mean of its block gets its rank among all runs of all blocks, and the sum of
//! the arm's ranks is held against all the sums that naming another run in each block could have
//! given. Only that is assumed; noise may be skewed, of two modes, and differ from block to block.
//! (A signed-rank test on arm against mean of the controls would assume that the difference of one
//! run and a mean of two is symmetric, which skewed noise denies: the arm then looks too fast too
//! often.)
//!
//! The distribution of the sum is enumerated by adding the blocks one at a time. Ties share their
//! middle rank, which may be a half: ranks are doubled. They are then divided down to at most
//! [`LEVELS`] steps, so that a thousand blocks take well under a second: any scores fixed before
//! the runs are named give an exact p.

/// Logarithms of the times of one block: the control, the control again, the arm.
pub type BlockLogs = [f64; 3];

/// Most steps of the scores.
const LEVELS: usize = 64;

/// Outcome of the test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AlignedRank {
    /// Probability, did the arm do nothing, of its ranks summing to as little as seen or less.
    pub p_less: f64,
    /// The same for as much as seen or more.
    pub p_greater: f64,
}

/// Scores of the runs of each block, in the order of `blocks`; the arm's last.
fn scores(blocks: &[BlockLogs]) -> Vec<[usize; 3]> {
    let mut sorted: Vec<(f64, usize)> = Vec::with_capacity(3 * blocks.len());
    for (at, block) in blocks.iter().enumerate() {
        let centre = block.iter().sum::<f64>() / 3.0;
        sorted.extend(block.iter().enumerate().map(|(run, log)| (log - centre, 3 * at + run)));
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let most = 2 * sorted.len();
    let mut scores = vec![[0; 3]; blocks.len()];
    let mut before = 0;
    for tied in sorted.chunk_by(|a, b| a.0 == b.0) {
        let doubled = 2 * before + tied.len() + 1;
        let score = if most > LEVELS { doubled * LEVELS / most } else { doubled };
        for (_, run) in tied {
            scores[run / 3][run % 3] = score;
        }
        before += tied.len();
    }
    scores
}

/// Tests whether the arm's runs lie below or above the others of their blocks. Without a block, or
/// where a value is not finite, both p are 1.
#[must_use]
pub fn aligned_rank(blocks: &[BlockLogs]) -> AlignedRank {
    if blocks.iter().flatten().any(|log| !log.is_finite()) {
        return AlignedRank { p_less: 1.0, p_greater: 1.0 };
    }
    let mut chance = vec![1.0];
    let mut seen = 0;
    for block in scores(blocks) {
        let least = block.iter().copied().min().unwrap_or(0);
        let offsets = block.map(|score| score - least);
        seen += offsets[2];
        chance = add_block(&chance, offsets);
    }
    AlignedRank {
        p_less: chance[..=seen].iter().sum::<f64>().min(1.0),
        p_greater: chance[seen..].iter().sum::<f64>().min(1.0),
    }
}

/// The distribution of a sum after one more block, each of whose scores is equally likely.
fn add_block(chance: &[f64], offsets: [usize; 3]) -> Vec<f64> {
    let widest = offsets.iter().copied().max().unwrap_or(0);
    let mut next = vec![0.0; chance.len() + widest];
    for offset in offsets {
        for (to, from) in next[offset..].iter_mut().zip(chance) {
            *to += from / 3.0;
        }
    }
    next
}

/// How many deviations the sum of the arm's scores lies below what naming runs at random gives: a
/// quick stand-in for p in simulations, good from about 20 blocks on.
#[must_use]
pub(crate) fn deviations_below(blocks: &[BlockLogs]) -> f64 {
    let (mut distance, mut variance) = (0.0, 0.0);
    for block in scores(blocks) {
        let block = block.map(|score| score as f64);
        let mean = block.iter().sum::<f64>() / 3.0;
        distance += mean - block[2];
        variance += block.iter().map(|score| (score - mean).powi(2)).sum::<f64>() / 3.0;
    }
    if variance > 0.0 { distance / variance.sqrt() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    /// The p by naming each run of each block in turn.
    fn brute_force(blocks: &[BlockLogs]) -> (f64, f64) {
        let scores = scores(blocks);
        let seen: usize = scores.iter().map(|block| block[2]).sum();
        let all = 3usize.pow(blocks.len() as u32);
        let (mut less, mut greater) = (0, 0);
        for naming in 0..all {
            let named = scores.iter().enumerate();
            let sum: usize = named.map(|(at, b)| b[naming / 3usize.pow(at as u32) % 3]).sum();
            less += usize::from(sum <= seen);
            greater += usize::from(sum >= seen);
        }
        (less as f64 / all as f64, greater as f64 / all as f64)
    }

    #[test]
    fn equals_brute_force_with_and_without_ties() {
        let mut rng = Rng::new(1);
        for round in 0..100 {
            let n = 1 + rng.below(7) as usize;
            let mut value = || if round % 2 == 0 { rng.normal() } else { rng.below(3) as f64 };
            let blocks: Vec<BlockLogs> = (0..n).map(|_| [value(), value(), value()]).collect();
            let (less, greater) = brute_force(&blocks);
            let test = aligned_rank(&blocks);
            assert!((test.p_less - less).abs() < 1e-12, "{blocks:?}");
            assert!((test.p_greater - greater).abs() < 1e-12, "{blocks:?}");
        }
    }

    #[test]
    fn the_fastest_of_three_in_each_block_is_three_to_the_minus_n() {
        for n in [1usize, 8, 30, 300] {
            let blocks = vec![[1.0, 1.1, 0.0]; n];
            let test = aligned_rank(&blocks);
            assert!((test.p_less.ln() + n as f64 * 3f64.ln()).abs() < 1e-6, "{n}: {test:?}");
            assert!(test.p_greater > 0.999_999);
        }
    }

    #[test]
    fn nothing_to_rank_proves_nothing() {
        let none = AlignedRank { p_less: 1.0, p_greater: 1.0 };
        assert_eq!(aligned_rank(&[]), none);
        assert_eq!(aligned_rank(&[[0.0, f64::NAN, 0.0]]), none);
        let same = aligned_rank(&[[5.0; 3]; 9]);
        assert!(same.p_less > 0.999_999 && same.p_greater > 0.999_999, "{same:?}");
    }

    #[test]
    fn skewed_noise_and_two_modes_do_not_make_it_lean() {
        type Draw = fn(&mut Rng) -> f64;
        let draws: [(&str, Draw); 2] = [
            ("exponential", Rng::exponential),
            ("two modes", |rng| 0.05 * rng.normal() + if rng.below(5) == 0 { 1.0 } else { 0.0 }),
        ];
        for (name, draw) in draws {
            // Of the rounds one in a hundred is expected; the limits are three deviations off.
            for (blocks, rounds, most) in [(12, 4000, 60), (50, 2000, 34), (200, 500, 12)] {
                let mut rng = Rng::new(blocks);
                let (mut less, mut greater) = (0, 0);
                for _ in 0..rounds {
                    let logs: Vec<BlockLogs> =
                        (0..blocks).map(|_| std::array::from_fn(|_| draw(&mut rng))).collect();
                    let test = aligned_rank(&logs);
                    less += u32::from(test.p_less <= 0.01);
                    greater += u32::from(test.p_greater <= 0.01);
                }
                assert!(less <= most && greater <= most, "{name} {blocks}: {less} {greater}");
            }
        }
    }

    #[test]
    fn deviations_agree_with_the_exact_p() {
        let mut rng = Rng::new(5);
        let mut compared = 0;
        for _ in 0..100 {
            let blocks: Vec<BlockLogs> =
                (0..20).map(|_| [rng.normal(), rng.normal(), rng.normal() - 0.6]).collect();
            let normal = crate::stats::normal_upper_tail(deviations_below(&blocks));
            let exact = aligned_rank(&blocks).p_less;
            if exact >= 0.001 {
                compared += 1;
                // Too large, if anything: the exact tails are lighter.
                assert!((-0.1..0.5).contains(&(normal / exact - 1.0)), "{normal} {exact}");
            }
        }
        assert!(compared > 30, "{compared}");
    }
}
