//! Buckets of CPU time, and the figures beside them.

use super::sample::{FollowedProcess, SamplingClock};
use crate::code_tlb::SampledCodePages;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::Nanos;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The work at a sample.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray, strum::EnumString)] // as it is asked for
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ProfileActivity {
    /// Code of the program itself.
    User,
    /// Copying bytes, between user and kernel memory or from page to page.
    Copy,
    /// Clearing fresh pages.
    Zeroing,
    /// Allocating and freeing pages and kernel objects, including their accounting.
    Allocation,
    /// Entering and leaving a page fault.
    FaultEntry,
    /// Making mappings: page-table entries and regions of the address space.
    Mapping,
    /// Removing mappings, and freeing their pages.
    Unmapping,
    /// Flushing translations, on this CPU and on others.
    TlbFlush,
    /// Taking and releasing locks, and spinning for them.
    Lock,
    /// Waking tasks, going to sleep, and switching.
    Scheduling,
    /// Searches: pages in the page cache, names, regions.
    Lookup,
    /// Holding user pages for a transfer.
    Pinning,
    /// Entering and leaving system calls, signals included.
    Entry,
    /// Code of file systems and pipes themselves, and of creating processes.
    Handling,
    /// Starting I/O and going to sleep for it. The sleep itself is no CPU time.
    IoWait,
    /// Reclaiming pages, including swapping them out.
    Reclaim,
    /// Moving pages to make room for larger ones.
    Compaction,
    /// Bringing pages back from swap.
    SwapIn,
    /// Timer ticks and device interrupts, whatever they interrupt.
    Interrupt,
    /// No rule knows the stack.
    Unclassified,
}

impl ProfileActivity {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Label in reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::User => "user code",
            Self::Copy => "copy",
            Self::Zeroing => "zeroing",
            Self::Allocation => "allocation",
            Self::FaultEntry => "fault entry",
            Self::Mapping => "mapping",
            Self::Unmapping => "unmapping",
            Self::TlbFlush => "TLB flush",
            Self::Lock => "lock",
            Self::Scheduling => "wake-up and scheduling",
            Self::Lookup => "lookup",
            Self::Pinning => "pinning",
            Self::Entry => "entry and exit",
            Self::Handling => "file, pipe and process code",
            Self::IoWait => "I/O wait",
            Self::Reclaim => "reclaim",
            Self::Compaction => "compaction",
            Self::SwapIn => "swap-in",
            Self::Interrupt => "interrupts",
            Self::Unclassified => "not classified",
        }
    }
}

/// The purpose of the work.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ProfileReason {
    /// The program's own work.
    Own,
    /// Data through a pipe.
    Pipe,
    FileRead,
    FileWrite,
    /// A page fault on a file mapping.
    FileFault,
    /// The first touch of anonymous memory.
    AnonFault,
    /// A write to a page that is shared until it is written.
    CowFault,
    /// A page fault whose kind the stack does not tell.
    Fault,
    /// Executing another program.
    Exec,
    /// Creating a process or a thread.
    Fork,
    /// Ending a process or thread, and waiting for its end.
    Exit,
    /// mmap, munmap, brk and other calls that change mappings.
    MapCall,
    /// An interrupt or the end of a time slice, without a single cause.
    Interrupt,
    /// Another system call, by its name.
    Call(Cow<'static, str>),
    /// The stack does not tell.
    Unknown,
}

impl ProfileReason {
    /// All that do not name a call.
    const PLAIN: [Self; 14] = [
        Self::Own,
        Self::Pipe,
        Self::FileRead,
        Self::FileWrite,
        Self::FileFault,
        Self::AnonFault,
        Self::CowFault,
        Self::Fault,
        Self::Exec,
        Self::Fork,
        Self::Exit,
        Self::MapCall,
        Self::Interrupt,
        Self::Unknown,
    ];

    /// All except the calls.
    #[must_use]
    pub const fn plain() -> &'static [Self] {
        &Self::PLAIN
    }

    /// Label in reports.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Own => "its own work",
            Self::Pipe => "pipe",
            Self::FileRead => "file read",
            Self::FileWrite => "file write",
            Self::FileFault => "file fault",
            Self::AnonFault => "anonymous fault",
            Self::CowFault => "copy-on-write fault",
            Self::Fault => "fault, unknown kind",
            Self::Exec => "exec",
            Self::Fork => "fork",
            Self::Exit => "exit",
            Self::MapCall => "mapping calls",
            Self::Interrupt => "interrupts and preemption",
            Self::Call(name) => name,
            Self::Unknown => "not shown by the stack",
        }
    }

    /// Name on the command line.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Own => "own",
            Self::Pipe => "pipe",
            Self::FileRead => "file-read",
            Self::FileWrite => "file-write",
            Self::FileFault => "file-fault",
            Self::AnonFault => "anon-fault",
            Self::CowFault => "cow-fault",
            Self::Fault => "fault",
            Self::Exec => "exec",
            Self::Fork => "fork",
            Self::Exit => "exit",
            Self::MapCall => "map-call",
            Self::Interrupt => "interrupt",
            Self::Call(name) => name,
            Self::Unknown => "unknown",
        }
    }
}

