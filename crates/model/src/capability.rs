//! What this machine, kernel and account allow, found by probes.

use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// The answer of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CapabilityAnswer {
    /// It works.
    Yes,
    /// It was refused in the expected way, with the reason.
    No(String),
    /// The probe itself failed in an unexpected way, with the reason.
    Unknown(String),
}

/// Something that pagewise can use if it is available.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// Group in which it is shown.
    pub group: String,
    pub name: String,
    pub gives: String,
    pub answer: CapabilityAnswer,
    /// The step that would make it available; absent if no step would.
    pub unlock: Option<String>,
}

/// A condition of this machine that spoils measurements.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeasurementSpoiler {
    /// The condition, in one sentence.
    pub what: String,
    /// Advice, or the way in which pagewise accounts for it.
    pub remedy: String,
}

/// A plain fact shown by `doctor` ("L1 dTLB 4K as claimed" -> "96 entries").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MachineTrait {
    /// Group in which it is shown.
    pub group: String,
    pub name: String,
    pub value: String,
}

/// The keys that `ftok(3)` makes of a file, one for each project number.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FtokKeys {
    pub path: String,
    /// Bits 0 to 23 of all of them. The upper 8 are the project number.
    pub low_bits: u32,
    /// Other named files with the same keys.
    pub same_as: Vec<String>,
    /// Segments of System V shared memory that have one of the keys.
    pub segments: Vec<KeyedSegment>,
}

/// A segment of System V shared memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyedSegment {
    pub key: u32,
    pub id: i64,
    pub size_bytes: Bytes,
    /// Its owner.
    pub uid: u32,
    pub creator_pid: i32,
    /// Name of the process that has this number now; absent if there is none.
    pub creator: Option<String>,
    /// True if its owner is not the owner of the file.
    pub is_of_other: bool,
}

/// All findings of `doctor`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DoctorReport {
    pub machine: crate::machine::Machine,
    /// Facts about the machine.
    pub traits: Vec<MachineTrait>,
    pub capabilities: Vec<Capability>,
    /// Conditions that spoil measurements.
    pub spoilers: Vec<MeasurementSpoiler>,
    /// Keys of the files that were named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<FtokKeys>,
}
