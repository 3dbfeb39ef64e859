//! Buckets of CPU time, and the figures beside them.

use super::sample::{Clock, FollowedProcess};
use crate::measured::Fact;
use crate::units::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What was done at a sample.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr, strum::VariantArray, strum::EnumString)] // as it is asked for
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum What {
    /// Code of the program itself.
    User,
    /// Copying bytes, between user and kernel memory or from page to page.
    Copy,
    /// Clearing fresh pages.
    Zeroing,
    /// Getting and giving back pages and objects of the kernel, accounting included.
    Allocation,
    /// The way into and out of a page fault.
    FaultEntry,
    /// Making mappings: page-table entries and regions of the address space.
    Mapping,
    /// Taking mappings away, and giving their pages back.
    Unmapping,
    /// Flushing translations, here and on other CPUs.
    TlbFlush,
    /// Taking and giving back locks, and spinning for them.
    Lock,
    /// Waking others up, going to sleep, switching.
    Scheduling,
    /// Finding things: pages in the page cache, names, regions.
    Lookup,
    /// Holding user pages for a transfer.
    Pinning,
    /// The way into and out of system calls, signals included.
    Entry,
    /// The own code of file systems, pipes, and the making of processes.
    Handling,
    /// Starting I/O and going to sleep for it; the sleep itself is no CPU time.
    IoWait,
    /// Taking pages from others, swapping out included.
    Reclaim,
    /// Moving pages to make room for larger ones.
    Compaction,
    /// Bringing pages back from swap.
    SwapIn,
    /// Timer ticks and devices, whatever they interrupt.
    Interrupt,
    /// No rule knows the stack.
    Unclassified,
}

impl What {
    pub const ALL: &'static [Self] = <Self as strum::VariantArray>::VARIANTS;

    /// The name shown to people.
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

/// What it was done for.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Why {
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
    /// Becoming another program.
    Exec,
    /// Making a process or a thread.
    Fork,
    /// Ending one, and waiting for its end.
    Exit,
    /// mmap, munmap, brk and other calls that change mappings.
    MapCall,
    /// An interrupt, or the end of a time slice: for no one cause.
    Interrupt,
    /// Another system call, by its name.
    Call(Cow<'static, str>),
    /// The stack does not tell.
    Unknown,
}

impl Why {
    /// All that need no name of a call.
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

    /// All but the calls.
    #[must_use]
    pub const fn plain() -> &'static [Self] {
        &Self::PLAIN
    }

    /// The name shown to people.
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

    /// The name by which it is asked for.
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

/// One line of a call graph, from the outermost caller on: a line's callees follow it, one deeper, the
/// most frequent first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GraphLine {
    /// Callers above it.
    pub depth: u32,
    /// The process, then functions; empty where `folded` stands for several.
    pub name: String,
    /// Samples with it on their stacks at this place.
    pub samples: u64,
    /// Callees of the line above that are too rare to be listed; 0 in a line of its own.
    pub folded: u64,
}

/// The samples of one what and one why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bucket {
    pub what: What,
    pub why: Why,
    pub samples: u64,
    /// CPU time that they stand for.
    pub cpu_ns: Nanos,
    /// The same as a share (0..1) of all samples.
    pub time_share: f64,
    /// Who called it.
    pub graph: Vec<GraphLine>,
}

/// A stack that no rule knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FrequentStack {
    /// Functions of the kernel, leaf first.
    pub symbols: Vec<String>,
    pub samples: u64,
}

/// One sum by counts times prices beside the same by samples.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Of which buckets.
    pub name: String,
    /// Counts times prices.
    pub counted_ns: Nanos,
    /// Samples times their period.
    pub sampled_ns: Nanos,
    /// They differ by more than a fifth of the larger, which is worth a look.
    pub differ: bool,
}

/// A rule that can recognise nothing on the running kernel although it should.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadRule {
    /// What it would recognise.
    pub name: String,
    /// Kernels that it is for: "5.10-6.3", "6.4-".
    pub kernels: String,
}

/// Samples in buckets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sorted {
    pub samples: u64,
    /// Of them in the kernel.
    pub kernel_samples: u64,
    /// Samples that the kernel reported as lost.
    pub lost: u64,
    /// CPU time that one stands for.
    pub period_ns: Nanos,
    /// Whose clock the samples are by.
    #[serde(default)]
    pub clock: Clock,
    /// Processes and threads that began meanwhile; by a clock of their own no sample can lie in the first
    /// period of each.
    #[serde(default)]
    pub begun_tasks: u64,
    /// Largest first.
    pub buckets: Vec<Bucket>,
    /// The most frequent of those that no rule knows.
    pub unclassified: Vec<FrequentStack>,
    /// Share (0..1) of samples in pressure-stall accounting, which is part of the buckets.
    pub pressure_accounting_share: f64,
}

impl Sorted {
    /// CPU time (ns) in which no sample could lie, at most: of each task with its own clock the first period.
    #[must_use]
    pub const fn blind_ns(&self) -> Nanos {
        match self.clock {
            Clock::Cpus => Nanos(0),
            Clock::Tasks { .. } => Nanos(self.begun_tasks.saturating_mul(self.period_ns.0)),
        }
    }

    /// Samples in the kernel that no rule knows, as a share (0..1) of those in the kernel.
    #[must_use]
    pub fn unclassified_share(&self) -> f64 {
        let all = self.buckets.iter().filter(|bucket| bucket.what == What::Unclassified);
        let unclassified: u64 = all.map(|bucket| bucket.samples).sum();
        if self.kernel_samples == 0 {
            0.0
        } else {
            unclassified as f64 / self.kernel_samples as f64
        }
    }
}

/// What a profile says of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// The buckets; missing without the right to sample the kernel, and what gives it.
    pub sorted: Fact<Sorted>,
    /// Counts times prices beside samples, where both have a figure.
    pub compared: Vec<Compared>,
    /// Buckets that only samples can fill and that have no figure therefore.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<What>,
    /// Rules that recognise nothing here; missing where the kernel's functions could not be listed.
    pub dead_rules: Fact<Vec<DeadRule>>,
    /// Of a process that was running already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<FollowedProcess>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinguished() {
        let whats: HashSet<&str> = What::ALL.iter().map(|what| what.into_str()).collect();
        let whys: HashSet<&str> = Why::plain().iter().map(Why::name).collect();
        assert_eq!((whats.len(), whys.len()), (What::ALL.len(), Why::plain().len()));
        let labels: HashSet<&str> = What::ALL.iter().map(|what| what.label()).collect();
        assert_eq!(labels.len(), What::ALL.len());
    }

    #[test]
    fn calls_are_saved_by_their_name() {
        let call = Why::Call("futex".into());
        let text = serde_json::to_string(&call).unwrap();
        assert_eq!(text, "{\"call\":\"futex\"}");
        assert_eq!(serde_json::from_str::<Why>(&text).unwrap(), call);
        assert_eq!(serde_json::to_string(&Why::FileRead).unwrap(), "\"file_read\"");
    }
}
