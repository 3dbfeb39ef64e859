//! One fresh process that read: its times, what it used, what it really did.

use super::cell::Cell;
use crate::measured::Fact;
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was really read. Cells whose ledgers differ from the work that was asked for are refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ledger {
    /// Bytes of all blocks that were taken.
    pub bytes: Bytes,
    /// Blocks that were taken.
    pub blocks: u64,
    /// Blocks that were taken at least once.
    pub distinct_blocks: u64,
    /// Sum over all taken blocks of one word of each, whose place in the block depends on the block.
    pub checksum: u64,
    /// What of the file was mapped before the clock started.
    pub mapped_before_bytes: Bytes,
}

impl Ledger {
    /// The work of `cell`, if one pass over its span has this checksum.
    #[must_use]
    pub const fn asked(cell: &Cell, pass_checksum: u64) -> Self {
        Self {
            bytes: cell.total_bytes(),
            blocks: cell.blocks().saturating_mul(cell.passes as u64),
            distinct_blocks: cell.blocks(),
            checksum: pass_checksum.wrapping_mul(cell.passes as u64),
            mapped_before_bytes: Bytes(0),
        }
    }
}

/// What the words of one pass over a span add up to, read apart from all cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truth {
    /// The size of the blocks.
    pub block_bytes: Bytes,
    pub span_bytes: Bytes,
    /// The sum.
    pub checksum: u64,
}

/// What the page cache held of the whole file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Proof {
    /// Base pages of the file.
    pub file_pages: u64,
    /// Those that were cached before.
    pub before_pages: u64,
    pub after_pages: u64,
    /// What both looks took.
    pub took_ns: Nanos,
}

/// One fresh process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Place in the order in which all processes ran, from 0.
    pub place: u32,
    /// Wall time of opening, advising and mapping.
    pub set_up_ns: Nanos,
    /// Wall time of each pass.
    pub pass_ns: Vec<Nanos>,
    /// Page faults of each pass; empty in runs that did not count them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pass_faults: Vec<u64>,
    /// Wall time of unmapping and closing, with the memory that blocks were put into where it was fresh.
    pub tear_down_ns: Nanos,
    /// CPU time in user mode between the first call and the last.
    pub user_ns: Nanos,
    /// CPU time in the kernel.
    pub sys_ns: Nanos,
    /// System calls of the passes.
    pub calls: u64,
    /// Page faults served without I/O, populating calls included.
    pub minor_faults: u64,
    /// Page faults that waited for I/O.
    pub major_faults: u64,
    /// Bytes fetched from the device.
    pub device_bytes: Fact<Bytes>,
    /// What was read.
    pub ledger: Ledger,
    /// What the cache held.
    pub proof: Proof,
}

impl Sample {
    /// Everything: set-up, all passes, tear-down.
    #[must_use]
    pub fn total_ns(&self) -> Nanos {
        self.set_up_ns + self.use_ns() + self.tear_down_ns
    }

    /// All passes.
    #[must_use]
    pub fn use_ns(&self) -> Nanos {
        self.pass_ns.iter().fold(Nanos(0), |sum, pass| sum + *pass)
    }
}
