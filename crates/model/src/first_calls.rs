//! The functions that a run called, in the order of their first calls.

use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The first call of a function in a tree of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirstCall {
    /// Its symbol; of a stripped file its address.
    pub name: String,
    /// Its address in the file's own numbering.
    pub address: u64,
    /// Its size; 0 if not known.
    pub bytes: Bytes,
    /// Since the first program began, breakpoints included.
    pub at_ns: Nanos,
    /// The process that called it.
    pub pid: i32,
}

/// A file whose functions were watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CalledObject {
    pub path: String,
    pub functions: u64,
    /// Addresses of its code; of variables, of its data.
    pub code: Range<u64>,
    /// Those that were called, in the order of their first calls.
    pub calls: Vec<FirstCall>,
}

/// What was seen of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallSource {
    /// Each function at its first call.
    Calls,
    /// Each page of code at its first touch, with all functions on it.
    Pages,
    /// Each page of data at its first touch, with all variables on it.
    Variables,
    /// Each function at its first call, as hooks that were compiled in have written it.
    Hooks,
}

/// What a run called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallRecord {
    pub command: Vec<String>,
    pub source: CallSource,
    /// First calls that could not be placed in a file, or were too many for the list.
    pub left_out: u64,
    /// Files by their first mapping.
    pub objects: Vec<CalledObject>,
}

impl CallRecord {
    /// The recording as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}
