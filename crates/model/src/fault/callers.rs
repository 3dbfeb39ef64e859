//! The callers of the function that touched a page.

use super::{FaultTally, FunctionTally, GroupTally};
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// The user stacks to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StackRecording {
    None,
    /// Copied stacks of some thousand faults per second, enough to name callers.
    Sampled,
    /// Copied stacks of one in a number of faults of each thread, at any rate of faults.
    Periodic,
    /// Stacks of every fault, as far as the kernel can follow frame pointers, beside copied ones.
    FramePointers,
    /// Copied stacks of every fault.
    Copied,
}

/// Why a stack ends.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum StackEnd {
    /// The stack was not recorded.
    #[strum(serialize = "no stack was recorded")]
    NotTaken,
    /// The stack is complete.
    #[strum(serialize = "only libraries")]
    Outermost,
    /// Code without unwind information or frame pointer ends it.
    #[strum(serialize = "no unwind table")]
    NoTable,
    /// The stack is longer than the part that was copied.
    #[strum(serialize = "the copy was too short")]
    Cut,
    /// It has more frames than are followed. With frame pointers: they lead no further.
    #[strum(serialize = "too many frames")]
    Deep,
}

/// The callers of an instruction that faulted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallerStack {
    /// Frames, innermost first, without the instruction itself: indexes into the frames of the names.
    pub frames: Vec<u32>,
    /// Why the stack ends.
    pub end: StackEnd,
}

/// The function responsible for each fault: the first outside standard libraries, the loader and allocators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultCallers {
    /// The stacks that were requested.
    pub asked: StackRecording,
    /// Number of stacks that were recorded.
    pub stacks: u64,
    /// Number of stacks that were lost because the kernel had no room.
    pub lost_stacks: u64,
    /// Faults with such a function.
    pub named: FaultTally,
    /// These functions, the most time first, without the long tail. If several functions called an
    /// instruction, its faults are divided in proportion to its recorded stacks.
    pub functions: Vec<FunctionTally>,
    /// Faults without such a function, by reason.
    pub unnamed: Vec<GroupTally<StackEnd>>,
}
