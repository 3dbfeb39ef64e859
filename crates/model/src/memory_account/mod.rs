//! What the memory of a program is, at one moment: the account that closes.
//!
//! [`ProcessSeen`] is what was read, [`MemoryAccount`] what it comes to. `judge::memory_account` makes the one into
//! the other. Sizes are bytes of proportional set size unless the name says otherwise: a page that several
//! processes map counts in equal parts. Page tables and kernel stacks are not in it and stand beside it.

mod seen;

pub use seen::{Blocks, Claim, HugeSeen, MappingSeen, Mark, ProcessSeen, Resident};

use crate::address::Address;
use crate::fault::MemorySites;
use crate::measured::Fact;
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The name of what CPython's own pools hold.
pub const PYTHON_OBJECTS: &str = "Python's objects";

/// What a piece of memory is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Kind {
    /// Blocks of malloc in use.
    Live,
    /// Blocks of malloc that were freed and are kept by it.
    #[strum(serialize = "freed, kept")]
    Freed,
    /// Memory of an allocator whose blocks are not distinguished.
    Arena,
    /// The heap of a language's runtime.
    #[strum(serialize = "runtime heap")]
    Runtime,
    /// Mapped by the program or a library for itself.
    Mapped,
    #[strum(serialize = "stacks")]
    Stack,
    /// Variables of threads and data of the loader.
    #[strum(serialize = "thread data")]
    ThreadData,
    /// Code of files.
    Code,
    /// Other pages of files, as they are in the file.
    #[strum(serialize = "files")]
    File,
    /// Pages of private mappings of files that were written, and data that begins as zeros.
    Data,
    /// Shared memory.
    Shared,
    /// Code that was made while the program ran.
    #[strum(serialize = "made code")]
    Generated,
    /// Mappings with a name that the program gave them.
    Labelled,
    /// What the kernel maps into each process.
    #[strum(serialize = "kernel's")]
    Kernel,
    /// It could not be named.
    #[strum(serialize = "not named")]
    NotNamed,
}

/// By what a part is known.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // in lists for other programs
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Evidence {
    /// The kernel's own name for the mapping.
    Name,
    /// A mark in memory that was checked.
    Mark,
    /// The caller of the mapping call.
    Caller,
    /// No other owner is known in the process.
    Exclusion,
    #[strum(serialize = "")]
    Nothing,
}

/// Memory of one kind and name in one process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    pub kind: Kind,
    /// Its file, library, thread or allocator.
    pub name: String,
    pub evidence: Evidence,
    pub pss_bytes: Bytes,
    pub rss_bytes: Bytes,
    /// Resident with the mark of use.
    pub referenced_bytes: Bytes,
    pub swapped_bytes: Bytes,
    /// On huge pages.
    pub huge_bytes: Bytes,
}

/// glibc's malloc in one process; sizes are resident bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Malloc {
    /// Arenas with a heap, the main one included.
    pub arenas: u64,
    pub live_bytes: Bytes,
    pub freed_bytes: Bytes,
    /// Of it in other arenas than the main one.
    pub freed_elsewhere_bytes: Bytes,
    /// Whole pages of free blocks: what `malloc_trim` would release.
    pub whole_pages_bytes: Bytes,
    /// Whole pages at the ends of heaps.
    pub top_bytes: Bytes,
    /// Whole pages of large free blocks elsewhere.
    pub large_bytes: Bytes,
    pub live_blocks: u64,
    pub freed_blocks: u64,
    /// Why blocks of some heaps are not known.
    pub not_walked: Vec<String>,
}

/// Huge pages of one process that hold base pages of zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HalfUsed {
    pub huge_bytes: Bytes,
    /// How much of it was read.
    pub read_bytes: Bytes,
    /// Base pages of zeros, as many as all huge pages would have by what was read.
    pub zero_bytes: Bytes,
}

/// Which pages of a mapping are resident: a mapping in equal parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Strip {
    pub start_address: Address,
    pub size_bytes: Bytes,
    /// Its name, as `/proc/PID/maps` has it.
    pub name: String,
    pub resident_bytes: Bytes,
    pub referenced_bytes: Bytes,
    /// Of each part, by address, how much is resident: percent, 1 at least where a page is.
    pub cells: Vec<u8>,
}

/// What the kernel holds for a process beside its proportional set size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Beside {
    pub page_table_bytes: Option<Bytes>,
    /// One for each thread, by the size that the architecture has.
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
    /// The largest first.
    pub parts: Vec<Part>,
    pub beside: Beside,
    /// Its largest mappings, page by page.
    pub map: Vec<Strip>,
    pub malloc: Option<Malloc>,
    pub half_used: Fact<HalfUsed>,
    /// Written pages of its own where its parent has the same mapping: at most so much was copied after the fork.
    pub copied_bytes: Option<Bytes>,
    pub unread: Option<String>,
}

/// What a remedy could give back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GiveBack {
    pub remedy: String,
    /// At most.
    pub bytes: Bytes,
    pub why: String,
}

/// When an account was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// While the processes ran.
    Running,
    /// Before a process ended.
    End { pid: i32, since_start_ns: Nanos },
    /// Before a process gave memory back.
    Release { pid: i32, since_start_ns: Nanos },
}

/// How the moment was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Watched {
    /// How often all resident sets were added up.
    pub looks: u64,
    /// How often an account was taken.
    pub accounts: u64,
    /// The largest sum of resident sets at a look.
    pub peak_rss_bytes: Bytes,
    /// CPU time for the accounts.
    pub cpu_ns: Nanos,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryAccount {
    pub moment: Moment,
    /// Absent for a process that was running already.
    pub watched: Option<Watched>,
    /// Time in which pages had to be used to count as referenced; absent where the marks are as old as the pages.
    pub used_within_ns: Option<Nanos>,
    /// The largest first.
    pub processes: Vec<ProcessAccount>,
    /// Processes that this account may not look at.
    pub unseen_processes: u64,
    pub give_backs: Vec<GiveBack>,
    /// Who touched it first; absent where that was not asked for.
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
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.processes.iter().flat_map(|process| &process.parts)
    }

    /// Bytes of the parts that `wanted` picks.
    #[must_use]
    pub fn pss_of(&self, wanted: impl Fn(&Part) -> bool) -> Bytes {
        self.parts().filter(|part| wanted(part)).fold(Bytes(0), |sum, part| sum + part.pss_bytes)
    }

    /// The share (0..1) of the proportional set size that has a name.
    #[must_use]
    pub fn named_share(&self) -> f64 {
        let not = self.pss_of(|part| part.kind == Kind::NotNamed);
        1.0 - not.0 as f64 / self.pss().0.max(1) as f64
    }
}
