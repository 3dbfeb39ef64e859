//! Sums over the faults of a run.

use super::{
    AccessKind, ExactTouch, FaultAccount, FaultAround, FaultCallers, FaultCause, FaultChurn,
    FaultPlace, FaultSaving, FaultSite, MappingKind, PageForecast, ProgramPhase,
};
use crate::diagnosis::CostKind;
use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use crate::usage::ProgramUsage;
use serde::{Deserialize, Serialize};

/// The way of recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordingMethod {
    /// Beginning and end of each fault in user mode, from perf events.
    PerfUser,
    /// The same, and also those that the kernel takes for the program.
    PerfAll,
}

/// Number of faults, and their time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultTally {
    /// Number of faults, served or not.
    pub faults: u64,
    /// Number of faults that waited for a device.
    pub major_faults: u64,
    /// Number of faults on a page that the process had already faulted on.
    pub again_faults: u64,
    /// Number of faults on a page that another thread faulted on at the same time.
    pub raced_faults: u64,
    /// Sum of the known latencies.
    pub time_ns: Nanos,
}

/// The faults of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupTally<K> {
    pub kind: K,
    pub tally: FaultTally,
}

/// The faults on one source of mappings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceTally {
    /// The source of mappings that was touched.
    pub place: FaultPlace,
    pub tally: FaultTally,
}

/// The faults of one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionTally {
    /// The instruction of the function that took the most time.
    pub site: FaultSite,
    pub tally: FaultTally,
}

/// Latencies of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FaultLatencies {
    /// Number of faults with a known latency.
    pub faults: u64,
    /// Median latency, within 3%.
    pub p50_ns: Nanos,
    /// Latency that 99% of the faults do not exceed, within 3%.
    pub p99_ns: Nanos,
    /// Latency that 99.9% of the faults do not exceed, within 3%.
    pub p999_ns: Nanos,
    /// Longest latency.
    pub max_ns: Nanos,
    /// Sum of the latencies.
    pub total_ns: Nanos,
}

/// A process that ran already when the recording began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AttachedProcess {
    pub pid: i32,
    /// Number of its threads when all of them were followed.
    pub threads: u64,
    /// True if it ended before the recording did.
    pub has_ended: bool,
}

/// An interpreter that the program executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScriptInterpreter {
    /// Name of the interpreter: `python3.13`, `node`, `java`.
    pub name: String,
    /// Number of functions of its scripts that name faults, by the map that it wrote.
    pub functions: u64,
    /// True if it wrote a map.
    #[serde(default)]
    pub has_map: bool,
}

/// A file without names for its functions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnnamedFile {
    pub path: String,
    pub why: String,
}

/// The faults of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultReport {
    /// Method of recording.
    pub step: RecordingMethod,
    /// True if the ends of all faults were recorded. Without them latency is not known, and a fault that is
    /// not known to be major counts as minor or failed.
    pub has_ends: bool,
    /// True if access and cause come from the processor's error codes. Else they are inferred.
    pub has_error_codes: bool,
    /// The running process that was recorded; absent for a program that was started.
    pub attached: Option<AttachedProcess>,
    /// Wall time from the start of the program, or of the recording, to the end.
    pub wall_ns: Nanos,
    /// Resource usage of the program.
    pub usage: Fact<ProgramUsage>,
    pub total: FaultTally,
    /// Latencies of the faults.
    pub latency: Fact<FaultLatencies>,
    /// Number of pages that were faulted on, each once for every address space.
    pub touched_pages: u64,
    /// Number of recorded ends without a beginning.
    pub unpaired_ends: u64,
    /// Number of recorded beginnings whose end was lost.
    pub unpaired_begins: u64,
    /// Number of records that were lost because the kernel had no room.
    pub lost_records: u64,
    /// Number of processes, including the program itself.
    pub processes: u64,
    /// Number of programs executed, including the first.
    pub executed: u64,
    /// Faults by access.
    pub by_access: Vec<GroupTally<AccessKind>>,
    /// Faults by cause.
    pub by_cause: Vec<GroupTally<FaultCause>>,
    pub by_kind: Vec<GroupTally<MappingKind>>,
    /// Faults by size of the mapped page, if the kernel reports it.
    pub by_page: Vec<GroupTally<Bytes>>,
    /// Served faults by their kind in a diagnosis. The time to zero pages is included.
    #[serde(default)]
    pub by_cost: Vec<GroupTally<CostKind>>,
    /// Faults by source of mappings, the most time first, without the long tail.
    pub places: Vec<PlaceTally>,
    /// Faults by function, the most time first, without the long tail.
    pub functions: Vec<FunctionTally>,
    pub callers: Fact<FaultCallers>,
    /// Faults by phase of the program, in the order of time.
    pub by_phase: Vec<GroupTally<ProgramPhase>>,
    /// Faults on pages that had already been faulted on.
    pub churn: FaultChurn,
    /// Savings that remedies could bring, the most time first.
    pub savings: Vec<FaultSaving>,
    /// The faults compared with the kernel's own count.
    pub account: FaultAccount,
    /// Present if each first touch was a separate fault (`--exact`). Times are not known then.
    #[serde(default)]
    pub exact: Option<ExactTouch>,
    /// Pages of files that are mapped along with others; absent in recordings made before this was computed.
    #[serde(default)]
    pub fault_around: Option<FaultAround>,
    /// True if the program ran without address randomisation. The addresses of its mappings, and so its
    /// number of faults, are then the same in each run.
    #[serde(default)]
    pub fixed_addresses: bool,
    /// The same touches with pages of other sizes, the size of this machine first.
    #[serde(default)]
    pub page_forecasts: Vec<PageForecast>,
    /// Interpreters that executed code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interpreters: Vec<ScriptInterpreter>,
    /// Files of code that could not be opened as the program has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed_files: Vec<UnnamedFile>,
}

impl FaultReport {
    /// True if everything was recorded, as far as can be known.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.lost_records == 0 && self.unpaired_ends == 0 && self.unpaired_begins == 0
    }
}
