//! The resource usage of one run of a program, by the kernel's accounting at its end.

use crate::measured::median;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The speed of CPU and memory during a run, sampled by threads of pagewise beside it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineSpeed {
    /// Time of one round of arithmetic in registers, in nanoseconds.
    pub round_ns: f64,
    /// Time of one load from memory that depends on the previous one, in nanoseconds.
    pub load_ns: f64,
}

/// End of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProgramEnd {
    /// By `exit` with this status (0..=255).
    Exited(i32),
    Signaled(i32),
    /// Stopped at its checkpoint, by an experiment.
    Checkpoint,
}

impl ProgramEnd {
    /// True for exit status 0, and for a run that did its part of the work.
    #[must_use]
    pub const fn success(self) -> bool {
        matches!(self, Self::Exited(0) | Self::Checkpoint)
    }
    /// The status that a shell would show (128 + signal).
    #[must_use]
    pub const fn shell_status(self) -> i32 {
        match self {
            Self::Exited(status) => status,
            Self::Signaled(signal) => 128 + signal,
            Self::Checkpoint => 0,
        }
    }
}

impl std::fmt::Display for ProgramEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exited(status) => write!(f, "exit status {status}"),
            Self::Signaled(signal) => write!(f, "killed by signal {signal}"),
            Self::Checkpoint => f.write_str("a stop at the checkpoint"),
        }
    }
}

/// Memory of all processes of a program together, sampled during a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryUse {
    /// Proportional set size, as the mean over time.
    pub mean_pss_bytes: Bytes,
    /// Largest sample of the proportional set size.
    pub peak_pss_bytes: Bytes,
    /// Memory of page tables at that sample.
    pub page_table_bytes: Bytes,
    /// Anonymous memory on huge pages at that sample.
    pub huge_bytes: Bytes,
    pub samples: u32,
    /// Proportional set size in equally long parts of the run, each the largest of its samples; empty in runs
    /// saved before this was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub over_time_bytes: Vec<Bytes>,
}

/// Resource usage of a program and all descendants that were waited for.
///
/// Sources: the clock around fork and reap; `wait4(2)` rusage; `/proc/PID/io` of the unreaped zombie (which
/// includes reaped children). Not included: descendants that outlive the program, and work of kernel threads
/// for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramUsage {
    /// Time from the moment the program may start to its end.
    pub wall_ns: Nanos,
    /// CPU time in user mode.
    pub user_ns: Nanos,
    /// CPU time in the kernel.
    pub sys_ns: Nanos,
    /// Largest resident set of any one process (`ru_maxrss`).
    pub peak_rss_bytes: Bytes,
    /// Page faults served without I/O (`ru_minflt`).
    pub minor_faults: u64,
    /// Page faults that waited for I/O (`ru_majflt`).
    pub major_faults: u64,
    /// Times the program gave up the CPU to wait (`ru_nvcsw`).
    pub voluntary_switches: u64,
    /// Times the CPU was taken away (`ru_nivcsw`).
    pub involuntary_switches: u64,
    /// Bytes through read-like calls (`rchar`); absent if /proc/PID/io could not be read.
    pub read_bytes: Option<Bytes>,
    /// Bytes through write-like calls (`wchar`).
    pub written_bytes: Option<Bytes>,
    /// Read-like calls (`syscr`).
    pub read_calls: Option<u64>,
    /// Write-like calls (`syscw`).
    pub write_calls: Option<u64>,
    /// Bytes fetched from a device (`read_bytes`).
    pub device_read_bytes: Option<Bytes>,
    /// Speed of CPU and memory during the run; absent if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<MachineSpeed>,
    /// Memory of all processes together; absent if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<MemoryUse>,
    /// Time for which its processes were ready to run while others had the CPU; absent if it was not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<Nanos>,
    pub ended: ProgramEnd,
}

impl ProgramUsage {
    /// Most memory that its processes held together: the largest sample. If there was no sample, or it missed
    /// the peak, the peak of the largest process.
    #[must_use]
    pub fn peak_memory(&self) -> Bytes {
        self.memory
            .as_ref()
            .map_or(Bytes(0), |memory| memory.peak_pss_bytes)
            .max(self.peak_rss_bytes)
    }
    /// CPU time in user mode and in the kernel.
    #[must_use]
    pub fn cpu_ns(&self) -> Nanos {
        self.user_ns + self.sys_ns
    }
}

/// The median of one figure over `runs`; `None` without runs.
#[must_use]
pub fn typical(runs: &[ProgramUsage], of: impl Fn(&ProgramUsage) -> u64) -> Option<f64> {
    let values: Vec<f64> = runs.iter().map(|run| of(run) as f64).collect();
    median(&values)
}
