//! The working set of a start: the parts of files that a program touches. It is saved once and read ahead
//! before later starts.

use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Version of the saved format. Readers refuse newer ones.
pub const WORKING_SET_SCHEMA: u32 = 1;

/// A saved working set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSet {
    /// Version of this format.
    pub working_set_schema: u32,
    /// The command that was recorded.
    pub command: Vec<String>,
    /// Files of the working set, by path.
    pub files: Vec<WorkingSetFile>,
}

/// One file, as it was when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSetFile {
    pub path: String,
    /// Length of the file.
    pub size_bytes: Bytes,
    /// Time of the last write to the file, in nanoseconds since 1970.
    pub modified_unix_ns: u64,
    /// Build id from its linker, in hexadecimal digits; absent without one.
    pub build_id: Option<String>,
    /// Touched parts in the order of the file; none overlaps another.
    pub ranges: Vec<WorkingSetRange>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSetRange {
    /// Offset of its first byte.
    pub offset_bytes: Bytes,
    pub length_bytes: Bytes,
    /// Time of its first touch, since the first fault of the recording.
    pub first_touch_ns: Nanos,
}

impl WorkingSet {
    /// Bytes of the files that it names.
    #[must_use]
    pub fn size(&self) -> Bytes {
        let ranges = self.files.iter().flat_map(|file| &file.ranges);
        Bytes(ranges.map(|range| range.length_bytes.0).fold(0, u64::saturating_add))
    }
}
