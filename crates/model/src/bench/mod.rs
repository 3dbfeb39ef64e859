//! Types that all benches share: kinds of pages, repeats of a figure, claims with the rule that answers them,
//! and what is not available here.

mod claim;
pub mod file;
pub mod fork;
pub mod memory;
pub mod pin;
pub mod pipe;
pub mod text;
pub mod text_load;
pub mod tlb;

pub use claim::{BenchClaim, ClaimAnswer, ClaimEvidence, ClaimFigure, LEAST_REPEATS};

use crate::measured::Measured;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// A kind of page that a bench can request.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // as it is typed and shown
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum PageKind {
    /// Base pages.
    Base,
    /// Transparent huge pages.
    Thp,
    /// Huge pages of the reserved pool, of the same size as transparent ones.
    Pool,
    /// The next larger pages of a reserved pool (1 GiB on x86-64).
    Giant,
}

impl PageKind {
    /// All of them, in display order.
    pub const ALL: [Self; 4] = [Self::Base, Self::Thp, Self::Pool, Self::Giant];
    /// All that are compared with base pages.
    pub const LARGER: [Self; 3] = [Self::Thp, Self::Pool, Self::Giant];

    /// Name for use in a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Base => "base pages",
            Self::Thp => "transparent huge pages",
            Self::Pool => "huge pages of the pool",
            Self::Giant => "giant pages of the pool",
        }
    }
}

/// A way that was requested and is not available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MissingWay<W> {
    pub way: W,
    /// The kernel's reason.
    pub why: String,
    /// The step that would make it available.
    pub next: String,
}

/// One figure of a point, by the number of the repeat. Repeats with the same number were taken in the same
/// round, so those of two points are paired.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RepeatSeries(Vec<(u32, f64)>);

impl FromIterator<(u32, f64)> for RepeatSeries {
    fn from_iter<I: IntoIterator<Item = (u32, f64)>>(repeats: I) -> Self {
        Self(repeats.into_iter().collect())
    }
}

impl RepeatSeries {
    /// The figures without their numbers.
    #[must_use]
    pub fn values(&self) -> Vec<f64> {
        self.0.iter().map(|(_, value)| *value).collect()
    }

    /// Median and spread of the figures; none without repeats.
    #[must_use]
    pub fn measured(&self) -> Option<Measured> {
        Measured::from_values(&self.values())
    }

    /// The result of `combine` for each repeat that both series have.
    #[must_use]
    pub fn paired(&self, other: &Self, combine: impl Fn(f64, f64) -> f64) -> Self {
        let pair = |(repeat, value): &(u32, f64)| {
            let (_, beside) = other.0.iter().find(|(number, _)| number == repeat)?;
            Some((*repeat, combine(*value, *beside)))
        };
        self.0.iter().filter_map(pair).collect()
    }

    /// The differences from `other`, repeat by repeat.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        self.paired(other, |value, beside| value - beside)
    }

    /// The logarithms of the ratios to `other`, repeat by repeat.
    #[must_use]
    pub fn log_ratios(&self, other: &Self) -> Vec<f64> {
        self.paired(other, |value, beside| (value / beside).ln()).values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_of_one_number_are_paired() {
        let one: RepeatSeries = [(0, 2.0), (1, 4.0), (3, 9.0)].into_iter().collect();
        let other: RepeatSeries = [(3, 3.0), (0, 1.0), (2, 7.0)].into_iter().collect();
        assert_eq!(one.less(&other).values(), [1.0, 6.0]);
        assert_eq!(one.log_ratios(&other), [2_f64.ln(), 3_f64.ln()]);
        assert_eq!(one.measured().map(|m| (m.median, m.n)), Some((4.0, 3)));
        assert_eq!(RepeatSeries::default().measured(), None);
    }
}
