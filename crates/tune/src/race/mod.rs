//! Controlled experiments: which of several arms is faster than the control, and how certain is that?
//!
//! There is one race for programs, services and running processes. The [`RacePolicy`] plans a block. A
//! [`RaceSubject`] runs it and returns its observations. [`run`] repeats that until the policy has its answer or
//! the time is over. A race may be stopped at any moment and continued from its blocks.
//!
//! The race itself runs nothing and reads no clock. For programs ([`ProgramSubject`]), a [`RaceLab`] runs an arm once.
//!
//! Not seen: an effect that lasts beyond the run that caused it (the next run of another arm pays for it).
//! The random order turns that into noise, not into bias.

mod lab;
mod programs;

pub use lab::{RaceArms, RaceLab, RaceProgress, RunFailure, SystemTotals};
pub use pagewise_judge::race::{BlockUnit, RaceBlock, RaceGoal, RaceTerms};
pub use programs::ProgramSubject;

use crate::stop::SessionStop;
use pagewise_judge::race::{BlockRoom, PlannedBlock, RaceEntrant, RaceHalt, RacePolicy};
use pagewise_model::Nanos;
use pagewise_model::service::ServerPair;
use pagewise_model::trial::Experiment;

/// The race may exceed its time by one in this many parts of the whole budget, to finish a block.
const OVERRUN: u64 = 10;

/// A race before it begins.
#[derive(Debug, Clone)]
pub struct RacePlan {
    pub terms: RaceTerms,
    /// The arms, the most promising first: where time is short the last are left out.
    pub entrants: Vec<RaceEntrant>,
    /// Blocks of an earlier session that this one continues.
    pub earlier: Vec<RaceBlock>,
    /// Arms that it rejected, and why.
    pub rejected: Vec<(String, String)>,
    pub time: RaceTime,
    /// Runs that comparing the output of a first arm takes.
    pub compare_runs: u32,
}

/// The time of a race, by the clock of its subject.
#[derive(Debug, Clone, Copy)]
pub struct RaceTime {
    pub started: Nanos,
    /// Time for the whole session.
    pub budget: Nanos,
    /// What of it was left at the start.
    pub left: Nanos,
}

impl RaceTime {
    /// Time left before `overrun` beyond the time is used up as well.
    fn left(&self, now: Nanos, overrun: u64) -> u64 {
        let spent = now.0.saturating_sub(self.started.0);
        self.left.0.saturating_add(overrun).saturating_sub(spent)
    }

    pub(crate) fn left_ns(&self, now: Nanos) -> u64 {
        self.left(now, 0)
    }

    /// Stops when the time and a tenth of the budget are over.
    pub(crate) fn check(&self, now: Nanos) -> Result<(), RaceHalt> {
        if self.left(now, self.budget.0 / OVERRUN) == 0 { Err(RaceHalt::Budget) } else { Ok(()) }
    }
}

/// The result of running a block.
#[derive(Debug)]
pub struct BlockRun {
    /// `None` if nothing was observed.
    pub block: Option<RaceBlock>,
    /// Arms that must not run again, and why.
    pub failed: Vec<(usize, String)>,
    /// Why runs at once do not work.
    pub refused: Option<String>,
    /// Whether the race may go on.
    pub end: Result<(), RaceHalt>,
}

impl BlockRun {
    /// A pair that was run.
    pub(crate) fn of_pair(pair: ServerPair) -> Self {
        Self { block: Some(RaceBlock::Pair(pair)), ..Self::default() }
    }
}

impl Default for BlockRun {
    /// Nothing was seen.
    fn default() -> Self {
        Self { block: None, failed: Vec::new(), refused: None, end: Ok(()) }
    }
}

/// The clock of a component that runs things, and the connection to the user.
pub trait SessionClock {
    /// Time of a monotonic clock.
    fn now(&self) -> Nanos;
    /// The user asked to stop.
    fn interrupted(&self) -> bool;
}

/// The subject of a comparison: a program that ends, a server that is started for each pair, or a process
/// that runs.
pub trait RaceSubject: SessionClock {
    /// Runs a block.
    fn run(&mut self, order: &PlannedBlock, policy: &RacePolicy, time: &RaceTime) -> BlockRun;
    /// How many blocks at once may run side by side.
    fn most_side_by_side(&self) -> usize {
        1
    }
    /// Runs these blocks at once, side by side.
    fn run_side_by_side(
        &mut self,
        orders: &[PlannedBlock],
        policy: &RacePolicy,
        time: &RaceTime,
    ) -> Vec<BlockRun> {
        orders.iter().map(|order| self.run(order, policy, time)).collect()
    }
    /// The time that one run of an arm or of the control adds to its block. For a pair, the time of both
    /// sides.
    fn cost_ns(&self, arm: Option<usize>) -> u64;
    /// Compares the output of an arm with that of the control. Returns why the arm is rejected, if they
    /// differ.
    ///
    /// # Errors
    /// [`RunFailure`] if the outputs could not be compared.
    fn compare_output(&mut self, _arm: usize) -> Result<Option<String>, RunFailure> {
        Ok(None)
    }
    /// Makes an arm that combines all of these, if they are compatible.
    ///
    /// # Errors
    /// [`RunFailure`] if a trial for it could not be made. `Failed` only leaves the combination out.
    fn combine(&mut self, _arms: &[usize]) -> Result<Option<RaceEntrant>, RunFailure> {
        Ok(None)
    }
}

