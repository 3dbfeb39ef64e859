//! The verdict on one arm of an experiment: the rule that decides keep, reject, equivalent or
//! cannot tell.
//!
//! Input is three times per block: the control twice and the arm, so that slow drift cancels.
//! What they show is worked out in [`crate::effect`].
//!
//! *keep* needs all of: the exact one-sided p of naming runs at random within blocks at most 0.005
//! (0.002 from 20 blocks on), divided by the number of arms confirmed; the lower 95% bound of the
//! Hodges-Lehmann estimate of the gain above 1%; the effect above twice the control's own; the same
//! with the host's time taken off each run; the same direction with the blocks counted that were
//! dropped because of the host; the mechanism's counter moved in two of three runs of the arm or
//! more and not in the control (every run counts for the effect, whether it took hold or not;
//! docs/decisions/008); equal output. *reject* is the mirror image without the counter, or unequal
//! output. *equivalent* is a 95% interval within 2% either way. The control against itself vetoes
//! only at a two-sided p of 0.001: a veto at 5% would refuse 6% of all true gains. Not seen: an
//! error that favours one arm in every block alike, other than the host's share, which is measured
//! apart.

pub use crate::effect::{DRIFT, DRIFT_SHARE, REPEAT_BLOCKS};
use crate::effect::{Direction, describe, estimate, p_text, percent, turned};
pub use crate::mechanism::{HELD_SHARE, Mechanism};
use crate::stats::BlockLogs;
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
    /// Logarithms of the times of each counted block.
    pub counted: Vec<BlockLogs>,
    /// The same with the host's time taken off each run.
    pub without_host: Vec<BlockLogs>,
    /// The counted blocks and those dropped because of the host; as the machine is.
    pub with_host: Vec<BlockLogs>,
    /// The counter of the mechanism.
    pub mechanism: Mechanism,
    /// Output equal to the control's.
    pub output_equal: bool,
    /// Arms confirmed together.
    pub arms_confirmed: u32,
    /// Mean host time of a run of the arm, as a share of the control's median wall time.
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

/// From so many counted blocks on the stricter p is asked for.
pub const STRICT_BLOCKS: u32 = 20;

/// The p that `blocks` counted blocks must reach when `arms` arms are confirmed together.
#[must_use]
pub fn required_p(blocks: u32, arms: u32) -> f64 {
    let one_arm = if blocks < STRICT_BLOCKS { 0.005 } else { 0.002 };
    one_arm / f64::from(arms.max(1))
}

/// Fewest blocks in which `arms` arms can be proven at all: an arm that is the fastest in each must
/// suffice.
#[must_use]
pub fn minimum_blocks(arms: u32) -> u32 {
    let reaches = |blocks: u32| 3f64.powf(-f64::from(blocks)) <= required_p(blocks, arms);
    (LEAST_BLOCKS..).find(|blocks| reaches(*blocks)).unwrap_or(LEAST_BLOCKS)
}

/// Judges one arm.
#[must_use]
pub fn judge(arm: &str, evidence: &Evidence, costs: Costs) -> Verdict {
    let effect = estimate(&evidence.counted, &evidence.with_host);
    let (word, why) = decide(evidence, effect.as_ref());
    Verdict { effect, ..without_effect(arm, word, why, costs) }
}

