//! A copy of an ELF file with other program headers, laid out so that more of its code can be on huge
//! pages: what was changed, what it reaches, what it costs, and how a linker does the same.
//!
//! Offsets are those in the file, addresses those of the program headers.

use crate::text::{Segment, TextFile};
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileRange {
    pub offset_bytes: Bytes,
    pub length_bytes: Bytes,
}

/// A part that is loaded, before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoldedSegment {
    /// The place of its header in the table.
    pub header: u64,
    /// As it was.
    pub before: Segment,
    /// As it is; absent where it became a part of the one before.
    pub after: Option<Segment>,
    /// How far address and offset are from having the same remainder by a huge page.
    pub off_by_bytes: Bytes,
}

/// What became of the last slot of a part, which it fills only in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum TailOutcome {
    /// The part reaches to the end of the slot now.
    Filled,
    /// There is too little in it.
    BelowThreshold,
    /// Another part begins in it.
    Taken {
        /// Where that begins.
        by_address: u64,
    },
    /// The file would have to grow, and programs look at its end for what was appended to it.
    Payload {
        /// How much was appended.
        payload_bytes: Bytes,
    },
}

/// The last slot of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tail {
    /// The address of the slot.
    pub address: u64,
    /// How much of the part is in it.
    pub tail_bytes: Bytes,
    #[serde(flatten)]
    pub outcome: TailOutcome,
}

/// What is changed in the copy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Changes {
    /// The parts that are loaded.
    pub segments: Vec<FoldedSegment>,
    /// Their last slots, where filling was asked for and one is not full.
    pub tails: Vec<Tail>,
    /// The bytes that differ: program headers alone.
    pub edited: Vec<FileRange>,
    /// Bytes of value 0 after the end of the original.
    pub appended: Option<FileRange>,
    /// Read-only data that can be executed now.
    pub made_executable_bytes: Bytes,
    /// By how many bits the place of the image is easier to guess, at most.
    pub base_bits_lost: u32,
}

impl Changes {
    /// Whether the copy is as the original.
    #[must_use]
    pub const fn are_none(&self) -> bool {
        self.edited.is_empty() && self.appended.is_none()
    }
}

/// How a linker lays out the same.
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
pub struct Folded {
    /// Neighbours were to become one.
    pub is_merged: bool,
    pub changes: Changes,
    pub original: TextFile,
    pub copy: TextFile,
    /// Names of the extended attributes that the copy has from the original.
    pub attributes: Vec<String>,
    /// What the reader must know.
    pub notes: Vec<String>,
    /// How a linker does the same.
    pub link: LinkAdvice,
    /// How long writing took.
    pub took_ns: Nanos,
}
