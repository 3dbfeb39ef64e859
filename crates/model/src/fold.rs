//! A copy of an ELF file with other program headers, laid out so that more of its code can be on huge pages:
//! the changes, what they reach, what they cost, and how a linker does the same.
//!
//! Offsets are those in the file. Addresses are those of the program headers.

use crate::schema::JsonSchema;
use crate::text::{LoadSegment, TextFile};
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileRange {
    pub offset_bytes: Bytes,
    pub length_bytes: Bytes,
}

/// A part that is loaded, before and after the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoldedSegment {
    /// Index of its header in the table.
    pub header: u64,
    /// The part before the change.
    pub before: LoadSegment,
    /// The part after the change; absent if it became a part of the one before it.
    pub after: Option<LoadSegment>,
    /// Difference of the remainders of address and offset by the size of a huge page.
    pub off_by_bytes: Bytes,
}

/// Treatment of the last slot of a part, which the part fills only partly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TailOutcome {
    /// The part now reaches to the end of the slot.
    Filled,
    /// The part has too few bytes in the slot.
    BelowThreshold,
    /// Another part begins in it.
    Taken {
        /// Address at which the other part begins.
        by_address: u64,
    },
    /// The file would have to grow, and programs look at its end for appended data.
    Payload {
        /// Bytes that were appended.
        payload_bytes: Bytes,
    },
}

/// The last slot of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SegmentTail {
    /// Address of the slot.
    pub address: u64,
    /// Bytes of the part in the slot.
    pub tail_bytes: Bytes,
    #[serde(flatten)]
    pub outcome: TailOutcome,
}

/// The changes in the copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoldChanges {
    /// Parts that are loaded.
    pub segments: Vec<FoldedSegment>,
    /// Last slots that are not full, if filling was requested.
    pub tails: Vec<SegmentTail>,
    /// Bytes that differ, all in program headers.
    pub edited: Vec<FileRange>,
    /// Bytes of value 0 after the end of the original.
    pub appended: Option<FileRange>,
    /// Read-only data that is now executable.
    pub made_executable_bytes: Bytes,
    /// Bits of randomness that the base address of the image loses, at most.
    pub base_bits_lost: u32,
}

impl FoldChanges {
    /// True if the copy equals the original.
    #[must_use]
    pub const fn are_none(&self) -> bool {
        self.edited.is_empty() && self.appended.is_none()
    }
}

/// Linker options and a script for the same layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkAdvice {
    /// Options of the compiler driver for GNU ld.
    pub gnu: String,
    /// The same for LLVM's lld.
    pub lld: String,
    /// A linker script for GNU ld that fills the last slot of code.
    pub script: String,
}

/// A copy that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FoldReport {
    /// True if neighbouring segments were to be merged (`--merge`).
    pub is_merged: bool,
    pub changes: FoldChanges,
    pub original: TextFile,
    pub copy: TextFile,
    /// Names of the extended attributes copied from the original.
    pub attributes: Vec<String>,
    /// Notes that the reader must know.
    pub notes: Vec<String>,
    /// Linker options and a script for the same layout.
    pub link: LinkAdvice,
    /// Time to write the copy.
    pub took_ns: Nanos,
}
