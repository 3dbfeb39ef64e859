//! The memory of a program at one moment, in an account that adds up.
//!
//! [`ProcessMemorySeen`] holds the readings and [`MemoryAccount`] their sums. `judge::memory_account` turns one
//! into the other. Sizes are bytes of proportional set size unless the name says otherwise: a page that
//! several processes map counts in equal parts. Page tables and kernel stacks are not included and stand
//! beside it.

mod seen;

pub use seen::{
    HugeSeen, MallocBlocks, MappingMemorySeen, OwnerClaim, OwnerMark, ProcessMemorySeen,
    ResidentMemory,
};

use crate::address::VirtualAddress;
use crate::fault::MemorySites;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Name of the content of CPython's own pools.
pub const PYTHON_OBJECTS: &str = "Python's objects";

/// The kind of a piece of memory.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum MemoryKind {
    /// Blocks of malloc in use.
    Live,
    /// Blocks of malloc that were freed and that it keeps.
    #[strum(serialize = "freed, kept")]
    Freed,
    /// Memory of an allocator whose blocks cannot be distinguished.
    Arena,
    /// The heap of a language's runtime.
    #[strum(serialize = "runtime heap")]
    Runtime,
    /// Memory that the program or a library mapped for itself.
    Mapped,
    #[strum(serialize = "stacks")]
    Stack,
    /// Variables of threads, and data of the loader.
    #[strum(serialize = "thread data")]
    ThreadData,
    /// Code from files.
    Code,
    /// Other pages of files, with the content of the file.
    #[strum(serialize = "files")]
    File,
    /// Written pages of private file mappings, and data that begins as zeros.
    Data,
    /// Shared memory.
    Shared,
    /// Code that was generated while the program ran.
    #[strum(serialize = "made code")]
    Generated,
    /// Mappings that the program has named.
    Labelled,
    /// Memory that the kernel maps into each process.
    #[strum(serialize = "kernel's")]
    Kernel,
    /// Memory that could not be named.
    #[strum(serialize = "not named")]
    NotNamed,
}

/// The evidence for a part.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // in lists for other programs
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum OwnerEvidence {
    /// The kernel's own name for the mapping.
    Name,
    /// A mark in memory, which was checked.
    Mark,
    /// The code that made the mapping call.
    Caller,
    /// No other owner is known in the process.
    Exclusion,
    #[strum(serialize = "")]
    Nothing,
}

/// Memory of one kind and name in one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryPart {
    pub kind: MemoryKind,
    /// Name of its file, library, thread or allocator.
    pub name: String,
    pub evidence: OwnerEvidence,
    pub pss_bytes: Bytes,
    pub rss_bytes: Bytes,
    /// Resident bytes with the mark of use.
    pub referenced_bytes: Bytes,
    pub swapped_bytes: Bytes,
    /// Bytes on huge pages.
    pub huge_bytes: Bytes,
}

/// glibc's malloc in one process. Sizes are resident bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MallocAccount {
    /// Number of arenas with a heap, including the main one.
    pub arenas: u64,
    pub live_bytes: Bytes,
    pub freed_bytes: Bytes,
    /// Part of the freed bytes in arenas other than the main one.
    pub freed_elsewhere_bytes: Bytes,
    /// Whole pages of free blocks, which `malloc_trim` would release.
    pub whole_pages_bytes: Bytes,
    /// Whole pages at the ends of heaps.
    pub top_bytes: Bytes,
    /// Whole pages of large free blocks elsewhere.
    pub large_bytes: Bytes,
    pub live_blocks: u64,
    pub freed_blocks: u64,
    /// Reasons why blocks of some heaps are not known.
    pub not_walked: Vec<String>,
}

/// Huge pages of one process that hold base pages of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnderusedHugePages {
    pub huge_bytes: Bytes,
    /// Part of the huge pages that was read.
    pub read_bytes: Bytes,
    /// Base pages of zeros in all huge pages, estimated from the part that was read.
    pub zero_bytes: Bytes,
}

