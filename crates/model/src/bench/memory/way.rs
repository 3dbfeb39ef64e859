//! The ways to get memory.

use crate::schema::JsonSchema;
use crate::units::PageSize;
use serde::{Deserialize, Serialize};

/// A way to get memory and have it filled with pages.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)] // as it is typed; `Mthp` of any size is one word
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum MemoryBenchWay {
    /// Private memory on base pages (`MADV_NOHUGEPAGE`). The fault of the first touch maps each page.
    OnDemand,
    /// Private memory with `MADV_HUGEPAGE`. The first touch of a huge page maps all of it.
    Thp,
    /// The same, laid out so that only pages of this size fit.
    Mthp { page_bytes: PageSize },
    /// `MAP_POPULATE`: the call that makes the mapping maps everything.
    MapPopulate,
    /// `MADV_POPULATE_WRITE` of everything, then the touches.
    PopulateWrite,
    /// `MADV_POPULATE_WRITE` of one huge page's worth at a time. Each is touched before the next.
    PopulatePieces,
    /// `MADV_WILLNEED`, then the touches.
    Willneed,
    /// Private mapping of a cached file, read. Each fault also maps the pages around it.
    #[strum(serialize = "file")]
    FileFaultAround,
    /// The same after `MADV_POPULATE_READ`.
    #[strum(serialize = "file-populate")]
    FilePopulateRead,
    /// The same after `POSIX_MADV_WILLNEED`.
    FileWillneed,
    /// Memory on base pages from before a fork, written by the child. Each write copies a page.
    ForkCow,
    /// The same on huge pages.
    #[strum(serialize = "fork-cow-thp")]
    ForkCowHuge,
    /// Faults that another thread of the program serves (`userfaultfd`, `UFFDIO_COPY`).
    Userfaultfd,
    /// The reserved pool through `MAP_HUGETLB`.
    PoolMap,
    /// The reserved pool through `memfd_create(MFD_HUGETLB)`.
    PoolMemfd,
    /// The reserved pool through System V shared memory with `SHM_HUGETLB`.
    PoolShm,
    /// The reserved pool through a file on a mounted hugetlbfs.
    PoolFile,
}

impl MemoryBenchWay {
    /// Every way except the sizes that depend on the kernel ([`MemoryBenchWay::Mthp`]), in display order.
    pub const ALL: [Self; 16] = [
        Self::OnDemand,
        Self::Thp,
        Self::MapPopulate,
        Self::PopulateWrite,
        Self::PopulatePieces,
        Self::Willneed,
        Self::FileFaultAround,
        Self::FilePopulateRead,
        Self::FileWillneed,
        Self::ForkCow,
        Self::ForkCowHuge,
        Self::Userfaultfd,
        Self::PoolMap,
        Self::PoolMemfd,
        Self::PoolShm,
        Self::PoolFile,
    ];

    /// Label in reports: the name, with its page size if the name alone does not give it.
    #[must_use]
    pub fn label(self) -> String {
        match self {
            Self::Mthp { page_bytes } => format!("mthp {page_bytes}"),
            other => other.into_str().to_owned(),
        }
    }

    /// Description in a few words.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::OnDemand => "base pages, each by the fault of its first touch",
            Self::Thp => "MADV_HUGEPAGE, by the fault of the first touch",
            Self::Mthp { .. } => "pages of one size between base and huge, on demand",
            Self::MapPopulate => "mapped whole by mmap",
            Self::PopulateWrite => "MADV_POPULATE_WRITE of everything",
            Self::PopulatePieces => "MADV_POPULATE_WRITE, one piece ahead of its use",
            Self::Willneed => "MADV_WILLNEED, then on demand",
            Self::FileFaultAround => "a cached file, read through a private mapping",
            Self::FilePopulateRead => "the same after MADV_POPULATE_READ",
            Self::FileWillneed => "the same after POSIX_MADV_WILLNEED",
            Self::ForkCow => "base pages shared by fork, written by the child",
            Self::ForkCowHuge => "huge pages shared by fork, written by the child",
            Self::Userfaultfd => "each fault answered by another thread",
            Self::PoolMap => "the reserved pool by MAP_HUGETLB",
            Self::PoolMemfd => "the reserved pool by memfd_create(MFD_HUGETLB)",
            Self::PoolShm => "the reserved pool by shmget(SHM_HUGETLB)",
            Self::PoolFile => "the reserved pool by a file on hugetlbfs",
        }
    }

    /// The way that it is compared with. Pages of a file exist already, and those of a fork are copied.
    #[must_use]
    pub const fn baseline(self) -> Self {
        match self {
            Self::FileFaultAround | Self::FilePopulateRead | Self::FileWillneed => {
                Self::FileFaultAround
            }
            Self::ForkCow | Self::ForkCowHuge => Self::ForkCow,
            _ => Self::OnDemand,
        }
    }

    /// True if it takes pages of the reserved pool.
    #[must_use]
    pub const fn is_pool(self) -> bool {
        matches!(self, Self::PoolMap | Self::PoolMemfd | Self::PoolShm | Self::PoolFile)
    }

    /// True if it reads a cached file.
    #[must_use]
    pub const fn is_file(self) -> bool {
        matches!(self, Self::FileFaultAround | Self::FilePopulateRead | Self::FileWillneed)
    }
}
