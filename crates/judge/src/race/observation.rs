//! What one subject did, in the form that a race reads. A subject is a run of a program or one side of a pair
//! of servers. It may also be one side of a block of switches in a server that already runs.
//!
//! Values are natural logarithms: of nanoseconds or bytes of a run; of nanoseconds, seconds or bytes of a
//! service, for each request if the quantity says so. Less is better. A service has no separate host time and
//! no speeds: its windows last longer than the disturbances that these show.

use super::verdict::{of_few_differences, of_few_runs};
use super::{ArmCosts, BlockTimes, SpeedSlopes, Speeds};
use crate::mechanism::MechanismReadings;
use crate::service;
use crate::stats::find_two_modes;
use pagewise_model::measured::median;
use pagewise_model::service::{ServerMeasurement, ServerMemory, ServerPair, ServiceMode};
use pagewise_model::trial::{self, ArmRun, ComparedQuantity, TimeRatio};
use pagewise_model::{Bytes, Nanos};
use std::collections::BTreeMap;

/// At least this share of a run's time remains after subtracting the host's time. A tree on several CPUs can
/// have more host time than the run took.
const LEAST_LEFT: f64 = 0.05;

/// The kernel counter that shows whether a remedy acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemedyCounter {
    /// Nothing: the remedy has no counter.
    None,
    /// The counter that is read with each run.
    OfRun,
    /// Anonymous memory of a server on huge pages.
    AnonHuge,
    /// Code or other file pages of a server on huge pages.
    FileHuge,
}

impl RemedyCounter {
    /// Pages of 4 KiB would be below the noise of small mappings: whole mebibytes.
    const fn held(self, holding: &ServerMemory) -> u64 {
        match self {
            Self::None | Self::OfRun => 0,
            Self::AnonHuge => holding.anon_huge_bytes.0 >> 20,
            Self::FileHuge => holding.file_huge_bytes.0 >> 20,
        }
    }
}

/// A block of a race: the control and one or more arms, side by side or in random order.
#[derive(Debug, Clone, PartialEq)]
pub enum RaceBlock {
    /// Runs of programs that end.
    Runs(trial::ExperimentBlock),
    /// Two servers under load, or one with a remedy off and on.
    Pair(ServerPair),
}

/// What one subject did.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArmObservation<'a> {
    /// A run.
    Run(ObservedRun<'a>),
    /// A server's windows.
    Side(&'a ServerMeasurement),
}

/// A run of a program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObservedRun<'a> {
    point: &'a ArmRun,
    /// The host's time in it.
    host_ns: f64,
    /// Others shared its CPU.
    at_once: bool,
}

impl ObservedRun<'_> {
    /// The deciding amount: nanoseconds or bytes. For runs at once only CPU time is meaningful.
    fn amount(&self, quantity: ComparedQuantity) -> f64 {
        let usage = &self.point.usage;
        let amount = match quantity {
            ComparedQuantity::Memory => usage.peak_memory().0,
            ComparedQuantity::Cpu => usage.cpu_ns().0,
            _ if self.at_once => usage.cpu_ns().0,
            _ => usage.wall_ns.0,
        };
        amount.max(1) as f64
    }
}

impl RaceBlock {
    /// What ran in it shared its CPUs.
    pub(crate) fn is_at_once(&self) -> bool {
        match self {
            Self::Runs(block) => block.at_once,
            Self::Pair(pair) => pair.mode == ServiceMode::AtOnce,
        }
    }

    /// It was finished, and counts.
    pub(crate) fn counts(&self) -> bool {
        match self {
            Self::Runs(block) => block.dropped.is_none(),
            Self::Pair(_) => true,
        }
    }

