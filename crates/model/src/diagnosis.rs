//! The cost of page work for a program, as time and as a share of its time.

use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kinds of page cost.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum CostKind {
    /// First touches of anonymous memory, without the zeroing.
    #[strum(serialize = "anonymous faults")]
    AnonFaults,
    /// Clearing the pages of first touches.
    Zeroing,
    /// Faults on file mappings.
    #[strum(serialize = "file faults")]
    FileFaults,
    /// Copy-on-write faults.
    #[strum(serialize = "copy-on-write faults")]
    CowFaults,
    /// Copying page tables at fork.
    #[strum(serialize = "page tables at fork")]
    Fork,
    /// Faults that waited for I/O.
    #[strum(serialize = "major faults")]
    MajorFaults,
    /// Copies through pipes.
    #[strum(serialize = "copies through pipes")]
    PipeCopies,
    /// Copies from and to files.
    #[strum(serialize = "copies by read and write")]
    FileCopies,
    /// mmap, munmap, brk.
    #[strum(serialize = "map and unmap")]
    MapUnmap,
    /// Wake-ups and the context switches around them.
    #[strum(serialize = "wake-ups")]
    Wakeups,
    /// Page reclaim and compaction.
    Reclaim,
    /// Walks of the page table on TLB misses.
    #[strum(serialize = "address translation")]
    AddressTranslation,
    /// `malloc`, `free` and related functions, in user mode.
    #[strum(serialize = "malloc and free")]
    Malloc,
}

/// The method by which a cost was obtained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CostBasis {
    /// Counted events times the unit price.
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
pub struct PageCost {
    pub kind: CostKind,
    /// CPU time of the cost, over all CPUs.
    pub cost_ns: Nanos,
    /// `cost_ns` as a share (0..1) of the program's CPU time; for wake-ups, of its wall time.
    pub time_share: f64,
    /// The method by which the cost was obtained.
    pub basis: CostBasis,
    /// Counts and prices in one phrase.
    pub evidence: String,
    /// The same cost by samples, if they exist for this kind.
    pub sampled_ns: Fact<Nanos>,
}

/// Activities into which kernel samples are sorted.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum KernelActivity {
    /// Copying bytes between user and kernel memory.
    #[strum(serialize = "copies")]
    Copy,
    /// Clearing fresh pages.
    Zeroing,
    /// Entering, handling and mapping a fault, allocation included.
    #[strum(serialize = "faults")]
    Fault,
    /// mmap, munmap, brk, exec and exit tear-down of mappings.
    #[strum(serialize = "map and unmap")]
    MapUnmap,
    /// Wake-ups and context switches.
    #[strum(serialize = "wake-ups")]
    Wakeup,
    /// Reclaim, compaction, swap.
    Reclaim,
    /// Crossing the system call boundary.
    Entry,
    /// Pipe code outside copy and wake-up.
    #[strum(serialize = "pipes")]
    Pipe,
    /// File and page cache code outside copy.
    #[strum(serialize = "files")]
    File,
    /// Starting programs: fork, exec.
    #[strum(serialize = "fork and exec")]
    Spawn,
    /// The symbol is known, but matches none of the above.
    Other,
    /// The symbol is not known.
    #[strum(serialize = "unknown symbols")]
    Unknown,
}

/// The kernel code in which CPU samples fell. Shares (0..1) are of all samples, user mode included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelTime {
    pub activity_share: BTreeMap<KernelActivity, f64>,
    /// Share of each symbol at the leaf of a stack, the largest first, without rare ones.
    pub symbol_share: Vec<(String, f64)>,
}

/// The diagnosis of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// Costs, largest first.
    pub costs: Vec<PageCost>,
    /// Largest share (0..1) of wall time that removing all page costs and wake-ups, and malloc if it was
    /// sampled, could gain.
    pub ceiling_share: f64,
    /// Names of costs that could not be bounded and are not in the ceiling.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_in_ceiling: Vec<String>,
    /// System time per fault above the session's price, which the host charged, as a share of CPU time.
    pub host_share: Fact<f64>,
    /// The kernel code of the samples; missing without samples.
    pub kernel_time: Fact<KernelTime>,
    /// Pairs of estimates that differ by more than 20%, one sentence each.
    pub disagreements: Vec<String>,
}

impl Diagnosis {
    /// The cost of one kind, if the diagnosis has it.
    #[must_use]
    pub fn cost(&self, kind: CostKind) -> Option<&PageCost> {
        self.costs.iter().find(|c| c.kind == kind)
    }
    /// The costs that the ceiling covers.
    #[must_use]
    pub fn bounded(&self) -> &'static str {
        match self.cost(CostKind::Malloc) {
            Some(_) => "page costs, malloc and wake-ups",
            None => "page costs and wake-ups",
        }
    }
    /// Sum of the shares of these kinds.
    #[must_use]
    pub fn share(&self, kinds: &[CostKind]) -> f64 {
        let own = self.costs.iter().filter(|c| kinds.contains(&c.kind));
        // The sum of no shares would be negative zero.
        own.fold(0.0, |sum, cost| sum + cost.time_share)
    }
}
