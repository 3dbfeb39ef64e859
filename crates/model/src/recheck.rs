//! A gain that was proven once, measured again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What has become of a gain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is proven again.
    Holds,
    /// It is ruled out, or has become a loss.
    Vanished,
    /// The runs do not settle it.
    CannotTell,
}

/// A ratio of an arm to the plain program, with the bounds of its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
}

/// A gain then and now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recheck {
    /// When it was measured again, nanoseconds since 1970.
    pub at_unix_ns: u64,
    /// Identifier of the run that proved it.
    #[serde(deserialize_with = "crate::name::identifier")]
    pub run: String,
    pub command: Vec<String>,
    #[serde(deserialize_with = "crate::name::arm")]
    pub arm: String,
    pub then: Option<Gain>,
    pub now: Option<Gain>,
    pub standing: Standing,
    /// What has changed since then, if that is known.
    pub change: Option<String>,
    /// Identifier of the new run; none where it could not be made.
    pub new_run: Option<String>,
    /// Why it could not be measured.
    pub problem: Option<String>,
}
