//! What page work costs a program, in time and as a share of it.

use crate::measured::Fact;
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kinds of page cost.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CostKind {
    /// First touches of anonymous memory, without the zeroing.
    AnonFaults,
    /// Clearing the pages of those.
    Zeroing,
    /// Faults on file mappings.
    FileFaults,
    /// Copy-on-write faults.
    CowFaults,
    /// Copying page tables at fork.
    Fork,
    /// Faults that waited for I/O.
    MajorFaults,
    /// Copies through pipes.
    PipeCopies,
    /// Copies out of and into files.
    FileCopies,
    /// mmap, munmap, brk.
    MapUnmap,
    /// Wake-ups and the context switches around them.
    Wakeups,
    /// Page reclaim and compaction.
    Reclaim,
    /// Walks of the page table on TLB misses.
    AddressTranslation,
    /// `malloc`, `free` and their kin, in user mode.
    Malloc,
}

impl CostKind {
    /// The name shown to people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::AnonFaults => "anonymous faults",
            Self::Zeroing => "zeroing",
            Self::FileFaults => "file faults",
            Self::CowFaults => "copy-on-write faults",
            Self::Fork => "page tables at fork",
            Self::MajorFaults => "major faults",
            Self::PipeCopies => "copies through pipes",
            Self::FileCopies => "copies of file data",
            Self::MapUnmap => "map and unmap",
            Self::Wakeups => "wake-ups",
            Self::Reclaim => "reclaim",
            Self::AddressTranslation => "address translation",
            Self::Malloc => "malloc and free",
        }
    }
}

/// How a cost was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// Counted events times unit price.
    CountsTimesPrice,
    /// An upper bound from a model; an experiment must settle it.
    UpperBound,
    /// Hardware counters.
    Counters,
    /// CPU samples times their period.
    Samples,
    /// Each event timed from its beginning to its end.
    Timed,
}

/// One page cost of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    pub kind: CostKind,
    /// CPU time it takes (all CPUs together).
    pub cost_ns: Nanos,
    /// `cost_ns` as a share (0..1) of the program's CPU time; for wake-ups of its wall time.
    pub time_share: f64,
    /// How it was obtained.
    pub basis: Basis,
    /// Counts and prices in one phrase.
    pub evidence: String,
    /// The same cost by samples, where they exist for this kind.
    pub sampled_ns: Fact<Nanos>,
}

/// Activities into which kernel samples are sorted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// Copying bytes between user and kernel memory.
    Copy,
    /// Clearing fresh pages.
    Zeroing,
    /// Entering, handling and mapping a fault, allocation included.
    Fault,
    /// mmap, munmap, brk, exec and exit tear-down of mappings.
    MapUnmap,
    /// Wake-ups and context switches.
    Wakeup,
    /// Reclaim, compaction, swap.
    Reclaim,
    /// Crossing the system call boundary.
    Entry,
    /// Pipe code outside copy and wake-up.
    Pipe,
    /// File and page cache code outside copy.
    File,
    /// Starting programs: fork, exec.
    Spawn,
    /// Known symbol, none of the above.
    Other,
    /// Symbol not known.
    Unknown,
}

impl Activity {
    /// The name shown to people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Copy => "copies",
            Self::Zeroing => "zeroing",
            Self::Fault => "faults",
            Self::MapUnmap => "map and unmap",
            Self::Wakeup => "wake-ups",
            Self::Reclaim => "reclaim",
            Self::Entry => "entry",
            Self::Pipe => "pipes",
            Self::File => "files",
            Self::Spawn => "fork and exec",
            Self::Other => "other",
            Self::Unknown => "unknown symbols",
        }
    }
}

/// Where in the kernel the CPU samples fell. Shares (0..1) are of all samples, user mode included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTime {
    pub activity_share: BTreeMap<Activity, f64>,
    /// Share of each symbol at the leaf of a stack, the largest first; the rare ones are left out.
    pub symbol_share: Vec<(String, f64)>,
}

/// The diagnosis of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Costs, largest first.
    pub costs: Vec<Cost>,
    /// Share (0..1) of wall time that removing all page costs and wake-ups, and malloc where it was sampled, could give at most.
    pub ceiling_share: f64,
    /// Costs that could not be bounded and are not in the ceiling, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_in_ceiling: Vec<String>,
    /// System time per fault above the session's price: what the host charged, share of CPU time.
    pub host_share: Fact<f64>,
    /// Where the samples fell; missing without samples.
    pub kernel_time: Fact<KernelTime>,
    /// Pairs of estimates that differ by more than 20%, as sentences.
    pub disagreements: Vec<String>,
}

impl Diagnosis {
    /// The cost of one kind, if the diagnosis has it.
    #[must_use]
    pub fn cost(&self, kind: CostKind) -> Option<&Cost> {
        self.costs.iter().find(|c| c.kind == kind)
    }
    /// What the ceiling is a ceiling of.
    #[must_use]
    pub fn bounded(&self) -> &'static str {
        match self.cost(CostKind::Malloc) {
            Some(_) => "page costs, malloc and wake-ups",
            None => "page costs and wake-ups",
        }
    }
    /// Summed share of the given kinds.
    #[must_use]
    pub fn share(&self, kinds: &[CostKind]) -> f64 {
        self.costs.iter().filter(|c| kinds.contains(&c.kind)).map(|c| c.time_share).sum()
    }
}
