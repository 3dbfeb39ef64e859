//! Saved runs side by side: their machines, the figures of the plain program, and how these changed.

use crate::machine::Machine;
use crate::schema::JsonSchema;
use crate::trial::TimeRatio;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Version of the format.
pub const COMPARISON_SCHEMA: u32 = 1;

/// The answer of a change to a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitWord {
    /// The whole interval lies below the limit.
    Within,
    /// The whole interval lies beyond the limit.
    Beyond,
    /// The runs do not settle it, or were made on different machines.
    CannotTell,
}

/// A machine with its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedMachine {
    /// Description of the machine; absent if the runs did not record it.
    pub machine: Option<Machine>,
    /// Identifiers of the runs.
    pub runs: Vec<String>,
    /// Differences from the machine of the first run.
    pub differences: Vec<String>,
}

/// One of the runs. Figures are medians of plain runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// Identifier of the run.
    pub id: String,
    pub started_unix_ns: u64,
    pub command: Vec<String>,
    /// Version of pagewise that made the run.
    pub pagewise: String,
    /// Number of the machine in the list, from 0.
    pub machine: u32,
    /// Number of plain runs.
    pub plain_runs: u64,
    pub wall_ns: Option<Nanos>,
    /// CPU time in user mode and in the kernel.
    pub cpu_ns: Option<Nanos>,
    pub peak_rss_bytes: Option<Bytes>,
    pub faults: Option<u64>,
    /// Change against the first run: of the time of plain runs, or for services of the CPU time per request.
    /// The interval allows for the drift of machines between sessions. Absent for the first run, and if there
    /// are too few runs.
    pub change: Option<TimeRatio>,
    /// Answer to the limit; absent without a limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<LimitWord>,
}

/// Runs compared with the first of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunComparison {
    pub schema: u32,
    /// Largest accepted growth of the time, as a share; absent without a limit.
    pub limit_share: Option<f64>,
    pub machines: Vec<ComparedMachine>,
    pub runs: Vec<ComparedRun>,
}

impl RunComparison {
    /// The answer to the limit for all runs: the worst single answer. None without a limit.
    #[must_use]
    pub fn limit(&self) -> Option<LimitWord> {
        let words: Vec<LimitWord> = self.runs.iter().filter_map(|run| run.limit).collect();
        let worst = [LimitWord::Beyond, LimitWord::CannotTell, LimitWord::Within];
        worst.into_iter().find(|word| words.contains(word))
    }
}
