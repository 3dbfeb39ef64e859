//! What a recording of page faults should hold, and what it holds.

use super::StackRecording;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultRecordingOptions {
    /// Keep every fault, not only their sums.
    pub list: bool,
    /// Record the ends of all faults, and so their latencies. Else record ends of major faults alone, and of
    /// the others only their places, unless `exact` needs more.
    pub latency: bool,
    /// Follow the system calls of a program that is started, for the account.
    pub calls: bool,
    /// The user stacks to record.
    pub stacks: StackRecording,
    /// Look up functions and lines of source.
    pub names: bool,
    /// Also read lines of source from separate debug files.
    pub debug_files: bool,
    /// Make each touched page a separate fault.
    pub exact: bool,
    /// At the end, remove the maps of code that interpreters wrote on request.
    #[serde(default)]
    pub made_maps: bool,
    /// Keep the code that touched each page, for [`super::MemorySites`].
    #[serde(default)]
    pub sites: bool,
}

/// What a recording holds apart from the beginnings of faults in user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordingScope {
    /// It holds faults that the kernel takes for the program.
    pub kernel: bool,
    /// It holds the ends of all faults, not only of major ones.
    pub all_ends: bool,
    /// It holds the processor's error codes.
    pub error_codes: bool,
    /// It covers the whole program, which has not run before.
    pub from_start: bool,
}
