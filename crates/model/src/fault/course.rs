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
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Phase {
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
    /// It has run as long again without a new page of its files.
    #[strum(serialize = "steady state")]
    Steady,
}

/// Why a process faults on a page that it has faulted on before.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Again {
    /// Something was mapped there again.
    #[strum(serialize = "mapped again")]
    Remapped,
    /// The page was gone, and nothing was mapped: given back, reclaimed or swapped out.
    #[strum(serialize = "gone and touched again")]
    GivenBack,
    /// The page was there, and not for this access.
    #[strum(serialize = "there, not for this access")]
    Protection,
    /// Another thread was just bringing the page in.
    #[strum(serialize = "another thread brought it in")]
    Raced,
    /// The access before was interrupted and began again.
    #[strum(serialize = "interrupted, restarted")]
    Retried,
    /// The kernel does not tell whether the page was there.
    Unknown,
}

impl Again {
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
    /// C library and allocators if known, else the toucher.
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
