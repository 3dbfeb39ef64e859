//! Conditions of a session's runs beside the user's request. They are saved with the session, so that it can
//! be continued.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// Facts that show whether a file is still the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileMark {
    /// Path of the file, with links resolved.
    pub path: String,
    pub bytes: u64,
    /// Time of its last modification, in nanoseconds since 1970.
    pub modified_unix_ns: i128,
    pub device: u64,
    pub inode: u64,
}
