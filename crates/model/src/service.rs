//! A service under its own load: what a load generator reports of one run.
//!
//! Times are seconds, as generators differ in theirs. What a generator does not report is `None`.

use serde::{Deserialize, Serialize};

/// What a load generator reported of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Load {
    /// Requests (transactions, events, operations) that it counts as done; some count failed ones too.
    pub requests: f64,
    /// How long it sent them.
    pub seconds: Option<f64>,
    /// Requests per second.
    #[serde(rename = "rate_per_second")]
    pub rate: Option<f64>,
    /// Requests that failed, were answered by an error, or were due and never sent.
    pub errors: Option<f64>,
    /// How long requests took.
    pub latency: Latency,
    /// Requests are sent when they are due, whether earlier ones are answered or not (an open loop), and
    /// latency counts from then. `None` where neither the output nor the command says so.
    pub open_loop: Option<bool>,
}

/// How long requests took. A figure that the generator rounded to 0 is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Of all on average.
    #[serde(rename = "mean_seconds")]
    pub mean: Option<f64>,
    /// Of 50 in 100 at most.
    #[serde(rename = "p50_seconds")]
    pub p50: Option<f64>,
    /// Of 95 in 100 at most.
    #[serde(rename = "p95_seconds")]
    pub p95: Option<f64>,
    /// Of 99 in 100 at most.
    #[serde(rename = "p99_seconds")]
    pub p99: Option<f64>,
    /// Of the slowest.
    #[serde(rename = "max_seconds")]
    pub max: Option<f64>,
}
