//! Budgets of programs compared with the use of their runs: the result of `check`.

use crate::fault::FaultBudgets;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Limits for a program.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CheckLimits {
    /// Limits on page faults and their time.
    pub faults: FaultBudgets,
    /// Most bytes through read-like and write-like calls.
    pub most_copied: Option<Bytes>,
    /// Most times that it gives up the CPU to wait.
    pub most_wakeups: Option<u64>,
    /// Largest resident set that any of its processes may have.
    pub most_resident: Option<Bytes>,
}

/// A quantity that has a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(const_into_str)]
pub enum BudgetedQuantity {
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
    /// Wall time compared with the baseline.
    #[strum(serialize = "wall time beside the baseline")]
    Time,
}

/// A figure with its unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetFigure {
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

/// Result of one budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum BudgetVerdict {
    Passed,
    #[strum(serialize = "BROKEN")]
    Broken,
    /// The runs do not settle it.
    #[strum(serialize = "cannot tell")]
    CannotTell,
}

/// One budget with its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CheckItem {
    pub what: BudgetedQuantity,
    /// The limit; for time, the largest ratio.
    pub most: BudgetFigure,
    /// The measured figure; absent if not known.
    pub found: Option<BudgetFigure>,
    pub kept: BudgetVerdict,
}

/// One program with its budgets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramCheck {
    /// Name of the program in the file.
    pub name: String,
    pub command: Vec<String>,
    pub items: Vec<CheckItem>,
    pub took_ns: Nanos,
    /// Why it could not be judged: the program failed, or could not be started.
    pub problem: Option<String>,
    /// True if the problem lies in this environment, so that nothing is known about the program.
    pub is_unfit: bool,
}

impl ProgramCheck {
    /// The worst result of its budgets.
    #[must_use]
    pub fn kept(&self) -> BudgetVerdict {
        let has = |kept: BudgetVerdict| self.items.iter().any(|item| item.kept == kept);
        match self {
            _ if has(BudgetVerdict::Broken) => BudgetVerdict::Broken,
            _ if has(BudgetVerdict::CannotTell) || self.is_unfit => BudgetVerdict::CannotTell,
            _ => BudgetVerdict::Passed,
        }
    }
}
