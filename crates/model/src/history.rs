//! What saved runs of one program say about it over time.

use crate::trial::Ratio;
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A session of a [`Trend`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TrendPoint {
    /// Identifier of the run.
    pub run: String,
    pub started_unix_ns: u64,
    pub kernel: String,
    /// Median of plain runs, of a service the CPU time for a request.
    pub typical_ns: Nanos,
}

/// The sessions of one command on one machine, oldest first; its kernel and settings may have changed meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Trend {
    pub command: Vec<String>,
    /// The machine of the newest.
    pub machine: String,
    /// Figures are CPU time for a request of a service, not the time of a run.
    pub is_service: bool,
    pub points: Vec<TrendPoint>,
    /// From the first session to the newest; absent where there are too few runs.
    pub change: Option<Ratio>,
}
