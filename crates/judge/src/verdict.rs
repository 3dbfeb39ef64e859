//! The verdict on one arm of an experiment: the rule that decides keep, reject, equivalent or
//! cannot tell.
//!
//! Input is one logarithm of a time ratio per block: the arm against the geometric mean of the
//! control's two runs in that block, so that slow drift cancels. The control's second run
//! against its first, from the same blocks, shows what the machine does by itself.
//!
//! *keep* needs all of: the exact one-sided signed-rank p at most 0.005 (0.002 from 20 blocks
//! on), divided by the number of arms confirmed; the lower 95% bound of the Hodges-Lehmann
//! estimate of the gain above 1%; the effect above twice the control's own; the mechanism's
//! counter moved in two of three runs of the arm or more and in none of the control (every run
//! counts for the effect, whether it took hold or not; docs/decisions/008); equal output. *reject* is
//! the mirror image without the counter, or unequal output. *equivalent* is a 95% interval within
//! 2% either way. The control against itself vetoes only at a two-sided p of 0.001: a veto
//! at 5% would refuse 6% of all true gains. Not seen: an error that favours one arm in
//! every block alike, other than the host's share, which is measured apart.

pub use crate::mechanism::{HELD_SHARE, Mechanism};
use crate::stats::{Shift, hodges_lehmann, lower_bound, shift, signed_rank};
use pagewise_model::trial::{Effect, Verdict, Word};
use pagewise_model::{Bytes, Nanos};

/// Fewest blocks of any confirmation.
pub const LEAST_BLOCKS: u32 = 8;
/// Gain or loss that a one-sided 95% bound must exceed.
pub const LEAST_EFFECT: f64 = 0.01;
/// Half-width of the interval called equivalent.
pub const EQUIVALENT: f64 = 0.02;
/// Two-sided p at which the control against itself vetoes.
pub const CONTROL_VETO_P: f64 = 0.001;
/// How far the effect must exceed the control's own.
pub const CONTROL_FACTOR: f64 = 2.0;
/// Most blocks that may be dropped because the host spoiled them; where there are more, all count,
/// and its share of either side is set against the effect.
pub const HOST_DROP_SHARE: f64 = 0.2;
/// Most blocks that may be dropped because the CPU's speed moved. The canary does not know which
/// arm ran, so dropping by it favours none; what is left must still be enough for the proof.
pub const CANARY_DROP_SHARE: f64 = 0.8;
/// How the planned blocks fared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Blocks {
    /// Run, dropped ones included.
    pub run: u32,
    /// Dropped because the register canary moved.
    pub dropped_canary: u32,
    /// Dropped because of the host's share.
    pub dropped_host: u32,
    /// Spoiled by the host, but too many to be dropped: they count.
    pub kept_host: u32,
    /// All planned blocks were run; false after an interruption.
    pub complete: bool,
}

/// All that the verdict on one arm rests on.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    /// Per counted block, ln(arm / geometric mean of the control's two runs).
    pub log_ratios: Vec<f64>,
    /// Per counted block, ln(second control run / first).
    pub control_log_ratios: Vec<f64>,
    /// The counter of the mechanism.
    pub mechanism: Mechanism,
    /// Output equal to the control's.
    pub output_equal: bool,
    /// Arms confirmed together.
    pub arms_confirmed: u32,
    /// Median host time of a run of the arm, as a share of the control's median wall time.
    pub host_share_arm: f64,
    /// The same of the control.
    pub host_share_control: f64,
    /// How the blocks fared.
    pub blocks: Blocks,
}

/// What the arm costs beside time, as shown with the verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Costs {
    /// Median ratio of CPU time.
    pub cpu_ratio: Option<f64>,
    /// Median peak memory, arm minus control.
    pub peak_rss_change_bytes: Option<i64>,
    /// Median peak memory of the control.
    pub control_peak_rss_bytes: Option<Bytes>,
    /// Median CPU time of our supervisor beside a run of the arm.
    pub supervisor_ns: Nanos,
}

