//! Which arms run next, until the answer is clear or the time is over.

use super::evidence;
use super::lab::{Lab, RunFailure, WeatherMark};
use super::plan::{Goal, Plan};
use super::races::Races;
use super::runner::{Halt, Runner, ours};
use crate::world::Arm;
use pagewise_judge::guards::{self, Beside};
use pagewise_judge::race::{Claim, Findings, LEAST_GAIN, RULED_OUT, Race};
use pagewise_judge::tradeoff;
use pagewise_model::Nanos;
use pagewise_model::guard::Guarded;
use pagewise_model::trial::{Block, Design, Experiment, Ratio, Verdict, Weather, Word};

/// Runs of each in a block while several arms race.
const FEW: u32 = 2;
/// Runs of each in a block with one arm: more runs in a block show more.
const MANY: u32 = 4;
/// An arm is admitted where the time holds this many runs of it and as many of the control.
const LEAST_RUNS: u64 = 4;
/// Of so many arms that gain most, combinations are tried.
const COMBINED: usize = 3;
/// Evidence of a gain worth having from which time for comparing outputs is kept.
const NEAR: f64 = 2.0;
/// The reason of a block that was not finished.
const NOT_FINISHED: &str = "not finished";
/// Why an arm was not run.
const NO_ROOM: &str = "the budget was too short for it";

/// Runs the whole experiment. Whatever goes wrong on the way becomes a verdict or a warning:
/// what was measured is never lost.
pub fn run<L: Lab>(lab: &mut L, plan: &Plan) -> Experiment {
    let mut schedule = Schedule::new(Runner::new(lab, plan));
    let halt = schedule.go().err();
    schedule.conclude(halt)
}

struct Schedule<'a, L: Lab> {
    runner: Runner<'a, L>,
    /// The arms by their numbers in the race.
    arms: Vec<Arm>,
    /// Arms whose output was held against the control's.
    compared: Vec<usize>,
    races: Races,
    blocks: Vec<Block>,
    has_combined: bool,
}

/// A block to be run: these arms, each so often, and the control.
struct Next {
    arms: Vec<usize>,
    each: u32,
    control: u32,
}

impl Next {
    fn new(arms: Vec<usize>, each: u32) -> Self {
        // The control stands in every comparison: the square root of the number of arms is best.
        let control = (f64::from(each) * (arms.len() as f64).sqrt()).round() as u32;
        Self { arms, each, control }
    }
}

impl<'a, L: Lab> Schedule<'a, L> {
    fn new(runner: Runner<'a, L>) -> Self {
        let arms = runner.plan.arms.clone();
        let mut schedule = Self {
            races: Races::new(runner.plan.quantity, &runner.plan.guards, arms.len()),
            arms,
            compared: Vec::new(),
            blocks: Vec::new(),
            has_combined: !runner.plan.earlier.is_empty(),
            runner,
        };
        for block in &schedule.runner.plan.earlier {
            schedule.take(block.clone());
        }
        schedule
    }

    /// Races until the answer is clear; what halts it before.
    fn go(&mut self) -> Result<(), Halt> {
        // What an earlier session found likely.
        self.compare_outputs()?;
        while !self.is_decided() {
            self.runner.check()?;
            let next = self.next().ok_or(Halt::Budget)?;
            let (block, ended) = self.run_block(&next);
            if !block.points.is_empty() {
                self.take(block);
            }
            ended?;
            self.compare_outputs()?;
            self.combine()?;
        }
        Ok(())
    }

    fn take(&mut self, block: Block) {
        self.blocks.push(block);
        self.races.add(&self.blocks, &self.runner.plan.control.name, &self.arms);
    }

    /// Arms that run and may be run again.
    fn sound(&self) -> Vec<usize> {
        let is_sound =
            |arm: &Arm| arm.barred.is_none() && !self.runner.failed.contains_key(&arm.name);
        let may_run = |at: &usize| is_sound(&self.arms[*at]) && !self.breaks_guard(*at);
        (0..self.arms.len()).filter(may_run).collect()
    }

    /// What the guards show of an arm.
    fn guarded(&self, arm: usize) -> Vec<Guarded> {
        let (own, control) = (&self.arms[arm], &self.runner.plan.control.name);
        let arms = evidence::points(&self.blocks, &own.name, &own.name);
        let controls = evidence::points(&self.blocks, control, &own.name);
        let memory_change_bytes = evidence::costs(&arms, &controls).peak_rss_change_bytes;
        let beside = Beside { errors: 0.0, memory_change_bytes };
        self.races.guards.guarded(arm, &own.name, beside)
    }

