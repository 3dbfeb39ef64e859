//! Claims, their evidence, and the one rule that answers them.
//!
//! A claim says where a figure lies: above a border, below one, or between two. It is confirmed if the whole
//! 95% interval of the figure lies there, and refuted if the whole interval lies elsewhere. If the interval
//! contains a border, or the figure has no interval, the claim stays open. Exact counts (faults, pages) must
//! be the same in every repeat.
//!
//! Only [`BenchClaim::judged`] makes claims, so no bench chooses the answer itself.

use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewest repeats that give a 95% interval.
pub const LEAST_REPEATS: u64 = 6;
/// More repeats than this are not advised.
const MOST_REPEATS: f64 = 1000.0;

/// The answer of the machine to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimAnswer {
    /// The claim holds on this machine.
    Confirmed,
    /// The claim does not hold on this machine.
    Refuted,
    /// The measurements do not decide.
    CannotTell,
}

impl ClaimAnswer {
    /// The answer to a claim that must hold in every part: one part that does not hold decides.
    fn of_all(parts: impl Iterator<Item = Self>) -> Self {
        let join = |one, other| match (one, other) {
            (Self::Refuted, _) | (_, Self::Refuted) => Self::Refuted,
            (Self::Confirmed, Self::Confirmed) => Self::Confirmed,
            _ => Self::CannotTell,
        };
        parts.reduce(join).unwrap_or(Self::CannotTell)
    }
}

/// A figure with its 95% interval and the claimed range.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFigure {
    pub estimate: f64,
    /// 95% interval of the figure; missing if there are fewer repeats than it needs.
    pub interval: Fact<(f64, f64)>,
    /// Number of repeats behind the figure.
    pub repeats: u64,
    /// The claim says that the figure is above this.
    pub above: Option<f64>,
    /// The claim says that the figure is below this.
    pub below: Option<f64>,
    /// True if the interval comes from the ranges of all repeats. More repeats do not narrow it.
    #[serde(default)]
    pub is_range: bool,
}

impl ClaimFigure {
    /// A figure without a claim.
    #[must_use]
    pub const fn new(estimate: f64, interval: Fact<(f64, f64)>, repeats: u64) -> Self {
        Self { estimate, interval, repeats, above: None, below: None, is_range: false }
    }

    /// The ratio of two medians that were not measured in pairs. The ranges of six or more repeats contain
    /// the medians in 95 of 100 cases.
    #[must_use]
    pub fn over(one: &Measured, other: &Measured) -> Self {
        let repeats = u64::from(one.n.min(other.n));
        let interval = if repeats < LEAST_REPEATS {
            Fact::missing(format!("fewer than {LEAST_REPEATS} repeats of both"))
        } else {
            Fact::Known((one.min / other.max, one.max / other.min))
        };
        Self { is_range: true, ..Self::new(one.median / other.median, interval, repeats) }
    }

    /// A median by itself. The range of six or more repeats contains it in 95 of 100 cases.
    #[must_use]
    pub fn of(one: &Measured) -> Self {
        Self::over(one, &Measured { median: 1.0, min: 1.0, max: 1.0, n: one.n })
    }

    /// Claims that the figure is above `border`.
    #[must_use]
    pub fn above(self, border: f64) -> Self {
        Self { above: Some(border), ..self }
    }

    /// Claims that the figure is below `border`.
    #[must_use]
    pub fn below(self, border: f64) -> Self {
        Self { below: Some(border), ..self }
    }

    /// Claims that a ratio is `there`, up to a factor of `tolerance`, and on the same side of 1.
    #[must_use]
    pub fn about(self, there: f64, tolerance: f64) -> Self {
        let (low, high) = (there / tolerance, there * tolerance);
        if there > 1.0 {
            self.above(low.max(1.0)).below(high)
        } else {
            self.above(low).below(high.min(1.0))
        }
    }

    /// The answer by the rule.
    #[must_use]
    pub fn answer(&self) -> ClaimAnswer {
        let Fact::Known((low, high)) = self.interval else { return ClaimAnswer::CannotTell };
        let (above, below) =
            (self.above.unwrap_or(f64::NEG_INFINITY), self.below.unwrap_or(f64::INFINITY));
        let is_claimed = self.above.is_some() || self.below.is_some();
        match is_claimed && low <= high {
            true if low > above && high < below => ClaimAnswer::Confirmed,
            true if high < above || low > below => ClaimAnswer::Refuted,
            _ => ClaimAnswer::CannotTell,
        }
    }