/// The p that `blocks` counted blocks must reach when `arms` arms are confirmed together.
#[must_use]
pub fn required_p(blocks: u32, arms: u32) -> f64 {
    let one_arm = if blocks < 20 { 0.005 } else { 0.002 };
    one_arm / f64::from(arms.max(1))
}

/// Fewest blocks in which `arms` arms can be proven at all: all blocks on one side must suffice.
#[must_use]
pub fn minimum_blocks(arms: u32) -> u32 {
    let reaches = |blocks: u32| 0.5f64.powf(f64::from(blocks)) <= required_p(blocks, arms);
    (LEAST_BLOCKS..).find(|blocks| reaches(*blocks)).unwrap_or(LEAST_BLOCKS)
}

/// Judges one arm.
#[must_use]
pub fn judge(arm: &str, evidence: &Evidence, costs: Costs) -> Verdict {
    let effect = estimate(evidence);
    let (word, why) = decide(evidence, effect.as_ref());
    Verdict {
        arm: arm.to_owned(),
        word,
        why,
        effect,
        cpu_ratio: costs.cpu_ratio,
        peak_rss_change_bytes: costs.peak_rss_change_bytes,
        control_peak_rss_bytes: costs.control_peak_rss_bytes,
        supervisor_ns: costs.supervisor_ns,
    }
}

/// The effect, where there are blocks enough for an interval.
fn estimate(evidence: &Evidence) -> Option<Effect> {
    let Shift { estimate, low, high } = shift(&evidence.log_ratios)?;
    let test = signed_rank(&evidence.log_ratios);
    let control = signed_rank(&evidence.control_log_ratios);
    Some(Effect {
        ratio: estimate.exp(),
        ratio_low: low.exp(),
        ratio_high: high.exp(),
        p_faster: test.p_less,
        p_slower: test.p_greater,
        control_ratio: hodges_lehmann(&evidence.control_log_ratios)?.exp(),
        control_p: control.p_two_sided(),
        blocks: u32::try_from(evidence.log_ratios.len()).unwrap_or(u32::MAX),
    })
}

fn decide(evidence: &Evidence, effect: Option<&Effect>) -> (Word, String) {
    if !evidence.output_equal {
        return (Word::Reject, "its output differs from the control's".to_owned());
    }
    if let Some(why) = unfinished(evidence, effect) {
        return (Word::NotProven, why);
    }
    let Some(effect) = effect else {
        return (Word::CannotTell, spoiled(evidence));
    };
    if let Some(why) = unfit(evidence, effect) {
        return (Word::CannotTell, why);
    }
    let faster = Direction::Faster.unmet(evidence, effect);
    let slower = Direction::Slower.unmet(evidence, effect);
    match (faster, slower) {
        (None, _) => keep_unless_vetoed(evidence, effect),
        (_, None) => match host_made(evidence, Direction::Slower) {
            Some(why) => (Word::CannotTell, why),
            None => (Word::Reject, describe(effect)),
        },
        (Some(faster), Some(slower)) => undecided(evidence, effect, faster, slower),
    }
}

/// Why there was no whole confirmation, if so.
fn unfinished(evidence: &Evidence, effect: Option<&Effect>) -> Option<String> {
    let run = evidence.blocks.run;
    let least = minimum_blocks(evidence.arms_confirmed);
    let reason = if !evidence.blocks.complete {
        format!("stopped after {run} blocks")
    } else if run < least {
        format!("only {run} blocks, {least} are needed")
    } else {
        return None;
    };
    Some(match effect {
        Some(effect) => format!("{reason}: {} so far", describe(effect)),
        None => reason,
    })
}

fn spoiled(evidence: &Evidence) -> String {
    let Blocks { run, dropped_canary, dropped_host, .. } = evidence.blocks;
    format!(
        "{} of {run} blocks count: the speed of the CPU moved in {dropped_canary}, the host \
         interfered in {dropped_host}",
        evidence.log_ratios.len()
    )
}

