//! Confirmation: fresh blocks of the control twice and every arm once, in random order.
//!
//! The number of blocks that are to count is fixed before the first: one in which the speed of the
//! CPU moved is run again while the budget lasts. Blocks end early only for the user or when the
//! budget and a tenth of it are used up. All of this is blind to the outcome. A partial block does
//! not count.

use crate::CONTROL_AGAIN;
use crate::bench::{ArmId, Bench, Canary, Stage, WeatherMark};
use crate::plan::Arm;
use crate::runner::{Halt, Runner, Tally};
use pagewise_model::Nanos;
use pagewise_model::measured::median;
use pagewise_model::trial::{Block, Point, Weather};

/// Register canary: how far from the session's median it may move.
const CANARY_LIMIT: f64 = 0.05;
/// Host time: how far the runs of a block may differ, as a share of their median time.
const HOST_LIMIT: f64 = 0.05;
/// Most blocks that may be dropped because of the host, as a share of those finished: dropping more
/// would choose the data, so then all of them count.
const HOST_DROP_SHARE: f64 = 0.2;
/// Beginning of the reason of a block dropped by the register canary.
pub(crate) const DROPPED_CANARY: &str = "the speed of the CPU moved";
/// The reason of a block that was not finished.
pub(crate) const DROPPED_PARTIAL: &str = "not finished";

/// Runs until `planned` blocks count; what halted them before so many were run, if anything did.
pub(crate) fn run<B: Bench>(
    runner: &mut Runner<'_, B>,
    arms: &[Arm],
    planned: u32,
) -> (Vec<Block>, Option<Halt>) {
    let mut blocks = Vec::new();
    let mut canaries = Vec::new();
    let mut halt = None;
    let started = runner.spent_ns();
    let (mut done, mut wanted) = (0, planned);
    while done < wanted {
        let mean = (runner.spent_ns() - started) / u64::from(done.max(1));
        if done > 0 && mean > runner.allowance_ns() {
            halt = Some(Halt::Budget);
            break;
        }
        let tally = Tally { stage: Stage::Confirmation, done, total: wanted };
        let mut block =
            Block { points: vec![], weather: Weather::default(), dropped: None, host: None };
        let ended = run_block(runner, arms, tally, &mut block, &mut canaries);
        if !block.points.is_empty() {
            blocks.push(block);
        }
        if arms.iter().all(|arm| runner.failed.contains_key(&arm.id)) {
            break;
        }
        if let Err(why) = ended {
            halt = Some(why);
            break;
        }
        done += 1;
        if done == wanted {
            relate_canaries(&mut blocks, &canaries);
            let moved = blocks.iter().filter(|block| speed_moved(block) > CANARY_LIMIT).count();
            wanted = (planned + u32::try_from(moved).unwrap_or(0)).clamp(wanted, 2 * planned);
        }
    }
    relate_canaries(&mut blocks, &canaries);
    gate(&mut blocks);
    // A budget that ends among the blocks run again has held all that were planned.
    (blocks, halt.filter(|why| done < planned || *why != Halt::Budget))
}

fn run_block<B: Bench>(
    runner: &mut Runner<'_, B>,
    arms: &[Arm],
    tally: Tally,
    block: &mut Block,
    canaries: &mut Vec<[Canary; 2]>,
) -> Result<(), Halt> {
    runner.check()?;
    let control = runner.plan.control.clone();
    let mut order: Vec<(ArmId, bool)> = vec![(control.clone(), false), (control, true)];
    order.extend(arms.iter().map(|arm| (arm.id.clone(), false)));
    runner.rng.shuffle(&mut order);
    let before = runner.bench.canary();
    let mark = runner.bench.weather();
    let begun = runner.bench.now();
    let mut ended = Ok(());
    for (id, again) in order {
        match runner.point(&id, tally) {
            Ok(Some(point)) => record(runner, point, again, block),
            Ok(None) => {}
            Err(halt) => {
                block.dropped = Some(DROPPED_PARTIAL.to_owned());
                ended = Err(halt);
                break;
            }
        }
    }
    let elapsed = runner.bench.now().0.saturating_sub(begun.0);
    let after = runner.bench.weather();
    describe_weather(&mut block.weather, mark, after, elapsed);
    let pair = [before, runner.bench.canary()];
    if !block.points.is_empty() {
        canaries.push(pair);
    }
    ended
}