/// Runs the whole race. Also returns what halted it, unless it had its answer. A failure on the way becomes a
/// verdict or a warning: measurements are never lost. Pairs of servers are returned separately from the
/// experiment.
pub fn run(
    subject: &mut dyn RaceSubject,
    plan: RacePlan,
) -> (Experiment, Vec<ServerPair>, Option<RaceHalt>) {
    let mut policy = RacePolicy::new(plan.terms, plan.entrants, plan.earlier);
    for (name, why) in plan.rejected {
        // The guards judge all blocks again.
        if let Some(arm) = policy.number(&name).filter(|arm| policy.broken(*arm).is_none()) {
            policy.fail(arm, why);
        }
    }
    let halt = drive(subject, &mut policy, &plan.time, plan.compare_runs).err();
    let at_once = matches!(policy.blocks().last(), Some(RaceBlock::Runs(block)) if block.at_once);
    let beside = if at_once { subject.most_side_by_side().max(1) } else { 1 } as u64;
    let (experiment, pairs) = policy.conclude(halt.as_ref(), &|arm| subject.cost_ns(arm) / beside);
    (experiment, pairs, halt)
}

/// Races until the answer is clear; what halts it before.
fn drive(
    subject: &mut dyn RaceSubject,
    policy: &mut RacePolicy,
    time: &RaceTime,
    compare_runs: u32,
) -> Result<(), RaceHalt> {
    // Arms that an earlier session found likely.
    compare_outputs(subject, policy)?;
    // Who continues a session that has its answer asks for more.
    let mut asks_more = !policy.blocks().is_empty();
    while asks_more || !policy.is_decided() {
        asks_more = false;
        check(subject, time)?;
        let orders = {
            let now = subject.now();
            let cost_ns = |arm| subject.cost_ns(arm);
            let room = BlockRoom {
                left_ns: time.left_ns(now),
                // Half of the overrun is for the estimate of a block, half for a last block.
                block_ns: time.left(now, time.budget.0 / (2 * OVERRUN)),
                cost_ns: &cost_ns,
                side_by_side: subject.most_side_by_side().max(1) as u64,
                compare_runs,
            };
            next_blocks(policy, &room, subject.most_side_by_side())?
        };
        let done = if orders[0].at_once {
            subject.run_side_by_side(&orders, policy, time)
        } else {
            vec![subject.run(&orders[0], policy, time)]
        };
        for done in done {
            done.failed.into_iter().for_each(|(arm, why)| policy.fail(arm, why));
            if let Some(block) = done.block {
                policy.add(block);
            }
            if let Some(why) = done.refused {
                policy.run_in_turn(why);
            }
            done.end?;
        }
        if let Some(why) = policy.denied_at_once() {
            policy.run_in_turn(why.to_owned());
        }
        compare_outputs(subject, policy)?;
        combine(subject, policy)?;
    }
    Ok(())
}

/// The next block, or several of runs at once.
fn next_blocks(
    policy: &mut RacePolicy,
    room: &BlockRoom<'_>,
    most: usize,
) -> Result<Vec<PlannedBlock>, RaceHalt> {
    let mut orders = vec![policy.next_block(room).ok_or(RaceHalt::Budget)?];
    while orders.len() < most && orders[0].at_once {
        let Some(order) = policy.next_beside(room) else { break };
        orders.push(order);
    }
    Ok(orders)
}

/// Stops for the user and when the time is over.
fn check(subject: &(impl SessionClock + ?Sized), time: &RaceTime) -> Result<(), RaceHalt> {
    if subject.interrupted() {
        return Err(RaceHalt::Interrupted);
    }
    time.check(subject.now())
}

/// Has the outputs of arms compared that are likely to gain.
fn compare_outputs(subject: &mut dyn RaceSubject, policy: &mut RacePolicy) -> Result<(), RaceHalt> {
    for arm in policy.to_compare() {
        let differs = match subject.compare_output(arm) {
            Ok(why) => why,
            Err(RunFailure::Failed(why)) => {
                Some(format!("its output could not be compared: {why}"))
            }
            Err(other) => return Err(ours(other)),
        };
        policy.compared(arm, differs);
    }
    Ok(())
}

/// Lets combinations of the arms that gain most join.
fn combine(subject: &mut dyn RaceSubject, policy: &mut RacePolicy) -> Result<(), RaceHalt> {
    for arms in policy.to_combine() {
        match subject.combine(&arms) {
            Ok(Some(entrant)) => policy.join(entrant),
            Ok(None) | Err(RunFailure::Failed(_)) => {}
            Err(other) => return Err(ours(other)),
        }
    }
    Ok(())
}

/// How a stop of the session ends its race.
pub(crate) const fn halt(stop: &SessionStop) -> RaceHalt {
    match stop {
        SessionStop::Interrupted => RaceHalt::Interrupted,
        _ => RaceHalt::Session,
    }
}

/// Converts a failure that is not the arm's into the end of the experiment.
fn ours(failure: RunFailure) -> RaceHalt {
    match failure {
        RunFailure::Interrupted => RaceHalt::Interrupted,
        RunFailure::Failed(why) | RunFailure::NotAtOnce(why) | RunFailure::Broken(why) => {
            RaceHalt::Control(format!("the experiment could not continue: {why}"))
        }
    }
}
