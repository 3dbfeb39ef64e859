//! The kernel's own count of faults, and the terms that explain it.
//!
//! `rusage = before exec + user + in calls + outside of calls + populated + executed + unexplained`. Each
//! term has its own source. Only the last is a difference.

use super::AttachedProcess;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::Nanos;
use crate::usage::ProgramUsage;
use serde::{Deserialize, Serialize};

/// Faults that the kernel had counted for a process when it had just executed its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExecCounts {
    /// Minor faults up to then.
    pub minor_faults: u64,
    /// Major faults up to then.
    pub major_faults: u64,
}

/// The kind of work by which a system call takes faults in the kernel.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CallKind {
    /// It makes a process or a thread, or executes a program: stack, arguments, image.
    Start,
    /// It brings in pages or pins them: `mmap` with `MAP_POPULATE`, `mlock`, `madvise`.
    Populate,
    /// It reads or writes memory of the program.
    Copy,
}

/// Faults that threads took inside one kind of system call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallTally {
    /// Name of the call.
    pub call: String,
    pub kind: CallKind,
    /// Number of faults, by the thread's own counter before and after the call.
    pub faults: u64,
}

/// A period in which the counter of a thread rose inside a call, or before its first stop.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct CallSpan {
    pub tid: i32,
    /// Beginning of the call, by the monotonic clock.
    pub from_ns: Nanos,
    /// End of the call, by the monotonic clock.
    pub until_ns: Nanos,
}

/// Counters of all threads at each of their calls.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadCalls {
    /// Faults by call, the most faults first.
    pub calls: Vec<CallTally>,
    /// Periods in which those faults were taken, by thread and time.
    #[serde(default)]
    pub inside: Vec<CallSpan>,
}

impl ThreadCalls {
    /// Faults inside calls of `kind`.
    #[must_use]
    pub fn faults(&self, kind: CallKind) -> u64 {
        self.calls.iter().filter(|call| call.kind == kind).map(|call| call.faults).sum()
    }
}

/// The end of a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingEnd {
    /// Wall time from the start of the program, or of the recording, to the end.
    pub wall_ns: Nanos,
    /// Resource usage of the program.
    pub usage: Fact<ProgramUsage>,
    /// Minor and major faults that the kernel counted during the recording, for the program and the
    /// descendants that it waited for.
    pub counted_faults: Fact<u64>,
    /// The kernel's counts when the program had just been executed.
    pub exec: Fact<ExecCounts>,
    /// Counts at each system call.
    pub calls: Fact<ThreadCalls>,
    /// The running process that was recorded; absent for a program that was started.
    pub attached: Option<AttachedProcess>,
    /// Time by the monotonic clock after which nothing counts; absent if the program has ended.
    pub until_ns: Option<Nanos>,
}

impl RecordingEnd {
    /// The end of a program that was started, with its usage.
    #[must_use]
    pub fn of_started(
        usage: ProgramUsage,
        exec: Fact<ExecCounts>,
        calls: Fact<ThreadCalls>,
    ) -> Self {
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

/// The kernel's count, term by term. Failed faults are in none of the terms, because the kernel does not
/// count them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultAccount {
    /// Minor and major faults of the program and the descendants that it waited for.
    pub rusage_faults: Fact<u64>,
    /// Faults counted before the first program had been executed: the fork, its arguments, its image.
    pub before_exec_faults: Fact<u64>,
    /// Faults recorded in user mode.
    pub user_faults: u64,
    /// Faults in the kernel, which touched memory of the program for it; recorded, or counted at calls.
    pub kernel_faults: Fact<u64>,
    /// Faults inside calls that make processes and threads or execute programs, after the first exec.
    pub start_faults: Fact<u64>,
    /// Faults inside calls that bring in pages or pin them.
    pub populate_faults: Fact<u64>,
    /// Faults in the kernel outside calls: restartable sequences after a fork, signal frames, the end of a
    /// thread.
    #[serde(default = "not_reported")]
    pub outside_faults: Fact<u64>,
    /// System calls with faults, if they were followed.
    pub calls: Vec<CallTally>,
    /// Faults whose beginning was recorded and that were never served.
    pub failed_faults: Fact<u64>,
    /// The unexplained rest. It is negative if processes were recorded that no process waited for.
    pub unexplained_faults: Fact<i64>,
}

fn not_reported() -> Fact<u64> {
    Fact::missing("saved by an older pagewise")
}
