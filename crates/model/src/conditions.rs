//! What a session's runs depend on beside the command: saved with it, so that it can be continued.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How each run was made, and the files that it depended on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// The directory that the runs were made in.
    pub directory: String,
    /// Files that the program writes, compared between arms.
    pub outputs: Vec<String>,
    /// Shell command before each run.
    pub prepare: Option<String>,
    /// Shell command after each run.
    pub cleanup: Option<String>,
    /// A failing program is accepted.
    pub ignore_failure: bool,
    /// Arms of the user's own: names and commands.
    #[serde(deserialize_with = "crate::name::by_arm")]
    pub own_arms: Vec<(String, Vec<String>)>,
    /// The program's files, its input and the files that its arguments name, less those that changed
    /// while the session lasted: these the program writes.
    pub files: Vec<FileMark>,
}

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
