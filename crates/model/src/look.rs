//! What the look saw: the program's runs, its processes, mappings and pipes, what it did to the
//! outside, and where its kernel time went.

use crate::cache::SlotMap;
use crate::diagnosis::CostKind;
use crate::fault::GroupTally;
use crate::measured::Fact;
use crate::plan::FileKind;
use crate::text::Layout;
use crate::units::{Bytes, Nanos};
use crate::usage::{Ended, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who serves `malloc` in a process, from its ELF files.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// glibc, dynamic or static.
    Glibc,
    /// jemalloc, whichever symbol prefix.
    Jemalloc,
    Mimalloc,
    /// tcmalloc (gperftools or google/tcmalloc).
    Tcmalloc,
    Musl,
    /// The Go runtime's own.
    Go,
    /// The heap of a Java program (HotSpot), whichever malloc its native code uses.
    Hotspot,
    /// None of the known ones.
    Unknown,
}

impl std::fmt::Display for Allocator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Glibc => "glibc",
            Self::Jemalloc => "jemalloc",
            Self::Mimalloc => "mimalloc",
            Self::Tcmalloc => "tcmalloc",
            Self::Musl => "musl",
            Self::Go => "Go runtime",
            Self::Hotspot => "Java heap",
            Self::Unknown => "unknown",
        })
    }
}

/// One process image of the tree (a new `exec` starts a new one), as the traced look saw it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessSeen {
    /// Process id in that run.
    pub pid: i32,
    /// Path of the executable (for a script: of its interpreter).
    pub exe: String,
    /// First arguments, shortened.
    pub args: Vec<String>,
    /// Statically linked.
    pub is_static: bool,
    /// Its file holds 32-bit code.
    #[serde(default)]
    pub is_32_bit: bool,
    /// Who serves malloc.
    pub allocator: Allocator,
    /// Whether its glibc knows the tunable for huge pages (2.35 and later); absent with another C
    /// library and where its file could not be read.
    pub glibc_huge_tunable: Option<bool>,
    /// It is a CPython whose own pools for small objects `PYTHONMALLOC` switches off.
    #[serde(default)]
    pub is_python: bool,
    /// The file of it that opens libraries with `RTLD_DEEPBIND`, if one does.
    #[serde(default)]
    pub opens_deep: Option<String>,
    /// Most threads seen at once.
    pub threads: u32,
    /// Peak resident set (VmHWM).
    pub peak_rss_bytes: Bytes,
    /// Anonymous memory resident at exit (RssAnon).
    pub anon_bytes: Bytes,
    /// Of that, on huge pages (AnonHugePages).
    pub anon_huge_bytes: Bytes,
    /// Pages of files resident in its mappings at exit (RssFile + RssShmem).
    pub file_bytes: Bytes,
    /// Private pages of file mappings that were written (copy on write).
    pub file_cow_bytes: Bytes,
    /// Page tables (VmPTE) at exit.
    pub page_table_bytes: Bytes,
    /// Minor faults of this image's process until exit, its own only.
    pub minor_faults: u64,
    /// Bytes through its read-like and write-like calls, those of children that it waited for
    /// included; absent where `/proc/PID/io` could not be read.
    #[serde(default)]
    pub moved_bytes: Option<Bytes>,
    /// Its wall time in the traced look; only its proportion to the others means anything.
    pub traced_life_ns: Nanos,
    /// Mapping calls it made.
    pub churn: MapChurn,
    /// Processes it made by fork, those left out that share its memory until exec (vfork, posix_spawn).
    #[serde(default)]
    pub forks: u64,
    /// Anonymous memory that was resident in it at those moments, their sum.
    #[serde(default)]
    pub forked_bytes: Bytes,
    /// Anonymous memory that it had from its parent when it was forked; none once it has called exec.
    #[serde(default)]
    pub inherited_bytes: Bytes,
    /// Its memory cannot be described at exit (for example: it was killed), and why.
    pub incomplete: Option<String>,
}

/// Calls that change the address space, counted over a process' life.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapChurn {
    /// Anonymous private mmap calls.
    pub mmap_calls: u64,
    /// Their total size.
    pub mmap_bytes: Bytes,
    /// Of them, calls for at least 8 MiB.
    pub large_mmap_calls: u64,
    /// Total size of those.
    pub large_mmap_bytes: Bytes,
    /// Largest single one.
    pub largest_mmap_bytes: Bytes,
    pub munmap_calls: u64,
    /// Bytes given back by them.
    pub munmap_bytes: Bytes,
    pub mremap_calls: u64,
    /// brk calls that grew the heap.
    pub brk_grow_calls: u64,
    /// Bytes by which they grew it.
    pub brk_grow_bytes: Bytes,
    /// brk calls that shrank the heap.
    pub brk_shrink_calls: u64,
    /// Bytes by which they shrank it.
    pub brk_shrink_bytes: Bytes,
    /// madvise(MADV_DONTNEED or MADV_FREE) calls.
    pub dontneed_calls: u64,
    /// Bytes they gave back.
    pub dontneed_bytes: Bytes,
    /// madvise(MADV_HUGEPAGE) calls: the program manages huge pages by itself.
    pub hugepage_advice_calls: u64,
}

