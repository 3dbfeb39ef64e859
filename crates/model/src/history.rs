//! Saved runs of one program over time.

use crate::schema::JsonSchema;
use crate::trial::TimeRatio;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// A session of a [`Trend`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrendPoint {
    /// Identifier of the run.
    pub run: String,
    pub started_unix_ns: u64,
    pub kernel: String,
    /// Median time of plain runs; for a service, CPU time per request.
    pub typical_ns: Nanos,
}

/// Sessions of one command on one machine, oldest first. Its kernel and settings may have changed between
/// them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    pub command: Vec<String>,
    /// The machine of the newest session.
    pub machine: String,
    /// True if figures are CPU time per request of a service and not the time of a run.
    pub is_service: bool,
    pub points: Vec<TrendPoint>,
    /// Change from the first session to the newest; absent if there are too few runs.
    pub change: Option<TimeRatio>,
}
