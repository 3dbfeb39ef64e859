//! From blocks to what a verdict rests on. Pure.

use crate::CONTROL_AGAIN;
use crate::confirmation::{DROPPED_CANARY, DROPPED_PARTIAL};
use crate::plan::{Arm, Plan};
use pagewise_judge::stats::{BlockLogs, find_two_modes};
use pagewise_judge::verdict::{Blocks, Costs, Evidence, Mechanism};
use pagewise_model::Nanos;
use pagewise_model::measured::median;
use pagewise_model::trial::{Block, Point};

/// What the host's time may take from a run at most: a tree on several CPUs can have more of it
/// than the run took.
const LEAST_LEFT: f64 = 0.05;

/// A block as one arm sees it: the control, the control again, the arm, each with its host time.
struct Triple<'a>([(&'a Point, f64); 3]);

impl Triple<'_> {
    fn logs(&self) -> BlockLogs {
        self.0.map(|(point, _)| log_wall(point))
    }

    fn logs_without_host(&self) -> BlockLogs {
        self.0.map(|(point, host_ns)| {
            let wall = point.usage.wall_ns.0.max(1) as f64;
            (wall - host_ns).max(wall * LEAST_LEFT).ln()
        })
    }
}

/// The evidence on `arm` and its costs.
pub(crate) fn gather<'a>(
    arm: &Arm,
    plan: &Plan,
    blocks: &'a [Block],
    confirmed: usize,
    complete: bool,
) -> (Evidence, Costs) {
    let triples = |counts: fn(&Block) -> bool| -> Vec<Triple<'a>> {
        let counted = blocks.iter().filter(|block| counts(block));
        counted.filter_map(|block| triple(block, arm, plan)).collect()
    };
    let counted = triples(|block| block.dropped.is_none());
    let with_host = triples(|block| block.dropped.is_none() || block.host.is_some());
    let controls: Vec<(&'a Point, f64)> = counted.iter().flat_map(|t| [t.0[0], t.0[1]]).collect();
    let arms: Vec<(&'a Point, f64)> = counted.iter().map(|t| t.0[2]).collect();
    let walls: Vec<f64> = controls.iter().map(|(p, _)| p.usage.wall_ns.0 as f64).collect();
    let wall = median(&walls).unwrap_or(1.0).max(1.0);
    let evidence = Evidence {
        counted: counted.iter().map(Triple::logs).collect(),
        without_host: counted.iter().map(Triple::logs_without_host).collect(),
        with_host: with_host.iter().map(Triple::logs).collect(),
        mechanism: mechanism(arm, &arms, &controls),
        output_equal: arm.barred.is_none(),
        arms_confirmed: u32::try_from(confirmed).unwrap_or(u32::MAX),
        host_share_arm: mean_host(&arms) / wall,
        host_share_control: mean_host(&controls) / wall,
        blocks: tally(blocks, complete),
    };
    let points = |runs: Vec<(&'a Point, f64)>| -> Vec<&'a Point> {
        runs.into_iter().map(|(point, _)| point).collect()
    };
    (evidence, costs(&points(arms), &points(controls)))
}

/// The mean and not the median: a host that takes from three runs in ten takes from the comparison.
fn mean_host(runs: &[(&Point, f64)]) -> f64 {
    runs.iter().map(|(_, host_ns)| host_ns).sum::<f64>() / runs.len().max(1) as f64
}

fn triple<'a>(block: &'a Block, arm: &Arm, plan: &Plan) -> Option<Triple<'a>> {
    let find = |name: &str| {
        let at = block.points.iter().position(|point| point.arm == name)?;
        let host = block.weather.host_by_point_ns.get(at).map_or(0.0, |ns| ns.0 as f64);
        Some((&block.points[at], host))
    };
    Some(Triple([find(&plan.control.0)?, find(CONTROL_AGAIN)?, find(&arm.id.0)?]))
}

fn log_wall(point: &Point) -> f64 {
    (point.usage.wall_ns.0.max(1) as f64).ln()
}

fn mechanism(arm: &Arm, arms: &[(&Point, f64)], controls: &[(&Point, f64)]) -> Mechanism {
    if !arm.counted {
        return Mechanism::None;
    }
    let idle = controls.iter().flat_map(|(point, _)| &point.idle_mechanisms);
    let idle = idle.filter(|(name, _)| *name == arm.id.0);
    Mechanism::Counter {
        arm: arms.iter().map(|(point, _)| point.mechanism.unwrap_or(0)).collect(),
        control: idle.map(|(_, reading)| *reading).collect(),
    }
}

/// How the blocks fared.
fn tally(blocks: &[Block], complete: bool) -> Blocks {
    let count = |of: &dyn Fn(&Block) -> bool| {
        u32::try_from(blocks.iter().filter(|block| of(block)).count()).unwrap_or(u32::MAX)
    };
    let because = |block: &Block, reason: &str| {
        block.dropped.as_ref().is_some_and(|why| why.starts_with(reason))
    };
    Blocks {
        run: count(&|block| !because(block, DROPPED_PARTIAL)),
        dropped_canary: count(&|block| because(block, DROPPED_CANARY)),
        dropped_host: count(&|block| block.host.is_some() && block.dropped.is_some()),
        kept_host: count(&|block| block.host.is_some() && block.dropped.is_none()),
        complete,
    }
}

/// What runs of an arm cost beside time.
pub(crate) fn costs(arm: &[&Point], control: &[&Point]) -> Costs {
    let middle = |points: &[&Point], of: fn(&Point) -> f64| {
        median(&points.iter().map(|point| of(point)).collect::<Vec<_>>())
    };
    let cpu = |point: &Point| point.usage.cpu_ns().0 as f64;
    let peak = |point: &Point| point.usage.peak_rss_bytes.0 as f64;
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

/// A sentence for each arm, control included, that ran at two speeds.
pub(crate) fn mode_warnings(plan: &Plan, confirmed: &[Arm], blocks: &[Block]) -> Vec<String> {
    let names = std::iter::once(&plan.control).chain(confirmed.iter().map(|arm| &arm.id));
    let warn = |name: &crate::ArmId| {
        let counted = blocks.iter().filter(|block| block.dropped.is_none());
        let points = counted.flat_map(|block| &block.points);
        let own = points.filter(|point| {
            point.arm == name.0 || (*name == plan.control && point.arm == CONTROL_AGAIN)
        });
        let modes = find_two_modes(&own.map(log_wall).collect::<Vec<_>>())?;
        Some(format!(
            "{name} runs at two speeds, {} and {} ({:.0}% of runs at the slower, {} changes)",
            Nanos::from_f64(modes.low.exp()),
            Nanos::from_f64(modes.high.exp()),
            modes.high_share * 100.0,
            modes.switches
        ))
    };
    names.filter_map(warn).collect()
}
