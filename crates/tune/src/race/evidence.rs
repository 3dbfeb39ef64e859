//! From blocks to what a verdict rests on. Pure.

use crate::world::Arm;
use pagewise_judge::mechanism::Mechanism;
use pagewise_judge::race::{BlockTimes, Costs, Slopes, Speeds};
use pagewise_judge::stats::find_two_modes;
use pagewise_model::Nanos;
use pagewise_model::measured::median;
use pagewise_model::trial::{Block, Point, Quantity};
use std::collections::BTreeMap;

/// What the host's time may take from a run at most: a tree on several CPUs can have more of it
/// than the run took.
const LEAST_LEFT: f64 = 0.05;

/// A point with the host's time in it.
pub(crate) type Hosted<'a> = (&'a Point, f64);

/// The points of a block with the host's time of each.
fn hosted(block: &Block) -> impl Iterator<Item = Hosted<'_>> {
    let host = |at: usize| block.weather.host_by_point_ns.get(at).map_or(0.0, |ns| ns.0 as f64);
    block.points.iter().enumerate().map(move |(at, point)| (point, host(at)))
}

/// Points of one arm in the blocks that count and in which `beside` ran, too.
pub(crate) fn points<'a>(blocks: &'a [Block], arm: &str, beside: &str) -> Vec<Hosted<'a>> {
    let ran = |block: &&Block| block.points.iter().any(|point| point.arm == beside);
    let counting = blocks.iter().filter(|block| block.dropped.is_none()).filter(ran);
    counting.flat_map(hosted).filter(|(point, _)| point.arm == arm).collect()
}

/// What is read of a run.
pub(crate) type Reading<'a> = &'a dyn Fn(Hosted<'_>) -> f64;

/// A block as a race takes it: `read` of its runs, of the control and of the arms of these numbers.
pub(crate) fn block_times(
    block: &Block,
    control: &str,
    arms: &[(usize, &Arm)],
    read: Reading<'_>,
) -> BlockTimes {
    let of = |name: &str| -> Vec<f64> {
        hosted(block).filter(|(point, _)| point.arm == name).map(read).collect()
    };
    BlockTimes {
        control: of(control),
        arms: arms.iter().map(|(at, arm)| (*at, of(&arm.name))).collect(),
    }
}

/// Learns from a block how runs go with the speeds meanwhile, arm by arm.
pub(crate) fn learn(slopes: &mut Slopes, quantity: Quantity, block: &Block) {
    let mut runs: BTreeMap<&str, Vec<(Speeds, f64)>> = BTreeMap::new();
    for point in &block.points {
        runs.entry(&point.arm).or_default().push((log_speeds(point), log_of(quantity, point)));
    }
    runs.values().for_each(|runs| slopes.learn(runs));
}

/// The speeds were sampled beside each run.
pub(crate) fn has_speeds(block: &Block) -> bool {
    block.points.iter().all(|point| point.usage.speed.is_some())
}

/// Logarithms of what was sampled beside a run; zeros where nothing was.
pub(crate) fn log_speeds(point: &Point) -> Speeds {
    let log = |ns: f64| ns.max(f64::MIN_POSITIVE).ln();
    point.usage.speed.map_or([0.0; 2], |speed| [log(speed.round_ns), log(speed.load_ns)])
}

/// What decides, of a run: nanoseconds or bytes.
fn amount(quantity: Quantity, point: &Point) -> f64 {
    let amount = match quantity {
        Quantity::Memory => point.usage.peak_memory().0,
        Quantity::Cpu => point.usage.cpu_ns().0,
        _ => point.usage.wall_ns.0,
    };
    amount.max(1) as f64
}

pub(crate) fn log_of(quantity: Quantity, point: &Point) -> f64 {
    amount(quantity, point).ln()
}

pub(crate) fn log_without_host(quantity: Quantity, (point, host_ns): Hosted<'_>) -> f64 {
    let amount = amount(quantity, point);
    match quantity {
        Quantity::Memory => amount.ln(),
        _ => (amount - host_ns).max(amount * LEAST_LEFT).ln(),
    }
}

/// The mean and not the median: a host that takes from three runs in ten takes from the comparison.
/// As a share of the control's median wall time.
pub(crate) fn host_share(runs: &[Hosted<'_>], controls: &[Hosted<'_>]) -> f64 {
    let walls: Vec<f64> = controls.iter().map(|(p, _)| p.usage.wall_ns.0 as f64).collect();
    let wall = median(&walls).unwrap_or(1.0).max(1.0);
    runs.iter().map(|(_, host_ns)| host_ns).sum::<f64>() / runs.len().max(1) as f64 / wall
}

pub(crate) fn mechanism(arm: &Arm, arms: &[Hosted<'_>], controls: &[Hosted<'_>]) -> Mechanism {
    if arm.mechanism.is_empty() {
        return Mechanism::None;
    }
    let idle = controls.iter().flat_map(|(point, _)| &point.idle_mechanisms);
    let idle = idle.filter(|(name, _)| *name == arm.name);
    Mechanism::Counter {
        arm: arms.iter().map(|(point, _)| point.mechanism.unwrap_or(0)).collect(),
        control: idle.map(|(_, reading)| *reading).collect(),
    }
}

/// What runs of an arm cost beside time.
pub(crate) fn costs(arm: &[Hosted<'_>], control: &[Hosted<'_>]) -> Costs {
    let middle = |points: &[Hosted<'_>], of: fn(&Point) -> f64| {
        median(&points.iter().map(|(point, _)| of(point)).collect::<Vec<_>>())
    };
    let cpu = |point: &Point| point.usage.cpu_ns().0 as f64;
    let peak = |point: &Point| point.usage.peak_memory().0 as f64;
    let cpu_ratio = match (middle(arm, cpu), middle(control, cpu)) {
        (Some(arm), Some(control)) if control > 0.0 => Some(arm / control),
        _ => None,
    };
    let control_peak = middle(control, peak);
    let change = middle(arm, peak).zip(control_peak).map(|(arm, control)| arm - control);
    Costs {
        cpu_ratio,
        peak_rss_change_bytes: change.map(|bytes| bytes.round() as i64),
        control_peak_rss_bytes: control_peak.map(|bytes| pagewise_model::Bytes(bytes as u64)),
        supervisor_ns: middle(arm, |point| point.supervisor_ns.0 as f64)
            .map_or(Nanos(0), Nanos::from_f64),
    }
}

/// A sentence for each of these, control included, that ran at two speeds.
pub(crate) fn mode_warnings<'a>(
    blocks: &[Block],
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let warn = |name: &str| {
        let own: Vec<f64> = points(blocks, name, name)
            .into_iter()
            .map(|(point, _)| log_of(Quantity::Time, point))
            .collect();
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