/// Why no verdict can come from these blocks at all, if so.
fn unfit(evidence: &Evidence, effect: &Effect) -> Option<String> {
    let Blocks { run, dropped_canary, dropped_host, .. } = evidence.blocks;
    let too_many = f64::from(dropped_host) > HOST_DROP_SHARE * f64::from(run)
        || f64::from(dropped_canary) > CANARY_DROP_SHARE * f64::from(run)
        || effect.blocks < minimum_blocks(evidence.arms_confirmed);
    if too_many {
        return Some(format!("too few blocks are left: {}", spoiled(evidence)));
    }
    (effect.control_p <= CONTROL_VETO_P).then(|| {
        format!(
            "the control differs from itself by {} ({})",
            percent((effect.control_ratio - 1.0).abs()),
            p_text(effect.control_p)
        )
    })
}

fn keep_unless_vetoed(evidence: &Evidence, effect: &Effect) -> (Word, String) {
    if let Some(why) = host_made(evidence, Direction::Faster) {
        return (Word::CannotTell, why);
    }
    let seen = describe(effect);
    match &evidence.mechanism {
        Mechanism::Counter { arm, control } if !evidence.mechanism.moved() => (
            Word::CannotTell,
            format!(
                "{seen}, but its counter does not show why: it moved in {} of its {} runs, and was \
                 up to {} in the control's",
                evidence.mechanism.held(),
                arm.len(),
                control.iter().max().unwrap_or(&0)
            ),
        ),
        mechanism => (Word::Keep, seen + &mechanism.describe() + &host_against(evidence)),
    }
}

/// That the host's blocks were kept, where they were.
fn host_against(evidence: &Evidence) -> String {
    match evidence.blocks.kept_host {
        0 => String::new(),
        kept => format!(
            "; the host interfered in {kept} blocks, which count: its share is {} of the control's \
             time and {} of the arm's",
            percent(evidence.host_share_control),
            percent(evidence.host_share_arm)
        ),
    }
}

fn undecided(
    evidence: &Evidence,
    effect: &Effect,
    faster: String,
    slower: String,
) -> (Word, String) {
    let within = effect.ratio_low >= 1.0 - EQUIVALENT && effect.ratio_high <= 1.0 + EQUIVALENT;
    let host = evidence.host_share_control - evidence.host_share_arm;
    match (within, host.abs() > EQUIVALENT) {
        (true, false) => (Word::Equivalent, describe(effect)),
        (true, true) => (
            Word::CannotTell,
            format!("the host's share of memory differs by {} of the time", percent(host.abs())),
        ),
        (false, _) => {
            let unmet = if effect.ratio < 1.0 { faster } else { slower };
            (Word::CannotTell, format!("{}, but {unmet}", describe(effect)))
        }
    }
}

/// Which way an effect is to be proven.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Faster,
    Slower,
}

impl Direction {
    /// Logarithms of the ratios, turned so that a larger one speaks for this direction.
    fn turn(self, log_ratios: &[f64]) -> Vec<f64> {
        let sign = if self == Self::Faster { -1.0 } else { 1.0 };
        log_ratios.iter().map(|v| sign * v).collect()
    }

    /// One-sided 95% bound of the gain or loss, as a share of the control's time.
    fn bound(self, evidence: &Evidence) -> Option<f64> {
        let low = lower_bound(&self.turn(&evidence.log_ratios), 0.05)?;
        Some(if self == Self::Faster { 1.0 - (-low).exp() } else { low.exp() - 1.0 })
    }

