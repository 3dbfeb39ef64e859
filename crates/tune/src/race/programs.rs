//! Programs that end as the subject of a race: one fresh run at a time, in the order of the block. Watches for
//! what ends an experiment or an arm: failures, other exit statuses, the user, the end of the time.

use super::lab::{RaceArms, RaceLab, RaceProgress, RunFailure, SystemTotals};
use super::{BlockRun, RaceSubject, RaceTime, SessionClock, ours};
use crate::at_once;
use crate::world::ProgramArm;
use pagewise_judge::race::{
    PlannedBlock, RaceBlock, RaceEntrant, RaceHalt, RacePolicy, RemedyCounter,
};
use pagewise_model::Nanos;
use pagewise_model::trial::{self, ArmRun, SystemLoad};
use pagewise_model::usage::ProgramEnd;
use std::collections::BTreeMap;

/// The reason of a block that was not finished.
const NOT_FINISHED: &str = "not finished";

fn entrant(arm: &ProgramArm) -> RaceEntrant {
    let counter = if arm.mechanism.is_empty() { RemedyCounter::None } else { RemedyCounter::OfRun };
    let (name, barred) = (arm.name.clone(), arm.barred.clone());
    RaceEntrant { name, counter, barred, at_once: at_once::is_apart(arm) }
}

/// A program and its arms, which `L` runs.
#[allow(missing_debug_implementations, reason = "what runs them may reach anywhere")]
pub struct ProgramSubject<L> {
    pub lab: L,
    pub arms: RaceArms,
    /// Usual time from one run to the next, before any.
    pub run_ns: Nanos,
    /// The extra time for having memory in place for other runs beside it.
    pub beside_ns: Nanos,
    runs: u32,
    /// Clock time of the runs of each arm at once and one at a time, including start and reaping: sum and
    /// number.
    clock: BTreeMap<(Option<usize>, bool), (u64, u64)>,
    endings: RunEndings,
}

/// Why a block ended early.
enum BlockEnd {
    Halt(RaceHalt),
    /// Runs at once do not work.
    Refused(String),
}

impl BlockEnd {
    fn of(failure: RunFailure) -> Self {
        match failure {
            RunFailure::NotAtOnce(why) => Self::Refused(why),
            other => Self::Halt(ours(other)),
        }
    }
}

/// A point with the time that the host took of it.
type Hosted = (ArmRun, Nanos);

/// How runs ended.
#[derive(Default)]
struct RunEndings {
    /// The control.
    expected: Option<ProgramEnd>,
    /// Runs before the first of the control.
    pending: Vec<(usize, ProgramEnd)>,
    /// Arms that failed, with the reason.
    failed: BTreeMap<usize, String>,
}

impl RunEndings {
    /// Compares how a run ended with how the control does.
    fn check(&mut self, arm: Option<usize>, ended: ProgramEnd) -> Result<(), RaceHalt> {
        match (arm, self.expected) {
            (None, None) => self.expected = Some(ended),
            (None, Some(expected)) if ended != expected => {
                return Err(RaceHalt::Control(format!(
                    "the reference first ended with {expected}, later with {ended}"
                )));
            }
            (None, Some(_)) => {}
            (Some(arm), _) => self.pending.push((arm, ended)),
        }
        let Some(expected) = self.expected else { return Ok(()) };
        for (arm, ended) in self.pending.drain(..).filter(|(_, ended)| *ended != expected) {
            let why = format!("it ended with {ended}, the reference with {expected}");
            self.failed.entry(arm).or_insert(why);
        }
        Ok(())
    }

    fn has_failed(&self, arm: Option<usize>) -> bool {
        arm.is_some_and(|arm| self.failed.contains_key(&arm))
    }
}

impl<L> ProgramSubject<L> {
    /// Without arms, and before any run.
    #[must_use]
    pub fn new(lab: L, control: ProgramArm) -> Self {
        Self {
            lab,
            arms: RaceArms { control, tried: Vec::new() },
            run_ns: Nanos(0),
            beside_ns: Nanos(0),
            runs: 0,
            clock: BTreeMap::new(),
            endings: RunEndings::default(),
        }
    }

    /// The arms as the policy knows them.
    #[must_use]
    pub fn entrants(&self) -> Vec<RaceEntrant> {
        self.arms.tried.iter().map(entrant).collect()
    }
}

