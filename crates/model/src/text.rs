//! Code on huge pages: what of the text and read-only data of a file or a process is on them, what is
//! not and why, and what each method would reach.
//!
//! A *slot* is a piece of address space as large as a huge page, at a multiple of that size. It is mapped
//! by one entry when all of it lies in one mapping of a file, when address and offset are congruent (the
//! same remainder by the size of a huge page), and when the page cache holds that part of the file in one
//! folio. Addresses of files are those of their program headers.

use crate::cache::CachedFile;
use crate::measured::Fact;
use crate::units::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the base of an image is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// At the addresses in its headers (`ET_EXEC`).
    Fixed,
    /// By the kernel at random, at a multiple of its largest alignment: a position-independent program
    /// with an interpreter.
    Program,
    /// By the dynamic loader: a library. Where a mapping of the file goes, or by an alignment of its own.
    Library,
    /// Where a mapping of the file goes: a static program that is position independent.
    Mapped,
}

/// A part of an ELF file that is loaded (`PT_LOAD`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Segment {
    /// Where it begins in the file.
    pub offset_bytes: Bytes,
    pub address: u64,
    /// How much of it is in the file.
    pub file_bytes: Bytes,
    /// Its alignment; 0 and 1 are none.
    pub align_bytes: Bytes,
    /// May be written.
    pub is_writable: bool,
    /// May be executed.
    pub is_executable: bool,
}

/// How an ELF file is mapped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Layout {
    /// How its base is chosen.
    pub placement: Placement,
    /// Its parts, by address.
    pub segments: Vec<Segment>,
}

/// What a piece of an image is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum AreaKind {
    /// Executable.
    Text,
    /// Neither executable nor writable.
    #[strum(serialize = "read-only data")]
    ReadOnly,
}

/// Where a piece of an image is, or why it is not on a huge page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Standing {
    /// Mapped by one entry; of a file that is not running, that it will be.
    Huge,
    /// The cache holds this part in smaller folios, or only some of it.
    SmallFolio,
    /// Memory of no file, on smaller pages.
    SmallPages,
    /// The cache does not hold it.
    NotCached,
    /// Nothing of it has been touched.
    NotTouched,
    /// Address and offset are not congruent.
    Incongruent {
        /// The difference of their remainders.
        off_by_bytes: Bytes,
    },
    /// The base is at random: congruent in one of so many starts.
    ByChance {
        /// Of how many.
        one_in: u64,
    },
    /// The mapping begins or ends within the slot.
    Boundary,
    /// The mapping is smaller than a huge page.
    TooSmall,
    /// Pages of it were written and are this process's own.
    PrivateCopy { copied_bytes: Bytes },
    /// The cache has a huge folio here, but the process has a table of small pages from before.
    PageTable,
    /// The process does without huge pages (`PR_SET_THP_DISABLE`).
    Disabled,
    /// The machine gives memory of no file none (`enabled` is `never`).
    NotOffered,
    /// The machine gives them to memory of no file that asks (`enabled` is `madvise`), and this has not.
    NotAsked,
    /// The program has asked for none (`MADV_NOHUGEPAGE`, and since Linux 6.7 `MAP_STACK`).
    Refused,
    /// No page is left in the reserved pool that the mapping is served from.
    PoolEmpty,
    /// The file system keeps its files in base pages.
    FileSystem { name: String },
    /// What the cache holds could not be found out.
    NotKnown { why: String },
}

/// One slot, or the part of it that a mapping has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Piece {
    pub address: u64,
    /// Where it begins in the file.
    pub offset_bytes: Bytes,
    pub length_bytes: Bytes,
    /// Huge, or why not.
    #[serde(flatten)]
    pub standing: Standing,
}

/// One mapping of text or read-only data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Area {
    pub kind: AreaKind,
    /// Its pieces, by address.
    pub pieces: Vec<Piece>,
}

impl Area {
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.pieces.iter().fold(Bytes(0), |sum, piece| sum + piece.length_bytes)
    }

    /// How much of it is huge.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        let huge = self.pieces.iter().filter(|piece| piece.standing == Standing::Huge);
        huge.fold(Bytes(0), |sum, piece| sum + piece.length_bytes)
    }
}

