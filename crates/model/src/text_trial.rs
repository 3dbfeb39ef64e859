//! A program with its code on huge pages (*on*) against the same program with its code on base pages (*off*),
//! as `bench text -- COMMAND` prepared the two arms: which files, how much of their text the kernel showed on
//! huge pages in each arm, and what walks of the page table for code cost. The times are those of the
//! experiment beside it ([`crate::trial`]).

use crate::look::WalkCounts;
use crate::measured::Fact;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Name of the arm whose code is on base pages.
pub const OFF: &str = "off";
/// Name of the arm whose code is on huge pages.
pub const ON: &str = "on";

/// A file of the program's code in the two arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileInArms {
    pub path: String,
    /// How much text it has.
    pub text_bytes: Bytes,
    /// How much of that a start of the arm off finds on huge pages.
    pub off_huge_bytes: Bytes,
    /// And a start of the arm on.
    pub on_huge_bytes: Bytes,
}

/// A file of the program's code that is left as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftFile {
    pub path: String,
    /// Why its code does not come on huge pages.
    pub why: String,
}

/// The two arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextTrial {
    /// Pairs asked for: a run of on and one of off.
    pub pairs: u32,
    /// Files that are brought on huge pages.
    pub files: Vec<FileInArms>,
    /// Others.
    pub left: Vec<LeftFile>,
    /// Cycles in walks of the page table, off.
    pub off_walks: Fact<WalkCounts>,
    pub on_walks: Fact<WalkCounts>,
}
