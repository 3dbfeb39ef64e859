//! Cells: the way to read, and everything else that may differ between two cells.

use crate::bench::tlb::AccessOrder;
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// A way to read the bytes of a file.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray)] // as it is typed and shown
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ReadWay {
    /// read(2), in random order with lseek(2) before each.
    Read,
    /// pread(2).
    Pread,
    /// readv(2) of many blocks in one call.
    Readv,
    /// preadv2(2) with `RWF_DONTCACHE`, which drops again the pages that it brought into the cache.
    #[strum(serialize = "dontcache")]
    DontCache,
    /// io_uring, several reads at a time.
    #[strum(serialize = "io-uring")]
    Uring,
    /// The same, into a buffer that the kernel holds.
    #[strum(serialize = "io-uring-fixed")]
    UringFixed,
    /// pread(2) past the page cache (`O_DIRECT`).
    Direct,
    /// A mapping; each block is copied out of it.
    #[strum(serialize = "mmap")]
    Map,
    /// The same, with the whole file mapped at once (`MAP_POPULATE`).
    #[strum(serialize = "mmap-populate")]
    MapPopulate,
    /// The same, with each piece mapped when it is reached (`MADV_POPULATE_READ`).
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
    /// A mapping; each block is summed in place.
    Place,
    /// The same, with the whole file mapped at once.
    PlacePopulate,
    /// The same, with each piece mapped when it is reached.
    PlacePieces,
}

impl ReadWay {
    /// All of them, in display order.
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Name for use in a sentence.
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

    /// True if it reads through a mapping, and not by calls that copy.
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

    /// True if it uses the bytes in place, in the mapping.
    #[must_use]
    pub const fn is_in_place(self) -> bool {
        matches!(self, Self::Place | Self::PlacePopulate | Self::PlacePieces)
    }

    /// True if such a cell exists. One readv(2) fills its buffers from neighbours only, and reads past the
    /// cache do not depend on what the cache holds.
    #[must_use]
    pub const fn serves(self, order: AccessOrder, residency: CacheResidency) -> bool {
        match self {
            Self::Readv => matches!(order, AccessOrder::Sequential),
            Self::Direct => matches!(residency, CacheResidency::Cold),
            _ => true,
        }
    }
}

/// What a cell does that writes its blocks instead of reading them: by write(2), or by copying into a mapping.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum BlockStore {
    /// It leaves the blocks in the page cache.
    Cached,
    /// It ends when the device has them: fsync(2), or msync(2) with MS_SYNC, before closing.
    Synced,
}

/// Place of the bytes before the first read.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum CacheResidency {
    /// The whole file is in the page cache.
    Warm,
    /// Nothing of the file is in the page cache.
    Cold,
}

/// The part of the measurement that a cell belongs to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum FileBenchPart {
    /// Every way for every block size, order and residency.
    Blocks,
    /// Several passes through the same descriptor or mapping.
    Passes,
    /// Where blocks are put: alignment, and reused or fresh memory.
    Buffers,
    /// Several threads.
    Threads,
    /// The kernel's copy compared with copies that a program can make; it has no cells.
    Copies,
    /// Cells that explain the time of the other cells.
    Prices,
}

impl FileBenchPart {
    /// All parts that a user can request, in display order.
    pub const ALL: [Self; 5] =
        [Self::Blocks, Self::Passes, Self::Buffers, Self::Threads, Self::Copies];
}

/// A way to read with all its settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileCell {
    /// The part that the cell belongs to.
    pub part: FileBenchPart,
    pub arm: ReadWay,
    /// Bytes per read.
    pub block_bytes: Bytes,
    /// Order of the blocks; a pass reads each once.
    pub order: AccessOrder,
    /// Place of the bytes before the cell.
    pub residency: CacheResidency,
    /// Number of passes over all blocks.
    pub passes: u32,
    /// True if blocks go into memory that was never touched, and not into the same buffer again.
    pub fresh: bool,
    /// Distance from the beginning of a page to the place where a block is put.
    pub offset_bytes: Bytes,
    /// Number of threads; each reads its share of the blocks.
    pub threads: u32,
    /// Bytes of a pass: whole blocks from the beginning of the file.
    pub span_bytes: Bytes,
    /// How the blocks are written (`--write`); none if they are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<BlockStore>,
}

impl FileCell {
    /// A cell that reads warm and in order, once, by one thread, into the same buffer.
    #[must_use]
    pub const fn plain(
        part: FileBenchPart,
        arm: ReadWay,
        block_bytes: Bytes,
        span_bytes: Bytes,
    ) -> Self {
        Self {
            part,
            arm,
            block_bytes,
            order: AccessOrder::Sequential,
            residency: CacheResidency::Warm,
            passes: 1,
            fresh: false,
            offset_bytes: Bytes(0),
            threads: 1,
            span_bytes,
            store: None,
        }
    }

    /// Name of the way, as it is typed and shown.
    #[must_use]
    pub const fn way(&self) -> &'static str {
        match (self.store, self.arm.is_mapped()) {
            (None, _) => self.arm.into_str(),
            (Some(BlockStore::Cached), false) => "write",
            (Some(BlockStore::Synced), false) => "write-fsync",
            (Some(BlockStore::Cached), true) => "mmap-write",
            (Some(BlockStore::Synced), true) => "mmap-write-msync",
        }
    }

    /// Name of the way for use in a sentence.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match (self.store, self.arm.is_mapped()) {
            (None, _) => self.arm.name(),
            (Some(BlockStore::Cached), false) => "write()",
            (Some(BlockStore::Synced), false) => "write() with fsync()",
            (Some(BlockStore::Cached), true) => "a mapping that each block is copied into",
            (Some(BlockStore::Synced), true) => "a mapping with msync()",
        }
    }

    /// Number of blocks in a pass.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        match self.span_bytes.0.checked_div(self.block_bytes.0) {
            Some(blocks) => blocks,
            None => 0,
        }
    }

    /// Number of bytes in all passes.
    #[must_use]
    pub const fn total_bytes(&self) -> Bytes {
        Bytes(self.span_bytes.0.saturating_mul(self.passes as u64))
    }

    /// The same cell with another way.
    #[must_use]
    pub const fn by(self, arm: ReadWay) -> Self {
        Self { arm, ..self }
    }
}

/// An error of the published benchmark, repeated to show its effect.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum BenchmarkFlaw {
    /// The loop over a mapping counted bytes in 32 bits. At 4 GiB it ended half way, and the time was divided
    /// by the whole size. Here it ends half way at any size.
    ShortLoop,
    /// Random blocks are drawn with replacement, which touches about 63% of them.
    #[strum(serialize = "with-replacement")]
    Replacement,
    /// `MAP_POPULATE` maps the file before the clock starts.
    UnclockedPopulate,
}

impl BenchmarkFlaw {
    pub const ALL: [Self; 3] = [Self::ShortLoop, Self::Replacement, Self::UnclockedPopulate];

    /// True if the error changes the work of a cell.
    #[must_use]
    pub const fn changes(self, cell: &FileCell) -> bool {
        match self {
            Self::ShortLoop => cell.arm.is_mapped(),
            Self::Replacement => matches!(cell.order, AccessOrder::Random),
            Self::UnclockedPopulate => {
                matches!(cell.arm, ReadWay::MapPopulate | ReadWay::PlacePopulate)
            }
        }
    }
}
