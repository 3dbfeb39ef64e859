//! Who called the function that touched a page.

use super::{FunctionTally, GroupTally, Tally};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which user stacks are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stacks {
    None,
    /// Copied, of some thousand faults a second: enough to name callers.
    Sampled,
    /// Copied, of one fault in some of each thread, however fast they come.
    Periodic,
    /// Of every fault, as far as the kernel can follow frame pointers; copied ones beside them.
    FramePointers,
    /// Copied, of every fault.
    Copied,
}

/// Why a stack has no further frame.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum StackEnd {
    /// It was not recorded.
    #[strum(serialize = "no stack was recorded")]
    NotTaken,
    /// The outermost frame is reached.
    #[strum(serialize = "only libraries")]
    Outermost,
    /// There is no way on from code without unwind information or frame pointer.
    #[strum(serialize = "no unwind table")]
    NoTable,
    /// The stack goes on beyond the part that was copied.
    #[strum(serialize = "the copy was too short")]
    Cut,
    /// More frames than are followed; of frame pointers: as far as they led.
    #[strum(serialize = "too many frames")]
    Deep,
}

/// The callers of an instruction that faulted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Innermost first, without the instruction itself: indexes into the frames of the names.
    pub frames: Vec<u32>,
    /// Why there is no further one.
    pub end: StackEnd,
}

/// Who is behind the faults: the first function outside standard libraries, the loader and allocators.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Callers {
    /// Which stacks were asked for.
    pub asked: Stacks,
    /// Stacks that were taken.
    pub stacks: u64,
    /// Stacks that the kernel had no room for.
    pub lost_stacks: u64,
    /// Faults that have such a function.
    pub named: Tally,
    /// These functions, the most time first; the long tail is left out. Where an instruction was
    /// called from several, its faults are shared out as the stacks taken of it.
    pub functions: Vec<FunctionTally>,
    /// Faults that have none, and why.
    pub unnamed: Vec<GroupTally<StackEnd>>,
}
