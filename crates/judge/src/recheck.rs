//! Whether a gain that was proven once still holds.

use pagewise_model::recheck::{ArmGain, GainStanding};
use pagewise_model::run::SavedRun;
use pagewise_model::trial::{ArmVerdict, VerdictWord};

/// The verdict of `run` on `arm`.
#[must_use]
pub fn verdict<'a>(run: &'a SavedRun, arm: &str) -> Option<&'a ArmVerdict> {
    run.experiment.as_ref()?.verdicts.iter().find(|verdict| verdict.arm == arm)
}

/// The gain in a verdict.
#[must_use]
pub fn gain(verdict: Option<&ArmVerdict>) -> Option<ArmGain> {
    let effect = verdict?.effect.as_ref()?;
    Some(ArmGain { ratio: effect.ratio, low: effect.ratio_low, high: effect.ratio_high })
}

/// What the new verdict says about the old gain. A gain that is only likely now is neither proven nor ruled
/// out.
#[must_use]
pub fn standing(now: Option<&ArmVerdict>) -> GainStanding {
    match now.map(|verdict| verdict.word) {
        Some(VerdictWord::Keep) => GainStanding::Holds,
        Some(VerdictWord::NoGain | VerdictWord::Slower | VerdictWord::Reject) => {
            GainStanding::Vanished
        }
        _ => GainStanding::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proof_counts_in_either_direction() {
        let of = |word: &str| {
            let verdict = serde_json::json!({
                "arm": "a", "word": word, "why": "", "effect": null, "supervisor_ns": 0,
            });
            standing(Some(&serde_json::from_value(verdict).unwrap()))
        };
        assert_eq!(of("keep"), GainStanding::Holds);
        assert_eq!([of("no_gain"), of("slower"), of("reject")], [GainStanding::Vanished; 3]);
        assert_eq!(
            [of("likely"), of("cannot_tell"), of("not_tried")],
            [GainStanding::CannotTell; 3]
        );
        assert_eq!(standing(None), GainStanding::CannotTell);
        assert_eq!(gain(None), None);
    }
}
