//! Throughput of a program with its code on base pages (*off*) and on huge pages (*on*), at loads of several sizes:
//! numbers of clients of a server, or of copies of a program that run at the same time.
//!
//! Both arms are copies of one file with the same bytes, so that each has its own pages in the page cache.

use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// What the size of a load counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // as it is shown
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum TextLoadKind {
    /// Clients of a server.
    Clients,
    /// Copies of a program at the same time.
    Jobs,
}

/// One run of the load against one arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextLoadWindow {
    /// Requests per second; of jobs, runs of the program per second.
    pub rate_per_second: f64,
    /// CPU time of the server for each request, or of the program for each run, in nanoseconds.
    pub cpu_ns: f64,
}

/// A run of the load against each arm, one right after the other, or both at once.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextLoadPair {
    /// Number of the round, from 0. Both servers are started afresh for each round.
    pub round: u32,
    pub off: TextLoadWindow,
    pub on: TextLoadWindow,
}

/// A size of the load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextLoadPoint {
    /// Number of clients or copies.
    pub size: u32,
    /// True beside a busy neighbour.
    pub disturbed: bool,
    /// Pairs in the order of their rounds.
    pub pairs: Vec<TextLoadPair>,
}

/// All measurements of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextLoadReport {
    /// Seed of all random orders.
    pub seed: u64,
    pub kind: TextLoadKind,
    /// The file of which both arms run a copy.
    pub program: String,
    /// Number of CPUs that an arm and its load had.
    pub cpus: u32,
    /// True if both arms were loaded at the same time: servers on half of the CPUs each, jobs on all CPUs.
    pub at_once: bool,
    /// Bytes of the text of each copy.
    pub text_bytes: Bytes,
    /// Bytes of it on huge pages at the end, in the arm off.
    pub off_huge_bytes: Bytes,
    /// The same in the arm on.
    pub on_huge_bytes: Bytes,
    /// Time of all rounds.
    pub rounds_ns: Nanos,
    pub points: Vec<TextLoadPoint>,
    /// Why it ended before its time, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_early: Option<String>,
    /// Conclusions; none if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<TextLoadJudgement>,
}

/// A figure of the arm on, divided by that of the arm off.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextLoadRatio {
    pub ratio: f64,
    /// 95% interval of `ratio`; missing if there are fewer rounds than it needs.
    pub interval: Fact<(f64, f64)>,
}

impl TextLoadRatio {
    /// Whether the whole interval lies above 1, or below it (false). `None` if neither is shown.
    #[must_use]
    pub fn is_more(&self) -> Option<bool> {
        let (low, high) = self.interval.known()?;
        if *low > 1.0 { Some(true) } else { (*high < 1.0).then_some(false) }
    }
}

/// What one size of the load shows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextLoadFinding {
    pub size: u32,
    pub disturbed: bool,
    /// Median of `rate_per_second` in the arm off.
    pub off_per_second: f64,
    /// The same in the arm on.
    pub on_per_second: f64,
    /// Throughput.
    pub rate: TextLoadRatio,
    /// CPU time for each request or run; none if a window shows no CPU time.
    pub cpu: Option<TextLoadRatio>,
    /// Coefficient of variation of the rate within a round, in the arm off.
    pub off_spread: Option<f64>,
    /// The same in the arm on.
    pub on_spread: Option<f64>,
    /// The ratio of the two, round by round.
    pub spread: Option<TextLoadRatio>,
}

/// Conclusions from all sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextLoadJudgement {
    /// One for each size that was measured.
    pub findings: Vec<TextLoadFinding>,
    /// Throughput over all sizes without a neighbour: the mean of each round, so no size was picked.
    pub overall: Option<TextLoadRatio>,
    /// Number of rounds.
    pub rounds: u32,
    pub advice: Vec<String>,
}