/// A pipe that carried data between processes of the tree.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeSeen {
    /// Inode of the pipe in that run.
    pub inode: u64,
    /// Largest capacity seen.
    pub capacity_bytes: Bytes,
    /// Pids that held a writing end.
    pub writers: Vec<i32>,
    /// Pids that held a reading end.
    pub readers: Vec<i32>,
    /// Inherited from outside: never touched by a remedy.
    pub inherited: bool,
}

/// A call that makes the capacity of pipes the program's own affair.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PipeCall {
    /// vmsplice(2): pages of a process were passed to a pipe by reference.
    Lends,
    /// `F_GETPIPE_SZ`.
    AsksCapacity,
    /// `F_SETPIPE_SZ`.
    SetsCapacity,
}

/// Something the program did to the world outside itself that a second run may not repeat safely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideEffect {
    /// What was done, as a phrase: "opened for writing", "removed", "renamed", "connected to".
    pub action: String,
    pub subject: String,
    pub pid: i32,
}

/// The first three effects and how many more there are, as the rest of a sentence that begins with "it".
#[must_use]
pub fn sentence(effects: &[SideEffect]) -> String {
    const SHOWN: usize = 3;
    let shown = effects.iter().take(SHOWN).map(|effect| match effect.subject.as_str() {
        "" => effect.action.clone(),
        subject => format!("{} `{subject}`", effect.action),
    });
    let rest = match effects.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{rest}", shown.collect::<Vec<_>>().join(", "))
}

/// Pattern of data accesses in short single-stepped bursts of user code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccessPattern {
    /// Bursts taken.
    pub bursts: u32,
    /// Instructions stepped, those left out that begin each burst.
    pub instructions: u64,
    /// Their memory operands whose address could be computed.
    pub accesses: u64,
    /// First uses, by them or for them, of a page far from all that the burst had used before.
    pub jumps: u64,
    /// First uses of a page next to one that the burst had used.
    #[serde(default)]
    pub next_pages: u64,
    /// Resident memory of the mappings jumped to: the set jumped in.
    pub jump_span_bytes: Bytes,
    /// Of that set, what is already on huge pages.
    pub jump_huge_bytes: Bytes,
}

/// How fast programs of the tree come to use other base pages than the TLB keeps, by the accessed
/// bits of their page tables while they run at full speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Footprint {
    /// Moments from which on the pages used were counted.
    pub probes: u32,
    /// Pages that came into use per millisecond of CPU time, when as many had been used as the
    /// smallest TLB keeps: mean over the time probed.
    pub new_pages_per_ms: f64,
}

/// A file of the tree that is large enough for a huge page, as it lay in the page cache after the look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsedFile {
    pub path: String,
    /// What it was to the tree.
    pub kind: FileKind,
    pub size_bytes: Bytes,
    /// What the cache held of it.
    pub slots: SlotMap,
    /// How its code is mapped; of other files absent.
    pub layout: Option<Layout>,
    /// The kernel places mappings of it at boundaries of huge pages.
    pub is_placed_aligned: bool,
    /// Why its cache cannot be filled again here, if so.
    pub obstacle: Option<String>,
}

/// The traced look: what the tree did, seen with tracing on. Its times are never shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traced {
    /// Every process image, in order of appearance.
    pub processes: Vec<ProcessSeen>,
    /// Pipes between processes of the tree.
    pub pipes: Vec<PipeSeen>,
    /// Calls of the tree that depend on the capacity of its pipes, each kind once.
    #[serde(default, skip_serializing_if = "std::collections::BTreeSet::is_empty")]
    pub pipe_calls: std::collections::BTreeSet<PipeCall>,
    /// Most processes alive at once.
    pub most_processes: u32,
    /// Effects on the outside that a rerun may not repeat.
    pub effects: Vec<SideEffect>,
    /// Regular files that it wrote and left behind, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<String>,
    /// Files with code that was mapped, and files that were read and not written, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<UsedFile>,
    /// Access pattern of the user code; missing where it could not be stepped.
    pub pattern: Fact<AccessPattern>,
    /// Growth of the footprint; missing where accessed bits could not be read.
    #[serde(default = "not_recorded")]
    pub footprint: Fact<Footprint>,
    /// Kinds of the descriptors that processes held at exit ("regular", "pipe", "socket", ...) with counts.
    pub descriptor_kinds: std::collections::BTreeMap<String, u64>,
    pub ended: Ended,
}

