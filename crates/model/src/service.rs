//! A service under load: the report of a load generator on one run, pairs of servers, and the user's request.
//!
//! Times of a load are seconds. A figure that a generator does not report is `None`.

use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The report of a load generator on one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct LoadReport {
    /// Requests (transactions, events, operations) that the generator counts as done. Some generators include
    /// failed ones.
    pub requests: f64,
    /// Time for which it sent requests, in seconds.
    pub seconds: Option<f64>,
    /// Requests per second.
    #[serde(rename = "rate_per_second")]
    pub rate: Option<f64>,
    /// Number of requests that failed, were answered by an error, or were due and never sent.
    pub errors: Option<f64>,
    /// Latency of requests.
    pub latency: RequestLatency,
    /// True if requests are sent when they are due, whether earlier ones are answered or not (an open loop),
    /// and latency counts from then. `None` if neither the output nor the command shows it.
    pub open_loop: Option<bool>,
}

/// Latency of requests. A figure that the generator rounded to 0 is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct RequestLatency {
    /// Mean latency, in seconds.
    #[serde(rename = "mean_seconds")]
    pub mean: Option<f64>,
    /// Latency that 50% of the requests do not exceed, in seconds.
    #[serde(rename = "p50_seconds")]
    pub p50: Option<f64>,
    /// Latency that 95% of the requests do not exceed, in seconds.
    #[serde(rename = "p95_seconds")]
    pub p95: Option<f64>,
    /// Latency that 99% of the requests do not exceed, in seconds.
    #[serde(rename = "p99_seconds")]
    pub p99: Option<f64>,
    /// Largest latency, in seconds.
    #[serde(rename = "max_seconds")]
    pub max: Option<f64>,
}

/// Mode of comparison of two servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ServiceMode {
    /// Both on the same CPUs at the same time, with their loads on the other CPUs. Then as a duet, for what
    /// CPU time does not show.
    AtOnce,
    /// Both at the same time, each on half of the CPUs, which they swap.
    Duet,
    /// One after the other.
    Restart,
    /// One server that runs already, with a remedy switched on and off.
    Toggle,
}

/// One run of the load against one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceWindow {
    /// CPU time of the server's processes during the run.
    pub cpu_ns: Nanos,
    /// Wall time of the generator, including its start and end.
    pub wall_ns: Nanos,
    /// CPU time of the generator.
    pub generator_cpu_ns: Nanos,
    /// Report of the generator.
    pub load: LoadReport,
    /// True if the server shared its CPUs with others. CPU times can then be compared; rates and latencies
    /// cannot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
}

impl ServiceWindow {
    /// Requests per second: as reported, or over the time that the generator took.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let over = self.load.seconds.unwrap_or(self.wall_ns.as_secs());
        self.load.rate.or_else(|| (over > 0.0).then(|| self.load.requests / over))
    }
}

/// Memory of a server's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServerMemory {
    /// Sum of the proportional set sizes (`Pss` in smaps_rollup).
    pub pss_bytes: Bytes,
    /// Anonymous memory on huge pages.
    pub anon_huge_bytes: Bytes,
    /// Pages of files that one entry for a huge page maps.
    pub file_huge_bytes: Bytes,
    /// Page tables (`VmPTE`).
    pub page_table_bytes: Bytes,
}

/// One start of a server with all runs of the load against it. For a running server: one block with the
/// remedy off, or on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerMeasurement {
    /// Time from the start until the server is ready; for a running server, the time to switch.
    pub ready_ns: Nanos,
    /// Number of runs of the load that do not count: until the rate has settled, or right after a switch.
    pub warm_ups: u32,
    /// The runs that count.
    pub windows: Vec<ServiceWindow>,
    /// Memory of the server when the first of these runs began.
    pub at_first: ServerMemory,
    /// Memory of the server after the last of these runs.
    pub at_last: ServerMemory,
}

/// A fresh start of the plain server and one of an arm, compared with each other. For a running server: a
/// block of windows with the remedy off and on in random order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ServerPair {
    /// Name of the arm.
    pub arm: String,
    /// Mode in which the servers ran.
    pub mode: ServiceMode,
    /// The plain server, or the server with the remedy off.
    pub plain: ServerMeasurement,
    /// The server of the arm, or the server with the remedy on.
    pub other: ServerMeasurement,
}

/// A service that was tuned under load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TunedService {
    /// Mode of comparison, unless an arm needs another mode.
    pub mode: ServiceMode,
    /// Why this mode was used.
    pub mode_why: String,
    /// The plain server under load, before any trial.
    pub first: Option<ServerMeasurement>,
    /// All pairs, in order.
    pub pairs: Vec<ServerPair>,
}

impl ServerMeasurement {
    /// True if both have the same start of the plain server, as several pairs that ran at the same time do.
    fn is_same_start(&self, other: &Self) -> bool {
        self.ready_ns == other.ready_ns
            && self.at_first == other.at_first
            && self.windows.first() == other.windows.first()
    }

    /// Runs of the load in which the server did not share its CPUs; all runs if it shared them in each.
    #[must_use]
    pub fn windows_apart(&self) -> Vec<&ServiceWindow> {
        let apart: Vec<&ServiceWindow> =
            self.windows.iter().filter(|window| !window.at_once).collect();
        if apart.is_empty() { self.windows.iter().collect() } else { apart }
    }
}

impl TunedService {
    /// Starts of the plain server: those of the pairs, each once, else the one before any trial.
    #[must_use]
    pub fn plain_sides(&self) -> Vec<&ServerMeasurement> {
        if self.pairs.is_empty() {
            return self.first.iter().collect();
        }
        let mut pairs: Vec<&ServerPair> = self.pairs.iter().collect();
        pairs.dedup_by(|next, last| {
            next.mode == ServiceMode::AtOnce && next.plain.is_same_start(&last.plain)
        });
        pairs.into_iter().map(|pair| &pair.plain).collect()
    }
}
