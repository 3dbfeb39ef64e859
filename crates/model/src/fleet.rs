//! One answer from runs of many hosts: what `merge` reads and says.

use crate::trial::Word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the lines that `merge --ndjson` writes.
pub const LINES_SCHEMA: u32 = 1;

/// One arm in one session on a host: a line of NDJSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostArm {
    pub schema: u32,
    /// Name of the host, by the file's name; else the run, or the start of a run without a name.
    pub host: String,
    pub run: String,
    /// Start, nanoseconds since 1970.
    pub started_unix_ns: u64,
    pub pagewise: String,
    /// Words of the command, joined by blanks.
    pub command: String,
    pub arm: String,
    pub cpu_model: String,
    /// Kernel, first two numbers.
    pub kernel: String,
    /// `transparent_hugepage/enabled`.
    pub thp: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub quantity: String,
    pub word: Word,
    /// Arm over control, with its 95% interval.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub runs: u32,
}

/// What all hosts together say of an arm, or those of one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pooled {
    pub hosts: u32,
    /// Sessions on these hosts, all of which count; 0 in files of older versions.
    #[serde(default)]
    pub sessions: u32,
    /// Arm over control on an average host, with its 95% interval.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// Deviation between hosts, of the logarithm of the ratio.
    pub tau: f64,
    /// Where 95% of further hosts are to be expected; absent with fewer than three.
    pub next_host: Option<(f64, f64)>,
}

/// What is to be done with an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetWord {
    /// A gain over 1% is proven on an average host.
    Keep,
    /// A loss, or no gain over 1%, is proven.
    Reject,
    /// It is good for some classes of hosts and not for others.
    DiffersByClass,
    CannotTell,
}

/// By what hosts are put into classes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum ClassKey {
    Processor,
    Kernel,
    #[strum(serialize = "huge pages")]
    HugePages,
}

/// The hosts that have a property alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Class {
    pub key: ClassKey,
    pub value: String,
    pub pooled: Pooled,
    pub word: FleetWord,
}

/// One arm of one command on all hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetArm {
    pub command: String,
    pub arm: String,
    pub quantity: String,
    pub word: FleetWord,
    /// Absent where no host has an interval.
    pub pooled: Option<Pooled>,
    /// Classes of the keys by which the hosts differ, and of no others.
    pub classes: Vec<Class>,
    /// Hosts on which it was rejected: it failed, changed the output or broke a guard.
    pub rejected_on: Vec<String>,
    /// Hosts whose interval says nothing yet.
    pub open_on: u32,
}
