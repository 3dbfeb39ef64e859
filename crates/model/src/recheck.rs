//! A proven gain, measured again.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of measuring a gain again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GainStanding {
    /// The gain is proven again.
    Holds,
    /// The gain is ruled out, or has become a loss.
    Vanished,
    /// The runs do not settle it.
    CannotTell,
}

/// Ratio of an arm to the plain program, with the bounds of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmGain {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

/// The earlier gain and the new one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GainRecheck {
    /// Time of the new measurement, in nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Identifier of the run that proved the gain.
    #[serde(deserialize_with = "crate::name::identifier")]
    pub run: String,
    pub command: Vec<String>,
    #[serde(deserialize_with = "crate::name::arm")]
    pub arm: String,
    pub then: Option<ArmGain>,
    pub now: Option<ArmGain>,
    pub standing: GainStanding,
    /// Changes since that run, if known.
    pub change: Option<String>,
    /// Identifier of the new run; none if it could not be made.
    pub new_run: Option<String>,
    /// Why the gain could not be measured; absent if it was measured.
    pub problem: Option<String>,
}