/// A verdict that rests on no blocks.
#[must_use]
pub fn without_effect(arm: &str, word: Word, why: String, costs: Costs) -> Verdict {
    Verdict {
        arm: arm.to_owned(),
        word,
        why,
        effect: None,
        cpu_ratio: costs.cpu_ratio,
        peak_rss_change_bytes: costs.peak_rss_change_bytes,
        control_peak_rss_bytes: costs.control_peak_rss_bytes,
        supervisor_ns: costs.supervisor_ns,
    }
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
    let arms = evidence.arms_confirmed;
    let faster = Direction::Faster.unmet(&evidence.counted, effect, arms);
    let slower = Direction::Slower.unmet(&evidence.counted, effect, arms);
    match (faster, slower) {
        (None, _) => keep_unless_vetoed(evidence, effect),
        (_, None) => match host_made(evidence, effect, Direction::Slower) {
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
        evidence.counted.len()
    )
}

/// Why no verdict can come from these blocks at all, if so.
fn unfit(evidence: &Evidence, effect: &Effect) -> Option<String> {
    let Blocks { run, dropped_canary, .. } = evidence.blocks;
    let too_many = f64::from(dropped_canary) > CANARY_DROP_SHARE * f64::from(run)
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
    if let Some(why) = host_made(evidence, effect, Direction::Faster) {
        return (Word::CannotTell, why);
    }
    let seen = describe(effect);
    match &evidence.mechanism {
        Mechanism::Counter { arm, control } if !evidence.mechanism.moved() => (
            Word::CannotTell,
            format!(
                "{seen}, but its counter does not show why: it stood out in {} of its {} runs, and \
                 was up to {} in the control's",
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

/// The sentence for an effect that the host could have made, if it could: one that is not proven
/// with the host's time taken off each run, or that turns round with the blocks counted in which
/// the host interfered.
fn host_made(evidence: &Evidence, effect: &Effect, direction: Direction) -> Option<String> {
    if let Some(all) = effect.with_host.as_ref().filter(|all| !direction.agrees(all.ratio)) {
        let turned = turned(all.ratio);
        return Some(format!("{}, but {turned} with the host's blocks counted", describe(effect)));
    }
    let proven = estimate(&evidence.without_host, &[]).is_some_and(|without| {
        direction.unmet(&evidence.without_host, &without, evidence.arms_confirmed).is_none()
    });
    (!proven).then(|| {
        format!(
            "the host could have made the difference: memory it gave back late took {} of the \
             control's time and {} of the arm's",
            percent(evidence.host_share_control),
            percent(evidence.host_share_arm)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Rng, aligned_rank};

    fn evidence(gain: f64, sd: f64, blocks: u32) -> Evidence {
        let mut rng = Rng::new(u64::from(blocks));
        let mut run = || sd * rng.normal();
        let counted: Vec<BlockLogs> =
            (0..blocks).map(|_| [run(), run(), (1.0 - gain).ln() + run()]).collect();
        Evidence {
            without_host: counted.clone(),
            with_host: counted.clone(),
            counted,
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

    /// The host took these logarithms of time in each run of the control and of the arm.
    fn hosted(mut evidence: Evidence, control: f64, arm: f64) -> Evidence {
        for block in &mut evidence.without_host {
            *block = [block[0] - control, block[1] - control, block[2] - arm];
        }
        (evidence.host_share_control, evidence.host_share_arm) = (control, arm);
        evidence
    }

    #[test]
    fn the_host_vetoes_what_it_could_have_made() {
        let gain = |gain| evidence(gain, 0.02, 12);
        let verdict = judge("b", &hosted(gain(0.1), 0.12, 0.0), Costs::default());
        assert_eq!(verdict.word, Word::CannotTell);
        assert!(verdict.why.contains("host"), "{}", verdict.why);
        assert_eq!(word(&hosted(gain(0.1), 0.02, 0.0)), Word::Keep);
        assert_eq!(word(&hosted(gain(0.1), 0.0, 0.12)), Word::Keep);
        assert_eq!(word(&hosted(gain(-0.1), 0.0, 0.12)), Word::CannotTell);
    }

    #[test]
    fn a_gain_that_turns_round_with_the_hosts_blocks_is_not_kept() {
        let mut with = evidence(0.1, 0.02, 12);
        with.with_host.extend([[0.0, 0.0, 0.5]; 2]);
        let kept = judge("b", &with, Costs::default());
        assert_eq!(kept.word, Word::Keep);
        let all = kept.effect.and_then(|e| e.with_host).unwrap();
        assert!(all.blocks == 14 && all.ratio < 1.0, "{all:?}");
        with.with_host.extend([[0.0, 0.0, 0.5]; 18]);
        let turned = judge("b", &with, Costs::default());
        assert_eq!(turned.word, Word::CannotTell);
        assert!(turned.why.contains("slower with the host's blocks counted"), "{}", turned.why);
    }

    #[test]
    fn a_control_that_differs_from_itself_vetoes() {
        let mut with = evidence(0.3, 0.02, 12);
        for (block, place) in with.counted.iter_mut().zip(0..) {
            block[1] = block[0] + 0.02 + 0.001 * f64::from(place);
        }
        assert_eq!(word(&with), Word::CannotTell);
        assert!(judge("b", &with, Costs::default()).why.contains("the control differs"));
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
        assert_eq!(word(&hosted(with, 0.35, 0.0)), Word::CannotTell, "the host slowed the control");
    }

    #[test]
    fn too_many_dropped_blocks_are_refused() {
        let mut with = evidence(0.3, 0.02, 12);
        with.blocks.run = 100;
        with.blocks.dropped_canary = 81;
        assert_eq!(word(&with), Word::CannotTell);
        with.blocks.dropped_canary = 80;
        assert_eq!(word(&with), Word::Keep);
    }

    #[test]
    fn minimum_blocks_can_reach_the_required_p() {
        assert_eq!([1, 3, 32].map(minimum_blocks), [8, 8, 8]);
        assert_eq!(minimum_blocks(33), 9);
        for arms in 1..=100 {
            let least = minimum_blocks(arms);
            let fastest = vec![[1.0, 1.0, 0.0]; least as usize];
            assert!(aligned_rank(&fastest).p_less <= required_p(least, arms) * 1.000_001);
        }
    }
}
