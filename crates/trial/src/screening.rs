//! Screening: two runs of every arm and of the control, in random order, to drop the hopeless
//! and to learn what a block will take. Its runs prove nothing.
//!
//! Arms are ranked by the mean of their two runs: a program that runs in two modes (its processes
//! on one CPU or on two) has a best run that says little. Hopeless is told by the better run,
//! since disturbances only add time.

use crate::bench::{ArmId, Bench, RunFailure, Stage};
use crate::plan::{Arm, Kind, Plan, SCREENING_RUNS, Sizing};
use crate::runner::{Halt, Runner, Tally, ours};
use pagewise_judge::stats::pooled_sd;
use pagewise_model::Nanos;
use pagewise_model::trial::Point;
use std::collections::HashMap;

/// An arm is hopeless when both runs are slower than the control's best by this.
const HOPELESS_SHARE: f64 = 0.15;
/// ... or by this many deviations, where runs scatter so much that 15% says little.
const HOPELESS_DEVIATIONS: f64 = 4.0;

/// Why a combination that could be confirmed is not.
const NO_ROOM: &str = "the budget has no room for the combination beside its parts";

/// What screening saw.
#[derive(Debug, Default)]
pub(crate) struct Screening {
    pub(crate) points: Vec<Point>,
    /// Time that the canaries of a block took, all rounds together.
    canary_ns: u64,
    rounds: u32,
    /// Clock time of the runs of each arm, start and reaping included.
    clock_ns: HashMap<String, Vec<u64>>,
}

impl Screening {
    /// Runs it, as far as nothing halts it.
    pub(crate) fn run<B: Bench>(runner: &mut Runner<'_, B>) -> (Self, Option<Halt>) {
        let mut screening = Self::default();
        let halt = screening.run_rounds(runner).err();
        (screening, halt)
    }

