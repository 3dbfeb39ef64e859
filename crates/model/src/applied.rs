//! A receipt that was written to a file, with everything needed to show it and to undo it.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file to be written, and the commands that make it take effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileChange {
    /// Identifier of the run that the receipt comes from.
    #[serde(deserialize_with = "crate::name::identifier")]
    pub run: String,
    /// Name of the arm to keep.
    #[serde(deserialize_with = "crate::name::arm")]
    pub arm: String,
    pub file: String,
    /// Whole content of the file.
    pub content: String,
    /// Permission bits of the file.
    pub mode: u32,
    /// Commands to run after the file is written, so that it takes effect.
    pub next: Vec<String>,
    /// Commands to run after the old file is restored, so that the change loses its effect.
    pub next_after_undo: Vec<String>,
    /// Warnings to read before the file is written, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl FileChange {
    /// True if the file is a script that replaces the program.
    #[must_use]
    pub const fn is_wrapper(&self) -> bool {
        self.mode & 0o111 != 0
    }
}

/// A change that was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppliedChange {
    /// Number of the change in `apply --list`.
    pub number: u32,
    /// Time of the change, in nanoseconds since 1970.
    pub at_unix_ns: u64,
    #[serde(flatten)]
    pub change: FileChange,
    /// The former file of this name; absent if none existed.
    pub before: Option<PreviousFile>,
    /// Directories that were created for the file, the outermost first.
    pub directories: Vec<String>,
}

/// A file before the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PreviousFile {
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Group of the file; absent in records made before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}
