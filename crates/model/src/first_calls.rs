//! The functions that a run called, in the order of their first calls.

use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// The first call of a function in a tree of processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FirstCall {
    /// Symbol of the function; its address in a stripped file.
    pub name: String,
    /// Address of the function in the file's own numbering.
    pub address: u64,
    /// Size of the function; 0 if not known.
    pub bytes: Bytes,
    /// Time since the first program began, breakpoints included.
    pub at_ns: Nanos,
    /// Process id of the caller.
    pub pid: i32,
}

/// A file whose functions were watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CalledObject {
    pub path: String,
    pub functions: u64,
    /// Addresses of its code, or of its data for variables.
    pub code: Range<u64>,
    /// Functions that were called, in the order of their first calls.
    pub calls: Vec<FirstCall>,
}

/// The events that were recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallSource {
    /// Each function at its first call.
    Calls,
    /// Each page of code at its first touch, with all functions on it.
    Pages,
    /// Each page of data at its first touch, with all variables on it.
    Variables,
    /// Each function at its first call, written by hooks that were compiled in.
    Hooks,
}

/// The functions that a run called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallRecord {
    pub command: Vec<String>,
    pub source: CallSource,
    /// Number of first calls that belong to no file, or that the list had no room for.
    pub left_out: u64,
    /// Files in the order of their first mapping.
    pub objects: Vec<CalledObject>,
}

impl CallRecord {
    /// The recording as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_else(|e| format!("{{\"error\":\"{e}\"}}"))
    }
}
