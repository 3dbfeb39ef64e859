//! Measurements and conclusions of an experiment.

use crate::guard::{ArmGuard, GuardFinding};
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use crate::usage::ProgramUsage;
use serde::{Deserialize, Serialize};

/// One timed run of one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmRun {
    /// Name of the arm.
    pub arm: String,
    /// Resource usage of the run.
    pub usage: ProgramUsage,
    /// The mechanism's own kernel counter over this run (huge faults, pipes grown, ...); absent if the arm
    /// has none.
    pub mechanism: Option<u64>,
    /// For a run of the control: what each arm's counter showed in it, by arm. If a counter moves without its
    /// remedy, its movement proves nothing.
    #[serde(default)]
    pub idle_mechanisms: Vec<(String, u64)>,
    /// Huge pages allocated at faults on the machine during the run.
    #[serde(default)]
    pub huge_faults: u64,
    /// CPU time that the supervising process took during the run.
    pub supervisor_ns: Nanos,
}

/// One block: the control and each arm still in the race, equally often, in random order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentBlock {
    /// True if its runs started together and shared CPUs. Their CPU times are compared; their wall times mean
    /// nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Points in the order in which they were run.
    pub points: Vec<ArmRun>,
    /// State of the machine during the block.
    #[serde(alias = "weather")]
    pub system_load: SystemLoad,
    /// Why the block does not count; absent if it counts.
    pub dropped: Option<String>,
}

/// State of the machine during a block.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SystemLoad {
    /// CPU time that the hypervisor stole during the block.
    pub steal_ns: Nanos,
    /// Share (0..1) of the block in which some task waited for a CPU (pressure stall information).
    pub cpu_pressure_share: Option<f64>,
    pub memory_pressure_share: Option<f64>,
    /// Host time of each point, in their order: system time above the cost of its faults at the session's
    /// price.
    pub host_by_point_ns: Vec<Nanos>,
}

/// The word of a verdict, the strongest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VerdictWord {
    /// A gain is proven: keep it.
    Keep,
    /// A gain over 1% is at least 90% sure, with the choice among the arms taken into account.
    Likely,
    /// A gain above a stated share is ruled out.
    NoGain,
    /// A loss is proven.
    Slower,
    /// The arm changes the output, or does not run as the control does.
    Reject,
    /// None of these.
    CannotTell,
    /// The arm was not run.
    NotTried,
}

/// A time ratio (arm / control; below 1 is faster) with the bounds of its 95% interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeRatio {
    /// Estimate of the ratio.
    pub ratio: f64,
    /// Lower bound of the interval.
    pub ratio_low: f64,
    /// Upper bound of the interval.
    pub ratio_high: f64,
}

/// The effect of an arm compared with the control, as time ratios (arm / control; below 1 is faster).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmEffect {
    /// Estimate of the ratio, from the mean of the logarithms, block by block.
    pub ratio: f64,
    /// Lower bound of its 95% interval, which holds whenever the experiment stops.
    pub ratio_low: f64,
    /// Upper bound of that interval.
    pub ratio_high: f64,
    /// Lower bound of the ratio expected (95%) in a later repeat of 20 pairs. The interval above holds for
    /// this session, and machines drift between sessions.
    pub repeat_low: f64,
    /// Upper bound of the ratio expected in a later repeat.
    pub repeat_high: f64,
    /// Evidence (an e-value) against no gain, with the choice among the arms taken into account.
    pub evidence_of_gain: f64,
    /// Evidence (an e-value) against a gain of 1% at most.
    pub evidence_of_worth: f64,
    /// Certainty of a gain over 1%: 1 minus the reciprocal of its evidence, at least 0.
    pub sure_share: f64,
    /// Number of runs of the arm.
    pub runs: u32,
    /// Number of runs of the control beside them.
    pub control_runs: u32,
    /// Ratio after the host's time is subtracted from each run; present if that time differs between the two.
    pub without_host: Option<TimeRatio>,
    /// Ratio of the plain times; present if times were corrected by the cost of a load from memory during
    /// each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uncorrected: Option<TimeRatio>,
    /// True if the ratio is of CPU time, from runs that shared CPUs with those of the control.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_once: bool,
    /// Ratio of wall time from a few runs of such an arm that were made one at a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<TimeRatio>,
}

/// The verdict on an arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmVerdict {
    /// Name of the arm.
    pub arm: String,
    pub word: VerdictWord,
    /// Reason in one sentence.
    pub why: String,
    /// Effect on wall time; absent if there are no runs.
    pub effect: Option<ArmEffect>,
    /// Smallest share (of 2, 3, 4 and 5%) above which a gain is ruled out; absent if none is.
    pub no_gain_above_share: Option<f64>,
    /// Smallest of these shares above which a loss is ruled out; absent if none is.
    pub no_loss_above_share: Option<f64>,
    /// Time that would settle an open verdict if evidence grows as before.
    pub settled_by_ns: Option<Nanos>,
    /// Median ratio of CPU time, arm / control.
    pub cpu_ratio: Option<f64>,
    /// Median peak memory of the arm minus that of the control, in bytes.
    pub peak_rss_change_bytes: Option<i64>,
    /// Median peak memory of the control.
    pub control_peak_rss_bytes: Option<Bytes>,
    /// Median CPU time of the supervising process during a run of this arm.
    pub supervisor_ns: Nanos,
}

