//! What a recording of page faults is to hold, and what it holds.

use super::Stacks;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Wanted {
    /// Keep every fault, not only what they add up to.
    pub list: bool,
    /// Record the ends of all faults, and so how long they took; else of major ones alone, and of the
    /// others no more than their places, unless `exact` asks what they were about.
    pub latency: bool,
    /// Follow the system calls of a program that is started, for the account.
    pub calls: bool,
    /// Which user stacks to record.
    pub stacks: Stacks,
    /// Look up functions and lines of source.
    pub names: bool,
    /// Read lines of source from separate debug files too.
    pub debug_files: bool,
    /// Make each page that is touched a fault of its own.
    pub exact: bool,
    /// Interpreters were asked for maps of their code, which are to be removed at the end.
    #[serde(default)]
    pub made_maps: bool,
    /// Keep who touched each page, for [`super::MemorySites`].
    #[serde(default)]
    pub sites: bool,
}

/// What a recording holds beyond the beginnings of faults in user mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sees {
    /// Faults that the kernel takes for the program.
    pub kernel: bool,
    /// The ends of all faults, not of major ones alone.
    pub all_ends: bool,
    /// The processor's error codes.
    pub error_codes: bool,
    /// All of the program: it has not run before.
    pub from_start: bool,
}
