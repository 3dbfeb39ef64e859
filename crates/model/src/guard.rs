//! Bounds that an arm of an experiment may not pass, whatever it gains.

use crate::trial::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guard {
    /// What is bounded; none: requests that failed.
    pub quantity: Option<Quantity>,
    /// How much more of it is accepted, as a share of the control's.
    pub limit_share: f64,
}

/// What a guard showed of an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Guarded {
    pub arm: String,
    pub guard: Guard,
    /// Ratio to the control with its 95% interval; none where nothing was reported.
    pub ratio: Option<(f64, f64, f64)>,
    /// Requests that failed.
    pub errors: f64,
    /// The estimate has passed the bound.
    #[serde(default)]
    pub is_passed: bool,
    /// It has, and a loss is proven.
    pub is_broken: bool,
}
