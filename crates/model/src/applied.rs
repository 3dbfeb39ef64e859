//! A receipt that was written to a file: what is needed to show it and to take it back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file as it is to be, and what makes it take effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Identifier of the run whose receipt it is.
    #[serde(deserialize_with = "crate::name::identifier")]
    pub run: String,
    /// The arm that is kept.
    #[serde(deserialize_with = "crate::name::arm")]
    pub arm: String,
    pub file: String,
    /// All of the file.
    pub content: String,
    /// Permission bits of the file.
    pub mode: u32,
    /// Commands after which it has effect.
    pub next: Vec<String>,
    /// Commands after which it has none, once the file is back.
    pub next_after_undo: Vec<String>,
    /// What to know before it is written, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

impl Change {
    /// It is a script that stands for the program.
    #[must_use]
    pub const fn is_wrapper(&self) -> bool {
        self.mode & 0o111 != 0
    }
}

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// Its number in `apply --list`.
    pub number: u32,
    /// When, nanoseconds since 1970.
    pub at_unix_ns: u64,
    #[serde(flatten)]
    pub change: Change,
    /// The file that had this name.
    pub before: Option<Before>,
    /// Directories that were made for it, the outermost first.
    pub directories: Vec<String>,
}

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Before {
    pub content: Vec<u8>,
    /// Permission bits.
    pub mode: u32,
    /// Its group; absent in records of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
}
