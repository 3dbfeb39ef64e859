//! Code on huge pages: the part of the text and read-only data of a file or process that is on them, the
//! reasons for the rest, and what each method would reach.
//!
//! A *slot* is a piece of address space as large as a huge page, at a multiple of that size. One entry maps
//! it under three conditions. The whole slot lies in one mapping of a file. Its address and offset are
//! congruent: they have the same remainder by the size of a huge page. The page cache holds that part of the
//! file in one folio. Addresses of files are those of their program headers.

use crate::cache::FileCacheReport;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// Choice of the base of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ImagePlacement {
    /// At the addresses in its headers (`ET_EXEC`).
    Fixed,
    /// By the kernel at random, at a multiple of its largest alignment: a position-independent program with
    /// an interpreter.
    Program,
    /// By the dynamic loader: a library. It goes where a mapping of the file goes, or by an alignment of its
    /// own.
    Library,
    /// Like a mapping of the file: a static program that is position independent.
    Mapped,
}

/// A part of an ELF file that is loaded (`PT_LOAD`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadSegment {
    /// Offset in the file at which it begins.
    pub offset_bytes: Bytes,
    pub address: u64,
    /// Bytes of it that are in the file.
    pub file_bytes: Bytes,
    /// Its alignment; 0 and 1 mean none.
    pub align_bytes: Bytes,
    /// True if it may be written.
    pub is_writable: bool,
    /// True if it may be executed.
    pub is_executable: bool,
}

/// Mapping of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ElfLayout {
    /// Choice of the base of the image.
    pub placement: ImagePlacement,
    /// Parts of the file, by address.
    pub segments: Vec<LoadSegment>,
}

/// The kind of a piece of an image.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum TextAreaKind {
    /// Executable code.
    Text,
    /// Data that is neither executable nor writable.
    #[strum(serialize = "read-only data")]
    ReadOnly,
}

/// The state of a piece of an image: on a huge page, or why not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum HugeStanding {
    /// Mapped by one entry. For a file that is not running: it will be.
    Huge,
    /// The cache holds this part in smaller folios, or only some of it.
    SmallFolio,
    /// Memory without a file, on smaller pages.
    SmallPages,
    /// The cache does not hold this part.
    NotCached,
    /// No byte of it has been touched.
    NotTouched,
    /// Address and offset are not congruent.
    Incongruent {
        /// Difference of the remainders of address and offset.
        off_by_bytes: Bytes,
    },
    /// The base is random: the piece is congruent in one of several starts.
    ByChance {
        /// Number of starts, one of which is congruent.
        one_in: u64,
    },
    /// The mapping begins or ends within the slot.
    Boundary,
    /// The mapping is smaller than a huge page.
    TooSmall,
    /// Pages of it were written and belong to this process alone.
    PrivateCopy { copied_bytes: Bytes },
    /// The cache has a huge folio here, but the process still has an older table of small pages.
    PageTable,
    /// Huge pages are disabled for the process (`PR_SET_THP_DISABLE`).
    Disabled,
    /// The machine gives no huge pages to memory without a file (`enabled` is `never`).
    NotOffered,
    /// The machine gives huge pages to memory without a file only on advice (`enabled` is `madvise`), and
    /// this memory has none.
    NotAsked,
    /// The program has refused huge pages (`MADV_NOHUGEPAGE`, and since Linux 6.7 `MAP_STACK`).
    Refused,
    /// No page is left in the reserved pool that serves the mapping.
    PoolEmpty,
    /// The file system keeps its files in base pages.
    FileSystem { name: String },
    /// The content of the cache could not be determined.
    NotKnown { why: String },
}

/// One slot, or the part of it in a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextPiece {
    pub address: u64,
    /// Offset in the file at which it begins.
    pub offset_bytes: Bytes,
    pub length_bytes: Bytes,
    /// Huge, or the reason why not.
    #[serde(flatten)]
    pub standing: HugeStanding,
}

/// One mapping of text or read-only data.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextArea {
    pub kind: TextAreaKind,
    /// Pieces of the mapping, by address.
    pub pieces: Vec<TextPiece>,
}

impl TextArea {
    #[must_use]
    pub fn size(&self) -> Bytes {
        self.pieces.iter().fold(Bytes(0), |sum, piece| sum + piece.length_bytes)
    }

    /// Bytes on huge pages.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        let huge = self.pieces.iter().filter(|piece| piece.standing == HugeStanding::Huge);
        huge.fold(Bytes(0), |sum, piece| sum + piece.length_bytes)
    }
}

/// Bytes of text and of read-only data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextCoverage {
    pub text_bytes: Bytes,
    /// Bytes of read-only data.
    pub read_only_bytes: Bytes,
}

