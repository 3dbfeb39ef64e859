//! Readings of the memory of a tree, before any conclusion.

use crate::measured::Fact;
use crate::units::Bytes;

/// Resident memory of a mapping, from `/proc/PID/smaps`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResidentMemory {
    pub rss_bytes: Bytes,
    /// Resident bytes, with shared pages divided by the number of processes that map them.
    pub pss_bytes: Bytes,
    pub referenced_bytes: Bytes,
    /// Resident bytes that belong to no file.
    pub anonymous_bytes: Bytes,
    pub huge_bytes: Bytes,
    /// Resident bytes that only this process maps and that were written.
    pub private_dirty_bytes: Bytes,
    pub swapped_bytes: Bytes,
}

/// Blocks of a heap of glibc's malloc. Only resident bytes count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MallocBlocks {
    /// Bytes in use, including headers and blocks that threads keep for themselves.
    pub live_bytes: Bytes,
    /// Free bytes.
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

/// The mark by which the owner of anonymous memory can be checked.
#[derive(Debug, Clone, PartialEq)]
pub enum OwnerMark {
    /// A heap of glibc's malloc, by its header and the chain of its blocks.
    Heap {
        /// Address of the arena's state; none for the main arena.
        arena: Option<u64>,
        blocks: Fact<MallocBlocks>,
    },
    /// A block that glibc mapped by itself, by its header.
    LargeBlock,
    /// A thread's descriptor, which lies at the end and holds its own address.
    ThreadStack,
    /// The descriptor of the first thread, and the loader's data beside it.
    ThreadData,
    /// Memory after the data of a file that its program header requests.
    ZeroedData { file: String },
    /// Blocks of a language's own allocator, by their headers.
    Runtime { name: &'static str, live_bytes: Option<Bytes> },
    /// The code that mapped it, by the stack of the call.
    MappedBy { object: String },
}

/// A piece of a mapping with its mark.
#[derive(Debug, Clone, PartialEq)]
pub struct OwnerClaim {
    pub start: u64,
    pub end: u64,
    pub resident_bytes: Bytes,
    pub mark: OwnerMark,
}

#[derive(Debug, Clone, PartialEq)]
pub struct MappingMemorySeen {
    pub start: u64,
    pub end: u64,
    pub is_writable: bool,
    pub is_executable: bool,
    pub is_shared: bool,
    /// True if it has an inode.
    pub is_file: bool,
    /// Name of the mapping in `/proc/PID/maps`.
    pub path: String,
    pub resident: ResidentMemory,
    /// Resident share of each part, as in [`super::ResidencyStrip`]; empty if it was not read.
    pub cells: Vec<u8>,
    /// Claims on the mapping, by address; they do not overlap.
    pub claims: Vec<OwnerClaim>,
}

/// Readings of huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugeSeen {
    /// Bytes of all huge pages.
    pub bytes: Bytes,
    /// Part of the huge pages that was read.
    pub read_bytes: Bytes,
    /// Base pages of nothing but zeros, in the part that was read.
    pub zero_bytes: Bytes,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ProcessMemorySeen {
    pub pid: i32,
    pub parent: i32,
    /// Name of its executable.
    pub name: String,
    pub threads: u32,
    /// True if it runs the image that its parent forked, and has executed no program since.
    pub is_forked: bool,
    pub page_table_bytes: Option<Bytes>,
    pub mappings: Vec<MappingMemorySeen>,
    /// The allocator other than glibc's that serves it, or the runtime of its language.
    pub owner: Option<String>,
    pub huge: Fact<HugeSeen>,
    /// Why only its mappings could be read and not its memory.
    pub unread: Option<String>,
}