fn record<B: Bench>(runner: &mut Runner<'_, B>, point: Point, again: bool, block: &mut Block) {
    let host = runner.bench.host_ns(&point);
    block.weather.host_by_point_ns.push(host);
    block.weather.host_ns += host;
    let arm = if again { CONTROL_AGAIN.to_owned() } else { point.arm };
    block.points.push(Point { arm, ..point });
}

fn describe_weather(weather: &mut Weather, from: WeatherMark, to: WeatherMark, elapsed: u64) {
    let share = |from: Option<Nanos>, to: Option<Nanos>| {
        Some(to?.0.saturating_sub(from?.0) as f64 / elapsed.max(1) as f64)
    };
    weather.steal_ns = Nanos(to.steal_ns.0.saturating_sub(from.steal_ns.0));
    weather.cpu_pressure_share = share(from.cpu_stall_ns, to.cpu_stall_ns);
    weather.memory_pressure_share = share(from.memory_stall_ns, to.memory_stall_ns);
}

/// Writes each block's canaries relative to the median of all.
fn relate_canaries(blocks: &mut [Block], canaries: &[[Canary; 2]]) {
    let of = |read: fn(&Canary) -> Nanos| {
        let all: Vec<f64> = canaries.iter().flatten().map(|c| read(c).0 as f64).collect();
        let usual = median(&all).unwrap_or(1.0).max(1.0);
        move |canary: &Canary| read(canary).0 as f64 / usual
    };
    let register = of(|canary| canary.register_ns);
    let memory = of(|canary| canary.memory_ns);
    for (block, pair) in blocks.iter_mut().zip(canaries) {
        block.weather.canary_ratio = pair.iter().map(&register).collect();
        block.weather.memory_canary_ratio = pair.iter().map(&memory).collect();
    }
}

/// Drops the blocks that the machine spoiled, and names why; those of the host as long as they
/// are few.
fn gate(blocks: &mut [Block]) {
    for block in blocks.iter_mut().filter(|block| block.dropped.is_none()) {
        let moved = speed_moved(block);
        let host = host_difference(block);
        if moved > CANARY_LIMIT {
            block.dropped = Some(format!("{DROPPED_CANARY} by {:.0}%", moved * 100.0));
        } else if host > HOST_LIMIT {
            block.host = Some(format!("the host interfered for {:.0}% of a run", host * 100.0));
        }
    }
    let finished = |block: &&Block| block.dropped.as_deref() != Some(DROPPED_PARTIAL);
    let most = HOST_DROP_SHARE * blocks.iter().filter(finished).count() as f64;
    if blocks.iter().filter(|block| block.host.is_some()).count() as f64 <= most {
        for block in blocks.iter_mut().filter(|block| block.host.is_some()) {
            block.dropped.clone_from(&block.host);
        }
    }
}

/// How far the register canary of a block was from the usual, as a share.
fn speed_moved(block: &Block) -> f64 {
    let moved = block.weather.canary_ratio.iter().map(|ratio| (ratio - 1.0).abs());
    moved.fold(0.0, f64::max)
}

fn host_difference(block: &Block) -> f64 {
    let host = &block.weather.host_by_point_ns;
    let walls: Vec<f64> = block.points.iter().map(|p| p.usage.wall_ns.0 as f64).collect();
    match (host.iter().min(), host.iter().max(), median(&walls)) {
        (Some(least), Some(most), Some(wall)) => (most.0 - least.0) as f64 / wall.max(1.0),
        _ => 0.0,
    }
}
