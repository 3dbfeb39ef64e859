//! A service under its own load: what a load generator reports of one run, pairs of servers, and what was
//! asked of them.
//!
//! Times of a load are seconds, as generators differ in theirs. What a generator does not report is `None`.

use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a load generator reported of one run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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

/// How two servers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Mode {
    /// Both on the same CPUs at the same time, their loads on the others; then as a duet, for what CPU time does not
    /// show.
    AtOnce,
    /// Both at once, each on half of the CPUs, which they swap.
    Duet,
    /// One after the other.
    Restart,
    /// One server that runs already, with a remedy switched on and off.
    Toggle,
}

/// One run of the load against one server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// CPU time of the server's processes meanwhile.
    pub cpu_ns: Nanos,
    /// Wall time of the generator, its start and end included.
    pub wall_ns: Nanos,
    /// CPU time of the generator.
    pub generator_cpu_ns: Nanos,
    /// What the generator reported.
    pub load: Load,
    /// The server shared its CPUs with others meanwhile: CPU time can be compared, rates and latencies cannot.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
}

impl Window {
    /// Requests a second: as reported, or over the time that the generator took.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let over = self.load.seconds.unwrap_or(self.wall_ns.as_secs());
        self.load.rate.or_else(|| (over > 0.0).then(|| self.load.requests / over))
    }
}

/// Memory of a server's processes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Holding {
    /// Proportional set size (`Pss` of smaps_rollup), summed.
    pub pss_bytes: Bytes,
    /// Anonymous memory on huge pages.
    pub anon_huge_bytes: Bytes,
    /// Pages of files mapped by one entry for a huge page.
    pub file_huge_bytes: Bytes,
    /// Page tables (`VmPTE`).
    pub page_table_bytes: Bytes,
}

/// One start of a server, with all runs of the load against it; or what a running one did in one block
/// with a remedy off, or on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// From the start to readiness; what switching took where it ran already.
    pub ready_ns: Nanos,
    /// Runs of the load until its rate had settled, or right after a switch; they do not count.
    pub warm_ups: u32,
    /// The runs that count.
    pub windows: Vec<Window>,
    /// Memory when the first of them began.
    pub at_first: Holding,
    /// Memory after the last.
    pub at_last: Holding,
}

/// A fresh start of the plain server and one of an arm, compared with each other; or a block of windows of
/// one server, with the remedy off and on in random order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pair {
    /// The arm.
    pub arm: String,
    /// How they ran.
    pub mode: Mode,
    /// The plain server, or the remedy off.
    pub plain: Side,
    /// The arm's, or the remedy on.
    pub other: Side,
}

/// A service that was tuned under its load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Service {
    /// How servers were compared, unless an arm needs another mode.
    pub mode: Mode,
    /// Why in that mode.
    pub mode_why: String,
    /// The plain server under load, before anything was tried.
    pub first: Option<Side>,
    /// All pairs, in order.
    pub pairs: Vec<Pair>,
}

impl Side {
    /// Several pairs that ran at once have one start of the plain server.
    fn is_same_start(&self, other: &Self) -> bool {
        self.ready_ns == other.ready_ns
            && self.at_first == other.at_first
            && self.windows.first() == other.windows.first()
    }

    /// Runs of the load in which the server shared its CPUs with no other; all of them where it did in each.
    #[must_use]
    pub fn windows_apart(&self) -> Vec<&Window> {
        let apart: Vec<&Window> = self.windows.iter().filter(|window| !window.at_once).collect();
        if apart.is_empty() { self.windows.iter().collect() } else { apart }
    }
}

impl Service {
    /// Starts of the plain server: those of the pairs, each once, else the one before anything was tried.
    #[must_use]
    pub fn plain_sides(&self) -> Vec<&Side> {
        if self.pairs.is_empty() {
            return self.first.iter().collect();
        }
        let mut pairs: Vec<&Pair> = self.pairs.iter().collect();
        pairs.dedup_by(|next, last| {
            next.mode == Mode::AtOnce && next.plain.is_same_start(&last.plain)
        });
        pairs.into_iter().map(|pair| &pair.plain).collect()
    }
}