impl<L: RaceLab> ProgramSubject<L> {
    /// Shows the user what runs now.
    fn progress(&mut self, arm: Option<usize>, policy: &RacePolicy, time: &RaceTime) {
        let left_ns = Nanos(time.left_ns(self.lab.now()));
        let standings = || policy.standings();
        let (runs, arm) = (self.runs, policy.name(arm));
        self.lab.progress(&RaceProgress { runs, left_ns, arm, standings: &standings });
    }

    /// Records the time of a run of an arm, at once or not.
    fn took(&mut self, arm: Option<usize>, at_once: bool, ns: u64) {
        self.runs += 1;
        let (sum, runs) = self.clock.entry((arm, at_once)).or_default();
        (*sum, *runs) = (*sum + ns, *runs + 1);
    }

    /// Runs all of each block at once.
    fn at_once(
        &mut self,
        orders: &[PlannedBlock],
        policy: &RacePolicy,
        time: &RaceTime,
    ) -> Result<Vec<Vec<Hosted>>, BlockEnd> {
        super::check(self, time).map_err(BlockEnd::Halt)?;
        let first = orders.iter().flat_map(|order| &order.runs).find_map(|arm| *arm);
        self.progress(first, policy, time);
        let begun = self.lab.now();
        let own = |arm: &Option<usize>| arm.map_or(&self.arms.control, |at| &self.arms.tried[at]);
        let of_block =
            |order: &PlannedBlock| order.runs.iter().map(own).collect::<Vec<&ProgramArm>>();
        let blocks: Vec<Vec<&ProgramArm>> = orders.iter().map(of_block).collect();
        let done = self.lab.run_at_once(&blocks, &self.arms).map_err(BlockEnd::of)?;
        // Blocks side by side take no longer than one.
        let longest = orders.iter().map(|order| order.runs.len()).max().unwrap_or(1).max(1) as u64;
        let each = self.lab.now().0.saturating_sub(begun.0) / longest;
        let mut all = Vec::new();
        for (order, done) in orders.iter().zip(done) {
            let mut points = Vec::new();
            for (arm, done) in order.runs.iter().zip(done) {
                self.took(*arm, true, each);
                let point = self.named(*arm, policy, done)?;
                points.extend(point.map(|point| self.hosted(point, true)));
            }
            all.push(points);
        }
        Ok(all)
    }

    /// The load of the machine and the time as a block begins.
    fn watch(&mut self) -> (SystemTotals, Nanos) {
        (self.lab.system_totals(), self.lab.now())
    }

    /// The result of a block that began at this time.
    fn block(
        &mut self,
        at_once: bool,
        hosted: Vec<Hosted>,
        is_finished: bool,
        (mark, begun): &(SystemTotals, Nanos),
    ) -> BlockRun {
        let mut system_load = SystemLoad::default();
        let elapsed = self.lab.now().0.saturating_sub(begun.0);
        describe_load(&mut system_load, *mark, self.lab.system_totals(), elapsed);
        let points: Vec<ArmRun>;
        (points, system_load.host_by_point_ns) = hosted.into_iter().unzip();
        let dropped = (!is_finished).then(|| NOT_FINISHED.to_owned());
        let block = trial::ExperimentBlock { at_once, points, system_load, dropped };
        let failed = self.endings.failed.iter().map(|(arm, why)| (*arm, why.clone())).collect();
        let block = (!block.points.is_empty()).then_some(RaceBlock::Runs(block));
        BlockRun { block, failed, ..BlockRun::default() }
    }

    fn hosted(&mut self, point: ArmRun, at_once: bool) -> Hosted {
        let host = self.lab.host_ns(&point, at_once);
        (point, host)
    }

    /// The point of a run; `None` when the arm failed.
    fn named(
        &mut self,
        arm: Option<usize>,
        policy: &RacePolicy,
        done: Result<ArmRun, RunFailure>,
    ) -> Result<Option<ArmRun>, BlockEnd> {
        match (done, arm) {
            (Ok(point), _) => {
                self.endings.check(arm, point.usage.ended).map_err(BlockEnd::Halt)?;
                let point = ArmRun { arm: policy.name(arm).to_owned(), ..point };
                Ok((!self.endings.has_failed(arm)).then_some(point))
            }
            (Err(RunFailure::Failed(why)), None) => {
                Err(BlockEnd::Halt(RaceHalt::Control(format!("the reference failed: {why}"))))
            }
            (Err(RunFailure::Failed(why)), Some(arm)) => {
                self.endings.failed.insert(arm, format!("it failed: {why}"));
                Ok(None)
            }
            (Err(other), _) => Err(BlockEnd::of(other)),
        }
    }

