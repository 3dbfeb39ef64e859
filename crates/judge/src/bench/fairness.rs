//! What every claim of every bench must satisfy, whatever was measured.
//!
//! The tests of each bench make random figures and pass all claims to [`check`], which states the rule a
//! second time, independently.

use crate::stats::Rng;
use pagewise_model::bench::{BenchClaim, ClaimAnswer, ClaimEvidence, ClaimFigure};
use proptest::prelude::*;

/// Random figures: their seed, how many repeats there are, how far they lie apart (as a logarithm).
pub(crate) fn noise() -> impl Strategy<Value = (u64, usize, f64)> {
    (any::<u64>(), 0..13_usize, prop_oneof![Just(0.0), 0.0..0.1_f64, 0.1..3.0_f64])
}

/// A factor by which a figure is off.
pub(crate) fn factor(rng: &mut Rng, spread: f64) -> f64 {
    (spread * rng.normal()).exp()
}

/// A claim must say *cannot tell* if it has no interval, or if its interval contains the claimed border. An
/// open claim must say what would settle it.
pub(crate) fn check(claims: &[BenchClaim]) -> Result<(), TestCaseError> {
    for claim in claims {
        let word = claim.answer;
        match &claim.evidence {
            ClaimEvidence::Nothing => prop_assert_eq!(word, ClaimAnswer::CannotTell, "{:?}", claim),
            ClaimEvidence::Counted { held, tried } => {
                let is_mixed = *held > 0 && held < tried;
                prop_assert_eq!(
                    word == ClaimAnswer::CannotTell,
                    is_mixed || *tried == 0,
                    "{:?}",
                    claim
                );
            }
            ClaimEvidence::Figures(figures) => {
                let open = figures.iter().filter(|figure| holds_border(figure)).count();
                match word {
                    ClaimAnswer::Confirmed => {
                        prop_assert!(open == 0 && !figures.is_empty(), "{claim:?}")
                    }
                    ClaimAnswer::Refuted => prop_assert!(open < figures.len(), "{claim:?}"),
                    ClaimAnswer::CannotTell => {
                        prop_assert!(open > 0 || figures.is_empty(), "{claim:?}");
                        let settles = claim.why.contains("repeats") || figures.is_empty();
                        prop_assert!(settles, "{claim:?}");
                    }
                }
            }
        }
    }
    Ok(())
}

fn holds_border(figure: &ClaimFigure) -> bool {
    let borders = [figure.above, figure.below].into_iter().flatten();
    match figure.interval.known() {
        Some((low, high)) => {
            assert!(low <= high, "an interval begins at its lower end: {figure:?}");
            borders.into_iter().any(|border| *low <= border && border <= *high)
        }
        None => true,
    }
}
