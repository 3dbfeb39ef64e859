//! A program with its code on huge pages (*on*) compared with the same program with its code on base pages
//! (*off*), as `bench text -- COMMAND` prepared the two arms. It holds the files, the part of their text that
//! the kernel showed on huge pages in each arm, and the cost of page walks for code. The experiment beside it
//! holds the times ([`crate::trial`]).

use crate::code_tlb::{self, CodeMissCounts, CodeMissEstimate};
use crate::look::WalkCounts;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Name of the arm whose code is on base pages.
pub const OFF: &str = "off";
/// Name of the arm whose code is on huge pages.
pub const ON: &str = "on";

/// A file with code of the program, in both arms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileInArms {
    pub path: String,
    /// Bytes of its text.
    pub text_bytes: Bytes,
    /// Bytes of its text on huge pages at a start of the arm off.
    pub off_huge_bytes: Bytes,
    /// Bytes of its text on huge pages at a start of the arm on.
    pub on_huge_bytes: Bytes,
}

/// A file with code of the program that is not changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftFile {
    pub path: String,
    /// Why its code cannot be put on huge pages.
    pub why: String,
}

/// The two arms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextTrial {
    /// Number of pairs requested: one run of on and one of off.
    pub pairs: u32,
    /// Files that are brought onto huge pages.
    pub files: Vec<FileInArms>,
    /// Other files.
    pub left: Vec<LeftFile>,
    /// Cycles in page walks, in the arm off.
    pub off_walks: Fact<WalkCounts>,
    pub on_walks: Fact<WalkCounts>,
    /// Counted misses of the TLB for code, in the arm off.
    #[serde(default = "code_tlb::not_recorded::<CodeMissCounts>")]
    pub off_misses: Fact<CodeMissCounts>,
    #[serde(default = "code_tlb::not_recorded::<CodeMissCounts>")]
    pub on_misses: Fact<CodeMissCounts>,
    /// Such misses, estimated from single steps of the traced run.
    #[serde(default = "code_tlb::not_recorded::<CodeMissEstimate>")]
    pub estimate: Fact<CodeMissEstimate>,
}

impl TextTrial {
    /// A trial that was not made, and why; the traced run gave an estimate all the same.
    #[must_use]
    pub fn untried(pairs: u32, estimate: Fact<CodeMissEstimate>, why: &str) -> Self {
        Self {
            pairs,
            files: Vec::new(),
            left: Vec::new(),
            off_walks: Fact::missing(why),
            on_walks: Fact::missing(why),
            off_misses: Fact::missing(why),
            on_misses: Fact::missing(why),
            estimate,
        }
    }
}