/// Resident pages of a mapping, which is divided into equal parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResidencyStrip {
    pub start_address: VirtualAddress,
    pub size_bytes: Bytes,
    /// Name of the mapping in `/proc/PID/maps`.
    pub name: String,
    pub resident_bytes: Bytes,
    pub referenced_bytes: Bytes,
    /// Resident percent of each part, by address; at least 1 if a page is resident.
    pub cells: Vec<u8>,
}

/// Memory that the kernel holds for a process in addition to its proportional set size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelMemory {
    pub page_table_bytes: Option<Bytes>,
    /// Kernel stacks: one for each thread, of the size that the architecture uses.
    pub kernel_stack_bytes: Bytes,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessAccount {
    pub pid: i32,
    pub name: String,
    pub threads: u32,
    pub pss_bytes: Bytes,
    pub rss_bytes: Bytes,
    pub swapped_bytes: Bytes,
    /// Parts of the memory, the largest first.
    pub parts: Vec<MemoryPart>,
    pub beside: KernelMemory,
    /// Its largest mappings, with their resident pages.
    pub map: Vec<ResidencyStrip>,
    pub malloc: Option<MallocAccount>,
    pub half_used: Fact<UnderusedHugePages>,
    /// Written private pages in mappings that its parent has too: the most that was copied after the fork.
    pub copied_bytes: Option<Bytes>,
    pub unread: Option<String>,
}

/// Memory that a remedy could give back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemorySaving {
    pub remedy: String,
    /// Most bytes that it could give back.
    pub bytes: Bytes,
    pub why: String,
}

/// The moment of an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccountMoment {
    /// While the processes ran.
    Running,
    /// Before a process ended.
    End { pid: i32, since_start_ns: Nanos },
    /// Before a process gave memory back.
    Release { pid: i32, since_start_ns: Nanos },
}

/// Statistics of the search for the moment of an account.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PeakWatch {
    /// Number of times all resident sets were added up.
    pub looks: u64,
    /// Number of times an account was taken.
    pub accounts: u64,
    /// Largest sum of resident sets at a look.
    pub peak_rss_bytes: Bytes,
    /// CPU time that the accounts took.
    pub cpu_ns: Nanos,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryAccount {
    pub moment: AccountMoment,
    /// Statistics of the search for the moment; absent for a process that ran already.
    pub watched: Option<PeakWatch>,
    /// Time within which pages had to be used to count as referenced; absent if the marks are as old as the
    /// pages.
    pub used_within_ns: Option<Nanos>,
    /// Processes, the largest first.
    pub processes: Vec<ProcessAccount>,
    /// Number of processes that this account may not observe.
    pub unseen_processes: u64,
    pub give_backs: Vec<MemorySaving>,
    /// The code that first touched the memory; absent if it was not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sites: Option<Fact<MemorySites>>,
}

impl MemoryAccount {
    fn sum(&self, of: impl Fn(&ProcessAccount) -> Bytes) -> Bytes {
        self.processes.iter().fold(Bytes(0), |sum, process| sum + of(process))
    }

    #[must_use]
    pub fn pss(&self) -> Bytes {
        self.sum(|process| process.pss_bytes)
    }

    /// All parts of all processes.
    pub fn parts(&self) -> impl Iterator<Item = &MemoryPart> {
        self.processes.iter().flat_map(|process| &process.parts)
    }

    /// Bytes of the parts that `wanted` selects.
    #[must_use]
    pub fn pss_of(&self, wanted: impl Fn(&MemoryPart) -> bool) -> Bytes {
        self.parts().filter(|part| wanted(part)).fold(Bytes(0), |sum, part| sum + part.pss_bytes)
    }

    /// Share (0..1) of the proportional set size that has a name.
    #[must_use]
    pub fn named_share(&self) -> f64 {
        let not = self.pss_of(|part| part.kind == MemoryKind::NotNamed);
        1.0 - not.0 as f64 / self.pss().0.max(1) as f64
    }
}