    fn breaks_guard(&self, arm: usize) -> bool {
        self.races.guards.may_be_broken(arm) && self.guarded(arm).iter().any(|one| one.is_broken)
    }

    /// Those of them about which the question is open.
    fn open(&self) -> Vec<usize> {
        let least = |ruled_out: Option<f64>| ruled_out.is_some_and(|share| share <= RULED_OUT[0]);
        let is_open = |arm: &usize| {
            let no_gain = least(self.races.time.no_gain_above(*arm));
            match self.runner.plan.goal {
                Goal::Gain => !no_gain,
                Goal::Difference => {
                    let no_difference = no_gain && least(self.races.time.no_loss_above(*arm));
                    !(self.is_kept(*arm) || self.races.time.is_slower(*arm) || no_difference)
                }
                Goal::LossAtMost(share) => !self.races.time.is_loss_bounded(*arm, share),
                Goal::Pairs(pairs) => {
                    self.races.time.standing(*arm).is_none_or(|standing| standing.runs < pairs)
                }
            }
        };
        self.sound().into_iter().filter(is_open).collect()
    }

    fn is_kept(&self, arm: usize) -> bool {
        self.races.time.is_proven(arm) && self.verdict_of(arm).word == Word::Keep
    }

    fn is_decided(&self) -> bool {
        let open = self.open();
        let sound = self.sound();
        // Combinations join late and have to run, too.
        let waits = |arm: &usize| {
            *arm >= self.runner.plan.arms.len() && self.races.time.standing(*arm).is_none()
        };
        let best = self.races.time.leader(&sound);
        open.is_empty()
            || self.runner.plan.goal == Goal::Gain
                && !sound.iter().any(waits)
                && best.is_some_and(|arm| self.is_kept(arm))
    }

    /// What runs next, as far as the time holds it.
    fn next(&self) -> Option<Next> {
        let open = self.open();
        let Goal::Gain = self.runner.plan.goal else {
            let sizes = match self.runner.plan.goal {
                Goal::Pairs(pairs) => {
                    let runs = |arm: &usize| self.races.time.standing(*arm).map_or(0, |s| s.runs);
                    let done = open.iter().map(runs).min().unwrap_or(0);
                    vec![(pairs - done).min(FEW)]
                }
                _ => vec![MANY, FEW, 1],
            };
            let ways = sizes.into_iter().map(|each| {
                let arms = open.clone();
                Next { arms, each, control: each }
            });
            return self.fitting(ways.collect());
        };
        let mut racing = self.races.time.contenders(&open, &open);
        if self.blocks.is_empty() {
            racing.truncate(self.room());
        } else {
            racing.retain(|arm| self.races.time.standing(*arm).is_some() || self.room() > 1);
        }
        let leader = self.races.time.leader(&open).or(racing.first().copied());
        let sizes: &[u32] = match racing.len() {
            1 => &[MANY, FEW],
            3.. if self.blocks.is_empty() => &[1],
            _ => &[FEW],
        };
        let all = sizes.iter().map(|each| Next::new(racing.clone(), *each));
        let one = |each: u32| leader.map(|arm| Next::new(vec![arm], each));
        let ways = all.chain([FEW, 1].into_iter().filter_map(one)).collect();
        self.fitting(ways)
    }

    /// The first of these that has arms and fits the time, less what is kept for comparing outputs.
    fn fitting(&self, ways: Vec<Next>) -> Option<Next> {
        let reserve = if self.is_gain_near() { self.runner.plan.compare_runs } else { 0 };
        let control = self.runner.cost_ns(&self.runner.plan.control.name);
        let left = self.runner.left_for_block().saturating_sub(u64::from(reserve) * control);
        let cost = |next: &Next| {
            let arms: u64 =
                next.arms.iter().map(|arm| self.runner.cost_ns(&self.arms[*arm].name)).sum();
            u64::from(next.control) * control + u64::from(next.each) * arms
        };
        let is_free = matches!(self.runner.plan.goal, Goal::Pairs(_));
        ways.into_iter().find(|next| !next.arms.is_empty() && (is_free || cost(next) <= left))
    }

    /// The next block may show a gain, and no output was compared yet.
    fn is_gain_near(&self) -> bool {
        let worth = |arm| self.races.time.selected(arm, Claim::GainAtMost(LEAST_GAIN));
        let is_near =
            || self.races.time.leader(&self.sound()).is_some_and(|arm| worth(arm) >= NEAR);
        self.compared.is_empty() && (self.blocks.is_empty() || is_near())
    }

