//! Whose code first touched the memory that a program holds.

use super::Site;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resident pages of one process, next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentPages {
    pub pid: i32,
    pub start_address: u64,
    pub end_address: u64,
    /// The most that one fault maps there, at a multiple of itself; a base page or more.
    pub block_bytes: Bytes,
}

/// Resident memory by one line of one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySite {
    /// The innermost function outside standard libraries and allocators, or of a script.
    pub site: Site,
    pub bytes: Bytes,
}

/// Resident memory by one stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryStack {
    /// Functions, the outermost first.
    pub frames: Vec<String>,
    pub bytes: Bytes,
}

/// Resident memory by the code that touched it first; what a forked process still shares counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySites {
    /// What has a first touch that was recorded.
    pub seen_bytes: Bytes,
    /// What has none: filled by the kernel where that is not recorded, or its record was lost.
    pub unseen_bytes: Bytes,
    /// Records of faults that the kernel had no room for.
    pub lost_records: u64,
    /// Stacks that it had no room for: what libraries touched then may have no caller, or an earlier one.
    #[serde(default)]
    pub lost_stacks: u64,
    /// The largest first; the long tail is left out.
    pub sites: Vec<MemorySite>,
    /// The largest first; the long tail is left out.
    pub stacks: Vec<MemoryStack>,
}
