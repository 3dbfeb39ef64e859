//! What an experiment saw and what it concluded.

use crate::guard::{Guard, Guarded};
use crate::units::{Bytes, Nanos};
use crate::usage::Usage;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One timed run of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Name of the arm.
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

/// One block: each arm that still raced, equally often, and the control, in random order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Its runs shared CPUs, started together: their CPU times are compared, and their wall times mean nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Points in the order they were run.
    pub points: Vec<Point>,
    /// What the machine did meanwhile.
    pub weather: Weather,
    /// Why the block does not count, if it does not.
    pub dropped: Option<String>,
}

/// What the machine did during a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weather {
    /// CPU time stolen by the hypervisor during the block.
    pub steal_ns: Nanos,
    /// Share (0..1) of the block in which some task waited for a CPU (pressure stall information).
    pub cpu_pressure_share: Option<f64>,
    pub memory_pressure_share: Option<f64>,
    /// Host time of each point, in their order: system time beyond what its faults cost at the
    /// session's price.
    pub host_by_point_ns: Vec<Nanos>,
}

/// The word of a verdict, strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// A gain is proven: keep it.
    Keep,
    /// A gain over 1% is at least 90% sure, the choice among the arms included.
    Likely,
    /// A gain above a share that is named is ruled out.
    NoGain,
    /// A loss is proven.
    Slower,
    /// It changes the output, or does not run as the control does.
    Reject,
    /// None of these.
    CannotTell,
    /// It was not run.
    NotTried,
}

/// A time ratio (arm / control; below 1 is faster) with the ends of its 95% interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The estimate.
    pub ratio: f64,
    /// Lower end.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
}

/// The effect of an arm against the control, as time ratios (arm / control; below 1 is faster).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Estimate of the ratio: mean of the logarithms, block by block.
    pub ratio: f64,
    /// Lower end of its 95% interval, which holds whenever the experiment is stopped.
    pub ratio_low: f64,
    /// Upper end.
    pub ratio_high: f64,
    /// Lower end of where the ratio of a later repeat of 20 pairs is to be expected (95%): the
    /// interval holds for this session, and machines drift between sessions.
    pub repeat_low: f64,
    /// Upper end.
    pub repeat_high: f64,
    /// Evidence (an e-value) against no gain, the choice among the arms included.
    pub evidence_of_gain: f64,
    /// The same against a gain of 1% at most.
    pub evidence_of_worth: f64,
    /// How sure a gain over 1% is: one less the reciprocal of its evidence, at least 0.
    pub sure_share: f64,
    /// Runs of the arm.
    pub runs: u32,
    /// Runs of the control beside them.
    pub control_runs: u32,
    /// The same with the host's time taken off each run, where that differs between the two.
    pub without_host: Option<Ratio>,
    /// The same by plain times, where the times were corrected by what a load from memory cost during
    /// each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected: Option<Ratio>,
    /// It is of CPU time, by runs that shared CPUs with the control's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// What a few runs of such an arm showed that were made one at a time, by wall time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<Ratio>,
}

/// The verdict on one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Name of the arm.
    pub arm: String,
    pub word: Word,
    /// Why, in one sentence.
    pub why: String,
    /// The effect on wall time; absent when there are no runs.
    pub effect: Option<Effect>,
    /// The least share (of 2, 3, 4 and 5%) that it does not gain, where one is ruled out.
    pub no_gain_above_share: Option<f64>,
    /// The least of these that it does not lose.
    pub no_loss_above_share: Option<f64>,
    /// Time that would settle an open verdict, if evidence goes on growing as it did.
    pub settled_by_ns: Option<Nanos>,
    /// Median ratio of CPU time, arm / control.
    pub cpu_ratio: Option<f64>,
    /// Median peak memory of the arm minus that of the control, bytes.
    pub peak_rss_change_bytes: Option<i64>,
    /// Median peak memory of the control.
    pub control_peak_rss_bytes: Option<Bytes>,
    /// Median of our supervisor's CPU time beside a run of this arm.
    pub supervisor_ns: Nanos,
}