    /// The first condition that is not met, in words; `None` when the effect is proven.
    fn unmet(self, evidence: &Evidence, effect: &Effect) -> Option<String> {
        let p = if self == Self::Faster { effect.p_faster } else { effect.p_slower };
        let required = required_p(effect.blocks, evidence.arms_confirmed);
        if p > required {
            let needed = format!("{required:.5}");
            let needed = needed.trim_end_matches('0');
            return Some(format!("{} where {needed} is needed", p_text(p)));
        }
        let bound = self.bound(evidence).unwrap_or(f64::NEG_INFINITY);
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

/// The sentence for an effect that the host could have made, if it could.
fn host_made(evidence: &Evidence, direction: Direction) -> Option<String> {
    let (arm, control) = (evidence.host_share_arm, evidence.host_share_control);
    let help = if direction == Direction::Faster { control - arm } else { arm - control };
    let bound = direction.bound(evidence)?;
    (help > 0.0 && bound - help <= LEAST_EFFECT).then(|| {
        format!(
            "the host could have made the difference: memory it gave back late took {} of the \
             control's time and {} of the arm's",
            percent(control),
            percent(arm)
        )
    })
}

/// `12.3% faster (95% interval 10.1% to 14.0%), p = 0.0004 in 24 blocks`.
fn describe(effect: &Effect) -> String {
    let (word, sign, p) = if effect.ratio <= 1.0 {
        ("faster", 1.0, effect.p_faster)
    } else {
        ("slower", -1.0, effect.p_slower)
    };
    let mut ends = [sign * (1.0 - effect.ratio_low), sign * (1.0 - effect.ratio_high)];
    ends.sort_by(f64::total_cmp);
    format!(
        "{} {word} (95% interval {} to {}), {} in {} blocks",
        percent(sign * (1.0 - effect.ratio)),
        percent(ends[0]),
        percent(ends[1]),
        p_text(p),
        effect.blocks
    )
}

/// A share as a percentage with one decimal and without a negative zero.
fn percent(share: f64) -> String {
    let rounded = (share * 1000.0).round() / 10.0;
    format!("{:.1}%", if rounded == 0.0 { 0.0 } else { rounded })
}

fn p_text(p: f64) -> String {
    if p < 0.0001 { "p < 0.0001".to_owned() } else { format!("p = {p:.4}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::Rng;

    fn evidence(gain: f64, sd: f64, blocks: u32) -> Evidence {
        let mut rng = Rng::new(u64::from(blocks));
        let centre = (1.0 - gain).ln();
        Evidence {
            log_ratios: (0..blocks).map(|_| centre + sd * rng.normal()).collect(),
            control_log_ratios: (0..blocks).map(|_| sd * rng.normal()).collect(),
            mechanism: Mechanism::None,
            output_equal: true,
            arms_confirmed: 1,
            host_share_arm: 0.0,
            host_share_control: 0.0,
            blocks: Blocks { run: blocks, complete: true, ..Blocks::default() },
        }
    }

    fn word(evidence: &Evidence) -> Word {
        judge("b", evidence, Costs::default()).word
    }

    #[test]
    fn the_four_words() {
        assert_eq!(word(&evidence(0.10, 0.02, 12)), Word::Keep);
        assert_eq!(word(&evidence(-0.10, 0.02, 12)), Word::Reject);
        assert_eq!(word(&evidence(0.0, 0.005, 20)), Word::Equivalent);
        assert_eq!(word(&evidence(0.03, 0.10, 12)), Word::CannotTell);
    }

    #[test]
    fn the_sentence_carries_the_numbers() {
        let why = judge("b", &evidence(0.10, 0.02, 12), Costs::default()).why;
        assert!(why.contains("faster (95% interval") && why.contains("in 12 blocks"), "{why}");
        let why = judge("b", &evidence(0.03, 0.10, 12), Costs::default()).why;
        assert!(why.contains("where 0.005 is needed"), "{why}");
    }

    #[test]
    fn a_tiny_but_certain_gain_is_not_kept() {
        let verdict = judge("b", &evidence(0.009, 0.001, 30), Costs::default());
        assert_eq!(verdict.word, Word::Equivalent);
        assert!(verdict.effect.unwrap().p_faster < 0.001);
    }

    #[test]
    fn unequal_output_is_rejected_even_when_faster() {
        let with = Evidence { output_equal: false, ..evidence(0.3, 0.02, 12) };
        assert_eq!(word(&with), Word::Reject);
    }

    #[test]
    fn the_counter_must_move_in_the_arm_alone() {
        let counted = |arm: &[u64], control: &[u64]| Evidence {
            mechanism: Mechanism::Counter { arm: arm.into(), control: control.into() },
            ..evidence(0.3, 0.02, 12)
        };
        assert_eq!(word(&counted(&[30, 31], &[0, 2])), Word::Keep);
        assert_eq!(word(&counted(&[30, 0], &[0, 0])), Word::CannotTell);
        let often = counted(&[30, 0, 31, 30], &[0, 0]);
        assert_eq!(word(&often), Word::Keep);
        assert!(judge("b", &often, Costs::default()).why.contains("3 of its 4 runs"));
        assert_eq!(word(&counted(&[0, 0, 0], &[0, 0])), Word::CannotTell);
        assert_eq!(word(&counted(&[30, 31], &[0, 3])), Word::CannotTell);
        assert_eq!(word(&counted(&[30, 31], &[])), Word::CannotTell);
    }

    #[test]
    fn the_host_vetoes_what_it_could_have_made() {
        let shares = |arm, control, gain| Evidence {
            host_share_arm: arm,
            host_share_control: control,
            ..evidence(gain, 0.02, 12)
        };
        let verdict = judge("b", &shares(0.0, 0.12, 0.1), Costs::default());
        assert_eq!(verdict.word, Word::CannotTell);
        assert!(verdict.why.contains("host"), "{}", verdict.why);
        assert_eq!(word(&shares(0.0, 0.02, 0.1)), Word::Keep);
        assert_eq!(word(&shares(0.12, 0.0, 0.1)), Word::Keep);
        assert_eq!(word(&shares(0.12, 0.0, -0.1)), Word::CannotTell);
    }

    #[test]
    fn a_control_that_differs_from_itself_vetoes() {
        let mut with = evidence(0.3, 0.02, 12);
        with.control_log_ratios = (0..12).map(|i| 0.02 + 0.001 * f64::from(i)).collect();
        assert_eq!(word(&with), Word::CannotTell);
        with.control_log_ratios = (0..12).map(|i| 0.2 * f64::from(i % 2)).collect();
        assert_eq!(word(&with), Word::Keep);
    }

    #[test]
    fn stopped_or_short_is_never_kept() {
        let mut with = evidence(0.3, 0.02, 12);
        with.blocks.complete = false;
        assert_eq!(word(&with), Word::NotProven);
        assert_eq!(word(&evidence(0.3, 0.02, 7)), Word::NotProven);
        assert_eq!(judge("b", &evidence(0.3, 0.02, 3), Costs::default()).effect, None);
    }

    #[test]
    fn the_blocks_of_a_host_that_interferes_often_count_and_it_is_said() {
        let mut with = evidence(0.3, 0.02, 12);
        with.blocks.kept_host = 4;
        let verdict = judge("b", &with, Costs::default());
        assert_eq!(verdict.word, Word::Keep);
        assert!(verdict.why.contains("interfered in 4 blocks"), "{}", verdict.why);
        with.host_share_control = 0.35;
        assert_eq!(word(&with), Word::CannotTell, "the host slowed the control");
    }

    #[test]
    fn too_many_dropped_blocks_are_refused() {
        let mut with = evidence(0.3, 0.02, 12);
        with.blocks.run = 16;
        with.blocks.dropped_host = 4;
        assert_eq!(word(&with), Word::CannotTell);
        with.blocks.dropped_host = 3;
        with.blocks.dropped_canary = 1;
        assert_eq!(word(&with), Word::Keep);
    }

    #[test]
    fn minimum_blocks_can_reach_the_required_p() {
        assert_eq!(minimum_blocks(1), 8);
        assert_eq!(minimum_blocks(2), 9);
        assert_eq!(minimum_blocks(3), 10);
        for arms in 1..=20 {
            let least = minimum_blocks(arms);
            let all: Vec<f64> = (1..=least).map(f64::from).collect();
            assert!(signed_rank(&all).p_greater <= required_p(least, arms));
        }
    }
}