    fn run_rounds<B: Bench>(&mut self, runner: &mut Runner<'_, B>) -> Result<(), Halt> {
        let arms = runner.plan.arms.iter().filter(|arm| arm.barred.is_none());
        let mut ids: Vec<ArmId> = arms.map(|arm| arm.id.clone()).collect();
        ids.push(runner.plan.control.clone());
        let per_round = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        let total = per_round.saturating_mul(SCREENING_RUNS);
        for round in 0..SCREENING_RUNS {
            let before = runner.bench.now();
            runner.check()?;
            // Taken as in a block, so that the cost of a block is known.
            for _ in 0..2 {
                runner.bench.canary();
                runner.bench.weather();
            }
            self.canary_ns += runner.bench.now().0.saturating_sub(before.0);
            self.rounds += 1;
            runner.rng.shuffle(&mut ids);
            for (id, place) in ids.iter().zip(0..) {
                let done = round * per_round + place;
                let tally = Tally { stage: Stage::Screening, done, total };
                let before = runner.bench.now();
                if let Some(point) = runner.point(id, tally)? {
                    let took = runner.bench.now().0.saturating_sub(before.0);
                    self.clock_ns.entry(id.0.clone()).or_default().push(took);
                    self.points.push(point);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn points_of(&self, arm: &ArmId) -> Vec<&Point> {
        self.points.iter().filter(|point| point.arm == arm.0).collect()
    }

    /// The better run of an arm.
    pub(crate) fn best_ns(&self, arm: &ArmId) -> Option<f64> {
        let walls = self.points_of(arm).into_iter().map(|point| point.usage.wall_ns.0);
        walls.min().map(|wall| wall.max(1) as f64)
    }

    /// Geometric mean of an arm's runs and of `earlier` ones.
    fn typical_ns(&self, arm: &ArmId, earlier: &[Nanos]) -> Option<f64> {
        let own = self.points_of(arm);
        let walls = own.iter().map(|point| &point.usage.wall_ns).chain(earlier);
        let logs: Vec<f64> = walls.map(|wall| (wall.0.max(1) as f64).ln()).collect();
        let mean = logs.iter().sum::<f64>() / logs.len() as f64;
        (!own.is_empty()).then(|| mean.exp())
    }

    /// Gain of an arm over the control, whose earlier runs count too, as a share.
    pub(crate) fn gain(&self, arm: &ArmId, plan: &Plan) -> Option<f64> {
        let control = self.typical_ns(&plan.control, &plan.look_wall_ns)?;
        Some(1.0 - self.typical_ns(arm, &[])? / control)
    }

    /// Run-to-run deviation of the logarithm of the time, earlier runs of the control included.
    pub(crate) fn run_sd(&self, look_wall_ns: &[Nanos]) -> Option<f64> {
        let log = |wall: Nanos| (wall.0.max(1) as f64).ln();
        let mut groups: HashMap<&str, Vec<f64>> = HashMap::new();
        for point in &self.points {
            groups.entry(&point.arm).or_default().push(log(point.usage.wall_ns));
        }
        let mut groups: Vec<Vec<f64>> = groups.into_values().collect();
        groups.push(look_wall_ns.iter().map(|wall| log(*wall)).collect());
        // Summed in a fixed order: the design must not depend on the order of a hash table.
        groups.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
        pooled_sd(&groups)
    }

    fn clock_of(&self, arm: &ArmId) -> Option<f64> {
        let runs = self.clock_ns.get(&arm.0)?;
        Some(runs.iter().sum::<u64>() as f64 / runs.len() as f64)
    }

    /// What a block with these arms takes; an arm not run yet (a combination) is taken to run as
    /// long as the control.
    pub(crate) fn block_ns(&self, arms: &[Arm], control: &ArmId) -> f64 {
        let control_ns = self.clock_of(control).unwrap_or(0.0);
        let arms_ns: f64 =
            arms.iter().map(|arm| self.clock_of(&arm.id).unwrap_or(control_ns)).sum();
        let canaries = self.canary_ns as f64 / f64::from(self.rounds.max(1));
        2.0 * control_ns + arms_ns + canaries
    }

    /// Why an arm cannot be worth confirming, if so.
    pub(crate) fn hopeless(&self, arm: &ArmId, control: &ArmId, sd: Option<f64>) -> Option<String> {
        let slower = self.best_ns(arm)? / self.best_ns(control)?;
        let limit = (1.0 + HOPELESS_SHARE).max((HOPELESS_DEVIATIONS * sd.unwrap_or(0.0)).exp());
        (slower > limit).then(|| {
            let slower = (slower - 1.0) * 100.0;
            format!(
                "dropped in screening: its better run was {slower:.0}% slower than the control's"
            )
        })
    }
}

/// The arms to confirm, and why each of the others is not.
pub(crate) struct Choice {
    pub(crate) confirmed: Vec<Arm>,
    pub(crate) dropped: Vec<(Arm, String)>,
    pub(crate) sizing: Sizing,
}

/// Chooses the arms and the number of blocks; `complete` says that screening was not halted. What
/// is tried for a combination may halt the experiment.
pub(crate) fn choose<B: Bench>(
    runner: &mut Runner<'_, B>,
    screening: &Screening,
    complete: bool,
) -> (Choice, Option<Halt>) {
    let plan = runner.plan;
    let run_sd = screening.run_sd(&plan.look_wall_ns);
    let size = |runner: &Runner<'_, B>, arms: &[Arm]| Sizing {
        arms: u32::try_from(arms.len()).unwrap_or(u32::MAX).max(1),
        spent_ns: runner.spent_ns() as f64,
        block_ns: screening.block_ns(arms, &plan.control),
        run_sd,
        fixed: plan.blocks,
    };
    let alive =
        plan.arms.iter().filter(|a| a.barred.is_none() && !runner.failed.contains_key(&a.id));
    let alive: Vec<Arm> = alive.cloned().collect();
    if plan.kind == Kind::Direct {
        let sizing = size(runner, &alive);
        return (Choice { confirmed: alive, dropped: Vec::new(), sizing }, None);
    }
    let (ranked, mut dropped) = rank(alive, screening, &plan.control, run_sd);
    let gain = |arm: &Arm| screening.gain(&arm.id, plan).unwrap_or(f64::NEG_INFINITY);
    let mut confirmed = shortlist(&ranked, gain);
    let mut halt = None;
    if let (true, [first, second]) = (complete, confirmed.as_slice()) {
        match combine(runner, first, second) {
            Ok(Combination::Fit(arm)) => confirmed.push(arm),
            Ok(Combination::Unfit(arm, why)) => dropped.push((arm, why)),
            Ok(Combination::None) => {}
            Err(why) => halt = Some(why),
        }
    }
    let wanted = ranked.first().map_or(0.0, gain);
    // Fewer arms leave more blocks and a milder p for the best one.
    let mut sizing = size(runner, &confirmed);
    while confirmed.len() > 1 && !serves(&sizing, plan.budget, wanted) {
        let cut = confirmed.pop().filter(|arm| !ranked.contains(arm));
        dropped.extend(cut.map(|both| (both, NO_ROOM.to_owned())));
        sizing = size(runner, &confirmed);
    }
    for arm in ranked.into_iter().filter(|arm| !confirmed.contains(arm)) {
        let why = screened_only(gain(&arm));
        dropped.push((arm, why));
    }
    (Choice { confirmed, dropped, sizing }, halt)
}

/// The arms with a chance, best first, and the hopeless with the reason.
fn rank(
    alive: Vec<Arm>,
    screening: &Screening,
    control: &ArmId,
    run_sd: Option<f64>,
) -> (Vec<Arm>, Vec<(Arm, String)>) {
    let mut ranked = Vec::new();
    let mut hopeless = Vec::new();
    for arm in alive {
        match screening.hopeless(&arm.id, control, run_sd) {
            Some(why) => hopeless.push((arm, why)),
            None => ranked.push(arm),
        }
    }
    let time = |arm: &Arm| screening.typical_ns(&arm.id, &[]).unwrap_or(f64::INFINITY);
    ranked.sort_by(|a, b| time(a).total_cmp(&time(b)));
    (ranked, hopeless)
}

/// The best arm, and the second if it gained.
fn shortlist(ranked: &[Arm], gain: impl Fn(&Arm) -> f64) -> Vec<Arm> {
    let best = ranked.iter().take(1);
    best.chain(ranked.iter().skip(1).take(1).filter(|arm| gain(arm) > 0.0)).cloned().collect()
}

/// What two arms make together.
enum Combination {
    /// They do not go together.
    None,
    /// An arm to confirm.
    Fit(Arm),
    /// One that is not confirmed, and why.
    Unfit(Arm, String),
}

fn combine<B: Bench>(
    runner: &mut Runner<'_, B>,
    first: &Arm,
    second: &Arm,
) -> Result<Combination, Halt> {
    match runner.bench.combine(&first.id, &second.id) {
        Ok(None) => Ok(Combination::None),
        Ok(Some(arm)) => Ok(match arm.barred.clone() {
            Some(why) => Combination::Unfit(arm, why),
            None => Combination::Fit(arm),
        }),
        Err(RunFailure::Failed(why)) => {
            let id = ArmId(format!("{} with {}", first.id, second.id));
            let arm = Arm { id, counted: false, barred: None };
            Ok(Combination::Unfit(arm, format!("it failed: {why}")))
        }
        Err(other) => Err(ours(other)),
    }
}

/// These blocks allow a proof even if some do not count, and of the gain hoped for where the spread
/// is known.
fn serves(sizing: &Sizing, budget: Nanos, wanted: f64) -> bool {
    sizing.has_spare_blocks(budget)
        && sizing.provable(budget).is_none_or(|provable| provable <= wanted)
}

fn screened_only(gain: f64) -> String {
    if !gain.is_finite() {
        return "its screening was not reached".to_owned();
    }
    let (size, word) = (gain.abs() * 100.0, if gain >= 0.0 { "faster" } else { "slower" });
    format!("{size:.1}% {word} in two runs, but another arm did better")
}
