//! Page faults of a program: each one ([`PageFault`]), their sums ([`FaultReport`]), and the account that
//! compares them with the kernel's own count ([`FaultAccount`]).
//!
//! Times are nanoseconds; addresses and offsets are bytes. A fault begins when the kernel is entered and ends
//! when the page is there. Its latency includes the cost of recording its beginning. What the recorder did
//! not see is absent with a reason, never 0.

mod account;
mod budget;
mod callers;
mod course;
pub mod event;
mod memory_sites;
mod report;
mod touch;
mod wanted;
mod working_set;

pub use account::{
    CallKind, CallSpan, CallTally, ExecCounts, FaultAccount, RecordingEnd, ThreadCalls,
};
pub use budget::{BrokenBudget, FaultBudgets};
pub use callers::{CallerStack, FaultCallers, StackEnd, StackRecording};
pub use course::{FaultChurn, FaultSaving, ProgramPhase, RepeatFaultReason};
pub use memory_sites::{MemorySite, MemorySites, MemoryStack, ResidentPages};
pub use report::{
    AttachedProcess, FaultLatencies, FaultReport, FaultTally, FunctionTally, GroupTally,
    PlaceTally, RecordingMethod, ScriptInterpreter, UnnamedFile,
};
pub use touch::{ExactTouch, FaultAround, LeftProgram, PageForecast};
pub use wanted::{FaultRecordingOptions, RecordingScope};
pub use working_set::{WORKING_SET_SCHEMA, WorkingSet, WorkingSetFile, WorkingSetRange};

use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The access of the program to the page.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum AccessKind {
    Read,
    /// It wrote to the page, or read it to write it back.
    Write,
    /// It fetched an instruction from the page.
    Execute,
    /// The recording does not show it.
    Unknown,
}

/// Why the page could not be used as it was.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum FaultCause {
    /// The page was not mapped.
    Absent,
    /// The page was mapped, but not for this access: copy-on-write, first write to a file page.
    Protection,
    /// The kernel does not report whether the page was mapped.
    Unknown,
}

/// Outcome of the fault in the kernel.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum FaultOutcome {
    /// Served without waiting for a device.
    Minor,
    /// Served by reading from a device, or after a retry.
    Major,
    /// Not served: the access was not allowed, or a signal came first.
    #[strum(serialize = "failed")]
    No,
    /// The record of its end was lost, or ends were not recorded.
    Unknown,
}

/// The content of a mapping.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum MappingKind {
    /// Executable part of a file, or executable memory that a program made.
    Code,
    /// Any other part of a file that also has an executable part, and its zeroed data.
    Data,
    /// Any other file.
    File,
    /// Memory that is shared between processes and has no file.
    Shared,
    /// The heap of `brk`.
    Heap,
    Stack,
    /// Private memory without a file.
    Anonymous,
    /// Pages that the kernel maps into every program.
    Vdso,
    /// No mapping was recorded for the address.
    Unknown,
}

/// A further fact about a fault.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum FaultLabel {
    /// This process has faulted on this page before.
    Again,
    /// A write to a private page that was present: the kernel makes a copy.
    CopyOnWrite,
    /// Taken in the kernel, which touched the page for the program.
    KernelMode,
    /// Another thread faulted on the page at the same time. So the cause (absent or not), and with it the
    /// access, may be the result of the other thread.
    Raced,
}

/// A source of mappings: all mappings of one kind and path.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct FaultPlace {
    /// The content of the mappings.
    pub kind: MappingKind,
    /// Path of the file; empty for memory without a file.
    pub path: String,
}

#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct SourceLine {
    /// Path of the file, as the compiler was given it.
    pub file: String,
    /// Number of the line, from 1.
    pub line: u32,
}

/// A function that the compiler inlined into its caller.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct InlinedFunction {
    /// Name of the function, as the linker would know it.
    pub function: String,
    /// The line of the call, if known.
    pub called_at: Option<SourceLine>,
}

/// The source of an instruction, by the debug information of its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct InstructionOrigin {
    /// The line, in the innermost inlined function if there is one.
    pub source: Option<SourceLine>,
    /// The inlined functions that contain it, innermost first.
    pub inlined: Vec<InlinedFunction>,
}

/// A function that was generated while its program ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeFunction {
    pub function: String,
    /// The line at which it begins, if it belongs to a script and the line is known.
    pub source: Option<SourceLine>,
    /// True if it belongs to a script and not to the interpreter.
    pub is_script: bool,
}

/// An instruction that faulted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct FaultSite {
    /// The function that contains it, if the file names it.
    pub function: Option<String>,
    /// Path of the file it was mapped from; empty without a file.
    pub path: String,
    /// Offset in that file; the address without a file.
    pub offset_bytes: Bytes,
    /// Its source line, if the file has debug information and lines are shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
    /// The functions that were inlined there, innermost first. The line belongs to the innermost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<InlinedFunction>,
    /// True if it is in a function of a script, by the map of its interpreter. The line is the one at which
    /// that function begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_script: bool,
}

impl FaultSite {
    /// The functions that contain it, each with its line: the innermost inlined one first, then those it was
    /// inlined into, and last the one whose code it is in.
    #[must_use]
    pub fn nested(&self) -> Vec<(Option<&str>, Option<&SourceLine>)> {
        let functions = self.inlined.iter().map(|one| Some(one.function.as_str()));
        let calls = self.inlined.iter().map(|one| one.called_at.as_ref());
        let lines = std::iter::once(self.source.as_ref()).chain(calls);
        functions.chain([self.function.as_deref()]).zip(lines).collect()
    }
}

/// One page fault.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PageFault {
    /// Number of the fault by the time of its beginning, from 0.
    pub order: u64,
    /// Time since the beginning of the first fault in the recording.
    pub since_first_ns: Nanos,
    /// Time from its beginning to its end.
    pub latency_ns: Fact<Nanos>,
    pub pid: i32,
    pub tid: i32,
    /// Address of the first byte of the page.
    pub page_address: u64,
    /// Address of the instruction.
    pub ip_address: u64,
    pub access: AccessKind,
    /// Why the fault occurred.
    pub cause: FaultCause,
    pub served: FaultOutcome,
    /// Size of the page mapped there afterwards; absent if the kernel does not report it.
    pub page_bytes: Option<Bytes>,
    /// Offset of the page in its file; absent without a file.
    pub offset_bytes: Option<Bytes>,
    /// Index of the mapping source, in the places of the list.
    pub place: u32,
    /// Index of the instruction, in the sites of the list.
    pub site: u32,
    /// Index of the callers, in the stacks of the list; absent if no stack was recorded for this fault.
    pub stack: Option<u32>,
    /// Further facts.
    pub labels: Vec<FaultLabel>,
}

/// The names that the faults of a list refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultNames {
    /// Sources of mappings.
    pub places: Vec<FaultPlace>,
    /// Instructions that faulted.
    pub sites: Vec<FaultSite>,
    /// Calls that were under way.
    pub frames: Vec<FaultSite>,
    /// Callers of instructions.
    pub stacks: Vec<CallerStack>,
}

impl FaultNames {
    /// The mapping source of a fault.
    #[must_use]
    pub fn place(&self, fault: &PageFault) -> Option<&FaultPlace> {
        self.places.get(fault.place as usize)
    }

    /// The instruction of a fault.
    #[must_use]
    pub fn site(&self, fault: &PageFault) -> Option<&FaultSite> {
        self.sites.get(fault.site as usize)
    }
}
