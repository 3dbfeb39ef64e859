//! The machine of a run. It is printed with every result. Runs on different machines are never compared
//! without a note.

use crate::look::Allocator;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, PageSize};
use serde::{Deserialize, Serialize};

/// Facts about machine, kernel and account that bear on page costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Kernel version (`uname -r`).
    pub kernel: String,
    /// Architecture (`uname -m`).
    pub arch: String,
    /// Model name from /proc/cpuinfo.
    pub cpu_model: String,
    /// Numbers of the CPUs that this process may run on.
    pub cpus: Vec<u32>,
    pub base_page_bytes: PageSize,
    /// Size of a transparent huge page, from sysfs.
    pub huge_page_bytes: Fact<PageSize>,
    /// Installed memory.
    pub memory_bytes: Bytes,
    /// Setting of `transparent_hugepage/enabled`: always, madvise or never.
    pub thp_enabled: Fact<String>,
    /// Setting of `transparent_hugepage/defrag`.
    pub thp_defrag: Fact<String>,
    /// Settings for small folios.
    #[serde(default = "not_recorded")]
    pub small_folios: Fact<SmallFolios>,
    /// Hypervisor (from CPUID or the device tree), by name if it gives one; absent without one.
    pub hypervisor: Option<String>,
    /// Setting of `fs.pipe-max-size`.
    pub pipe_max_bytes: Bytes,
    /// Setting of `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Fact<i64>,
    /// Effective user id.
    pub uid: u32,
    /// Allocators that a program can use as a shared library, the preferred first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allocator_libraries: Vec<AllocatorLibrary>,
}

/// Which anonymous memory may use folios of two sizes
/// (`/sys/kernel/mm/transparent_hugepage/hugepages-*/enabled`, Linux 6.8): `always`, `inherit`, `madvise` or
/// `never`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SmallFolios {
    /// Setting for folios of [`Self::SIZE`].
    pub small: String,
    /// Setting for folios of the largest size.
    pub largest: String,
    /// True if pagewise may change the settings temporarily.
    pub may_change: bool,
}

impl SmallFolios {
    /// The size, between the base page and the largest, that heaps are put on.
    pub const SIZE: PageSize = PageSize::BASE_64K;
}

/// For recordings of older versions.
fn not_recorded() -> Fact<SmallFolios> {
    Fact::missing("not in this recording")
}

/// An allocator that the system provides as a shared library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AllocatorLibrary {
    pub allocator: Allocator,
    pub path: String,
}

/// Capacity of a new pipe on base pages of this size: 16 of them (pipe(7), `PIPE_DEF_BUFFERS`).
#[must_use]
pub const fn default_pipe(base: PageSize) -> Bytes {
    const PAGES: u64 = 16;
    Bytes(PAGES * base.bytes())
}

impl Machine {
    /// Facts that bear on page costs and differ from `other`; empty if there are none.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let mut all = Vec::new();
        let mut note = |what: &str, of: &dyn Fn(&Self) -> String| {
            let (own, theirs) = (of(self), of(other));
            if own != theirs {
                all.push(format!("{what} {own} / {theirs}"));
            }
        };
        let fact =
            |fact: &Fact<String>| fact.known().map_or_else(|| "not known".to_owned(), Clone::clone);
        note("kernel", &|m| m.kernel.clone());
        note("architecture", &|m| m.arch.clone());
        note("CPU", &|m| m.cpu_model.clone());
        note("number of CPUs", &|m| m.cpus.len().to_string());
        note("base page", &|m| m.base_page_bytes.to_string());
        note("memory", &|m| m.memory_bytes.to_string());
        note("hypervisor", &|m| m.hypervisor.clone().unwrap_or_else(|| "none".to_owned()));
        note("huge pages", &|m| fact(&m.thp_enabled));
        note("huge page defrag", &|m| fact(&m.thp_defrag));
        note("largest pipe", &|m| m.pipe_max_bytes.to_string());
        all
    }

    /// A short line that names the machine in a report.
    #[must_use]
    pub fn line(&self) -> String {
        let host = self.hypervisor.as_ref().map_or(String::new(), |h| format!(", guest of {h}"));
        format!(
            "{} x {}, {}, Linux {}{host}",
            self.cpus.len(),
            self.cpu_model,
            self.memory_bytes,
            self.kernel
        )
    }
}
