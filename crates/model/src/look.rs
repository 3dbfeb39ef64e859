//! Findings of the look: the program's runs, its processes, mappings and pipes, its effects on the outside,
//! and the kernel code that took its time.

use crate::cache::SlotMap;
use crate::code_tlb::{self, CodeMissCounts, SteppedCode};
use crate::diagnosis::CostKind;
use crate::fault::GroupTally;
use crate::measured::Fact;
use crate::plan::FileKind;
use crate::schema::JsonSchema;
use crate::text::ElfLayout;
use crate::units::{Bytes, Nanos};
use crate::usage::{ProgramEnd, ProgramUsage};
use serde::{Deserialize, Serialize};

/// The allocator that serves `malloc` in a process, by its ELF files.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Allocator {
    /// glibc, dynamic or static.
    Glibc,
    /// jemalloc, with any symbol prefix.
    Jemalloc,
    Mimalloc,
    /// tcmalloc (gperftools or google/tcmalloc).
    Tcmalloc,
    Musl,
    /// The Go runtime's allocator.
    Go,
    /// The heap of a Java program (HotSpot), whatever malloc its native code uses.
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

/// One process image of the tree, as the traced look saw it. Each `exec` starts a new one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracedProcess {
    /// Process id in that run.
    pub pid: i32,
    /// Path of the executable; for a script, of its interpreter.
    pub exe: String,
    /// First arguments, shortened.
    pub args: Vec<String>,
    /// True if it is statically linked.
    pub is_static: bool,
    /// True if its file holds 32-bit code.
    #[serde(default)]
    pub is_32_bit: bool,
    /// The allocator that serves malloc.
    pub allocator: Allocator,
    /// True if its glibc knows the tunable for huge pages (2.35 and later); absent with another C library, or
    /// if the file of the library could not be read.
    pub glibc_huge_tunable: Option<bool>,
    /// True for a CPython whose own pools for small objects `PYTHONMALLOC` can switch off.
    #[serde(default)]
    pub is_python: bool,
    /// True if it switched transparent huge pages off for itself (`PR_SET_THP_DISABLE`), as ruby does.
    #[serde(default)]
    pub huge_pages_off: bool,
    /// Its file that opens libraries with `RTLD_DEEPBIND`; absent if none does.
    #[serde(default)]
    pub opens_deep: Option<String>,
    /// Largest number of threads seen at once.
    pub threads: u32,
    /// Peak resident set (VmHWM).
    pub peak_rss_bytes: Bytes,
    /// Anonymous memory that was resident at exit (RssAnon).
    pub anon_bytes: Bytes,
    /// Part of it on huge pages (AnonHugePages).
    pub anon_huge_bytes: Bytes,
    /// Pages of files resident in its mappings at exit (RssFile + RssShmem).
    pub file_bytes: Bytes,
    /// Private pages of file mappings that were written (copy on write).
    pub file_cow_bytes: Bytes,
    /// Page tables (VmPTE) at exit.
    pub page_table_bytes: Bytes,
    /// Minor faults of this image's own process until exit.
    pub minor_faults: u64,
    /// Bytes through its read-like and write-like calls, including those of children that it waited for;
    /// absent if `/proc/PID/io` could not be read.
    #[serde(default)]
    pub moved_bytes: Option<Bytes>,
    /// Wall time in the traced look. Only its proportion to the others has a meaning.
    pub traced_life_ns: Nanos,
    /// Mapping calls that it made.
    pub churn: MapChurn,
    /// Number of processes that it forked, without those that share its memory until exec (vfork,
    /// posix_spawn).
    #[serde(default)]
    pub forks: u64,
    /// Sum of the anonymous memory that was resident in it at these forks.
    #[serde(default)]
    pub forked_bytes: Bytes,
    /// Anonymous memory inherited from its parent at the fork; none once it has called exec.
    #[serde(default)]
    pub inherited_bytes: Bytes,
    /// Why its memory cannot be described at exit (for example: it was killed); absent if it can be.
    pub incomplete: Option<String>,
}

