//! The code that first touched the memory that a program holds.

use super::FaultSite;
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Adjacent resident pages of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResidentPages {
    pub pid: i32,
    pub start_address: u64,
    pub end_address: u64,
    /// Largest piece that one fault maps there, at a multiple of its size: a base page or more.
    pub block_bytes: Bytes,
}

/// Resident memory that one line of one function touched first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySite {
    /// The innermost function outside standard libraries and allocators, or one of a script.
    pub site: FaultSite,
    pub bytes: Bytes,
}

/// Resident memory that was first touched with one stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryStack {
    /// Functions of the stack, the outermost first.
    pub frames: Vec<String>,
    pub bytes: Bytes,
}

/// Resident memory by the code that touched it first. Memory that a forked process still shares counts once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySites {
    /// Memory whose first touch was recorded.
    pub seen_bytes: Bytes,
    /// Memory without a recorded first touch: the kernel filled it unrecorded, or the record was lost.
    pub unseen_bytes: Bytes,
    /// Number of fault records that were lost because the kernel had no room.
    pub lost_records: u64,
    /// Number of stacks that were lost because the kernel had no room. What libraries touched then may have
    /// no caller, or an earlier one.
    #[serde(default)]
    pub lost_stacks: u64,
    /// Sites, the largest first, without the long tail.
    pub sites: Vec<MemorySite>,
    /// Stacks, the largest first, without the long tail.
    pub stacks: Vec<MemoryStack>,
}