/// The quantity by which runs of an experiment are compared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[derive(strum::IntoStaticStr)] // as a user types it
#[strum(serialize_all = "kebab-case", const_into_str)]
pub enum ComparedQuantity {
    /// Wall time of a run.
    #[default]
    Time,
    /// CPU time of a run.
    Cpu,
    /// CPU time of a service's processes for each request.
    CpuPerRequest,
    /// The mean time in which a service answers a request: the reciprocal of its rate.
    Throughput,
    /// The time within which 99% of requests are answered.
    P99,
    /// For a service, the proportional set size of its processes. For a run, the most memory that its
    /// processes held together.
    Memory,
}

impl ComparedQuantity {
    /// Noun for a sentence, after "less" or "more".
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

/// The design of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExperimentDesign {
    /// The quantity that decides.
    #[serde(default)]
    pub quantity: ComparedQuantity,
    /// Bounds that an arm must keep, whatever it gains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<ArmGuard>,
    /// Seed of the random orders.
    pub seed: u64,
    /// Time for the whole session.
    pub budget_ns: Nanos,
    /// Name of the arm that the others are compared with.
    pub control: String,
    /// Names of the arms, including combinations.
    pub arms: Vec<String>,
}

/// Time and memory of an arm: medians over its runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimeAndMemory {
    pub arm: String,
    pub time_ns: Nanos,
    pub memory_bytes: Bytes,
    /// Time of the arm divided by that of the control.
    pub time_ratio: f64,
    pub memory_ratio: f64,
    /// Percent of memory traded for one percent of time; present if the arm has less of one and more of the
    /// other.
    pub memory_price: Option<f64>,
    /// True if no other arm has clearly less of one without more of the other.
    pub is_on_front: bool,
}

/// A whole experiment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Design of the experiment.
    pub design: ExperimentDesign,
    /// Blocks, including unfinished ones.
    pub blocks: Vec<ExperimentBlock>,
    /// A verdict for each arm.
    pub verdicts: Vec<ArmVerdict>,
    /// Result of each guard for each arm.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub guarded: Vec<GuardFinding>,
    /// Time and memory of each arm that ran, the control first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub time_and_memory: Vec<TimeAndMemory>,
    /// Warnings that the reader must know (two speeds, interrupted).
    pub warnings: Vec<String>,
    /// True if the user ended the experiment.
    pub interrupted: bool,
    /// Why runs were not, or no longer, made at the same time; absent if that was not possible anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_turn_because: Option<String>,
    /// Why the control could not be measured to the end. Nothing is decided then. Absent if it was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub halted: Option<String>,
}

/// True if the interval of a ratio says nothing: it spans from a tenth to ten times, or more.
#[must_use]
pub fn is_open(low: f64, high: f64) -> bool {
    low <= 0.1 && high >= 10.0
}

impl ArmEffect {
    /// True if the effect was measured. A single run, or an open interval, shows nothing about an arm.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.runs > 1 && self.control_runs > 1 && !is_open(self.ratio_low, self.ratio_high)
    }
}

impl Experiment {
    /// The quantity by which its arms are compared: CPU time if runs were made at the same time.
    #[must_use]
    pub fn compared(&self) -> ComparedQuantity {
        let at_once = |verdict: &ArmVerdict| verdict.effect.as_ref().is_some_and(|one| one.at_once);
        match self.design.quantity {
            ComparedQuantity::Time if self.verdicts.iter().any(at_once) => ComparedQuantity::Cpu,
            other => other,
        }
    }

    /// Points of one arm in the blocks that count, from runs at the same time or one at a time.
    pub fn points_in<'a>(
        &'a self,
        arm: &'a str,
        at_once: bool,
    ) -> impl Iterator<Item = &'a ArmRun> {
        let counts =
            move |block: &&ExperimentBlock| block.dropped.is_none() && block.at_once == at_once;
        let points = self.blocks.iter().filter(counts).flat_map(|block| &block.points);
        points.filter(move |point| point.arm == arm)
    }

    /// True if the arm was compared by runs at the same time.
    #[must_use]
    pub fn is_at_once(&self, arm: &str) -> bool {
        self.points_in(arm, true).next().is_some()
    }

    /// Points of one arm in the blocks that count.
    pub fn points_of<'a>(&'a self, arm: &'a str) -> impl Iterator<Item = &'a ArmRun> {
        let counting = self.blocks.iter().filter(|block| block.dropped.is_none());
        counting.flat_map(|block| &block.points).filter(move |point| point.arm == arm)
    }
}
