//! Limits on faults that a build can enforce.

use crate::schema::JsonSchema;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// Limits on faults. An absent limit allows everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultBudgets {
    /// Most faults that may be recorded.
    pub most_faults: Option<u64>,
    /// Most major faults that may be recorded.
    pub most_major_faults: Option<u64>,
    /// Most pages that may be faulted on.
    pub most_touched_pages: Option<u64>,
    /// Largest sum of the latencies.
    pub most_time_ns: Option<Nanos>,
}

impl FaultBudgets {
    /// True if a limited figure depends on the addresses of mappings. A fault on a file also maps its aligned
    /// neighbours, and stack and heap begin anywhere in a page.
    #[must_use]
    pub const fn move_with_addresses(&self) -> bool {
        self.most_faults.is_some() || self.most_touched_pages.is_some()
    }
}

/// A budget that was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BrokenBudget {
    /// Too many faults.
    Faults {
        /// Number that was recorded.
        found: u64,
        /// Number that is allowed.
        most: u64,
    },
    /// Too many major faults.
    MajorFaults {
        /// Number that was recorded.
        found: u64,
        /// Number that is allowed.
        most: u64,
    },
    /// Too many pages.
    TouchedPages {
        /// Number that was recorded.
        found: u64,
        /// Number that is allowed.
        most: u64,
    },
    /// Too much time.
    Time {
        /// Time that was recorded.
        found_ns: Nanos,
        /// Time that is allowed.
        most_ns: Nanos,
    },
}
