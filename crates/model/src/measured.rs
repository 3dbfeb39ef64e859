//! A number with its source, or the reason for its absence.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// A value, or the reason why it is missing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fact<T> {
    /// The value.
    Known(T),
    /// The reason why it was not measured. It is never shown as 0.
    Missing(String),
}

impl<T> Fact<T> {
    /// A missing value with its reason.
    pub fn missing(reason: impl Into<String>) -> Self {
        Self::Missing(reason.into())
    }
    /// The value, if it is known.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Missing(_) => None,
        }
    }
    /// The reason for a missing value.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Known(_) => None,
            Self::Missing(reason) => Some(reason),
        }
    }
    /// The same fact with `f` applied to its value.
    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Fact<U> {
        self.and_then(|value| Fact::Known(f(value)))
    }
    /// The fact that `f` derives from the value.
    pub fn and_then<U>(self, f: impl FnOnce(T) -> Fact<U>) -> Fact<U> {
        match self {
            Self::Known(value) => f(value),
            Self::Missing(reason) => Fact::Missing(reason),
        }
    }
}

impl<T, E: std::fmt::Display> From<Result<T, E>> for Fact<T> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(error) => Self::Missing(error.to_string()),
        }
    }
}

/// The mean; 0 without values.
#[must_use]
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The median; `None` without values or if one is not finite.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|v| !v.is_finite()) {
        return None;
    }
    let mut copy = values.to_vec();
    let mid = copy.len() / 2;
    let (below, upper, _) = copy.select_nth_unstable_by(mid, f64::total_cmp);
    let upper = *upper;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(f64::midpoint(lower, upper))
}

/// The median of repeated measurements of one quantity with its spread.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measured {
    /// Median of the repeats, in the unit that the name of the field gives.
    pub median: f64,
    /// Smallest repeat.
    pub min: f64,
    /// Largest repeat.
    pub max: f64,
    /// Number of repeats.
    pub n: u32,
}

impl Measured {
    /// Summary of `values`; `None` if there are none or one is not finite.
    #[must_use]
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick);
        Some(Self {
            median: median(values)?,
            min: fold(f64::min)?,
            max: fold(f64::max)?,
            n: u32::try_from(values.len()).unwrap_or(u32::MAX),
        })
    }
    /// Half the distance from the smallest to the largest repeat, relative to the median.
    #[must_use]
    pub fn spread_share(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.max - self.min) / 2.0 / self.median.abs() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_none() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        let measured = Measured::from_values(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(measured, Some(Measured { median: 2.5, min: 1.0, max: 4.0, n: 4 }));
        assert_eq!(Measured::from_values(&[]), None);
    }
}
