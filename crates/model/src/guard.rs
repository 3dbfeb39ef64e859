//! Bounds that an arm of an experiment must keep, whatever it gains.

use crate::schema::JsonSchema;
use crate::trial::ComparedQuantity;
use serde::{Deserialize, Serialize};

/// A bound.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmGuard {
    /// Quantity with a bound; none for requests that failed.
    pub quantity: Option<ComparedQuantity>,
    /// Largest accepted increase, as a share of the control's.
    pub limit_share: f64,
}

/// Result of a guard for an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GuardFinding {
    pub arm: String,
    pub guard: ArmGuard,
    /// Ratio to the control with its 95% interval; none if nothing was reported.
    pub ratio: Option<(f64, f64, f64)>,
    /// Number of requests that failed.
    pub errors: f64,
    /// True if the estimate exceeds the bound.
    #[serde(default)]
    pub is_passed: bool,
    /// True if it exceeds the bound and a loss is proven.
    pub is_broken: bool,
}