/// What the runs of an experiment are compared by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::IntoStaticStr)] // as a user types it
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum Quantity {
    /// Wall time of a run.
    #[default]
    Time,
    /// CPU time of a run.
    Cpu,
    /// CPU time of a service's processes for each request.
    CpuPerRequest,
    /// The time in which a service answers a request on average: the reciprocal of its rate.
    Throughput,
    /// The time within which 99% of requests are answered.
    P99,
    /// Of a service, the proportional set size of its processes. Of a run, the most memory that its processes
    /// held together.
    Memory,
}

impl Quantity {
    /// In a sentence after "less" or "more".
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Cpu => "CPU time",
            Self::CpuPerRequest => "CPU per request",
            Self::Throughput => "time per request",
            Self::P99 => "p99 latency",
            Self::Memory => "memory",
        }
    }
}

/// What an experiment set out with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// What decides.
    #[serde(default)]
    pub quantity: Quantity,
    /// What an arm may not pass, whatever it gains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
    /// Seed of the random orders.
    pub seed: u64,
    /// Time for the whole session.
    pub budget_ns: Nanos,
    /// What the arms are measured against.
    pub control: String,
    /// The arms, combinations included.
    pub arms: Vec<String>,
}

/// Time and memory of an arm side by side: medians over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeAndMemory {
    pub arm: String,
    pub time_ns: Nanos,
    pub memory_bytes: Bytes,
    /// Of the control.
    pub time_ratio: f64,
    pub memory_ratio: f64,
    /// How many percent of memory stand against one percent of time, where an arm has less of one and more of
    /// the other.
    pub memory_price: Option<f64>,
    /// No other has clearly less of one without more of the other.
    pub is_on_front: bool,
}

/// A whole experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// What it set out with.
    pub design: Design,
    /// Its blocks, unfinished ones included.
    pub blocks: Vec<Block>,
    /// A verdict for each arm.
    pub verdicts: Vec<Verdict>,
    /// What each guard showed of each arm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guarded: Vec<Guarded>,
    /// Time and memory of each arm that ran, the control first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_and_memory: Vec<TimeAndMemory>,
    /// Things the reader must know (two speeds, interrupted).
    pub warnings: Vec<String>,
    /// Ended by the user.
    pub interrupted: bool,
    /// Why no runs were made at once, or none any more, where that could have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_turn_because: Option<String>,
    /// Why the control could not be measured to the end, if so: nothing is decided then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
}

/// Whether an interval of a ratio says nothing: it goes from a tenth to ten times, or beyond.
#[must_use]
pub fn is_open(low: f64, high: f64) -> bool {
    low <= 0.1 && high >= 10.0
}

impl Effect {
    /// Whether it is one: a single run shows nothing of an arm, and neither does an open interval.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.runs > 1 && self.control_runs > 1 && !is_open(self.ratio_low, self.ratio_high)
    }
}

impl Experiment {
    /// What its arms are compared by: CPU time where runs were made at once.
    #[must_use]
    pub fn compared(&self) -> Quantity {
        let at_once = |verdict: &Verdict| verdict.effect.as_ref().is_some_and(|one| one.at_once);
        match self.design.quantity {
            Quantity::Time if self.verdicts.iter().any(at_once) => Quantity::Cpu,
            other => other,
        }
    }

    /// Points of one arm in the blocks that count, of runs at once or one at a time.
    pub fn points_in<'a>(&'a self, arm: &'a str, at_once: bool) -> impl Iterator<Item = &'a Point> {
        let counts = move |block: &&Block| block.dropped.is_none() && block.at_once == at_once;
        let points = self.blocks.iter().filter(counts).flat_map(|block| &block.points);
        points.filter(move |point| point.arm == arm)
    }

    /// The arm was compared by runs at once.
    #[must_use]
    pub fn is_at_once(&self, arm: &str) -> bool {
        self.points_in(arm, true).next().is_some()
    }

    /// Points of one arm in the blocks that count.
    pub fn points_of<'a>(&'a self, arm: &'a str) -> impl Iterator<Item = &'a Point> {
        let counting = self.blocks.iter().filter(|block| block.dropped.is_none());
        counting.flat_map(|block| &block.points).filter(move |point| point.arm == arm)
    }
}