    /// What the arm of this name did, or the control.
    pub(crate) fn of<'a>(&'a self, name: &str, control: &str) -> Vec<ArmObservation<'a>> {
        match self {
            Self::Runs(block) => {
                let own = runs(block).filter(|run| run.point.arm == name);
                own.map(ArmObservation::Run).collect()
            }
            Self::Pair(pair) if name == control => vec![ArmObservation::Side(&pair.plain)],
            Self::Pair(pair) if name == pair.arm => vec![ArmObservation::Side(&pair.other)],
            Self::Pair(_) => Vec::new(),
        }
    }

    /// Requests to the arm of this name that failed.
    pub(crate) fn errors(&self, arm: &str) -> f64 {
        match self {
            Self::Pair(pair) if pair.arm == arm => service::failed(&pair.other),
            _ => 0.0,
        }
    }

    /// Whether speeds were sampled beside each run.
    pub(crate) fn has_speeds(&self) -> bool {
        match self {
            Self::Runs(block) => block.points.iter().all(|point| point.usage.speed.is_some()),
            Self::Pair(_) => false,
        }
    }

    /// The values as a race takes them: `read` of each observation, of the control and of the arms with these
    /// numbers. `None` if a value is unknown.
    pub(crate) fn times(
        &self,
        control: &str,
        arms: &[(usize, &str)],
        read: &dyn Fn(&ArmObservation<'_>) -> Option<f64>,
    ) -> Option<BlockTimes> {
        let of = |name: &str| self.of(name, control).iter().map(read).collect::<Option<Vec<f64>>>();
        let arms = arms.iter().map(|(at, name)| Some((*at, of(name)?)));
        Some(BlockTimes { control: of(control)?, arms: arms.collect::<Option<_>>()? })
    }

    /// Learns how runs go with the speeds meanwhile, arm by arm.
    pub(crate) fn teach(&self, slopes: &mut SpeedSlopes, quantity: ComparedQuantity) {
        let Self::Runs(block) = self else { return };
        let mut by_arm: BTreeMap<&str, Vec<(Speeds, f64)>> = BTreeMap::new();
        for run in runs(block) {
            let speeds = ArmObservation::Run(run).log_speeds();
            by_arm.entry(&run.point.arm).or_default().push((speeds, run.amount(quantity).ln()));
        }
        by_arm.values().for_each(|runs| slopes.learn(runs));
    }
}

/// The runs of a block.
fn runs(block: &trial::ExperimentBlock) -> impl Iterator<Item = ObservedRun<'_>> {
    let host = |at: usize| block.system_load.host_by_point_ns.get(at).map_or(0.0, |ns| ns.0 as f64);
    let run = move |(at, point)| ObservedRun { point, host_ns: host(at), at_once: block.at_once };
    block.points.iter().enumerate().map(run)
}