    /// How many arms the time holds with the control, [`LEAST_RUNS`] of each.
    fn room(&self) -> usize {
        let runs =
            self.runner.left_ns() / self.runner.cost_ns(&self.runner.plan.control.name).max(1);
        usize::try_from(runs / LEAST_RUNS).unwrap_or(usize::MAX).saturating_sub(1).max(1)
    }

    fn run_block(&mut self, next: &Next) -> (Block, Result<(), Halt>) {
        let sound = self.sound();
        let Self { races, arms, runner, .. } = self;
        let plan = runner.plan;
        let control = (0..next.control).map(|_| &plan.control);
        let racing = next.arms.iter().flat_map(|arm| (0..next.each).map(|_| &arms[*arm]));
        let mut order: Vec<&Arm> = control.chain(racing).collect();
        runner.rng.shuffle(&mut order);
        let mut block = Block { points: vec![], weather: Weather::default(), dropped: None };
        let mark = runner.lab.weather();
        let begun = runner.lab.now();
        let mut ended = Ok(());
        let standings = || standings(&races.time, arms, &sound);
        for arm in order {
            match runner.point(arm, &standings) {
                Ok(Some(point)) => {
                    block.weather.host_by_point_ns.push(runner.lab.host_ns(&point));
                    block.points.push(point);
                }
                Ok(None) => {}
                Err(halt) => {
                    block.dropped = Some(NOT_FINISHED.to_owned());
                    ended = Err(halt);
                    break;
                }
            }
        }
        let elapsed = runner.lab.now().0.saturating_sub(begun.0);
        let after = runner.lab.weather();
        describe_weather(&mut block.weather, mark, after, elapsed);
        (block, ended)
    }

    /// Has the outputs of arms compared that are likely to gain.
    fn compare_outputs(&mut self) -> Result<(), Halt> {
        for arm in self.sound() {
            if self.compared.contains(&arm) || !self.races.time.is_likely(arm) {
                continue;
            }
            match self.runner.lab.compare_output(&self.arms[arm]) {
                Ok(why) => self.arms[arm].barred = why,
                Err(RunFailure::Failed(why)) => {
                    self.arms[arm].barred =
                        Some(format!("its output could not be compared: {why}"));
                }
                Err(other) => return Err(ours(other)),
            }
            self.compared.push(arm);
        }
        Ok(())
    }

    /// Lets combinations of the arms that gain most join, once the best has run [`FEW`] times.
    fn combine(&mut self) -> Result<(), Halt> {
        let leader = self.races.time.leader(&self.sound());
        let ran = leader.and_then(|arm| Some(self.races.time.standing(arm)?.runs)).unwrap_or(0);
        if self.has_combined || self.runner.plan.goal != Goal::Gain || ran < FEW {
            return Ok(());
        }
        self.has_combined = true;
        let mut gaining: Vec<(f64, usize)> = self
            .sound()
            .into_iter()
            .filter_map(|arm| {
                let standing = self.races.time.standing(arm)?;
                let gain = -standing.ratio.ln();
                (gain > LEAST_GAIN.max(standing.error)).then_some((gain, arm))
            })
            .collect();
        gaining.sort_by(|a, b| b.0.total_cmp(&a.0));
        let best: Vec<usize> = gaining.into_iter().take(COMBINED).map(|(_, arm)| arm).collect();
        for sets in subsets(&best) {
            let arms: Vec<&Arm> = sets.iter().map(|arm| &self.arms[*arm]).collect();
            match self.runner.lab.combine(&arms) {
                Ok(Some(arm)) => {
                    self.arms.push(arm);
                    self.races.join();
                }
                Ok(None) | Err(RunFailure::Failed(_)) => {}
                Err(other) => return Err(ours(other)),
            }
        }
        Ok(())
    }

    /// The verdict by times and counters only.
    fn verdict_of(&self, arm: usize) -> Verdict {
        let (own, control) = (&self.arms[arm], &self.runner.plan.control.name);
        let arms = evidence::points(&self.blocks, &own.name, &own.name);
        let controls = evidence::points(&self.blocks, control, &own.name);
        let costs = evidence::costs(&arms, &controls);
        let run_ns = f64::midpoint(
            self.runner.cost_ns(&own.name) as f64,
            self.runner.cost_ns(control) as f64,
        );
        let findings = Findings {
            race: &self.races.time,
            plain: self.races.plain(arm),
            without_host: &self.races.without_host,
            arm,
            mechanism: evidence::mechanism(own, &arms, &controls),
            host_share_arm: evidence::host_share(&arms, &controls),
            host_share_control: evidence::host_share(&controls, &controls),
            run_ns,
        };
        guards::apply(findings.judge(&own.name, costs), &self.guarded(arm))
    }

