//! Misses of the TLB for code (iTLB) in a thousand instructions (MPKI): counted by the hardware, or estimated
//! from single steps. Also how many pages of code the samples of a program hit.

use crate::measured::Fact;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Hardware counts in user mode over one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeMissCounts {
    pub instructions: u64,
    /// Events of the TLB for code that this processor counts.
    pub events: Vec<CountedEvent>,
}

impl CodeMissCounts {
    /// Each event with its number in a thousand instructions, as text.
    #[must_use]
    pub fn text(&self) -> String {
        let all = self.instructions.max(1) as f64;
        let one = |event: &CountedEvent| {
            format!("{:.2} {}", event.count as f64 * 1000.0 / all, event.name)
        };
        let texts: Vec<String> = self.events.iter().map(one).collect();
        format!("{} in 1000 instructions", texts.join(", "))
    }
}

/// An event and how often it happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CountedEvent {
    /// Name in perf(1).
    pub name: String,
    pub count: u64,
}

/// Stay of the execution on a base page of code: number of the page, and of instructions until it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeRun(pub u64, pub u32);

/// Instructions executed one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeBurst {
    /// Time for which the program had run freely before.
    pub after_ns: Nanos,
    pub runs: Vec<CodeRun>,
}

/// Instructions after which a burst has filled a TLB of 64 entries, as far as the program fills it. Only later
/// ones count.
pub const STEPS_TO_FILL: u32 = 10_000;

/// Entries of the first-level TLB for code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CodeTlb {
    /// For base pages.
    pub base_entries: u32,
    /// For huge pages.
    pub huge_entries: u32,
    /// True if the processor claims none, and a usual size is taken.
    pub is_assumed: bool,
}

/// Single-stepped bursts of a program, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SteppedCode {
    pub tlb: CodeTlb,
    pub bursts: Vec<CodeBurst>,
}

/// Misses in a thousand instructions, with an interval of two standard errors on each side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MissRate {
    pub per_1000: f64,
    pub low: f64,
    pub high: f64,
}

/// Misses of a first-level TLB, estimated from single steps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CodeMissEstimate {
    pub tlb: CodeTlb,
    /// Number of bursts that count.
    pub bursts: u32,
    /// Number of instructions that count.
    pub instructions: u64,
    /// With the code on base pages.
    pub base: MissRate,
    /// With all code on huge pages of this size.
    pub huge_bytes: Bytes,
    pub huge: MissRate,
}

/// Pages of code hit by samples in user mode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampledCodePages {
    /// Samples whose code is known.
    pub samples: u64,
    /// Different base pages in all of them.
    pub pages: u64,
    /// Different base pages expected in a thousand of them, drawn at random.
    pub pages_in_1000: f64,
    /// The fewest pages that hold nine tenths of them.
    pub pages_of_most: u64,
    /// Entries for base pages of the first-level TLB for code; absent if the processor claims none.
    pub entries: Option<u32>,
}

/// For recordings of older versions.
pub(crate) fn not_recorded<T>() -> Fact<T> {
    Fact::missing("not in this recording")
}