    /// Number of repeats that would settle the claim if further repeats resemble these. An interval shrinks
    /// with the root of their number; the ranges of repeats do not. None if the answer is known, or if no
    /// number settles it.
    #[must_use]
    pub fn repeats_to_settle(&self) -> Option<u64> {
        let Fact::Known((low, high)) = self.interval else { return Some(LEAST_REPEATS) };
        if self.is_range {
            return None;
        }
        let within = [self.above, self.below].into_iter().flatten();
        let within = within.filter(|border| (low..=high).contains(border));
        let needed = within.map(|border| {
            let reach =
                if border < self.estimate { self.estimate - low } else { high - self.estimate };
            self.repeats as f64 * (reach / (border - self.estimate)).powi(2)
        });
        let needed = needed.reduce(f64::max)?.ceil().max(self.repeats as f64 + 1.0);
        (needed <= MOST_REPEATS).then_some(needed as u64)
    }
}

/// The evidence for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClaimEvidence {
    /// Figures, each of which must lie in its claimed range.
    Figures(Vec<ClaimFigure>),
    /// Number of repeats in which the claim held, and of all repeats in which it was counted.
    Counted { held: u64, tried: u64 },
    /// No evidence. The claim gives the reason.
    Nothing,
}

impl ClaimEvidence {
    /// Evidence of one figure.
    #[must_use]
    pub fn figure(figure: ClaimFigure) -> Self {
        Self::Figures(vec![figure])
    }

    /// Evidence of repeats: for each, whether the claim held.
    pub fn counted(held: impl IntoIterator<Item = bool>) -> Self {
        let (mut yes, mut tried) = (0, 0);
        for held in held {
            yes += u64::from(held);
            tried += 1;
        }
        Self::Counted { held: yes, tried }
    }

    /// The answer by the rule.
    #[must_use]
    pub fn answer(&self) -> ClaimAnswer {
        match self {
            Self::Figures(figures) => ClaimAnswer::of_all(figures.iter().map(ClaimFigure::answer)),
            Self::Counted { tried: 0, .. } | Self::Nothing => ClaimAnswer::CannotTell,
            Self::Counted { held: 0, .. } => ClaimAnswer::Refuted,
            Self::Counted { held, tried } if held == tried => ClaimAnswer::Confirmed,
            Self::Counted { .. } => ClaimAnswer::CannotTell,
        }
    }

    /// The step that would settle the claim; none if it is settled or nothing was measured.
    #[must_use]
    pub fn to_settle(&self) -> Option<String> {
        if self.answer() != ClaimAnswer::CannotTell {
            return None;
        }
        match self {
            Self::Figures(figures) => {
                let now = figures.iter().map(|figure| figure.repeats).min()?;
                let open = figures.iter().filter(|f| f.answer() == ClaimAnswer::CannotTell);
                if open.clone().any(|figure| figure.interval.known().is_none()) {
                    return Some(format!("an interval needs {LEAST_REPEATS} repeats of both"));
                }
                if open.clone().any(|figure| figure.is_range) {
                    let text = "the repeats of both overlap, and more of them cannot change that: measure on a quieter machine";
                    return Some(text.to_owned());
                }
                let needed: Option<Vec<u64>> = open.map(ClaimFigure::repeats_to_settle).collect();
                Some(match needed.and_then(|all| all.into_iter().max()) {
                    Some(needed) => format!("about {needed} repeats would settle it (now {now})"),
                    None => {
                        "more than 1,000 such repeats would be needed: measure on a quieter machine"
                            .to_owned()
                    }
                })
            }
            Self::Counted { held, tried } if *tried > 0 => {
                Some(format!("the repeats differ: it held in {held} of {tried}"))
            }
            Self::Counted { .. } | Self::Nothing => None,
        }
    }
}

/// For runs saved before evidence was kept: it is not known.
const fn not_saved() -> ClaimEvidence {
    ClaimEvidence::Nothing
}

/// A claim with the answer of this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct BenchClaim {
    pub claim: String,
    pub answer: ClaimAnswer,
    /// The figures behind the answer, and what would settle an open claim.
    pub why: String,
    #[serde(default = "not_saved")]
    pub evidence: ClaimEvidence,
}