impl ArmObservation<'_> {
    /// The value as a guard reads it.
    pub(crate) fn log(&self, quantity: ComparedQuantity) -> Option<f64> {
        match self {
            Self::Run(run) => Some(run.amount(quantity).ln()),
            Self::Side(side) => service::value(quantity, side),
        }
    }

    /// The value as it decides.
    pub(crate) fn decisive_log(&self, quantity: ComparedQuantity) -> Option<f64> {
        match self {
            Self::Run(..) => self.log(quantity),
            Self::Side(side) => service::decisive(quantity, side),
        }
    }

    /// The same with the host's time taken off.
    pub(crate) fn log_without_host(&self, quantity: ComparedQuantity) -> Option<f64> {
        match self {
            Self::Run(run) if quantity != ComparedQuantity::Memory => {
                let amount = run.amount(quantity);
                Some((amount - run.host_ns).max(amount * LEAST_LEFT).ln())
            }
            _ => self.decisive_log(quantity),
        }
    }

    /// Logarithms of what was sampled beside a run. Zeros if nothing was sampled.
    pub(crate) fn log_speeds(&self) -> Speeds {
        let log = |ns: f64| ns.max(f64::MIN_POSITIVE).ln();
        match self {
            Self::Run(run) => run
                .point
                .usage
                .speed
                .map_or([0.0; 2], |speed| [log(speed.round_ns), log(speed.load_ns)]),
            Self::Side(_) => [0.0; 2],
        }
    }

    fn host_ns(&self) -> f64 {
        match self {
            Self::Run(run) => run.host_ns,
            Self::Side(_) => 0.0,
        }
    }

    fn cpu_ns(&self) -> Option<f64> {
        match self {
            Self::Run(run) => Some(run.point.usage.cpu_ns().0 as f64),
            Self::Side(_) => None,
        }
    }

    fn memory_bytes(&self) -> f64 {
        match self {
            Self::Run(run) => run.point.usage.peak_memory().0 as f64,
            Self::Side(side) => side.at_last.pss_bytes.0 as f64,
        }
    }

    fn supervisor_ns(&self) -> f64 {
        match self {
            Self::Run(run) => run.point.supervisor_ns.0 as f64,
            Self::Side(_) => 0.0,
        }
    }

    /// The arm's counter in one of the arm's own runs.
    fn counted(&self, counter: RemedyCounter) -> u64 {
        match self {
            Self::Run(run) => run.point.mechanism.unwrap_or(0),
            // Only what a server keeps from the first window to the last counts.
            Self::Side(side) => counter.held(&side.at_first).min(counter.held(&side.at_last)),
        }
    }

    /// The counter of the arm of this name in a run of the control. `None` if it was not read.
    fn idle(&self, counter: RemedyCounter, arm: &str) -> Option<u64> {
        match self {
            Self::Run(run) => {
                let mut idle = run.point.idle_mechanisms.iter();
                idle.find(|(name, _)| name == arm).map(|(_, read)| *read)
            }
            Self::Side(_) => Some(self.counted(counter)),
        }
    }
}

/// What one arm did in the blocks that count, and the control in the same blocks.
#[derive(Debug, Default)]
pub(crate) struct PairedObservations<'a> {
    pub(crate) arm: Vec<ArmObservation<'a>>,
    pub(crate) control: Vec<ArmObservation<'a>>,
}

impl<'a> PairedObservations<'a> {
    /// In blocks that are at once or not.
    pub(crate) fn new(blocks: &'a [RaceBlock], arm: &str, control: &str, at_once: bool) -> Self {
        let mut all = Self::default();
        let counts = |block: &&RaceBlock| block.counts() && block.is_at_once() == at_once;
        for block in blocks.iter().filter(counts) {
            let own = block.of(arm, control);
            if !own.is_empty() {
                all.arm.extend(own);
                all.control.extend(block.of(control, control));
            }
        }
        all
    }

