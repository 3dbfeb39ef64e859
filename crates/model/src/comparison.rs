//! Saved runs side by side: where they were made, what the plain program took, how that changed.

use crate::machine::Machine;
use crate::trial::Ratio;
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the form.
pub const COMPARISON_SCHEMA: u32 = 1;

/// What a change says about a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitWord {
    /// All of its interval stays below.
    Within,
    /// All of its interval lies beyond.
    Beyond,
    /// The runs do not settle it, or were made on different machines.
    CannotTell,
}

/// A machine with the runs made on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedMachine {
    /// Absent where the runs did not record it.
    pub machine: Option<Machine>,
    /// Identifiers of the runs.
    pub runs: Vec<String>,
    /// What differs from the machine of the first run.
    pub differences: Vec<String>,
}

/// One of the runs; figures are medians of plain runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// Its identifier.
    pub id: String,
    pub started_unix_ns: u64,
    pub command: Vec<String>,
    /// Version of pagewise that made it.
    pub pagewise: String,
    /// Which of the machines.
    pub machine: u32,
    /// How many plain runs it has.
    pub plain_runs: u64,
    pub wall_ns: Option<Nanos>,
    /// In user mode and in the kernel.
    pub cpu_ns: Option<Nanos>,
    pub peak_rss_bytes: Option<Bytes>,
    pub faults: Option<u64>,
    /// Time of plain runs, of services CPU time per request, against the first run. The interval allows for the drift of
    /// machines between sessions. Absent for the first run and where there are too few.
    pub change: Option<Ratio>,
    /// Where a limit was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitWord>,
}

/// Runs against the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    pub schema: u32,
    /// The most that time may grow, as a share.
    pub limit_share: Option<f64>,
    pub machines: Vec<ComparedMachine>,
    pub runs: Vec<ComparedRun>,
}

impl Comparison {
    /// The word on the limit for all runs: the worst of theirs; none without a limit.
    #[must_use]
    pub fn limit(&self) -> Option<LimitWord> {
        let words: Vec<LimitWord> = self.runs.iter().filter_map(|run| run.limit).collect();
        let worst = [LimitWord::Beyond, LimitWord::CannotTell, LimitWord::Within];
        worst.into_iter().find(|word| words.contains(word))
    }
}