impl BenchClaim {
    /// A claim, answered by its evidence. `why` gives the figures.
    pub fn judged(
        claim: impl Into<String>,
        evidence: ClaimEvidence,
        why: impl Into<String>,
    ) -> Self {
        let mut why = why.into();
        if let Some(settle) = evidence.to_settle() {
            why.push_str("; ");
            why.push_str(&settle);
        }
        Self { claim: claim.into(), answer: evidence.answer(), why, evidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(low: f64, high: f64) -> ClaimFigure {
        ClaimFigure::new(f64::midpoint(low, high), Fact::Known((low, high)), 9)
    }

    #[test]
    fn an_interval_that_holds_a_border_leaves_the_claim_open() {
        let below = |low, high| figure(low, high).below(1.0).answer();
        let answers = [(0.5, 0.9), (1.1, 1.2), (0.9, 1.1), (0.5, 1.0), (1.0, 1.1)];
        let [yes, no, open @ ..] = answers.map(|(low, high)| below(low, high));
        assert_eq!((yes, no), (ClaimAnswer::Confirmed, ClaimAnswer::Refuted));
        assert_eq!(open, [ClaimAnswer::CannotTell; 3]);
        assert_eq!(below(f64::NAN, 0.5), ClaimAnswer::CannotTell);
        assert_eq!(figure(0.5, 0.9).answer(), ClaimAnswer::CannotTell, "nothing is claimed");
        let few = ClaimFigure::new(0.1, Fact::missing("fewer than 6 repeats"), 5).below(1.0);
        assert_eq!((few.answer(), few.repeats_to_settle()), (ClaimAnswer::CannotTell, Some(6)));
    }

    #[test]
    fn a_claimed_gain_is_not_confirmed_while_there_may_be_none() {
        let huge_pages = |low, high| figure(low, high).about(1.6, 1.25).answer();
        assert_eq!(huge_pages(0.50, 10.39), ClaimAnswer::CannotTell);
        assert_eq!(huge_pages(1.5, 1.8), ClaimAnswer::Confirmed);
        assert_eq!(huge_pages(0.97, 1.03), ClaimAnswer::Refuted);
        assert_eq!(figure(0.99, 1.3).about(1.1, 1.25).answer(), ClaimAnswer::CannotTell);
        assert_eq!(figure(0.5, 0.7).about(0.6, 1.25).answer(), ClaimAnswer::Confirmed);
    }

    #[test]
    fn the_repeats_that_settle_a_claim_grow_as_the_figure_nears_the_border() {
        let far = ClaimFigure::new(1.5, Fact::Known((0.9, 2.1)), 8).above(1.0);
        assert_eq!(far.repeats_to_settle(), Some(12));
        let near = ClaimFigure { estimate: 1.1, ..far.clone() };
        assert!(near.repeats_to_settle() > far.repeats_to_settle());
        let at = ClaimEvidence::figure(ClaimFigure { estimate: 1.0, ..far });
        assert!(at.to_settle().is_some_and(|text| text.contains("quieter machine")));
        assert_eq!(ClaimEvidence::figure(figure(2.0, 3.0).above(1.0)).to_settle(), None);
    }

    #[test]
    fn all_parts_and_all_repeats_decide() {
        let parts = |all: &[(f64, f64)]| {
            let of = |&(low, high): &(f64, f64)| figure(low, high).above(1.0);
            ClaimEvidence::Figures(all.iter().map(of).collect()).answer()
        };
        assert_eq!(parts(&[(2.0, 3.0), (1.1, 1.2)]), ClaimAnswer::Confirmed);
        assert_eq!(parts(&[(2.0, 3.0), (0.9, 1.2)]), ClaimAnswer::CannotTell);
        assert_eq!(parts(&[(0.9, 1.2), (0.5, 0.8)]), ClaimAnswer::Refuted);
        assert_eq!(parts(&[]), ClaimAnswer::CannotTell);
        let counted = |held: &[bool]| ClaimEvidence::counted(held.iter().copied()).answer();
        assert_eq!(counted(&[true, true]), ClaimAnswer::Confirmed);
        assert_eq!(counted(&[false, false]), ClaimAnswer::Refuted);
        assert_eq!(counted(&[true, false]), ClaimAnswer::CannotTell);
        assert_eq!(counted(&[]), ClaimAnswer::CannotTell);
    }

    #[test]
    fn ranges_of_few_repeats_are_no_interval() {
        let of = |n| Measured { median: 2.0, min: 1.0, max: 4.0, n };
        assert_eq!(ClaimFigure::over(&of(5), &of(9)).interval.known(), None);
        let open = ClaimFigure::over(&of(6), &of(9)).above(1.0);
        assert_eq!(open.interval.known(), Some(&(0.25, 4.0)));
        // More repeats reach further, so none are promised to settle it.
        assert_eq!(open.repeats_to_settle(), None);
        let settle = ClaimEvidence::figure(open).to_settle();
        assert!(settle.is_some_and(|text| text.contains("more of them cannot")));
        let few = ClaimFigure::over(&of(5), &of(9)).above(1.0);
        assert_eq!(few.repeats_to_settle(), Some(LEAST_REPEATS));
    }

    #[test]
    fn a_claim_of_an_old_run_has_no_evidence() {
        let old = r#"{"claim":"x","answer":"refuted","why":"y"}"#;
        let claim: BenchClaim = serde_json::from_str(old).unwrap();
        assert_eq!((claim.answer, claim.evidence), (ClaimAnswer::Refuted, ClaimEvidence::Nothing));
        let evidence = ClaimEvidence::figure(figure(1.0, 2.0).above(1.5));
        let claim = BenchClaim::judged("x", evidence, "y");
        assert!(claim.why.starts_with("y; ") && claim.answer == ClaimAnswer::CannotTell);
        let text = serde_json::to_string(&claim).unwrap();
        assert_eq!(serde_json::from_str::<BenchClaim>(&text).unwrap(), claim);
    }
}
