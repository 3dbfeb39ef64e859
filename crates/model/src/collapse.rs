//! Text of a running process that was put on huge pages from outside, or taken off them: what was tried, what
//! the kernel refused, and what is huge afterwards.
//!
//! Sizes are sums over mappings. Whether memory is huge was read back from the kernel each time, never taken
//! from the result of the call.

use crate::schema::JsonSchema;
use crate::text::{TextArea, coverage};
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// How the text of a process is put on huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CollapseWay {
    /// By the kernel, in place (`MADV_COLLAPSE`).
    #[default]
    InPlace,
    /// The same for code without a file and files in memory. Text of files on disk is read again in huge
    /// folios while the running threads stand still.
    Reread,
    /// Not at all: huge pages are split (`MADV_COLD`).
    Split,
}

/// Number of slots that were refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedSlots {
    pub why: String,
    pub slots: u64,
}

/// One file of a process, or its executable memory without a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollapsedPart {
    /// Path of the file; absent for generated code.
    pub path: Option<String>,
    pub huge_before_bytes: Bytes,
    /// Number of slots that were tried.
    pub tried_slots: u64,
    /// Slots that the kernel refused.
    pub refused: Vec<RefusedSlots>,
    /// Mappings of the file or memory afterwards.
    pub areas: Vec<TextArea>,
    /// Bytes in whole slots that became resident since the first look.
    pub grown_bytes: Bytes,
    /// Bytes on huge pages at a second look.
    pub later_huge_bytes: Option<Bytes>,
}

impl CollapsedPart {
    /// Bytes of text.
    #[must_use]
    pub fn text(&self) -> Bytes {
        coverage(&self.areas, TextArea::size).text_bytes
    }

    /// Bytes of text on huge pages afterwards.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        coverage(&self.areas, TextArea::huge).text_bytes
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollapsedProcess {
    pub pid: i32,
    pub name: String,
    /// True if huge pages are disabled for the process (`PR_SET_THP_DISABLE`).
    pub is_disabled: bool,
    /// What was done.
    #[serde(default)]
    pub way: CollapseWay,
    /// Its generated code, then its files if they were requested.
    pub parts: Vec<CollapsedPart>,
    /// Time that the calls took.
    pub took_ns: Nanos,
    /// The longest time that threads of the process stood still.
    #[serde(default)]
    pub longest_stop_ns: Option<Nanos>,
    /// Time from the calls to the second look.
    pub later_ns: Option<Nanos>,
}

impl CollapsedProcess {
    /// True if every slot that was tried is on a huge page, or off them if they were split.
    #[must_use]
    pub fn is_all_done(&self) -> bool {
        let is_done = |part: &CollapsedPart| part.refused.is_empty();
        (self.huge() > Bytes(0) || self.way == CollapseWay::Split) && self.parts.iter().all(is_done)
    }

    /// Bytes of text that were examined.
    #[must_use]
    pub fn text(&self) -> Bytes {
        self.sum(CollapsedPart::text)
    }

    /// Bytes of text on huge pages afterwards.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        self.sum(CollapsedPart::huge)
    }

    /// Bytes of text on huge pages before.
    #[must_use]
    pub fn huge_before(&self) -> Bytes {
        self.sum(|part| part.huge_before_bytes)
    }

    fn sum(&self, of: impl Fn(&CollapsedPart) -> Bytes) -> Bytes {
        self.parts.iter().fold(Bytes(0), |sum, part| sum + of(part))
    }
}
