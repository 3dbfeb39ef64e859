//! Limits on faults that a build can enforce.

use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is allowed; absent limits allow everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Budgets {
    /// Faults recorded.
    pub most_faults: Option<u64>,
    /// Of them major ones.
    pub most_major_faults: Option<u64>,
    /// Pages faulted on.
    pub most_touched_pages: Option<u64>,
    /// Sum of their latencies.
    pub most_time_ns: Option<Nanos>,
}

impl Budgets {
    /// What they limit depends on where mappings lie: a fault on a file maps its aligned neighbours
    /// along, and stack and heap begin anywhere within a page.
    #[must_use]
    pub const fn move_with_addresses(&self) -> bool {
        self.most_faults.is_some() || self.most_touched_pages.is_some()
    }
}

/// A budget that was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Broken {
    /// Too many faults.
    Faults {
        /// Recorded.
        found: u64,
        /// Allowed.
        most: u64,
    },
    /// Too many major faults.
    MajorFaults {
        /// Recorded.
        found: u64,
        /// Allowed.
        most: u64,
    },
    /// Too many pages.
    TouchedPages {
        /// Recorded.
        found: u64,
        /// Allowed.
        most: u64,
    },
    /// Too much time.
    Time {
        /// Recorded.
        found_ns: Nanos,
        /// Allowed.
        most_ns: Nanos,
    },
}
