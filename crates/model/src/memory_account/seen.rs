//! The memory of a tree as it was read, before anything is concluded.

use crate::measured::Fact;
use crate::units::Bytes;

/// What of a mapping is resident, by `/proc/PID/smaps`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Resident {
    pub rss_bytes: Bytes,
    /// Shared pages divided by the number of processes that map them.
    pub pss_bytes: Bytes,
    pub referenced_bytes: Bytes,
    /// Pages that belong to no file.
    pub anonymous_bytes: Bytes,
    pub huge_bytes: Bytes,
    /// Of this process only, and written.
    pub private_dirty_bytes: Bytes,
    pub swapped_bytes: Bytes,
}

/// How the blocks of a heap of glibc's malloc stand. Only what is resident counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Blocks {
    /// In use, with their headers; also those that threads keep for themselves.
    pub live_bytes: Bytes,
    /// Free.
    pub freed_bytes: Bytes,
    /// Whole pages of free blocks.
    pub whole_pages_bytes: Bytes,
    /// Whole pages of the free block at the end of the heap.
    pub top_bytes: Bytes,
    /// Whole pages of other free blocks that are large enough for a mapping of their own.
    pub large_bytes: Bytes,
    pub live_blocks: u64,
    pub freed_blocks: u64,
}

/// By what it can be checked whose a piece of anonymous memory is.
#[derive(Debug, Clone, PartialEq)]
pub enum Mark {
    /// A heap of glibc's malloc, by its header and the chain of its blocks.
    Heap {
        /// The arena, by the address of its state; none for the main arena.
        arena: Option<u64>,
        blocks: Fact<Blocks>,
    },
    /// A block that glibc has mapped by itself, by its header.
    LargeBlock,
    /// A thread's descriptor lies at its end, which holds its own address.
    ThreadStack,
    /// The descriptor of the first thread and what the loader has beside it.
    ThreadData,
    /// What a file's program header asks for behind its data.
    ZeroedData { file: String },
    /// Blocks of a language's own allocator, by their headers.
    Runtime { name: &'static str, live_bytes: Option<Bytes> },
    /// The code that mapped it, by the stack of the call.
    MappedBy { object: String },
}

/// A piece of a mapping with its mark.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    pub start: u64,
    pub end: u64,
    pub resident_bytes: Bytes,
    pub mark: Mark,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MappingSeen {
    pub start: u64,
    pub end: u64,
    pub is_writable: bool,
    pub is_executable: bool,
    pub is_shared: bool,
    /// It has an inode.
    pub is_file: bool,
    /// As `/proc/PID/maps` has it.
    pub path: String,
    pub resident: Resident,
    /// How much of each part of it is resident, as [`super::Strip`] has it; empty where that was not read.
    pub cells: Vec<u8>,
    /// By address; they do not overlap.
    pub claims: Vec<Claim>,
}

/// Huge pages as they were read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugeSeen {
    /// All of them.
    pub bytes: Bytes,
    /// How much of that was read.
    pub read_bytes: Bytes,
    /// Base pages in what was read that hold nothing but zeros.
    pub zero_bytes: Bytes,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProcessSeen {
    pub pid: i32,
    pub parent: i32,
    /// Name of its executable.
    pub name: String,
    pub threads: u32,
    /// It runs what its parent has forked, and has executed nothing since.
    pub is_forked: bool,
    pub page_table_bytes: Option<Bytes>,
    pub mappings: Vec<MappingSeen>,
    /// An allocator other than glibc's that serves it, or the runtime of its language.
    pub owner: Option<String>,
    pub huge: Fact<HugeSeen>,
    /// Why its memory could not be read, only its mappings.
    pub unread: Option<String>,
}