/// One line of a call graph, from the outermost caller on. The callees of a line follow it, one level deeper,
/// the most frequent first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CallGraphLine {
    /// Number of callers above it.
    pub depth: u32,
    /// Name of the process, then of functions; empty if `folded` stands for several.
    pub name: String,
    /// Number of samples with this place on their stacks.
    pub samples: u64,
    /// Number of callees of the line above that are too rare to be listed; 0 in a line that names a caller.
    pub folded: u64,
}

/// The samples of one kind of work for one purpose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileBucket {
    pub what: ProfileActivity,
    pub why: ProfileReason,
    pub samples: u64,
    /// CPU time that the samples stand for.
    pub cpu_ns: Nanos,
    /// Share (0..1) of all samples.
    pub time_share: f64,
    /// Callers of the work.
    pub graph: Vec<CallGraphLine>,
}

/// A stack that matches no rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrequentStack {
    /// Functions of the kernel, leaf first.
    pub symbols: Vec<String>,
    pub samples: u64,
}

/// One sum by counts times prices, compared with the same sum by samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedTime {
    /// Name of the buckets that it sums.
    pub name: String,
    /// Sum of counts times prices.
    pub counted_ns: Nanos,
    /// Sum of samples times their period.
    pub sampled_ns: Nanos,
    /// True if the two differ by more than a fifth of the larger.
    pub differ: bool,
}

/// A rule that can match nothing on the running kernel, although it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadRule {
    /// The work that it would recognise.
    pub name: String,
    /// Kernels that the rule is for: "5.10-6.3", "6.4-".
    pub kernels: String,
}

/// Samples in buckets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SortedSamples {
    pub samples: u64,
    /// Number of samples in the kernel.
    pub kernel_samples: u64,
    /// Number of samples that the kernel reported as lost.
    pub lost: u64,
    /// CPU time that one sample stands for.
    pub period_ns: Nanos,
    /// The clock of the samples.
    #[serde(default)]
    pub clock: SamplingClock,
    /// Number of processes and threads that began during the profile. If each has its own clock, no sample
    /// can lie in its first period.
    #[serde(default)]
    pub begun_tasks: u64,
    /// Buckets, the largest first.
    pub buckets: Vec<ProfileBucket>,
    /// The most frequent stacks that match no rule.
    pub unclassified: Vec<FrequentStack>,
    /// Share (0..1) of samples in pressure-stall accounting; they are also in the buckets.
    pub pressure_accounting_share: f64,
}

impl SortedSamples {
    /// Most CPU time in which no sample could lie: the first period of each task with its own clock.
    #[must_use]
    pub const fn blind_ns(&self) -> Nanos {
        match self.clock {
            SamplingClock::Cpus => Nanos(0),
            SamplingClock::Tasks { .. } => Nanos(self.begun_tasks.saturating_mul(self.period_ns.0)),
        }
    }

    /// Samples in the kernel that match no rule, as a share (0..1) of those in the kernel.
    #[must_use]
    pub fn unclassified_share(&self) -> f64 {
        let all = self.buckets.iter().filter(|bucket| bucket.what == ProfileActivity::Unclassified);
        let unclassified: u64 = all.map(|bucket| bucket.samples).sum();
        if self.kernel_samples == 0 {
            0.0
        } else {
            unclassified as f64 / self.kernel_samples as f64
        }
    }
}

/// The profile of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProfileReport {
    /// The buckets; missing without the right to sample the kernel, with the way to get it.
    pub sorted: Fact<SortedSamples>,
    /// Counts times prices compared with samples, if both have a figure.
    pub compared: Vec<ComparedTime>,
    /// Buckets that only samples can fill and that therefore have no figure.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<ProfileActivity>,
    /// Rules that can match nothing here; missing if the kernel's functions could not be listed.
    pub dead_rules: Fact<Vec<DeadRule>>,
    /// Pages of code that the samples in user mode hit; absent without samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code_pages: Option<SampledCodePages>,
    /// Course of the profile; absent for a program that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<FollowedProcess>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinguished() {
        let whats: HashSet<&str> =
            ProfileActivity::ALL.iter().map(|what| what.into_str()).collect();
        let whys: HashSet<&str> = ProfileReason::plain().iter().map(ProfileReason::name).collect();
        assert_eq!(
            (whats.len(), whys.len()),
            (ProfileActivity::ALL.len(), ProfileReason::plain().len())
        );
        let labels: HashSet<&str> = ProfileActivity::ALL.iter().map(|what| what.label()).collect();
        assert_eq!(labels.len(), ProfileActivity::ALL.len());
    }

    #[test]
    fn calls_are_saved_by_their_name() {
        let call = ProfileReason::Call("futex".into());
        let text = serde_json::to_string(&call).unwrap();
        assert_eq!(text, "{\"call\":\"futex\"}");
        assert_eq!(serde_json::from_str::<ProfileReason>(&text).unwrap(), call);
        assert_eq!(serde_json::to_string(&ProfileReason::FileRead).unwrap(), "\"file_read\"");
    }
}