/// Calls that change the address space, counted over the life of a process.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MapChurn {
    /// Anonymous private mmap calls.
    pub mmap_calls: u64,
    /// Total size of these calls.
    pub mmap_bytes: Bytes,
    /// Number of these calls for at least 8 MiB.
    pub large_mmap_calls: u64,
    /// Total size of these larger calls.
    pub large_mmap_bytes: Bytes,
    /// Size of the largest single call.
    pub largest_mmap_bytes: Bytes,
    /// Memory of malloc's single large blocks, from 2 MiB on, with what `realloc` added to them. Calls are glibc's
    /// by their caller, or else by their size: malloc adds a header, so it is no round number.
    #[serde(default)]
    pub block_mmap_bytes: Bytes,
    pub munmap_calls: u64,
    /// Bytes that munmap calls gave back.
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
    /// Bytes that these calls gave back.
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
    /// True if it was inherited from outside. Remedies never touch such a pipe.
    pub inherited: bool,
}

/// A call by which the program manages the capacity of pipes itself.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PipeCall {
    /// vmsplice(2): a process passed pages to a pipe by reference.
    Lends,
    /// `F_GETPIPE_SZ`.
    AsksCapacity,
    /// `F_SETPIPE_SZ`.
    SetsCapacity,
}

/// An effect of the program on the outside that a second run may not repeat safely.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SideEffect {
    /// The effect as a phrase: "opened for writing", "removed", "renamed", "connected to".
    pub action: String,
    pub subject: String,
    pub pid: i32,
}

/// The first three effects and the number of further ones, as the rest of a sentence that begins with "it".
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

/// Data accesses in short single-stepped bursts of user code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccessPattern {
    /// Number of bursts.
    pub bursts: u32,
    /// Number of instructions stepped, without those that begin each burst.
    pub instructions: u64,
    /// Number of their memory operands whose address could be computed.
    pub accesses: u64,
    /// Number of first uses, by or for these operands, of a page far from all that the burst had used.
    pub jumps: u64,
    /// Number of first uses of a page next to one that the burst had used.
    #[serde(default)]
    pub next_pages: u64,
    /// Resident memory of the mappings that contain such far pages: the set of the jumps.
    pub jump_span_bytes: Bytes,
    /// Part of that set that is already on huge pages.
    pub jump_huge_bytes: Bytes,
}

/// The rate at which programs of the tree use base pages other than those in the TLB, by the accessed bits of
/// their page tables while they run at full speed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FootprintGrowth {
    /// Number of moments from which used pages were counted.
    pub probes: u32,
    /// Pages that came into use per millisecond of CPU time when as many had been used as the smallest TLB
    /// keeps. It is the mean over the probed time.
    pub new_pages_per_ms: f64,
}

/// A file of the tree that is large enough for a huge page, with its page cache after the look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UsedFile {
    pub path: String,
    /// Its use in the tree.
    pub kind: FileKind,
    pub size_bytes: Bytes,
    /// Content of the page cache for it.
    pub slots: SlotMap,
    /// Mapping of its code; absent for files without code.
    pub layout: Option<ElfLayout>,
    /// True if the kernel places mappings of it at boundaries of huge pages.
    pub is_placed_aligned: bool,
    /// Why its cache cannot be filled again here; absent if it can be.
    pub obstacle: Option<String>,
}

/// The traced look: the actions of the tree under tracing. Its times are never shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TracedLook {
    /// Every process image, in order of appearance.
    pub processes: Vec<TracedProcess>,
    /// Pipes between processes of the tree.
    pub pipes: Vec<PipeSeen>,
    /// Calls of the tree that depend on the capacity of its pipes, one of each kind.
    #[serde(default, skip_serializing_if = "std::collections::BTreeSet::is_empty")]
    pub pipe_calls: std::collections::BTreeSet<PipeCall>,
    /// Largest number of processes alive at once.
    pub most_processes: u32,
    /// Effects on the outside that a second run may not repeat safely.
    pub effects: Vec<SideEffect>,
    /// Paths of the regular files that it wrote and left behind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<String>,
    /// Files with mapped code, and files that were read and not written, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<UsedFile>,
    /// Data accesses of the user code; missing if it could not be stepped.
    pub pattern: Fact<AccessPattern>,
    /// Growth of the footprint; missing if accessed bits could not be read.
    #[serde(default = "not_recorded")]
    pub footprint: Fact<FootprintGrowth>,
    /// Code in long bursts, if it was asked for; not in saved runs, which have the estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stepped: Option<SteppedCode>,
    /// Kinds of descriptors that processes held at exit ("regular", "pipe", "socket", ...), with their
    /// counts.
    pub descriptor_kinds: std::collections::BTreeMap<String, u64>,
    /// Bytes that its calls had read and written when it was stopped as too long for the budget; every later run
    /// is stopped there too. Absent for a run to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_bytes: Option<Bytes>,
    pub ended: ProgramEnd,
}

