//! Recordings in which each first touch of a page is a separate fault, pages of files that are mapped along
//! with others, and the touches of a recording with pages of another size.

use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// How fault-around was turned off, so that no page of a file is mapped along with another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExactTouch {
    /// Number of file mappings without fault-around.
    pub mappings: u64,
    /// Number of file mappings that kept it: shared ones of files that are open only for reading.
    pub left_mappings: u64,
    /// Programs that kept it, by reason.
    pub left_programs: Vec<LeftProgram>,
}

/// Programs that kept fault-around for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftProgram {
    pub why: String,
    pub programs: u64,
}

impl ExactTouch {
    /// Adds a program that kept fault-around.
    pub fn leave(&mut self, why: &str) {
        match self.left_programs.iter_mut().find(|left| left.why == why) {
            Some(left) => left.programs += 1,
            None => self.left_programs.push(LeftProgram { why: why.to_owned(), programs: 1 }),
        }
    }
}

/// Pages that the kernel maps along with pages of files that are read or executed (fault-around). With
/// `--exact`: those that it maps in a run without that option.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultAround {
    /// Number of faults that map further pages.
    pub faults: u64,
    /// Most memory that these faults map in addition. All of it is in the page cache.
    pub mapped_bytes: Bytes,
    /// Part of that memory without a fault. With `--exact` it is never touched; otherwise it is the most that
    /// may never be touched.
    pub untouched_bytes: Bytes,
}

/// The touches of a recording with pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageForecast {
    pub page_bytes: Bytes,
    pub faults: u64,
    /// Memory that those pages hold.
    pub memory_bytes: Bytes,
    /// Part of that memory that was not faulted on in the recording.
    pub untouched_bytes: Bytes,
}
