//! The working set of a start: which parts of which files a program touches, in the form that is
//! saved once and read ahead before later starts.

use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the saved form. Readers refuse newer ones.
pub const WORKING_SET_SCHEMA: u32 = 1;

/// A saved working set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingSet {
    /// Version of this form.
    pub working_set_schema: u32,
    /// The command that was recorded.
    pub command: Vec<String>,
    /// The files, by path.
    pub files: Vec<WorkingFile>,
}

/// One file of it, as it was when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingFile {
    pub path: String,
    /// How long it is.
    pub size_bytes: Bytes,
    /// When it was last written, since 1970.
    pub modified_unix_ns: u64,
    /// What its linker has named it, in hexadecimal digits; absent where it has no such name.
    pub build_id: Option<String>,
    /// The parts, in the order of the file; none overlaps another.
    pub ranges: Vec<WorkingRange>,
}

/// A part of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkingRange {
    /// Its first byte.
    pub offset_bytes: Bytes,
    pub length_bytes: Bytes,
    /// When it was first touched, since the first fault of the recording.
    pub first_touch_ns: Nanos,
}

impl WorkingSet {
    /// How much of the files it names.
    #[must_use]
    pub fn size(&self) -> Bytes {
        let ranges = self.files.iter().flat_map(|file| &file.ranges);
        Bytes(ranges.map(|range| range.length_bytes.0).fold(0, u64::saturating_add))
    }
}
