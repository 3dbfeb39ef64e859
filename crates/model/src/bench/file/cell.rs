//! What is read in which way: the method, and all that may differ between two cells.

use crate::bench::tlb::Order;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A way to get at the bytes of a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray)] // as it is typed and shown
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Arm {
    /// read(2), in random order with lseek(2) before each.
    Read,
    /// pread(2).
    Pread,
    /// readv(2) of many blocks in one call.
    Readv,
    /// preadv2(2) with `RWF_DONTCACHE`: what it brought into the cache is dropped again.
    #[strum(serialize = "dontcache")]
    DontCache,
    /// io_uring, several reads at a time.
    #[strum(serialize = "io-uring")]
    Uring,
    /// The same into a buffer that the kernel holds.
    #[strum(serialize = "io-uring-fixed")]
    UringFixed,
    /// pread(2) past the page cache (`O_DIRECT`).
    Direct,
    /// A mapping from which each block is copied.
    #[strum(serialize = "mmap")]
    Map,
    /// The same, mapped whole at once (`MAP_POPULATE`).
    #[strum(serialize = "mmap-populate")]
    MapPopulate,
    /// The same, mapped in pieces as they are reached (`MADV_POPULATE_READ`).
    #[strum(serialize = "mmap-pieces")]
    MapPieces,
    /// The same after `MADV_WILLNEED`.
    #[strum(serialize = "mmap-willneed")]
    MapWillNeed,
    /// The same after `MADV_SEQUENTIAL`.
    #[strum(serialize = "mmap-sequential")]
    MapSequential,
    /// The same after `MADV_RANDOM`.
    #[strum(serialize = "mmap-random")]
    MapRandom,
    /// A mapping whose blocks are summed where they lie.
    Place,
    /// The same, mapped whole at once.
    PlacePopulate,
    /// The same, mapped in pieces as they are reached.
    PlacePieces,
}

impl Arm {
    /// All of them, in the order in which they are shown.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// In a sentence.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read()",
            Self::Pread => "pread()",
            Self::Readv => "readv() of many blocks at once",
            Self::DontCache => "preadv2() with RWF_DONTCACHE",
            Self::Uring => "io_uring",
            Self::UringFixed => "io_uring into fixed buffers",
            Self::Direct => "pread() past the cache",
            Self::Map => "a mapping with a copy of each block",
            Self::MapPopulate => "a copy out of a mapping made by MAP_POPULATE",
            Self::MapPieces => "a copy out of a mapping populated in pieces",
            Self::MapWillNeed => "a copy out of a mapping after MADV_WILLNEED",
            Self::MapSequential => "a copy out of a mapping after MADV_SEQUENTIAL",
            Self::MapRandom => "a copy out of a mapping after MADV_RANDOM",
            Self::Place => "a mapping used in place",
            Self::PlacePopulate => "a mapping made by MAP_POPULATE, used in place",
            Self::PlacePieces => "a mapping populated in pieces, used in place",
        }
    }

    /// Through a mapping, not by calls that copy.
    #[must_use]
    pub const fn is_mapped(self) -> bool {
        let copied = matches!(
            self,
            Self::Map
                | Self::MapPopulate
                | Self::MapPieces
                | Self::MapWillNeed
                | Self::MapSequential
                | Self::MapRandom
        );
        copied || self.is_in_place()
    }

    /// The bytes are used where they lie in the mapping.
    #[must_use]
    pub const fn is_in_place(self) -> bool {
        matches!(self, Self::Place | Self::PlacePopulate | Self::PlacePieces)
    }

    /// Whether there is such a cell: one readv(2) fills its buffers from neighbours only, and what reads
    /// past the cache does not care what the cache holds.
    #[must_use]
    pub const fn serves(self, order: Order, residency: Residency) -> bool {
        match self {
            Self::Readv => matches!(order, Order::Sequential),
            Self::Direct => matches!(residency, Residency::Cold),
            _ => true,
        }
    }
}

/// Where the bytes are before the first is asked for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Residency {
    /// All of the file is in the page cache.
    Warm,
    /// Nothing of it is.
    Cold,
}

/// What a cell is measured for.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Part {
    /// Every way over every block, order and residency.
    Blocks,
    /// The same file again and again through one descriptor or mapping.
    Passes,
    /// Where the bytes are put: alignment, memory used again or fresh.
    Buffers,
    /// More than one thread.
    Threads,
    /// The kernel's copy beside those that a program can make; no cells.
    Copies,
    /// What the time of the other cells is explained by.
    Prices,
}

impl Part {
    /// Those that can be asked for, in the order in which they are shown.
    pub const ALL: [Self; 5] =
        [Self::Blocks, Self::Passes, Self::Buffers, Self::Threads, Self::Copies];
}

/// A way to read, with everything that may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cell {
    /// What it is measured for.
    pub part: Part,
    pub arm: Arm,
    /// Bytes taken at once.
    pub block_bytes: Bytes,
    /// The order of the blocks, each once in a pass.
    pub order: Order,
    /// Where the bytes are before.
    pub residency: Residency,
    /// How often all blocks are gone through.
    pub passes: u32,
    /// Blocks are put into memory that was never touched, not into the same buffer again.
    pub fresh: bool,
    /// From the beginning of a page to the place where a block is put.
    pub offset_bytes: Bytes,
    /// Threads, each with its share of the blocks.
    pub threads: u32,
    /// The first bytes of the file, whole blocks, that make a pass.
    pub span_bytes: Bytes,
}

impl Cell {
    /// Read warm and in order, once, by one thread, into the same buffer.
    #[must_use]
    pub const fn plain(part: Part, arm: Arm, block_bytes: Bytes, span_bytes: Bytes) -> Self {
        Self {
            part,
            arm,
            block_bytes,
            order: Order::Sequential,
            residency: Residency::Warm,
            passes: 1,
            fresh: false,
            offset_bytes: Bytes(0),
            threads: 1,
            span_bytes,
        }
    }

    /// Blocks of a pass.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        match self.span_bytes.0.checked_div(self.block_bytes.0) {
            Some(blocks) => blocks,
            None => 0,
        }
    }

    /// Bytes of all passes.
    #[must_use]
    pub const fn total_bytes(&self) -> Bytes {
        Bytes(self.span_bytes.0.saturating_mul(self.passes as u64))
    }

    /// The same cell by another way.
    #[must_use]
    pub const fn by(self, arm: Arm) -> Self {
        Self { arm, ..self }
    }
}

/// An error of the published benchmark, repeated to show what it did.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Slip {
    /// The loop over a mapping counted bytes in 32 bits: at 4 GiB it ended half way, and the time was
    /// divided by the whole. Here it ends half way at any size.
    ShortLoop,
    /// Random blocks were drawn with replacement: about 63% of them are touched.
    #[strum(serialize = "with-replacement")]
    Replacement,
    /// `MAP_POPULATE` maps the file before the clock starts.
    UnclockedPopulate,
}

impl Slip {
    pub const ALL: [Self; 3] = [Self::ShortLoop, Self::Replacement, Self::UnclockedPopulate];

    /// Whether it changes what a cell does.
    #[must_use]
    pub const fn changes(self, cell: &Cell) -> bool {
        match self {
            Self::ShortLoop => cell.arm.is_mapped(),
            Self::Replacement => matches!(cell.order, Order::Random),
            Self::UnclockedPopulate => {
                matches!(cell.arm, Arm::MapPopulate | Arm::PlacePopulate)
            }
        }
    }
}