/// For recordings of older versions.
fn not_recorded() -> Fact<FootprintGrowth> {
    Fact::missing("not in this recording")
}

/// Name of a frame whose address belongs to no known symbol.
pub const UNKNOWN_SYMBOL: &str = "[unknown]";

/// Samples with the same kernel stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelStack {
    /// Names of the symbols, leaf first; [`UNKNOWN_SYMBOL`] for one that is not known.
    pub symbols: Vec<String>,
    /// Number of samples with this stack.
    pub count: u64,
}

/// CPU-clock samples over the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuSamples {
    /// Number of samples in user mode.
    pub user: u64,
    /// Samples in the kernel by stack, the most frequent first.
    pub stacks: Vec<KernelStack>,
    /// Number of samples in the kernel whose stacks are too rare to be listed.
    pub rest: u64,
    /// CPU time that one sample stands for.
    pub period_ns: Nanos,
    /// Number of samples that the kernel reported as lost.
    pub lost: u64,
}

impl CpuSamples {
    /// Number of samples in the kernel.
    #[must_use]
    pub fn kernel_total(&self) -> u64 {
        self.stacks.iter().map(|stack| stack.count).fold(self.rest, u64::saturating_add)
    }

    /// Number of all samples.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.kernel_total().saturating_add(self.user)
    }
}

/// CPU-clock samples over the tree in user mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UserSamples {
    /// Number of all these samples.
    pub all: u64,
    /// Number of those in `malloc`, `free` and related functions of glibc's shared library.
    pub malloc: u64,
}

/// All findings of the look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LookFindings {
    /// Plain timed runs, in order.
    pub runs: Vec<ProgramUsage>,
    /// The traced look; missing if tracing is not possible.
    pub traced: Fact<TracedLook>,
    /// CPU samples with kernel symbols; missing without the right to take them.
    pub samples: Fact<CpuSamples>,
    /// Samples in user mode; missing without the right to take them.
    #[serde(default = "not_sampled")]
    pub user: Fact<UserSamples>,
    /// Hardware counts of page walks over one plain run.
    pub walks: Fact<WalkCounts>,
    /// Hardware counts of misses of the TLB for code over the same run.
    #[serde(default = "code_tlb::not_recorded::<CodeMissCounts>")]
    pub code_misses: Fact<CodeMissCounts>,
    /// Page faults, each timed; missing if they were not timed.
    #[serde(default = "not_timed")]
    pub faults: Fact<TimedFaults>,
}

impl LookFindings {
    /// A look without any finding, and why there is none.
    #[must_use]
    pub fn missing(why: &str) -> Self {
        Self {
            runs: Vec::new(),
            traced: Fact::missing(why),
            samples: Fact::missing(why),
            user: Fact::missing(why),
            walks: Fact::missing(why),
            code_misses: Fact::missing(why),
            faults: Fact::missing(why),
        }
    }
}

/// For looks saved before user mode was sampled.
fn not_sampled() -> Fact<UserSamples> {
    Fact::missing("not in this saved run")
}

/// For looks saved before faults were timed.
fn not_timed() -> Fact<TimedFaults> {
    Fact::missing("not in this saved run")
}

/// Page faults of one run, each timed from its beginning to its end. The times include the cost of recording.
/// Compare them only with those of the probe, a program that does nothing but touch fresh anonymous base
/// pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimedFaults {
    /// Served faults by their kind in a diagnosis. The time to zero pages is included.
    pub by_cost: Vec<GroupTally<CostKind>>,
    /// Median latency of the probe's faults, recorded in the same way immediately afterwards.
    pub probe_ns: Nanos,
    /// CPU time that recording adds to each fault: the probe's recorded faults minus unrecorded ones.
    pub added_ns: Nanos,
    /// True if this is the run whose times and counts are shown, which then include the recording. Else the
    /// run was made for the faults alone.
    pub in_shown_run: bool,
}

impl TimedFaults {
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.by_cost.iter().map(|group| group.tally.faults).sum()
    }

    /// CPU time of the recording for all faults.
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
