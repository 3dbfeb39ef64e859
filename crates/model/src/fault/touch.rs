//! A recording in which each first touch of a page is a fault of its own, what is mapped along with
//! pages of files, and what the touches of a recording would come to with pages of another size.

use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was done so that no page of a file is mapped along with another (fault-around off).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExactTouch {
    /// Mappings of files without fault-around.
    pub mappings: u64,
    /// Mappings of files that kept it: shared ones of files that are open for reading alone.
    pub left_mappings: u64,
    /// Programs in which it stayed on, by why.
    pub left_programs: Vec<LeftProgram>,
}

/// Programs that kept their fault-around for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftProgram {
    pub why: String,
    pub programs: u64,
}

impl ExactTouch {
    /// Notes one more program that kept its fault-around.
    pub fn leave(&mut self, why: &str) {
        match self.left_programs.iter_mut().find(|left| left.why == why) {
            Some(left) => left.programs += 1,
            None => self.left_programs.push(LeftProgram { why: why.to_owned(), programs: 1 }),
        }
    }
}

/// What the kernel maps along with the pages of files that are read or executed (fault-around).
/// Where each touch is a fault of its own (`--exact`): what it maps in a run without that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultAround {
    /// Faults that map others along.
    pub faults: u64,
    /// Memory that is mapped along with them, at most: all of it is in the page cache.
    pub mapped_bytes: Bytes,
    /// Of it what no fault was on. Where each touch is a fault it is never touched; otherwise it is
    /// the most that may never be.
    pub untouched_bytes: Bytes,
}

/// What the touches of a recording come to with pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PageForecast {
    pub page_bytes: Bytes,
    pub faults: u64,
    /// Memory that those pages hold.
    pub memory_bytes: Bytes,
    /// Of it what was not faulted on in the recording.
    pub untouched_bytes: Bytes,
}