    /// The runs of a block, one after the other, as far as they come.
    fn in_turn(
        &mut self,
        order: &[Option<usize>],
        policy: &RacePolicy,
        time: &RaceTime,
    ) -> (Vec<Hosted>, Result<(), BlockEnd>) {
        let mut points = Vec::new();
        for arm in order {
            match self.point(*arm, policy, time) {
                Ok(point) => points.extend(point.map(|point| self.hosted(point, false))),
                Err(end) => return (points, Err(end)),
            }
        }
        (points, Ok(()))
    }

    /// One run; `None` when the arm failed, now or earlier.
    fn point(
        &mut self,
        arm: Option<usize>,
        policy: &RacePolicy,
        time: &RaceTime,
    ) -> Result<Option<ArmRun>, BlockEnd> {
        if self.endings.has_failed(arm) {
            return Ok(None);
        }
        super::check(self, time).map_err(BlockEnd::Halt)?;
        self.progress(arm, policy, time);
        let before = self.lab.now();
        let own = arm.map_or(&self.arms.control, |arm| &self.arms.tried[arm]);
        let done = self.lab.run(own, &self.arms);
        let took = self.lab.now().0.saturating_sub(before.0);
        if done.is_ok() {
            self.took(arm, false, took);
        }
        self.named(arm, policy, done)
    }
}

impl<L: RaceLab> SessionClock for ProgramSubject<L> {
    fn now(&self) -> Nanos {
        self.lab.now()
    }

    fn interrupted(&self) -> bool {
        self.lab.interrupted()
    }
}

impl<L: RaceLab> RaceSubject for ProgramSubject<L> {
    fn run(&mut self, order: &PlannedBlock, policy: &RacePolicy, time: &RaceTime) -> BlockRun {
        let watch = self.watch();
        let (points, end) = self.in_turn(&order.runs, policy, time);
        let mut done = self.block(false, points, end.is_ok(), &watch);
        match end {
            Ok(()) => {}
            Err(BlockEnd::Halt(halt)) => done.end = Err(halt),
            Err(BlockEnd::Refused(why)) => done.refused = Some(why),
        }
        done
    }

    fn most_side_by_side(&self) -> usize {
        self.lab.most_side_by_side()
    }

    fn run_side_by_side(
        &mut self,
        orders: &[PlannedBlock],
        policy: &RacePolicy,
        time: &RaceTime,
    ) -> Vec<BlockRun> {
        let watch = self.watch();
        match self.at_once(orders, policy, time) {
            Ok(all) => {
                all.into_iter().map(|points| self.block(true, points, true, &watch)).collect()
            }
            Err(BlockEnd::Halt(halt)) => vec![BlockRun { end: Err(halt), ..BlockRun::default() }],
            Err(BlockEnd::Refused(why)) => {
                vec![BlockRun { refused: Some(why), ..BlockRun::default() }]
            }
        }
    }

    fn cost_ns(&self, arm: Option<usize>) -> u64 {
        // Uses the slower way: a race must not exceed its time.
        let of = |arm| {
            let ways = [true, false].into_iter().filter_map(move |way| self.clock.get(&(arm, way)));
            ways.map(|(sum, runs)| sum / runs).max()
        };
        of(arm).or_else(|| of(None)).unwrap_or(self.run_ns.0 + self.beside_ns.0)
    }

    fn compare_output(&mut self, arm: usize) -> Result<Option<String>, RunFailure> {
        self.lab.compare_output(&self.arms.tried[arm], &self.arms)
    }

    fn combine(&mut self, arms: &[usize]) -> Result<Option<RaceEntrant>, RunFailure> {
        let apart: Vec<&ProgramArm> = arms.iter().map(|arm| &self.arms.tried[*arm]).collect();
        let Some(together) = self.lab.combine(&apart, &self.arms)? else { return Ok(None) };
        let entrant = entrant(&together);
        self.arms.tried.push(together);
        Ok(Some(entrant))
    }
}

fn describe_load(system_load: &mut SystemLoad, from: SystemTotals, to: SystemTotals, elapsed: u64) {
    let share = |from: Option<Nanos>, to: Option<Nanos>| {
        Some(to?.0.saturating_sub(from?.0) as f64 / elapsed.max(1) as f64)
    };
    system_load.steal_ns = Nanos(to.steal_ns.0.saturating_sub(from.steal_ns.0));
    system_load.cpu_pressure_share = share(from.cpu_stall_ns, to.cpu_stall_ns);
    system_load.memory_pressure_share = share(from.memory_stall_ns, to.memory_stall_ns);
}
