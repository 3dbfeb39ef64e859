//! What `pagewise text` found and did, by its verb: files, one process slot by slot, the whole system, or sums
//! over processes.

use crate::collapse::CollapsedProcess;
use crate::fold::Folded;
use crate::heap::HeapArea;
use crate::text::{Area, Coverage, HugeTotals, MappedFile, TextFile, coverage};
use crate::text_system::TextSystem;
use crate::units::{Bytes, PageSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A process, slot by slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedProcess {
    pub pid: i32,
    pub name: String,
    /// It does without huge pages.
    pub is_disabled: bool,
    /// The files that it maps, the largest text first.
    pub files: Vec<MappedFile>,
    /// Its executable memory of no file: code that it has generated.
    #[serde(default)]
    pub generated: Vec<Area>,
    /// Its memory of no file that it writes.
    #[serde(default)]
    pub heap: Vec<HeapArea>,
}

impl ExplainedProcess {
    /// How much text it has, in files and generated.
    #[must_use]
    pub fn text(&self) -> Bytes {
        self.sum(MappedFile::size, Area::size)
    }

    /// How much of that is huge.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        self.sum(MappedFile::huge, Area::huge)
    }

    fn sum(&self, file: impl Fn(&MappedFile) -> Coverage, area: impl Fn(&Area) -> Bytes) -> Bytes {
        let files = self.files.iter().fold(Bytes(0), |sum, each| sum + file(each).text_bytes);
        files + coverage(&self.generated, area).text_bytes
    }
}

/// Executable mappings and what of them is huge.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextCount {
    /// A process, or a file of one.
    pub name: String,
    pub pid: i32,
    /// Mapped executable.
    pub text_bytes: Bytes,
    pub resident_bytes: Bytes,
    /// Pages of files mapped huge (`FilePmdMapped`).
    pub file_pmd_bytes: Bytes,
    /// Shared memory mapped huge (`ShmemPmdMapped`).
    pub shmem_pmd_bytes: Bytes,
    /// Anonymous memory mapped huge (`AnonHugePages`).
    pub anon_huge_bytes: Bytes,
}

impl TextCount {
    #[must_use]
    pub fn huge(&self) -> Bytes {
        self.file_pmd_bytes + self.shmem_pmd_bytes + self.anon_huge_bytes
    }
}

/// What is on huge pages at a moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextStatus {
    /// The process that was asked for; absent for all.
    pub pid: Option<i32>,
    /// Processes, or the files of the one, the most huge first.
    pub counts: Vec<TextCount>,
    /// Pages of files mapped huge (`FilePmdMapped`) in mappings that are not executable, which are in no count:
    /// read-only data.
    #[serde(default)]
    pub other_file_pmd_bytes: Bytes,
    /// Processes whose mappings this account may not read.
    pub hidden_processes: u64,
    pub totals: HugeTotals,
}

/// What `pagewise text` found and did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum TextReport {
    /// Files brought on huge pages.
    Warm {
        /// The size of a huge page.
        slot_bytes: PageSize,
        files: Vec<TextFile>,
        /// Libraries that were not found.
        missing_libraries: Vec<String>,
    },
    ExplainFile {
        /// The size of a huge page.
        slot_bytes: PageSize,
        file: Box<TextFile>,
    },
    ExplainProcess {
        /// The size of a huge page.
        slot_bytes: PageSize,
        process: ExplainedProcess,
    },
    /// A copy laid out for huge pages.
    Fold {
        /// The size of a huge page.
        slot_bytes: PageSize,
        /// The copy.
        folded: Box<Folded>,
    },
    /// Text of a running process put on huge pages from outside.
    Collapse {
        /// The size of a huge page.
        slot_bytes: PageSize,
        process: CollapsedProcess,
    },
    /// The whole system.
    System {
        /// The size of a huge page.
        slot_bytes: PageSize,
        /// What was found and done.
        system: Box<TextSystem>,
    },
    /// Sums over processes.
    Status(TextStatus),
}
