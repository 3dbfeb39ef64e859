//! What this machine, kernel and account allow, found by trying.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Works.
    Yes,
    /// Refused in the way expected, and why.
    No(String),
    /// The probe itself failed in a way it does not understand.
    Unknown(String),
}

/// One thing that pagewise can use when it is there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capability {
    /// Group it is shown under.
    pub group: String,
    pub name: String,
    pub gives: String,
    pub answer: Answer,
    /// What would unlock it, where something would.
    pub unlock: Option<String>,
}

/// Something that spoils measurements on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spoiler {
    /// What, in one sentence.
    pub what: String,
    /// What to do about it, or how pagewise accounts for it.
    pub remedy: String,
}

/// A plain fact shown by `doctor` ("L1 dTLB 4K as claimed" -> "96 entries").
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Trait {
    /// Group it is shown under.
    pub group: String,
    pub name: String,
    pub value: String,
}

/// Everything `doctor` found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Checkup {
    pub machine: crate::machine::Machine,
    /// Facts about it.
    pub traits: Vec<Trait>,
    pub capabilities: Vec<Capability>,
    /// What spoils measurements.
    pub spoilers: Vec<Spoiler>,
}