/// For recordings of former versions.
fn not_recorded() -> Fact<Footprint> {
    Fact::missing("not in this recording")
}

/// The name of a frame whose address belongs to no known symbol.
pub const UNKNOWN_SYMBOL: &str = "[unknown]";

/// Equal kernel stacks among the samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelStack {
    /// Symbol names, leaf first; [`UNKNOWN_SYMBOL`] where none is known.
    pub symbols: Vec<String>,
    /// Samples with this stack.
    pub count: u64,
}

/// CPU-clock samples over the tree, as they were taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Samples {
    /// Samples in user mode.
    pub user: u64,
    /// Samples in the kernel by stack, the most frequent first.
    pub stacks: Vec<KernelStack>,
    /// Samples in the kernel with stacks too rare to be listed.
    pub rest: u64,
    /// CPU time one sample stands for.
    pub period_ns: Nanos,
    /// Samples the kernel reported as lost.
    pub lost: u64,
}

impl Samples {
    /// Samples in the kernel.
    #[must_use]
    pub fn kernel_total(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.count).fold(self.rest, u64::saturating_add)
    }

    /// All samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kernel_total().saturating_add(self.user)
    }
}

/// CPU-clock samples over the tree in user mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserSamples {
    /// All of them.
    pub all: u64,
    /// Of them, in `malloc`, `free` and their kin of glibc's shared library.
    pub malloc: u64,
}

/// Everything the look found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Look {
    /// Plain timed runs, in order.
    pub runs: Vec<Usage>,
    /// The traced look; missing where tracing is not possible.
    pub traced: Fact<Traced>,
    /// CPU samples with kernel symbols; missing without the right to take them.
    pub samples: Fact<Samples>,
    /// Samples in user mode; missing without the right to take them.
    #[serde(default = "not_sampled")]
    pub user: Fact<UserSamples>,
    /// Hardware counts of page walks over one plain run.
    pub walks: Fact<WalkCounts>,
    /// Page faults timed one by one; missing where they were not.
    #[serde(default = "not_timed")]
    pub faults: Fact<TimedFaults>,
}

/// Of looks that were saved before user mode was sampled.
fn not_sampled() -> Fact<UserSamples> {
    Fact::missing("not in this saved run")
}

/// Of looks that were saved before faults were timed.
fn not_timed() -> Fact<TimedFaults> {
    Fact::missing("not in this saved run")
}

/// Page faults of one run, each timed from its beginning to its end. The times hold what recording
/// costs: they mean something only beside those of the probe, a program that touches fresh
/// anonymous base pages and does nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimedFaults {
    /// Those that were served, by what a diagnosis counts them as; zeroing lies within.
    pub by_cost: Vec<GroupTally<CostKind>>,
    /// Median latency of the probe's faults, recorded in the same way right afterwards.
    pub probe_ns: Nanos,
    /// CPU time that recording adds to a fault altogether: the probe's recorded less not recorded.
    pub added_ns: Nanos,
    /// The run is the one whose times and counts are shown, and which hold the recording; else it
    /// was made for the faults alone.
    pub in_shown_run: bool,
}

impl TimedFaults {
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.by_cost.iter().map(|group| group.tally.faults).sum()
    }

    /// CPU time that the recording took altogether.
    #[must_use]
    pub fn recording_ns(&self) -> Nanos {
        Nanos(self.added_ns.0.saturating_mul(self.faults()))
    }
}

/// Hardware counts of address translation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WalkCounts {
    /// Core cycles in user mode.
    pub cycles: u64,
    /// Cycles with a data page walk active.
    pub data_walk_cycles: u64,
    /// Cycles with an instruction page walk active.
    pub code_walk_cycles: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_effects_are_named_and_the_others_counted() {
        let effect = |(action, subject): (&str, &str)| SideEffect {
            action: action.into(),
            subject: subject.into(),
            pid: 1,
        };
        let of = |effects: &[(&str, &str)]| {
            sentence(&effects.iter().copied().map(effect).collect::<Vec<_>>())
        };
        assert_eq!(of(&[("set the clock", "")]), "set the clock");
        let [a, b, c] = [("removed", "a"), ("removed", "b"), ("truncated", "c")];
        assert_eq!(of(&[a, b]), "removed `a`, removed `b`");
        assert_eq!(of(&[a, b, c, a, b]), "removed `a`, removed `b`, truncated `c` and 2 more");
    }
}