impl TextCoverage {
    /// Bytes of both together.
    #[must_use]
    pub fn sum(&self) -> Bytes {
        self.text_bytes + self.read_only_bytes
    }
}

/// A way to bring more of a file onto huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum TextMethod {
    /// Its page cache is filled again in huge folios; the file does not change.
    Warm,
    /// The same, and segments are aligned to huge pages (`p_align`) if their addresses and offsets are
    /// congruent.
    Aligned,
    /// The same, and neighbouring segments that are not writable are mapped as one. Read-only data becomes
    /// executable.
    Merged,
}

impl TextMethod {
    /// All methods, the least intrusive first.
    pub const ALL: [Self; 3] = [Self::Warm, Self::Aligned, Self::Merged];
}

/// The result of a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MethodReach {
    pub method: TextMethod,
    /// Bytes on huge pages with the method.
    pub huge: TextCoverage,
}

/// An ELF file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextFile {
    /// Its page cache, and the result of warming it.
    pub cache: FileCacheReport,
    /// Its mapping.
    pub layout: ElfLayout,
    /// Size of its text and read-only data.
    pub size: TextCoverage,
    /// Its mappings in a process that starts now.
    pub areas: Vec<TextArea>,
    /// The result of each method.
    pub reach: Vec<MethodReach>,
}

impl TextFile {
    /// Bytes on huge pages in a process that starts now.
    #[must_use]
    pub fn huge(&self) -> TextCoverage {
        coverage(&self.areas, TextArea::huge)
    }

    /// Bytes on huge pages once the file is warmed.
    #[must_use]
    pub fn warmed(&self) -> TextCoverage {
        let warm = self.reach.iter().find(|reach| reach.method == TextMethod::Warm);
        warm.map(|reach| reach.huge).unwrap_or_default()
    }
}

/// Text and read-only data of one file in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MappedFile {
    pub path: String,
    /// Mappings of the file.
    pub areas: Vec<TextArea>,
    /// Bytes that would be huge if the file were warmed and the process started again at the same addresses.
    pub after_warm: TextCoverage,
}

impl MappedFile {
    /// Size of text and read-only data.
    #[must_use]
    pub fn size(&self) -> TextCoverage {
        coverage(&self.areas, TextArea::size)
    }

    /// Bytes on huge pages.
    #[must_use]
    pub fn huge(&self) -> TextCoverage {
        coverage(&self.areas, TextArea::huge)
    }
}

/// Sum over areas of the bytes that `part` gives, by kind.
#[must_use]
pub fn coverage(areas: &[TextArea], part: impl Fn(&TextArea) -> Bytes) -> TextCoverage {
    let of = |kind| {
        let areas = areas.iter().filter(|area| area.kind == kind);
        areas.fold(Bytes(0), |sum, area| sum + part(area))
    };
    TextCoverage { text_bytes: of(TextAreaKind::Text), read_only_bytes: of(TextAreaKind::ReadOnly) }
}

/// Huge pages of the whole machine, from `/proc/meminfo`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HugeTotals {
    /// Page cache in huge folios (`FileHugePages`).
    pub file_huge_bytes: Option<Bytes>,
    /// Part of it that is mapped huge (`FilePmdMapped`).
    pub file_pmd_bytes: Option<Bytes>,
    /// Shared memory in huge folios (`ShmemHugePages`).
    pub shmem_huge_bytes: Option<Bytes>,
    /// Part of it that is mapped huge (`ShmemPmdMapped`).
    pub shmem_pmd_bytes: Option<Bytes>,
    /// Anonymous memory mapped huge (`AnonHugePages`).
    pub anon_huge_bytes: Option<Bytes>,
}

/// Readings of one whole slot of a mapping in a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotSeen {
    /// True if one entry maps it.
    pub is_huge: bool,
    pub present_pages: u64,
    /// Number of present pages that are no longer the file's.
    pub private_pages: u64,
}

/// Readings of a mapping of a file in a process.
#[derive(Debug, Clone, PartialEq)]
pub struct TextMappingSeen {
    pub kind: TextAreaKind,
    /// First address of the mapping.
    pub start: u64,
    /// Address after the last one.
    pub end: u64,
    /// Offset in the file at which it begins.
    pub offset: u64,
    /// Whole slots of the mapping, by address.
    pub slots: Vec<SlotSeen>,
}

/// Properties of the cache of a file, for those that map it.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheSeen {
    pub slots: Fact<crate::cache::SlotMap>,
    /// Name of its file system if that keeps files in base pages; absent otherwise.
    pub base_pages_alone: Option<String>,
}
