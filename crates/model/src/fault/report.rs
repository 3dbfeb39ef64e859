//! What the faults of a run add up to.

use super::{
    Access, Account, Callers, Cause, Churn, ExactTouch, FaultAround, MappingKind, PageForecast,
    Phase, Place, Saving, Site,
};
use crate::diagnosis::CostKind;
use crate::measured::Fact;
use crate::units::{Bytes, Nanos};
use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which way of recording was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Beginning and end of each fault in user mode, from perf events.
    PerfUser,
    /// The same, and of those that the kernel takes for the program.
    PerfAll,
}

/// How many, and what they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tally {
    /// Faults, served or not.
    pub faults: u64,
    /// Of them those that waited for a device.
    pub major_faults: u64,
    /// Of them those on a page that the process had faulted on before.
    pub again_faults: u64,
    /// Of them those on a page that another thread faulted on at the same time.
    pub raced_faults: u64,
    /// Sum of the latencies that are known.
    pub time_ns: Nanos,
}

/// The faults of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupTally<K> {
    pub kind: K,
    pub tally: Tally,
}

/// The faults on one source of mappings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlaceTally {
    /// What was touched.
    pub place: Place,
    pub tally: Tally,
}

/// The faults of one function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionTally {
    /// Who touched: of the function's instructions the one that took the most time.
    pub site: Site,
    pub tally: Tally,
}

/// How long faults took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Latencies {
    /// Faults with a known latency.
    pub faults: u64,
    /// Median, within 3%.
    pub p50_ns: Nanos,
    /// 99% took at most this, within 3%.
    pub p99_ns: Nanos,
    /// 99.9% took at most this, within 3%.
    pub p999_ns: Nanos,
    /// The longest.
    pub max_ns: Nanos,
    /// Sum.
    pub total_ns: Nanos,
}

/// A process that was running already.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Attached {
    pub pid: i32,
    /// Its threads when all were followed.
    pub threads: u64,
    /// It ended before the recording did.
    pub has_ended: bool,
}

/// An interpreter that the program executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interpreter {
    /// `python3.13`, `node`, `java`.
    pub name: String,
    /// Functions of its scripts that faults were named after, by the map it wrote.
    pub functions: u64,
    /// It has written a map.
    #[serde(default)]
    pub has_map: bool,
}

/// A file whose functions are not named.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnnamedFile {
    pub path: String,
    pub why: String,
}

/// The faults of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FaultReport {
    /// How they were recorded.
    pub step: Step,
    /// The ends of all faults were recorded; without them latency is not known, and a fault is
    /// minor or failed unless it is known to be major.
    pub has_ends: bool,
    /// What was done and why is the processor's own word, and inferred only where that is lacking.
    pub has_error_codes: bool,
    /// The process that was attached to; absent for a program that was started.
    pub attached: Option<Attached>,
    /// From the start of the program, or of the recording, to the end.
    pub wall_ns: Nanos,
    /// What the program used.
    pub usage: Fact<Usage>,
    pub total: Tally,
    /// How long they took.
    pub latency: Fact<Latencies>,
    /// Pages that were faulted on, each once for every address space.
    pub touched_pages: u64,
    /// Ends without a beginning.
    pub unpaired_ends: u64,
    /// Beginnings whose end was lost.
    pub unpaired_begins: u64,
    /// Records that the kernel had no room for.
    pub lost_records: u64,
    /// Processes, the program itself included.
    pub processes: u64,
    /// Programs executed, the first included.
    pub executed: u64,
    /// By what was done.
    pub by_access: Vec<GroupTally<Access>>,
    /// By why it faulted.
    pub by_cause: Vec<GroupTally<Cause>>,
    pub by_kind: Vec<GroupTally<MappingKind>>,
    /// By size of the page mapped, where the kernel tells.
    pub by_page: Vec<GroupTally<Bytes>>,
    /// Those that were served, by what a diagnosis counts them as; zeroing lies within.
    #[serde(default)]
    pub by_cost: Vec<GroupTally<CostKind>>,
    /// By source of the mapping, the most time first; the long tail is left out.
    pub places: Vec<PlaceTally>,
    /// By function, the most time first; the long tail is left out.
    pub functions: Vec<FunctionTally>,
    pub callers: Fact<Callers>,
    /// When they came, in the order of time.
    pub by_phase: Vec<GroupTally<Phase>>,
    /// Those on pages that had been faulted on before.
    pub churn: Churn,
    /// What would remove them, the most time first.
    pub savings: Vec<Saving>,
    /// Against the kernel's own count.
    pub account: Account,
    /// Each first touch was a fault of its own (`--exact`); no times are known then.
    #[serde(default)]
    pub exact: Option<ExactTouch>,
    /// What is mapped along with pages of files; absent in recordings of before it was worked out.
    #[serde(default)]
    pub fault_around: Option<FaultAround>,
    /// The program had no address randomisation: where its mappings lie, and with that how many
    /// faults it takes, is the same in each run.
    #[serde(default)]
    pub fixed_addresses: bool,
    /// What the same touches come to by the size of a page, that of this machine first.
    #[serde(default)]
    pub page_forecasts: Vec<PageForecast>,
    /// Interpreters whose code was executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interpreters: Vec<Interpreter>,
    /// Files of code that could not be opened as the program has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unnamed_files: Vec<UnnamedFile>,
}

impl FaultReport {
    /// Whether all that happened was recorded, as far as can be known.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.lost_records == 0 && self.unpaired_ends == 0 && self.unpaired_begins == 0
    }
}
