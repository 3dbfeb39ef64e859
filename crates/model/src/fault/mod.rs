//! Page faults of a program: each one ([`Fault`]), what they add up to ([`FaultReport`]), and the
//! account that sets them against the kernel's own count ([`Account`]).
//!
//! Times are nanoseconds, addresses and offsets bytes. A fault begins when the kernel is entered
//! and ends when the page is there; its latency contains what recording the beginning costs. What
//! the recorder did not see is absent with a reason, never 0.

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

pub use account::{Account, CallKind, CallTally, Ending, ExecCounts, Inside, ThreadCalls};
pub use budget::{Broken, Budgets};
pub use callers::{Callers, Stack, StackEnd, Stacks};
pub use course::{Again, Churn, Phase, Saving};
pub use memory_sites::{MemorySite, MemorySites, MemoryStack, ResidentPages};
pub use report::{
    Attached, FaultReport, FunctionTally, GroupTally, Interpreter, Latencies, PlaceTally, Step,
    Tally, UnnamedFile,
};
pub use touch::{ExactTouch, FaultAround, LeftProgram, PageForecast};
pub use wanted::{Sees, Wanted};
pub use working_set::{WORKING_SET_SCHEMA, WorkingFile, WorkingRange, WorkingSet};

use crate::measured::Fact;
use crate::units::{Bytes, Nanos};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the program did to the page.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Access {
    Read,
    /// Wrote it, or read it to write it back.
    Write,
    /// Fetched an instruction from it.
    Execute,
    /// Unknown from the recording.
    Unknown,
}

/// Why the page could not be used as it was.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Cause {
    /// It was not mapped.
    Absent,
    /// It was mapped, and not for this access: copy-on-write, first write to a file page.
    Protection,
    /// The kernel does not tell whether it was mapped.
    Unknown,
}

/// How the kernel served it.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum Served {
    /// Without waiting for a device.
    Minor,
    /// By reading from a device, or after a retry.
    Major,
    /// Not: the access was not allowed, or a signal came first.
    #[strum(serialize = "failed")]
    No,
    /// Its end is among the records that were lost, or ends were not recorded.
    Unknown,
}

/// What lives in a mapping.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum MappingKind {
    /// Executable part of a file, or executable memory that a program made.
    Code,
    /// Any other part of a file that has an executable one, and its zeroed data.
    Data,
    /// Any other file.
    File,
    /// Memory shared between processes that is no file.
    Shared,
    /// The heap of `brk`.
    Heap,
    Stack,
    /// Private memory of no file.
    Anonymous,
    /// Pages that the kernel gives every program.
    Vdso,
    /// No mapping was recorded for the address.
    Unknown,
}

/// What else is to be known about a fault.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Label {
    /// This process has faulted on this page before.
    Again,
    /// A write to a private page that was there: the kernel makes a copy.
    CopyOnWrite,
    /// Taken in the kernel, which touched the page for the program.
    KernelMode,
    /// Another thread faulted on the page at the same time: whether it was absent, and with that
    /// what was done, may be what the other one left behind.
    Raced,
}

/// A source of mappings: all mappings of one kind and path.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Place {
    /// What lives there.
    pub kind: MappingKind,
    /// Path of the file; empty for memory of no file.
    pub path: String,
}

#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct SourceLine {
    /// The file, as the compiler was given it.
    pub file: String,
    /// From 1.
    pub line: u32,
}

/// A function whose code the compiler put into its caller's.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
pub struct Inlined {
    /// Its name, as the linker would know it.
    pub function: String,
    /// The line that calls it, if known.
    pub called_at: Option<SourceLine>,
}

/// Where an instruction came from, by the debug information of its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// The line, in the innermost inlined function if there are any.
    pub source: Option<SourceLine>,
    /// The inlined functions that contain it, the innermost first.
    pub inlined: Vec<Inlined>,
}

/// A function that was made while its program ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MadeFunction {
    pub function: String,
    /// Where it begins, if it is of a script of which that is known.
    pub source: Option<SourceLine>,
    /// It is of a script, and not of the interpreter.
    pub is_script: bool,
}

/// An instruction that faulted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Site {
    /// The function whose code it is in, where the file names it.
    pub function: Option<String>,
    /// File it was mapped from; empty without one.
    pub path: String,
    /// Its offset in that file; its address without one.
    pub offset_bytes: Bytes,
    /// The source it came from, where the file has debug information and it is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<SourceLine>,
    /// The functions that were inlined there, the innermost first; the line is of that one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inlined: Vec<Inlined>,
    /// It is in a function of a script, by the map that its interpreter wrote; the line is where that begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_script: bool,
}

impl Site {
    /// The functions that it is in, each with its line there: the innermost inlined one first, then what that was
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
pub struct Fault {
    /// From 0, by the time it began.
    pub order: u64,
    /// Since the first one of the recording began.
    pub since_first_ns: Nanos,
    /// From its beginning to its end.
    pub latency_ns: Fact<Nanos>,
    pub pid: i32,
    pub tid: i32,
    /// First byte of the page.
    pub page_address: u64,
    /// Address of the instruction.
    pub ip_address: u64,
    pub access: Access,
    /// Why it faulted.
    pub cause: Cause,
    pub served: Served,
    /// Size of the page that is mapped there afterwards; absent where the kernel does not tell.
    pub page_bytes: Option<Bytes>,
    /// Offset of the page in its file; absent without one.
    pub offset_bytes: Option<Bytes>,
    /// What lives there: index into the places of the list.
    pub place: u32,
    /// Who touched it: index into the sites of the list.
    pub site: u32,
    /// Who called that, where it was recorded of this fault: index into the stacks of the list.
    pub stack: Option<u32>,
    /// What else is to be known.
    pub labels: Vec<Label>,
}

/// What the faults of a list refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Names {
    /// Sources of mappings.
    pub places: Vec<Place>,
    /// Instructions.
    pub sites: Vec<Site>,
    /// Calls that were under way.
    pub frames: Vec<Site>,
    /// Callers of instructions.
    pub stacks: Vec<Stack>,
}

impl Names {
    /// What lives on the page of a fault.
    #[must_use]
    pub fn place(&self, fault: &Fault) -> Option<&Place> {
        self.places.get(fault.place as usize)
    }

    /// The instruction of a fault.
    #[must_use]
    pub fn site(&self, fault: &Fault) -> Option<&Site> {
        self.sites.get(fault.site as usize)
    }
}
