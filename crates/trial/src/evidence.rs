//! From blocks to what a verdict rests on. Pure.

use crate::CONTROL_AGAIN;
use crate::confirmation::{DROPPED_CANARY, DROPPED_HOST, DROPPED_PARTIAL};
use crate::plan::{Arm, Plan};
use pagewise_judge::stats::{find_two_modes, median};
use pagewise_judge::verdict::{Blocks, Costs, Evidence, HOST_DROP_SHARE, Mechanism};
use pagewise_model::Nanos;
use pagewise_model::trial::{Block, Point};

/// A counted block as one arm sees it.
struct Triple<'a> {
    first: &'a Point,
    again: &'a Point,
    arm: &'a Point,
    host_control_ns: f64,
    host_arm_ns: f64,
}

/// The evidence on `arm` and its costs.
pub(crate) fn gather(
    arm: &Arm,
    plan: &Plan,
    blocks: &[Block],
    confirmed: usize,
    complete: bool,
) -> (Evidence, Costs) {
    let tally = tally(blocks, complete);
    let counts = |block: &&Block| match &block.dropped {
        None => true,
        Some(why) => tally.kept_host > 0 && why.starts_with(DROPPED_HOST),
    };
    let counted = blocks.iter().filter(counts);
    let triples: Vec<Triple<'_>> = counted.filter_map(|b| triple(b, arm, plan)).collect();
    let walls = triples.iter().flat_map(|t| [log_wall(t.first).exp(), log_wall(t.again).exp()]);
    let wall = median(&walls.collect::<Vec<_>>()).unwrap_or(1.0).max(1.0);
    let share = |of: fn(&Triple<'_>) -> f64| {
        median(&triples.iter().map(of).collect::<Vec<_>>()).unwrap_or(0.0) / wall
    };
    let evidence = Evidence {
        log_ratios: triples
            .iter()
            .map(|t| log_wall(t.arm) - f64::midpoint(log_wall(t.first), log_wall(t.again)))
            .collect(),
        control_log_ratios: triples.iter().map(|t| log_wall(t.again) - log_wall(t.first)).collect(),
        mechanism: mechanism(arm, &triples),
        output_equal: arm.barred.is_none(),
        arms_confirmed: u32::try_from(confirmed).unwrap_or(u32::MAX),
        host_share_arm: share(|t| t.host_arm_ns),
        host_share_control: share(|t| t.host_control_ns),
        blocks: tally,
    };
    let arms: Vec<&Point> = triples.iter().map(|t| t.arm).collect();
    let controls: Vec<&Point> = triples.iter().flat_map(|t| [t.first, t.again]).collect();
    (evidence, costs(&arms, &controls))
}

fn triple<'a>(block: &'a Block, arm: &Arm, plan: &Plan) -> Option<Triple<'a>> {
    let find = |name: &str| block.points.iter().position(|point| point.arm == name);
    let (first, again) = (find(&plan.control.0)?, find(CONTROL_AGAIN)?);
    let arm = find(&arm.id.0)?;
    let host = |at: usize| block.weather.host_by_point_ns.get(at).map_or(0.0, |ns| ns.0 as f64);
    Some(Triple {
        first: &block.points[first],
        again: &block.points[again],
        arm: &block.points[arm],
        host_control_ns: f64::midpoint(host(first), host(again)),
        host_arm_ns: host(arm),
    })
}

fn log_wall(point: &Point) -> f64 {
    (point.usage.wall_ns.0.max(1) as f64).ln()
}

fn mechanism(arm: &Arm, triples: &[Triple<'_>]) -> Mechanism {
    if !arm.counted {
        return Mechanism::None;
    }
    let idle = triples.iter().flat_map(|t| [t.first, t.again]);
    let idle = idle.flat_map(|p| &p.idle_mechanisms).filter(|(name, _)| *name == arm.id.0);
    Mechanism::Counter {
        arm: triples.iter().map(|t| t.arm.mechanism.unwrap_or(0)).collect(),
        control: idle.map(|(_, reading)| *reading).collect(),
    }
}

/// How the blocks fared. The host's blocks are dropped as long as they are few; dropping more
/// would choose the data, so then they all count, and the verdict sets the host's share of each
/// side against the effect.
fn tally(blocks: &[Block], complete: bool) -> Blocks {
    let dropped = |reason: &str| {
        let because = |b: &&Block| b.dropped.as_ref().is_some_and(|why| why.starts_with(reason));
        u32::try_from(blocks.iter().filter(because).count()).unwrap_or(u32::MAX)
    };
    let all = u32::try_from(blocks.len()).unwrap_or(u32::MAX);
    let (run, host) = (all - dropped(DROPPED_PARTIAL), dropped(DROPPED_HOST));
    let many = f64::from(host) > HOST_DROP_SHARE * f64::from(run);
    Blocks {
        run,
        dropped_canary: dropped(DROPPED_CANARY),
        dropped_host: if many { 0 } else { host },
        kept_host: if many { host } else { 0 },
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