    /// Mean host time of the arm's runs and of the control's, as shares of the control's median wall time.
    /// The mean, not the median: a host that takes time from three runs in ten affects the comparison.
    pub(crate) fn host_shares(&self) -> (f64, f64) {
        let wall = |one: &ArmObservation<'_>| match one {
            ArmObservation::Run(run) => run.amount(ComparedQuantity::Time),
            ArmObservation::Side(_) => 1.0,
        };
        let walls: Vec<f64> = self.control.iter().map(wall).collect();
        let wall = median(&walls).unwrap_or(1.0).max(1.0);
        let share = |runs: &[ArmObservation<'_>]| {
            runs.iter().map(ArmObservation::host_ns).sum::<f64>() / runs.len().max(1) as f64 / wall
        };
        (share(&self.arm), share(&self.control))
    }

    /// The arm's time as a share of the control's, with its interval. `None` without two runs of each.
    pub(crate) fn ratio(&self) -> Option<TimeRatio> {
        let logs = |runs: &[ArmObservation<'_>]| -> Option<Vec<f64>> {
            runs.iter().map(|run| run.log(ComparedQuantity::Time)).collect()
        };
        of_few_runs(&logs(&self.control)?, &logs(&self.arm)?)
    }

    /// CPU time per request of the arm as a share of the plain server's, with its interval, in windows in
    /// which no two servers shared their CPUs. `None` without two pairs.
    pub(crate) fn ratio_apart(&self) -> Option<TimeRatio> {
        let apart = |one: &ArmObservation<'_>| match one {
            ArmObservation::Side(side) => service::apart(side),
            ArmObservation::Run(_) => None,
        };
        let pairs = self.arm.iter().zip(&self.control);
        let differences: Option<Vec<f64>> =
            pairs.map(|(arm, control)| Some(apart(arm)? - apart(control)?)).collect();
        of_few_differences(&differences?)
    }

    /// How much more the arm needs in all its windows, as a sum of logarithms over its pairs.
    pub(crate) fn change(&self, quantity: ComparedQuantity) -> f64 {
        let change = |(own, control): (&ArmObservation<'_>, &ArmObservation<'_>)| {
            Some(own.log(quantity)? - control.log(quantity)?)
        };
        self.arm.iter().zip(&self.control).filter_map(change).sum()
    }

    /// Readings of the arm's counter.
    pub(crate) fn mechanism(&self, counter: RemedyCounter, arm: &str) -> MechanismReadings {
        if counter == RemedyCounter::None {
            return MechanismReadings::None;
        }
        MechanismReadings::Counter {
            arm: self.arm.iter().map(|one| one.counted(counter)).collect(),
            control: self.control.iter().filter_map(|one| one.idle(counter, arm)).collect(),
        }
    }

    /// The other costs of the arm, besides the deciding quantity. `middle` is the mean or the median.
    pub(crate) fn costs(&self, middle: fn(&[f64]) -> Option<f64>) -> ArmCosts {
        let of = |all: &[ArmObservation<'_>], read: &dyn Fn(&ArmObservation<'_>) -> f64| {
            middle(&all.iter().map(read).collect::<Vec<_>>())
        };
        let cpu = |all: &[ArmObservation<'_>]| {
            median(&all.iter().filter_map(ArmObservation::cpu_ns).collect::<Vec<_>>())
        };
        let cpu_ratio = match (cpu(&self.arm), cpu(&self.control)) {
            (Some(arm), Some(control)) if control > 0.0 => Some(arm / control),
            _ => None,
        };
        let memory: &dyn Fn(&ArmObservation<'_>) -> f64 = &|one| one.memory_bytes();
        let control_memory = of(&self.control, memory);
        let change = of(&self.arm, memory).zip(control_memory).map(|(arm, control)| arm - control);
        ArmCosts {
            cpu_ratio,
            peak_rss_change_bytes: change.map(|bytes| bytes.round() as i64),
            control_peak_rss_bytes: control_memory.map(|bytes| Bytes(bytes as u64)),
            supervisor_ns: of(&self.arm, &|one| one.supervisor_ns())
                .map_or(Nanos(0), Nanos::from_f64),
        }
    }
}

/// A sentence for each of these, control included, that ran at two speeds.
pub(crate) fn mode_warnings<'a>(
    blocks: &[RaceBlock],
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let warn = |name: &str| {
        let counting = blocks.iter().filter(|block| block.counts() && !block.is_at_once());
        let all = counting.flat_map(|block| match block {
            RaceBlock::Runs(_) => block.of(name, name),
            RaceBlock::Pair(_) => Vec::new(),
        });
        let own: Vec<f64> = all.filter_map(|one| one.log(ComparedQuantity::Time)).collect();
        let modes = find_two_modes(&own)?;
        Some(format!(
            "{name} runs at two speeds, {} and {} ({:.0}% of runs at the slower, {} changes)",
            Nanos::from_f64(modes.low.exp()),
            Nanos::from_f64(modes.high.exp()),
            modes.high_share * 100.0,
            modes.switches
        ))
    };
    names.into_iter().filter_map(warn).collect()
}
