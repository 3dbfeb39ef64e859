//! Findings and actions of `pagewise text`, by verb: files, one process slot by slot, the whole system, or
//! sums over processes.

use crate::collapse::CollapsedProcess;
use crate::fold::FoldReport;
use crate::heap::HeapArea;
use crate::schema::JsonSchema;
use crate::text::{HugeTotals, MappedFile, TextArea, TextCoverage, TextFile, coverage};
use crate::text_system::TextSystem;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// A process, slot by slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedProcess {
    pub pid: i32,
    pub name: String,
    /// True if huge pages are disabled for it.
    pub is_disabled: bool,
    /// Files that it maps, the largest text first.
    pub files: Vec<MappedFile>,
    /// Its executable memory without a file: generated code.
    #[serde(default)]
    pub generated: Vec<TextArea>,
    /// Its writable memory without a file.
    #[serde(default)]
    pub heap: Vec<HeapArea>,
}

impl ExplainedProcess {
    /// Bytes of text, in files and generated.
    #[must_use]
    pub fn text(&self) -> Bytes {
        self.sum(MappedFile::size, TextArea::size)
    }

    /// Bytes of text on huge pages.
    #[must_use]
    pub fn huge(&self) -> Bytes {
        self.sum(MappedFile::huge, TextArea::huge)
    }

    fn sum(
        &self,
        file: impl Fn(&MappedFile) -> TextCoverage,
        area: impl Fn(&TextArea) -> Bytes,
    ) -> Bytes {
        let files = self.files.iter().fold(Bytes(0), |sum, each| sum + file(each).text_bytes);
        files + coverage(&self.generated, area).text_bytes
    }
}

/// Executable mappings, and their bytes on huge pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextCount {
    /// Name of a process, or of a file of one.
    pub name: String,
    pub pid: i32,
    /// Bytes that are mapped executable.
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

/// Memory on huge pages at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TextStatus {
    /// The requested process; absent for all.
    pub pid: Option<i32>,
    /// Processes, or the files of one process, the most huge memory first.
    pub counts: Vec<TextCount>,
    /// Pages of files mapped huge (`FilePmdMapped`) in mappings that are not executable, that is read-only
    /// data. They are in none of the counts.
    #[serde(default)]
    pub other_file_pmd_bytes: Bytes,
    /// Number of processes whose mappings this account may not read.
    pub hidden_processes: u64,
    pub totals: HugeTotals,
}

/// Findings and actions of `pagewise text`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum TextReport {
    /// Files that were brought onto huge pages.
    Warm {
        /// Size of a huge page.
        slot_bytes: PageSize,
        files: Vec<TextFile>,
        /// Names of libraries that were not found.
        missing_libraries: Vec<String>,
    },
    ExplainFile {
        /// Size of a huge page.
        slot_bytes: PageSize,
        file: Box<TextFile>,
    },
    ExplainProcess {
        /// Size of a huge page.
        slot_bytes: PageSize,
        process: ExplainedProcess,
    },
    /// A copy that is laid out for huge pages.
    Fold {
        /// Size of a huge page.
        slot_bytes: PageSize,
        /// The copy.
        folded: Box<FoldReport>,
    },
    /// Text of a running process that was put on huge pages from outside.
    Collapse {
        /// Size of a huge page.
        slot_bytes: PageSize,
        process: CollapsedProcess,
    },
    /// The whole system.
    System {
        /// Size of a huge page.
        slot_bytes: PageSize,
        /// Findings and actions.
        system: Box<TextSystem>,
    },
    /// Sums over processes.
    Status(TextStatus),
}