    fn verdict(&self, arm: usize, halt: Option<&Halt>) -> Verdict {
        let verdict = self.verdict_of(arm);
        let refused = |word, why: &String| Verdict {
            word,
            why: why.clone(),
            settled_by_ns: None,
            ..verdict.clone()
        };
        let own = &self.arms[arm];
        if let Some(why) = &own.barred {
            return refused(Word::Reject, why);
        }
        // Where the control or the machinery failed, an arm's failure may have the same cause.
        if let Some(Halt::Control(why)) = halt {
            return refused(Word::CannotTell, why);
        }
        if let Some(why) = self.runner.failed.get(&own.name) {
            return refused(Word::Reject, why);
        }
        match verdict.word {
            Word::NotTried => refused(Word::NotTried, &NO_ROOM.to_owned()),
            Word::Keep | Word::Likely if !self.compared.contains(&arm) => {
                let why = format!("{}; its output is not compared yet", verdict.why);
                refused(Word::CannotTell, &why)
            }
            _ => verdict,
        }
    }

    fn conclude(self, halt: Option<Halt>) -> Experiment {
        let plan = self.runner.plan;
        let verdicts: Vec<Verdict> =
            (0..self.arms.len()).map(|arm| self.verdict(arm, halt.as_ref())).collect();
        let guarded = (0..self.arms.len()).flat_map(|arm| self.guarded(arm)).collect();
        let names = std::iter::once(&plan.control).chain(&self.arms).map(|arm| arm.name.as_str());
        let mut warnings = evidence::mode_warnings(&self.blocks, names);
        let halted = match &halt {
            Some(Halt::Interrupted) => {
                warnings.push("stopped by the user".to_owned());
                None
            }
            Some(Halt::Control(why)) => {
                warnings.push(why.clone());
                Some(why.clone())
            }
            Some(Halt::Budget) | None => None,
        };
        let mut experiment = Experiment {
            design: Design {
                quantity: plan.quantity,
                guards: plan.guards.clone(),
                seed: plan.seed,
                budget_ns: plan.budget,
                control: plan.control.name.clone(),
                arms: self.arms.iter().map(|arm| arm.name.clone()).collect(),
            },
            blocks: self.blocks,
            verdicts,
            guarded,
            time_and_memory: Vec::new(),
            warnings,
            interrupted: halt == Some(Halt::Interrupted),
            halted,
        };
        experiment.time_and_memory = tradeoff::side_by_side(&experiment);
        experiment
    }
}

/// Where the arms of these numbers stand, best first.
fn standings(race: &Race, arms: &[Arm], shown: &[usize]) -> Vec<(String, Ratio)> {
    let of = |arm: &usize| {
        let ratio = race.standing(*arm)?.ratio;
        let (ratio_low, ratio_high) = race.interval(*arm)?;
        Some((arms[*arm].name.clone(), Ratio { ratio, ratio_low, ratio_high }))
    };
    let mut all: Vec<(String, Ratio)> = shown.iter().filter_map(of).collect();
    all.sort_by(|a, b| a.1.ratio.total_cmp(&b.1.ratio));
    all
}

/// All sets of two and more of up to three arms.
fn subsets(arms: &[usize]) -> Vec<Vec<usize>> {
    let pairs = arms
        .iter()
        .enumerate()
        .flat_map(|(at, first)| arms[at + 1..].iter().map(move |second| vec![*first, *second]));
    pairs.chain((arms.len() == COMBINED).then(|| arms.to_vec())).collect()
}

fn describe_weather(weather: &mut Weather, from: WeatherMark, to: WeatherMark, elapsed: u64) {
    let share = |from: Option<Nanos>, to: Option<Nanos>| {
        Some(to?.0.saturating_sub(from?.0) as f64 / elapsed.max(1) as f64)
    };
    weather.steal_ns = Nanos(to.steal_ns.0.saturating_sub(from.steal_ns.0));
    weather.cpu_pressure_share = share(from.cpu_stall_ns, to.cpu_stall_ns);
    weather.memory_pressure_share = share(from.memory_stall_ns, to.memory_stall_ns);
}