/// How much of the text and of the read-only data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    pub text_bytes: Bytes,
    /// Of the read-only data.
    pub read_only_bytes: Bytes,
}

impl Coverage {
    /// Of both together.
    #[must_use]
    pub fn sum(&self) -> Bytes {
        self.text_bytes + self.read_only_bytes
    }
}

/// A way to bring more of a file on huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Method {
    /// Its page cache filled again in huge folios; the file stays as it is.
    Warm,
    /// The same, and segments aligned to huge pages (`p_align`) where their addresses and offsets are
    /// congruent.
    Aligned,
    /// The same, and neighbouring segments that are not writable mapped as one: read-only data becomes
    /// executable.
    Merged,
}

impl Method {
    /// All, the mildest first.
    pub const ALL: [Self; 3] = [Self::Warm, Self::Aligned, Self::Merged];
}

/// What a method reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reach {
    pub method: Method,
    /// What is on huge pages with it.
    pub huge: Coverage,
}

/// An ELF file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextFile {
    /// Its page cache, and what became of warming it.
    pub cache: CachedFile,
    /// How it is mapped.
    pub layout: Layout,
    /// How much there is.
    pub size: Coverage,
    /// Its mappings as they will be.
    pub areas: Vec<Area>,
    /// What each method reaches.
    pub reach: Vec<Reach>,
}

impl TextFile {
    /// What will be huge in a process that starts now.
    #[must_use]
    pub fn huge(&self) -> Coverage {
        coverage(&self.areas, Area::huge)
    }

    /// What will be huge once the file is warmed.
    #[must_use]
    pub fn warmed(&self) -> Coverage {
        let warm = self.reach.iter().find(|reach| reach.method == Method::Warm);
        warm.map(|reach| reach.huge).unwrap_or_default()
    }
}

/// The text and read-only data of one file in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MappedFile {
    pub path: String,
    /// Its mappings.
    pub areas: Vec<Area>,
    /// What would be huge if the file were warmed and the process started again at the same addresses.
    pub after_warm: Coverage,
}

impl MappedFile {
    /// How much there is.
    #[must_use]
    pub fn size(&self) -> Coverage {
        coverage(&self.areas, Area::size)
    }

    /// How much is huge.
    #[must_use]
    pub fn huge(&self) -> Coverage {
        coverage(&self.areas, Area::huge)
    }
}

/// Of areas the sum of what `part` takes, by kind.
#[must_use]
pub fn coverage(areas: &[Area], part: impl Fn(&Area) -> Bytes) -> Coverage {
    let of = |kind| {
        let areas = areas.iter().filter(|area| area.kind == kind);
        areas.fold(Bytes(0), |sum, area| sum + part(area))
    };
    Coverage { text_bytes: of(AreaKind::Text), read_only_bytes: of(AreaKind::ReadOnly) }
}

/// Huge pages of the whole machine, from `/proc/meminfo`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugeTotals {
    /// Page cache in huge folios (`FileHugePages`).
    pub file_huge_bytes: Option<Bytes>,
    /// Of it, mapped huge (`FilePmdMapped`).
    pub file_pmd_bytes: Option<Bytes>,
    /// Shared memory in huge folios (`ShmemHugePages`).
    pub shmem_huge_bytes: Option<Bytes>,
    /// Of it, mapped huge (`ShmemPmdMapped`).
    pub shmem_pmd_bytes: Option<Bytes>,
    /// Anonymous memory mapped huge (`AnonHugePages`).
    pub anon_huge_bytes: Option<Bytes>,
}

/// What was seen of one whole slot of a mapping in a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotSeen {
    /// Mapped by one entry.
    pub is_huge: bool,
    pub present_pages: u64,
    /// Of them, pages that are no longer the file's.
    pub private_pages: u64,
}

/// A mapping of a file in a process, as it was seen.
#[derive(Debug, Clone, PartialEq)]
pub struct MappingSeen {
    pub kind: AreaKind,
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// Where it begins in the file.
    pub offset: u64,
    /// Its whole slots, by address.
    pub slots: Vec<SlotSeen>,
}

/// What the cache of a file is like, for those that map it.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheSeen {
    pub slots: Fact<crate::cache::SlotMap>,
    /// The name of its file system where that keeps files in base pages.
    pub base_pages_alone: Option<String>,
}
