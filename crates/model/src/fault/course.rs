//! When in the life of a program its faults come, why pages are faulted on again, and what would
//! remove them.

use super::{FunctionTally, GroupTally};
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A part of a program's life, from its exec on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The kernel builds the image.
    Exec,
    /// The loader maps the libraries.
    Loader,
    /// The loader relocates program and libraries.
    Relocation,
    /// Constructors of the libraries run.
    Constructors,
    /// The program's own code has begun.
    Main,
    /// It has run as long again without a new page of its files.
    Steady,
}

impl Phase {
    /// The words shown to people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Exec => "kernel exec",
            Self::Loader => "loader",
            Self::Relocation => "relocation",
            Self::Constructors => "constructors",
            Self::Main => "main",
            Self::Steady => "steady state",
        }
    }
}

/// Why a process faults on a page that it has faulted on before.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// Something was mapped there again.
    Remapped,
    /// The page was gone, and nothing was mapped: given back, reclaimed or swapped out.
    GivenBack,
    /// The page was there, and not for this access.
    Protection,
    /// Another thread was just bringing the page in.
    Raced,
    /// The access before was interrupted and began again.
    Retried,
    /// The kernel does not tell whether the page was there.
    Unknown,
}

impl Again {
    /// The words shown to people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Remapped => "mapped again",
            Self::GivenBack => "gone and touched again",
            Self::Protection => "there, not for this access",
            Self::Raced => "another thread brought it in",
            Self::Retried => "interrupted, restarted",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the page need not have gone.
    #[must_use]
    pub const fn is_churn(self) -> bool {
        matches!(self, Self::Remapped | Self::GivenBack)
    }
}

/// Faults on pages that the process had faulted on before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Churn {
    pub by_reason: Vec<GroupTally<Again>>,
    /// Who touched pages again that had gone, the most time first: the first function outside the
    /// C library and allocators where it is known, else the toucher.
    pub functions: Vec<FunctionTally>,
}

/// What a remedy could save.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Saving {
    /// Its name on the command line.
    pub remedy: String,
    /// Faults that would not happen, at most.
    pub faults: u64,
    pub time_ns: Nanos,
    /// Which faults these are.
    pub why: String,
}
