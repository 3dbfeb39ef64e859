//! The kernel's own count of faults, and what explains it.
//!
//! `rusage = before exec + user + in calls + outside of calls + populated + executed + unexplained`.
//! Each term has its own source; only the last is a difference.

use super::Attached;
use crate::measured::Fact;
use crate::units::Nanos;
use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Faults that the kernel had counted for a process at the moment its program had been executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecCounts {
    /// Minor faults until then.
    pub minor_faults: u64,
    /// Major faults until then.
    pub major_faults: u64,
}

/// What a system call does that takes faults in the kernel.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// Makes a process or a thread, or executes a program: stack, arguments, image.
    Start,
    /// Brings pages in or pins them: `mmap` with `MAP_POPULATE`, `mlock`, `madvise`.
    Populate,
    /// Reads or writes memory of the program.
    Copy,
}

/// Faults that threads took inside one kind of system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTally {
    /// Name of the call.
    pub call: String,
    pub kind: CallKind,
    /// By the thread's own counter before and after.
    pub faults: u64,
}

/// A time in which the counter of a thread rose inside a call, or before its first stop.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Inside {
    pub tid: i32,
    /// The call began, by the monotonic clock.
    pub from_ns: Nanos,
    /// It ended.
    pub until_ns: Nanos,
}

/// What the counters of all threads said at each of their calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadCalls {
    /// By call, the most faults first.
    pub calls: Vec<CallTally>,
    /// When those faults were taken, in order of threads and times.
    #[serde(default)]
    pub inside: Vec<Inside>,
}

impl ThreadCalls {
    /// Faults inside calls of `kind`.
    #[must_use]
    pub fn faults(&self, kind: CallKind) -> u64 {
        self.calls.iter().filter(|call| call.kind == kind).map(|call| call.faults).sum()
    }
}

/// How a recording ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ending {
    /// From the start of the program, or of the recording, to the end.
    pub wall_ns: Nanos,
    /// What the program used.
    pub usage: Fact<Usage>,
    /// Minor and major faults that the kernel counted meanwhile, of the program and the descendants
    /// it waited for.
    pub counted_faults: Fact<u64>,
    /// The kernel's counts when the program had just been executed.
    pub exec: Fact<ExecCounts>,
    /// What was counted at each system call.
    pub calls: Fact<ThreadCalls>,
    /// The process that was attached to.
    pub attached: Option<Attached>,
    /// The moment after which nothing counts, by the monotonic clock; absent when the program has
    /// ended.
    pub until_ns: Option<Nanos>,
}

impl Ending {
    /// Of a program that was started, and what it used.
    #[must_use]
    pub fn of_started(usage: Usage, exec: Fact<ExecCounts>, calls: Fact<ThreadCalls>) -> Self {
        let counted = usage.minor_faults.saturating_add(usage.major_faults);
        Self {
            wall_ns: usage.wall_ns,
            counted_faults: Fact::Known(counted),
            usage: Fact::Known(usage),
            exec,
            calls,
            attached: None,
            until_ns: None,
        }
    }
}

/// The kernel's count, term by term. Faults that failed are in none of them: the kernel does not
/// count them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Account {
    /// Minor and major faults of the program and the descendants it waited for.
    pub rusage_faults: Fact<u64>,
    /// Counted when the first program had just been executed: the fork, its arguments, its image.
    pub before_exec_faults: Fact<u64>,
    /// Recorded in user mode.
    pub user_faults: u64,
    /// In the kernel, which touched memory of the program for it; recorded, or counted at calls.
    pub kernel_faults: Fact<u64>,
    /// Inside calls that make processes and threads and execute programs, after the first exec.
    pub start_faults: Fact<u64>,
    /// Inside calls that bring in pages or pin them.
    pub populate_faults: Fact<u64>,
    /// In the kernel outside of calls: restartable sequences after a fork, signal frames, the end of a
    /// thread.
    #[serde(default = "not_reported")]
    pub outside_faults: Fact<u64>,
    /// The calls, where they were followed.
    pub calls: Vec<CallTally>,
    /// Recorded as begun and never served.
    pub failed_faults: Fact<u64>,
    /// What is left. Negative when processes were recorded that no process waited for.
    pub unexplained_faults: Fact<i64>,
}

fn not_reported() -> Fact<u64> {
    Fact::missing("saved by an older pagewise")
}
