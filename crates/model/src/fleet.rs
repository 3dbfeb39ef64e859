//! One answer from runs on many hosts: the input and the result of `merge`.

use crate::schema::JsonSchema;
use crate::trial::VerdictWord;
use serde::{Deserialize, Serialize};

/// Version of the lines that `merge --ndjson` writes.
pub const LINES_SCHEMA: u32 = 1;

/// One arm in one session on a host: a line of NDJSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostArm {
    pub schema: u32,
    /// Name of the host from the name of the file; else the run, or the start time of a run without a name.
    pub host: String,
    pub run: String,
    /// Time of the start, in nanoseconds since 1970.
    pub started_unix_ns: u64,
    pub pagewise: String,
    /// Words of the command, joined by spaces.
    pub command: String,
    pub arm: String,
    pub cpu_model: String,
    /// First two numbers of the kernel version.
    pub kernel: String,
    /// `transparent_hugepage/enabled`.
    pub thp: String,
    pub cpus: u32,
    pub memory_bytes: u64,
    pub quantity: String,
    pub word: VerdictWord,
    /// Ratio of the arm to the control; `low` and `high` are its 95% interval.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    pub runs: u32,
}

/// The result of an arm on all hosts, or on those of one class.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PooledEffect {
    pub hosts: u32,
    /// Number of sessions on these hosts, all of which count; 0 in files of older versions.
    #[serde(default)]
    pub sessions: u32,
    /// Ratio of the arm to the control on an average host; `low` and `high` are its 95% interval.
    pub ratio: f64,
    pub low: f64,
    pub high: f64,
    /// Standard deviation between hosts of the logarithm of the ratio.
    pub tau: f64,
    /// Range in which 95% of further hosts are expected; absent with fewer than three hosts.
    pub next_host: Option<(f64, f64)>,
}

/// What remedies will probably gain on a host, from samples of its processes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostPromise {
    /// Name of the file, without its ending.
    pub host: String,
    pub samples: u32,
    /// CPUs that the sampled processes kept busy, on average.
    pub busy_cpus: f64,
    /// CPUs that its programs would save together; `low` and `high` are the sums of the ends of their 80%
    /// intervals, because predictions of one model err together.
    pub saved_cpus: f64,
    pub low_cpus: f64,
    pub high_cpus: f64,
    /// The program that would save most; absent if nothing is predicted.
    pub program: Option<String>,
    /// Its remedy.
    pub arm: Option<String>,
}

/// Advice on an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetWord {
    /// A gain over 1% is proven on an average host.
    Keep,
    /// A loss is proven, or a gain over 1% is ruled out.
    Reject,
    /// The arm is good for some classes of hosts and not for others.
    DiffersByClass,
    CannotTell,
}

/// The property by which hosts are divided into classes.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[derive(strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum HostClassKey {
    Processor,
    Kernel,
    #[strum(serialize = "huge pages")]
    HugePages,
}

/// Hosts that share a property.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostClass {
    pub key: HostClassKey,
    pub value: String,
    pub pooled: PooledEffect,
    pub word: FleetWord,
}

/// One arm of one command on all hosts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FleetArm {
    pub command: String,
    pub arm: String,
    pub quantity: String,
    pub word: FleetWord,
    /// Pooled result; absent if no host has an interval.
    pub pooled: Option<PooledEffect>,
    /// Classes by the properties in which the hosts differ.
    pub classes: Vec<HostClass>,
    /// Hosts that rejected the arm: it failed, changed the output or broke a guard.
    pub rejected_on: Vec<String>,
    /// Number of hosts whose interval is still open.
    pub open_on: u32,
}
