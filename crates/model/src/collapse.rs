//! Text of a running process that was put on huge pages from outside: what was tried, what the kernel
//! refused, and what is huge afterwards.
//!
//! Sizes are sums over mappings; what is huge was read back from the kernel each time, never taken from
//! the answer of the call.

use crate::text::{Area, coverage};
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Slots that were refused for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedSlots {
    pub why: String,
    pub slots: u64,
}

/// One file of a process, or the memory of no file that it executes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollapsedPart {
    /// The file; absent for generated code.
    pub path: Option<String>,
    pub huge_before_bytes: Bytes,
    /// The slots that were tried.
    pub tried_slots: u64,
    /// Those that the kernel refused.
    pub refused: Vec<RefusedSlots>,
    /// Its mappings afterwards.
    pub areas: Vec<Area>,
    /// Resident in whole slots since, that was not before.
    pub grown_bytes: Bytes,
    /// What was huge at a second look.
    pub later_huge_bytes: Option<Bytes>,
}

impl CollapsedPart {
    /// How much text there is.
    #[must_use]
    pub fn text(&self) -> Bytes {
        coverage(&self.areas, Area::size).text_bytes
    }

    /// How much of it is huge afterwards.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        coverage(&self.areas, Area::huge).text_bytes
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CollapsedProcess {
    pub pid: i32,
    pub name: String,
    /// It does without huge pages (`PR_SET_THP_DISABLE`).
    pub is_disabled: bool,
    /// Its generated code, then files where these were asked for.
    pub parts: Vec<CollapsedPart>,
    /// How long the calls took.
    pub took_ns: Nanos,
    /// How long after them it was looked at a second time.
    pub later_ns: Option<Nanos>,
}

impl CollapsedProcess {
    /// Whether nothing stayed as it was that was to be huge.
    #[must_use]
    pub fn is_all_done(&self) -> bool {
        let is_done = |part: &CollapsedPart| part.refused.is_empty();
        self.huge() > Bytes(0) && self.parts.iter().all(is_done)
    }

    /// How much text was looked at.
    #[must_use]
    pub fn text(&self) -> Bytes {
        self.sum(CollapsedPart::text)
    }

    /// How much of it is huge afterwards.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        self.sum(CollapsedPart::huge)
    }

    /// How much was huge before.
    #[must_use]
    pub fn huge_before(&self) -> Bytes {
        self.sum(|part| part.huge_before_bytes)
    }

    fn sum(&self, of: impl Fn(&CollapsedPart) -> Bytes) -> Bytes {
        self.parts.iter().fold(Bytes(0), |sum, part| sum + of(part))
    }
}
