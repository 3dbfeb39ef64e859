//! When faults occur in the life of a program, why pages are faulted on again, and which remedies would save
//! faults.

use super::{FunctionTally, GroupTally};
use crate::schema::JsonSchema;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};

/// A part of a program's life after its exec.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum ProgramPhase {
    /// The kernel builds the image.
    #[strum(serialize = "kernel exec")]
    Exec,
    /// The loader maps the libraries.
    Loader,
    /// The loader relocates program and libraries.
    Relocation,
    /// Constructors of the libraries run.
    Constructors,
    /// The program's own code has begun.
    Main,
    /// The program has run as long again without a new page of its files.
    #[strum(serialize = "steady state")]
    Steady,
}

/// Why a process faults again on the same page.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum RepeatFaultReason {
    /// Something was mapped at the address again.
    #[strum(serialize = "mapped again")]
    Remapped,
    /// The page was gone, and nothing was mapped: it was given back, reclaimed or swapped out.
    #[strum(serialize = "gone and touched again")]
    GivenBack,
    /// The page was there, but not for this access.
    #[strum(serialize = "there, not for this access")]
    Protection,
    /// Another thread was bringing the page in at the same time.
    #[strum(serialize = "another thread brought it in")]
    Raced,
    /// The earlier access was interrupted and began again.
    #[strum(serialize = "interrupted, restarted")]
    Retried,
    /// The kernel does not report whether the page was there.
    Unknown,
}

impl RepeatFaultReason {
    /// True if the page need not have gone.
    #[must_use]
    pub const fn is_churn(self) -> bool {
        matches!(self, Self::Remapped | Self::GivenBack)
    }
}

/// Faults on pages that the process had already faulted on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultChurn {
    pub by_reason: Vec<GroupTally<RepeatFaultReason>>,
    /// Functions that touched pages again after these had gone, the most time first. It is the first function
    /// outside the C library and allocators if that is known, else the one that touched the page.
    pub functions: Vec<FunctionTally>,
}

/// The saving that a remedy could bring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultSaving {
    /// Name of the remedy on the command line.
    pub remedy: String,
    /// Largest number of faults that it would save.
    pub faults: u64,
    pub time_ns: Nanos,
    /// Description of these faults.
    pub why: String,
}
