//! One fresh process that read: its times, what it used, and what it really read.

use super::cell::FileCell;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// What was really read. A cell is refused if its ledger differs from the requested work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReadLedger {
    /// Bytes in all blocks that were read.
    pub bytes: Bytes,
    /// Number of blocks that were read.
    pub blocks: u64,
    /// Number of blocks that were read at least once.
    pub distinct_blocks: u64,
    /// Sum of one word of each block that was read. The block decides which of its words is taken.
    pub checksum: u64,
    /// Bytes of the file that were mapped before the clock started.
    pub mapped_before_bytes: Bytes,
}

impl ReadLedger {
    /// The work that `cell` requests, if one pass over its span has this checksum.
    #[must_use]
    pub const fn asked(cell: &FileCell, pass_checksum: u64) -> Self {
        Self {
            bytes: cell.total_bytes(),
            blocks: cell.blocks().saturating_mul(cell.passes as u64),
            distinct_blocks: cell.blocks(),
            checksum: pass_checksum.wrapping_mul(cell.passes as u64),
            mapped_before_bytes: Bytes(0),
        }
    }
}

/// The checksum of one pass over a span, computed apart from all cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedChecksum {
    /// Size of the blocks.
    pub block_bytes: Bytes,
    pub span_bytes: Bytes,
    /// Sum of the words of the pass.
    pub checksum: u64,
}

/// Content of the page cache for the whole file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CacheProof {
    /// Number of base pages in the file.
    pub file_pages: u64,
    /// Number of base pages that were cached before the cell.
    pub before_pages: u64,
    pub after_pages: u64,
    /// Time that both looks at the cache took.
    pub took_ns: Nanos,
}

/// Measurements of one fresh process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileSample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Position of this process in the order in which all processes ran, from 0.
    pub place: u32,
    /// Wall time to open, advise and map.
    pub set_up_ns: Nanos,
    /// Wall time of each pass.
    pub pass_ns: Vec<Nanos>,
    /// Page faults of each pass; empty in runs that did not count them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_faults: Vec<u64>,
    /// Wall time to unmap and close, including fresh memory that blocks were put into.
    pub tear_down_ns: Nanos,
    /// CPU time in user mode between the first call and the last.
    pub user_ns: Nanos,
    /// CPU time in the kernel between the first call and the last.
    pub sys_ns: Nanos,
    /// System calls of the passes.
    pub calls: u64,
    /// Page faults served without I/O, including those of populating calls.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
    /// Bytes fetched from the device.
    pub device_bytes: Fact<Bytes>,
    /// The work that was really done.
    pub ledger: ReadLedger,
    /// Content of the cache before and after.
    pub proof: CacheProof,
}

impl FileSample {
    /// Sum of set-up, all passes and tear-down.
    #[must_use]
    pub fn total_ns(&self) -> Nanos {
        self.set_up_ns + self.use_ns() + self.tear_down_ns
    }

    /// Sum of all passes.
    #[must_use]
    pub fn use_ns(&self) -> Nanos {
        self.pass_ns.iter().fold(Nanos(0), |sum, pass| sum + *pass)
    }
}
