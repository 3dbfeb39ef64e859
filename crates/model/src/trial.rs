//! What an experiment saw and what it concluded.

use crate::units::{Bytes, Nanos};
use crate::usage::Usage;
use serde::{Deserialize, Serialize};

/// One timed run of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Name of the arm; the control's second run in a block is `A'`.
    pub arm: String,
    /// What the run used.
    pub usage: Usage,
    /// The mechanism's own kernel counter over this run (huge faults, pipes grown, ...);
    /// absent where the arm has none.
    pub mechanism: Option<u64>,
    /// In a run of the control: what the counter of each arm read there, by arm. A remedy whose
    /// counter moves without it proves nothing by moving.
    #[serde(default)]
    pub idle_mechanisms: Vec<(String, u64)>,
    /// Huge pages handed out at faults on the machine during the run.
    #[serde(default)]
    pub huge_faults: u64,
    /// CPU time our own supervising process spent beside the run.
    pub supervisor_ns: Nanos,
}

/// One block: each arm once, the control twice, in random order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Points in the order they were run.
    pub points: Vec<Point>,
    /// What the machine did meanwhile.
    pub weather: Weather,
    /// Why the block does not count, if it does not.
    pub dropped: Option<String>,
    /// That the host interfered, if it did; where it did in many blocks they count all the same.
    #[serde(default)]
    pub host: Option<String>,
}

/// Covariates of a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Weather {
    /// Register-only loop before and after, each relative to the session's median (1.0 = as usual).
    pub canary_ratio: Vec<f64>,
    /// A memory-bound loop, same form.
    pub memory_canary_ratio: Vec<f64>,
    /// CPU time stolen by the hypervisor during the block.
    pub steal_ns: Nanos,
    /// Share (0..1) of the block in which some task waited for a CPU (pressure stall information).
    pub cpu_pressure_share: Option<f64>,
    /// The same for memory.
    pub memory_pressure_share: Option<f64>,
    /// System time per fault above the session's price, summed over the block's runs.
    pub host_ns: Nanos,
    /// Host time by arm, in the order of `points`.
    pub host_by_point_ns: Vec<Nanos>,
}

/// The four words of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Proven better: keep it.
    Keep,
    /// Proven worse, or it changes the output.
    Reject,
    /// Proven within 2% either way.
    Equivalent,
    /// Neither proven.
    CannotTell,
    /// Tried in screening only.
    NotProven,
}

impl Word {
    /// As shown to people.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Reject => "reject",
            Self::Equivalent => "equivalent within 2%",
            Self::CannotTell => "cannot tell",
            Self::NotProven => "screened, not proven",
        }
    }
}

/// The effect of an arm against the control, as time ratios (arm / control; below 1 is faster).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// Hodges-Lehmann estimate of the ratio.
    pub ratio: f64,
    /// Lower end of its 95% interval.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// Lower end of where the ratio of a later repeat of 20 pairs is to be expected (95%): the
    /// interval holds for this session, and machines drift between sessions.
    pub repeat_low: f64,
    /// Upper end.
    pub repeat_high: f64,
    /// Exact one-sided p that the arm is faster (naming runs at random within blocks).
    pub p_faster: f64,
    /// The same that it is slower.
    pub p_slower: f64,
    /// Ratio A'/A of the control against itself in the same blocks (Hodges-Lehmann).
    pub control_ratio: f64,
    /// Two-sided p of that.
    pub control_p: f64,
    /// Blocks that counted.
    pub blocks: u32,
    /// The same with the blocks counted that were dropped because of the host, if there were any.
    #[serde(default)]
    pub with_host: Option<AllBlocks>,
}

/// The effect in all blocks that the CPU's speed did not spoil, as the machine is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllBlocks {
    /// Hodges-Lehmann estimate of the ratio.
    pub ratio: f64,
    /// Lower end of its 95% interval.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// How many blocks.
    pub blocks: u32,
}

/// The verdict on one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Name of the arm.
    pub arm: String,
    /// The word.
    pub word: Word,
    /// Why, in one sentence.
    pub why: String,
    /// The effect on wall time; absent when there are no blocks.
    pub effect: Option<Effect>,
    /// Median ratio of CPU time, arm / control.
    pub cpu_ratio: Option<f64>,
    /// Median peak memory of the arm minus that of the control, bytes.
    pub peak_rss_change_bytes: Option<i64>,
    /// Median peak memory of the control.
    pub control_peak_rss_bytes: Option<Bytes>,
    /// Median of our supervisor's CPU time beside a run of this arm.
    pub supervisor_ns: Nanos,
}

/// The design of a confirmation, announced before it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Design {
    /// Seed of the random orders.
    pub seed: u64,
    /// Time budget for all experiments.
    pub budget_ns: Nanos,
    /// Arms that were screened.
    pub screened: Vec<String>,
    /// Arms that were confirmed.
    pub confirmed: Vec<String>,
    /// Blocks that fit the budget.
    pub blocks: u32,
    /// Smallest gain (share of time) that these blocks can prove with 80% power, from the spread seen.
    pub smallest_provable_share: Option<f64>,
    /// Budget that proving a gain of 10% would need.
    pub budget_for_10_percent_ns: Option<Nanos>,
}

/// A whole experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Its design.
    pub design: Design,
    /// Screening runs.
    pub screening: Vec<Point>,
    /// Confirmation blocks, dropped ones included.
    pub blocks: Vec<Block>,
    /// A verdict for each arm tried.
    pub verdicts: Vec<Verdict>,
    /// Things the reader must know (two modes, interrupted, gates).
    pub warnings: Vec<String>,
    /// Ended by the user before the planned blocks were done.
    pub interrupted: bool,
    /// Why the control could not be measured to the end, if so: nothing is decided then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
}
