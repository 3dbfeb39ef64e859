//! What a session's runs depend on beside what was asked: saved with it, so that it can be continued.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What tells whether a file is still the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMark {
    /// Its path, without links.
    pub path: String,
    pub bytes: u64,
    /// Its last modification, nanoseconds since 1970.
    pub modified_unix_ns: i128,
    pub device: u64,
    pub inode: u64,
}
