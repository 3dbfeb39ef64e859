//! Programs that end as the subject of a race: one fresh run at a time, in the order of the block. Watches for
//! what ends an experiment or an arm: failures, other exit statuses, the user, the end of the time.

use super::lab::{Arms, Lab, Progress, RunFailure, WeatherMark};
use super::{BlockRun, Clock, Subject, Time, ours};
use crate::world::Arm;
use pagewise_judge::race::{Block, Counter, Entrant, Halt, Policy};
use pagewise_model::Nanos;
use pagewise_model::trial::{self, Point, Weather};
use pagewise_model::usage::Ended;
use std::collections::BTreeMap;

/// The reason of a block that was not finished.
const NOT_FINISHED: &str = "not finished";

fn entrant(arm: &Arm) -> Entrant {
    let counter = if arm.mechanism.is_empty() { Counter::None } else { Counter::OfRun };
    Entrant { name: arm.name.clone(), counter, barred: arm.barred.clone() }
}

/// A program and its arms, which `L` runs.
#[allow(missing_debug_implementations, reason = "what runs them may reach anywhere")]
pub struct Programs<L> {
    pub lab: L,
    pub arms: Arms,
    /// Usual time from one run to the next, before any.
    pub run_ns: Nanos,
    runs: u32,
    /// Clock time of the runs of each arm, start and reaping included: sum and number.
    clock: BTreeMap<Option<usize>, (u64, u64)>,
    endings: Endings,
}

/// How runs ended.
#[derive(Default)]
struct Endings {
    /// The control.
    expected: Option<Ended>,
    /// Runs before the first of the control.
    pending: Vec<(usize, Ended)>,
    /// Arms that failed, with the reason.
    failed: BTreeMap<usize, String>,
}

impl Endings {
    /// Compares how a run ended with how the control does.
    fn check(&mut self, arm: Option<usize>, ended: Ended) -> Result<(), Halt> {
        match (arm, self.expected) {
            (None, None) => self.expected = Some(ended),
            (None, Some(expected)) if ended != expected => {
                return Err(Halt::Control(format!(
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

impl<L> Programs<L> {
    /// Without arms, and before any run.
    #[must_use]
    pub fn new(lab: L, control: Arm) -> Self {
        Self {
            lab,
            arms: Arms { control, tried: Vec::new() },
            run_ns: Nanos(0),
            runs: 0,
            clock: BTreeMap::new(),
            endings: Endings::default(),
        }
    }

    /// The arms as the policy knows them.
    #[must_use]
    pub fn entrants(&self) -> Vec<Entrant> {
        self.arms.tried.iter().map(entrant).collect()
    }
}

impl<L: Lab> Programs<L> {
    /// One run; `None` when the arm failed, now or earlier.
    fn point(
        &mut self,
        arm: Option<usize>,
        policy: &Policy,
        time: &Time,
    ) -> Result<Option<Point>, Halt> {
        if self.endings.has_failed(arm) {
            return Ok(None);
        }
        super::check(self, time)?;
        let own = arm.map_or(&self.arms.control, |arm| &self.arms.tried[arm]);
        let before = self.lab.now();
        let left_ns = Nanos(time.left_ns(before));
        let standings = || policy.standings();
        let progress = Progress { runs: self.runs, left_ns, arm: &own.name, standings: &standings };
        self.lab.progress(&progress);
        let before = self.lab.now();
        let done = self.lab.run(own, &self.arms);
        match (done, arm) {
            (Err(failure @ (RunFailure::Interrupted | RunFailure::Broken(_))), _) => {
                Err(ours(failure))
            }
            (Err(RunFailure::Failed(why)), None) => {
                Err(Halt::Control(format!("the reference failed: {why}")))
            }
            (Err(RunFailure::Failed(why)), Some(arm)) => {
                self.endings.failed.insert(arm, format!("it failed: {why}"));
                Ok(None)
            }
            (Ok(point), arm) => {
                self.runs += 1;
                let took = self.lab.now().0.saturating_sub(before.0);
                let (sum, runs) = self.clock.entry(arm).or_default();
                (*sum, *runs) = (*sum + took, *runs + 1);
                self.endings.check(arm, point.usage.ended)?;
                let point = Point { arm: policy.name(arm).to_owned(), ..point };
                Ok((!self.endings.has_failed(arm)).then_some(point))
            }
        }
    }
}

impl<L: Lab> Clock for Programs<L> {
    fn now(&self) -> Nanos {
        self.lab.now()
    }

    fn interrupted(&self) -> bool {
        self.lab.interrupted()
    }
}

impl<L: Lab> Subject for Programs<L> {
    fn run(&mut self, order: &[Option<usize>], policy: &Policy, time: &Time) -> BlockRun {
        let mut block = trial::Block { points: vec![], weather: Weather::default(), dropped: None };
        let mark = self.lab.weather();
        let begun = self.lab.now();
        let mut end = Ok(());
        for arm in order {
            match self.point(*arm, policy, time) {
                Ok(Some(point)) => {
                    block.weather.host_by_point_ns.push(self.lab.host_ns(&point));
                    block.points.push(point);
                }
                Ok(None) => {}
                Err(halt) => {
                    block.dropped = Some(NOT_FINISHED.to_owned());
                    end = Err(halt);
                    break;
                }
            }
        }
        let elapsed = self.lab.now().0.saturating_sub(begun.0);
        describe_weather(&mut block.weather, mark, self.lab.weather(), elapsed);
        let failed = self.endings.failed.iter().map(|(arm, why)| (*arm, why.clone())).collect();
        let block = (!block.points.is_empty()).then_some(Block::Runs(block));
        BlockRun { block, failed, end }
    }

    fn cost_ns(&self, arm: Option<usize>) -> u64 {
        let known = self.clock.get(&arm).or_else(|| self.clock.get(&None));
        known.map_or(self.run_ns.0, |(sum, runs)| sum / runs)
    }

    fn compare_output(&mut self, arm: usize) -> Result<Option<String>, RunFailure> {
        self.lab.compare_output(&self.arms.tried[arm], &self.arms)
    }

    fn combine(&mut self, arms: &[usize]) -> Result<Option<Entrant>, RunFailure> {
        let apart: Vec<&Arm> = arms.iter().map(|arm| &self.arms.tried[*arm]).collect();
        let Some(together) = self.lab.combine(&apart, &self.arms)? else { return Ok(None) };
        let entrant = entrant(&together);
        self.arms.tried.push(together);
        Ok(Some(entrant))
    }
}

fn describe_weather(weather: &mut Weather, from: WeatherMark, to: WeatherMark, elapsed: u64) {
    let share = |from: Option<Nanos>, to: Option<Nanos>| {
        Some(to?.0.saturating_sub(from?.0) as f64 / elapsed.max(1) as f64)
    };
    weather.steal_ns = Nanos(to.steal_ns.0.saturating_sub(from.steal_ns.0));
    weather.cpu_pressure_share = share(from.cpu_stall_ns, to.cpu_stall_ns);
    weather.memory_pressure_share = share(from.memory_stall_ns, to.memory_stall_ns);
}
