//! Budgets of programs set against what their runs took: what `check` says.

use crate::fault::Budgets;
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a program may take.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CheckLimits {
    /// Page faults and what goes with them.
    pub faults: Budgets,
    /// Bytes through read-like and write-like calls.
    pub most_copied: Option<Bytes>,
    /// Times it gives up the CPU to wait.
    pub most_wakeups: Option<u64>,
    /// Resident set of its largest process.
    pub most_resident: Option<Bytes>,
}

/// A quantity that has a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum Budgeted {
    #[strum(serialize = "page faults")]
    Faults,
    #[strum(serialize = "major faults")]
    MajorFaults,
    #[strum(serialize = "pages faulted on")]
    TouchedPages,
    #[strum(serialize = "time in page faults")]
    FaultTime,
    #[strum(serialize = "copied by read and write")]
    Copied,
    #[strum(serialize = "wake-ups")]
    Wakeups,
    #[strum(serialize = "resident memory")]
    Resident,
    /// Wall time beside the baseline.
    #[strum(serialize = "wall time beside the baseline")]
    Time,
}

/// A figure with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    Count(u64),
    Bytes(Bytes),
    Nanos(Nanos),
    /// Ratio to the baseline, with the bounds of its interval.
    Ratio {
        ratio: f64,
        low: f64,
        high: f64,
    },
}

/// How one budget came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Kept {
    Passed,
    #[strum(serialize = "BROKEN")]
    Broken,
    /// The runs do not settle it.
    #[strum(serialize = "cannot tell")]
    CannotTell,
}

/// One budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckItem {
    pub what: Budgeted,
    /// What is allowed; for time the ratio.
    pub most: Figure,
    /// What was found; absent if not known.
    pub found: Option<Figure>,
    pub kept: Kept,
}

/// One program with its budgets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// Its name in the file.
    pub name: String,
    pub command: Vec<String>,
    pub items: Vec<CheckItem>,
    pub took_ns: Nanos,
    /// Why it could not be judged: it failed, or could not be started.
    pub problem: Option<String>,
    /// The problem is one of this environment, so nothing is known about the program.
    pub is_unfit: bool,
}

impl Check {
    /// The worst of its budgets.
    #[must_use]
    pub fn kept(&self) -> Kept {
        let has = |kept: Kept| self.items.iter().any(|item| item.kept == kept);
        match self {
            _ if has(Kept::Broken) => Kept::Broken,
            _ if has(Kept::CannotTell) || self.is_unfit => Kept::CannotTell,
            _ => Kept::Passed,
        }
    }
}
