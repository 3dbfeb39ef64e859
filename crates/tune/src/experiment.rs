//! The experiment of a session: a [`race`](crate::race) of arms that [`World`] runs.
//!
//! Here a run becomes a point: its work is held against that of the plain runs, and the counter of
//! each remedy's mechanism is read from what the kernel accounted ([`crate::expectation`]), for
//! the arm and, in the control's runs, for every arm.

use crate::choose;
use crate::expectation::{Expectation, Work};
use crate::look;
use crate::output::{Baseline, Captured, NoBaseline};
use crate::race::{self, Clock, Goal, Lab, Plan, Progress, RunFailure, WeatherMark};
use crate::request::Request;
use crate::stop::Stop;
use crate::world::{Arm, Event, Limits, Timed, Timing, Watch, World};
use pagewise_model::Nanos;
use pagewise_model::look::Look;
use pagewise_model::plan::Dose;
use pagewise_model::price::Prices;
use pagewise_model::run::{Outcome, OutputCheck};
use pagewise_model::trial::{Experiment, Point, Quantity, Verdict, Word};
use pagewise_model::usage::Usage;
use std::collections::{BTreeSet, HashMap};

/// What an experiment starts from.
#[derive(Debug)]
pub struct Setup<'a> {
    /// What the user asked for.
    pub request: &'a Request,
    /// When it has its answer.
    pub goal: Goal,
    /// The control.
    pub plain: Arm,
    /// The arms.
    pub arms: Vec<Arm>,
    /// Plain runs made before.
    pub look: &'a Look,
    /// Time from one of them to the next.
    pub cost_ns: Nanos,
    /// What a run may take.
    pub limits: Limits,
    /// Prices of the session.
    pub prices: Option<&'a Prices>,
    /// Whether an arm's output has to be the control's.
    pub outputs: Outputs,
    /// What an earlier session found that this one continues.
    pub earlier: Option<Experiment>,
    /// When the session began, by the clock of the world: the budget is the whole session's.
    pub since: Nanos,
}

/// How outputs are dealt with.
#[derive(Debug)]
pub enum Outputs {
    /// They may differ.
    Free,
    /// An arm that is likely to gain is held against plain runs, which are made when the first one is.
    Equal {
        /// What plain runs put out, once it is known.
        base: Option<Baseline>,
        /// Comparisons made so far; more are added.
        checks: Vec<OutputCheck>,
    },
}

impl Outputs {
    fn check_of(&self, arm: &str) -> Option<&OutputCheck> {
        match self {
            Self::Free => None,
            Self::Equal { checks, .. } => checks.iter().find(|check| check.arm == arm),
        }
    }

    /// Why an arm is rejected by a comparison made before, if it is.
    fn bars(&self, arm: &Arm) -> Option<String> {
        self.check_of(&arm.name).and_then(differs)
    }
}

/// What an experiment leaves.
#[derive(Debug)]
pub struct Tried {
    /// The experiment.
    pub experiment: Experiment,
    /// Arms by name with their doses, combinations included.
    pub doses: Vec<(String, Vec<Dose>)>,
    /// All output checks.
    pub checks: Vec<OutputCheck>,
    /// Why the outputs of plain runs could not be compared, where that was tried.
    pub incomparable: Option<NoBaseline>,
}

/// The budget of a session whose runs cost this.
#[must_use]
pub fn budget(request: &Request, cost: Nanos) -> Nanos {
    request.spec.budget_ns.unwrap_or_else(|| race::default_budget(cost))
}

/// Files that arms bring into huge folios.
fn huge_files(arms: &[Arm]) -> BTreeSet<String> {
    let all = arms.iter().flat_map(|arm| &arm.settings.huge_files);
    all.map(|file| file.path.clone()).collect()
}

/// `arm` with the files among `all` that it leaves as a plain start does.
fn beside(arm: Arm, all: &BTreeSet<String>) -> Arm {
    let own = huge_files(std::slice::from_ref(&arm));
    Arm { natural_files: all.difference(&own).cloned().collect(), ..arm }
}

/// Runs the experiment.
pub fn experiment(mut setup: Setup<'_>, world: &mut dyn World) -> Tried {
    let all = huge_files(&setup.arms);
    setup.plain = beside(setup.plain, &all);
    setup.arms = setup.arms.into_iter().map(|arm| beside(arm, &all)).collect();
    let earlier = setup.earlier.take();
    let guest = world.machine().hypervisor.is_some();
    let plan = plan(&mut setup, earlier, world.now());
    let mut lab = WorldLab {
        expectation: Expectation::of(setup.look, setup.prices, guest),
        others: HashMap::new(),
        work: Work::of(&setup.look.runs),
        setup,
        world,
        cold: 0,
        unconditioned: 0,
        incomparable: None,
    };
    let (mut experiment, arms) = race::run(&mut lab, plan);
    experiment.warnings.extend(lab.warnings());
    let incomparable = lab.incomparable.take();
    let checks = match lab.setup.outputs {
        Outputs::Free => Vec::new(),
        Outputs::Equal { checks, .. } => checks,
    };
    let dosed = arms.into_iter().filter(|arm| !arm.doses.is_empty());
    let doses = dosed.map(|arm| (arm.name, arm.doses)).collect();
    Tried { experiment, doses, checks, incomparable }
}

fn plan(setup: &mut Setup<'_>, earlier: Option<Experiment>, now: Nanos) -> Plan {
    let budget = budget(setup.request, setup.cost_ns);
    let spent = now.0.saturating_sub(setup.since.0);
    let (blocks, verdicts) = earlier.map_or_else(Default::default, |e| (e.blocks, e.verdicts));
    let rejected = |arm: &Arm| {
        verdicts.iter().find(|v| v.arm == arm.name && v.word == Word::Reject).map(|v| v.why.clone())
    };
    let mut arms = std::mem::take(&mut setup.arms);
    for arm in &mut arms {
        arm.barred = setup.outputs.bars(arm).or_else(|| rejected(arm));
    }
    Plan {
        quantity: setup.request.spec.quantity,
        guards: setup.request.spec.guards.clone(),
        goal: setup.goal,
        control: setup.plain.clone(),
        arms,
        budget,
        left: match setup.goal {
            Goal::Pairs(pairs) => room_for(pairs, setup.cost_ns),
            _ => Nanos(budget.0.saturating_sub(spent)),
        },
        run_ns: setup.cost_ns,
        compare_runs: if matches!(setup.outputs, Outputs::Equal { base: None, .. }) {
            2
        } else {
            0
        },
        seed: setup.request.spec.seed,
        earlier: blocks,
    }
}

/// More time than so many pairs take when runs take `cost`: in each three runs and two that read files
/// back, and twice that.
fn room_for(pairs: u32, cost: Nanos) -> Nanos {
    const RUNS: u64 = 10;
    Nanos(cost.0.saturating_mul(RUNS * u64::from(pairs))) + Nanos::secs(60)
}

/// Why an arm with this check is rejected, if it is.
fn differs(check: &OutputCheck) -> Option<String> {
    (!check.equal)
        .then(|| format!("its output differs from the reference: {}", check.notes.join("; ")))
}

/// The limits of an arm: one with a command of its own may need more memory than the program does.
fn limits_of(arm: &Arm, limits: &Limits) -> Limits {
    Limits { memory: limits.memory.filter(|_| !arm.mechanism.is_empty()), ..*limits }
}

/// What an arm puts out in an untimed run. An arm that cannot run is unequal; the check says why.
///
/// # Errors
/// What is not the arm's own failure.
pub(crate) fn put_out(
    world: &mut dyn World,
    arm: &Arm,
    limits: &Limits,
) -> Result<Result<Captured, OutputCheck>, Stop> {
    world.captured(arm, &limits_of(arm, limits)).map(Ok).or_else(|stop| match stop.into_failure() {
        RunFailure::Interrupted => Err(Stop::Interrupted),
        RunFailure::Broken(why) => Err(Stop::Broken(why)),
        RunFailure::Failed(why) => Ok(Err(OutputCheck {
            arm: arm.name.clone(),
            equal: false,
            notes: vec![format!("there is none ({why})")],
        })),
    })
}

struct WorldLab<'a, 'w> {
    setup: Setup<'a>,
    expectation: Expectation,
    /// Runs so far of arms that are other programs, by name.
    others: HashMap<String, Vec<Usage>>,
    work: Work,
    world: &'w mut dyn World,
    cold: u32,
    unconditioned: u32,
    incomparable: Option<NoBaseline>,
}

impl WorldLab<'_, '_> {
    fn warnings(&self) -> Vec<String> {
        let told = [
            (self.cold, "run(s) read from disk what had been in the page cache"),
            (self.unconditioned, "run(s) started before the host had supplied their memory"),
        ];
        let counted = told.into_iter().filter(|(runs, _)| *runs > 0);
        counted.map(|(runs, what)| format!("{runs} {what}")).collect()
    }

    /// Limits of an arm. What a program of the user's own needs is not known from the plain one.
    fn limits(&self, arm: &Arm) -> Limits {
        limits_of(arm, &self.setup.limits)
    }

    fn timed(&mut self, arm: &Arm) -> Result<Timed, RunFailure> {
        let fresh = look::conditioned(&self.setup.look.runs);
        let memory = self.setup.request.spec.quantity == Quantity::Memory;
        let timing = Timing { fresh, watch: Watch::Speeds, memory, limits: self.limits(arm) };
        let run = self.world.timed(arm, &timing).map_err(|stop| match stop {
            Stop::TooLong(limit) => RunFailure::Failed(self.too_long(limit)),
            other => other.into_failure(),
        })?;
        self.cold += u32::from(self.expectation.is_cold(&run.done.usage));
        self.unconditioned += u32::from(!run.conditioned);
        Ok(run)
    }

    fn too_long(&self, limit: Nanos) -> String {
        let slowest = self.setup.look.runs.iter().map(|u| u.wall_ns.0).max().unwrap_or(1).max(1);
        let times = limit.0 / slowest;
        format!("it took more than {times} times the slowest plain run ({limit}) and was stopped")
    }

    /// Another amount of work than that of the plain program makes a time worthless. An arm of the
    /// user's own may do its work in another way.
    fn check_work(&mut self, arm: &Arm, run: &Timed) -> Result<(), RunFailure> {
        if arm.name == self.setup.plain.name {
            self.work = self.work.with(&run.done.usage);
        }
        if arm.mechanism.is_empty() || run.done.leftovers_killed > 0 {
            return Ok(());
        }
        let unequal = self.work.unequal(&run.done.usage, &arm.settings.tools);
        unequal.map_or(Ok(()), |why| Err(RunFailure::Failed(why)))
    }
}

impl Clock for WorldLab<'_, '_> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl Lab for WorldLab<'_, '_> {
    fn run(&mut self, arm: &Arm, arms: &[Arm]) -> Result<Point, RunFailure> {
        let run = self.timed(arm)?;
        self.check_work(arm, &run)?;
        if arm.command != self.setup.plain.command {
            self.others.entry(arm.name.clone()).or_default().push(run.done.usage.clone());
        }
        let control = arm.name == self.setup.plain.name;
        let idle = |other: &Arm| {
            self.expectation.counter(other, &run).map(|reading| (other.name.clone(), reading))
        };
        let idle_mechanisms =
            if control { arms.iter().filter_map(idle).collect() } else { Vec::new() };
        Ok(Point {
            arm: arm.name.clone(),
            mechanism: self.expectation.counter(arm, &run),
            idle_mechanisms,
            huge_faults: run.huge_pages(),
            supervisor_ns: run.done.supervisor_ns,
            usage: run.done.usage,
        })
    }

    fn weather(&mut self) -> WeatherMark {
        self.world.weather()
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.world.tell(&Event::Progress(progress));
    }

    fn host_ns(&mut self, point: &Point) -> Nanos {
        match self.others.get(&point.arm) {
            Some(runs) => self.expectation.host_ns_of_other(&point.usage, runs),
            None => self.expectation.host_ns(&point.usage, point.huge_faults),
        }
    }

    fn combine(&mut self, apart: &[&Arm], arms: &[Arm]) -> Result<Option<Arm>, RunFailure> {
        let doses: Vec<&[Dose]> = apart.iter().map(|arm| arm.doses.as_slice()).collect();
        let Some(together) = choose::combine(&doses) else { return Ok(None) };
        let arm = beside(choose::arm(self.setup.request, &together), &huge_files(arms));
        Ok(Some(Arm { barred: self.setup.outputs.bars(&arm), ..arm }))
    }

    fn compare_output(&mut self, arm: &Arm) -> Result<Option<String>, RunFailure> {
        if let Some(check) = self.setup.outputs.check_of(&arm.name) {
            return Ok(differs(check));
        }
        let (limits, plain) = (self.setup.limits, self.setup.plain.clone());
        let Outputs::Equal { base, checks } = &mut self.setup.outputs else { return Ok(None) };
        let run = put_out(self.world, arm, &limits).map_err(Stop::into_failure)?;
        let held = run.map_or_else(Ok, |run| {
            against_plain(self.world, base, checks, &plain, &limits, self.setup.look, |base| {
                base.check(&arm.name, &run)
            })
        });
        match held {
            Ok(check) => {
                let why = differs(&check);
                checks.push(check);
                Ok(why)
            }
            Err(NoBaseline::Run(Stop::Interrupted)) => Err(RunFailure::Interrupted),
            Err(why) => {
                let failure = RunFailure::Broken(why.to_string());
                self.incomparable = Some(why);
                Err(failure)
            }
        }
    }
}

/// Compares an arm's output, by `check`, with one plain run. Where they differ, it is compared with what
/// two plain runs have in common.
fn against_plain(
    world: &mut dyn World,
    base: &mut Option<Baseline>,
    checks: &mut Vec<OutputCheck>,
    plain: &Arm,
    limits: &Limits,
    look: &Look,
    check: impl Fn(&Baseline) -> OutputCheck,
) -> Result<OutputCheck, NoBaseline> {
    let base = match base {
        Some(base) => base,
        None => base.insert(Baseline::of_one(kept(world, plain, limits, look)?)?),
    };
    let found = check(base);
    let Some(first) = base.only_run().filter(|_| !found.equal) else { return Ok(found) };
    *base = Baseline::of(first, &kept(world, plain, limits, look)?)?;
    checks.push(by_itself(base, plain));
    Ok(check(base))
}

/// What a plain run put out, kept whole.
fn kept(
    world: &mut dyn World,
    plain: &Arm,
    limits: &Limits,
    look: &Look,
) -> Result<Captured, NoBaseline> {
    let run = world.captured(plain, limits)?;
    match look::not_kept(&run, &look.runs) {
        Some(why) => Err(NoBaseline::NotKept(why)),
        None => Ok(run),
    }
}

/// In what plain runs differ.
fn by_itself(base: &Baseline, plain: &Arm) -> OutputCheck {
    let notes = base.exceptions();
    OutputCheck { arm: plain.name.clone(), equal: notes.is_empty(), notes }
}

/// What two plain runs put out, and in what they differ.
///
/// # Errors
/// Why nothing can be held against them.
pub(crate) fn baseline(
    world: &mut dyn World,
    plain: &Arm,
    limits: &Limits,
    look: &Look,
) -> Result<(Baseline, OutputCheck), NoBaseline> {
    let first = kept(world, plain, limits, look)?;
    let base = Baseline::of(&first, &kept(world, plain, limits, look)?)?;
    let check = by_itself(&base, plain);
    Ok((base, check))
}

/// The verdicts of one word, the largest gain first.
pub(crate) fn ranked(experiment: &Experiment, word: Word) -> Vec<&Verdict> {
    let mut all: Vec<&Verdict> = experiment.verdicts.iter().filter(|v| v.word == word).collect();
    let ratio = |verdict: &Verdict| verdict.effect.as_ref().map_or(1.0, |e| e.ratio);
    all.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    all
}

/// How an experiment ended.
pub(crate) fn outcome(experiment: &Experiment) -> Outcome {
    if experiment.interrupted {
        return Outcome::Interrupted;
    }
    if let Some(why) = &experiment.halted {
        return Outcome::CannotTell { why: why.clone() };
    }
    let named = |word| -> Vec<String> {
        ranked(experiment, word).into_iter().map(|verdict| verdict.arm.clone()).collect()
    };
    let (keep, arms) = (named(Word::Keep), named(Word::Likely));
    if !keep.is_empty() {
        return Outcome::Proven { keep };
    }
    if !arms.is_empty() {
        return Outcome::Likely { arms };
    }
    let ratio = |v: &Verdict| v.effect.as_ref().map_or(f64::INFINITY, |effect| effect.ratio);
    let best = |word: Word| {
        let of_word = experiment.verdicts.iter().filter(move |v| v.word == word);
        of_word.min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    };
    let little = experiment.verdicts.iter().filter(|v| v.word == Word::NoGain);
    let ruled_out = little.filter_map(|v| v.no_gain_above_share).max_by(f64::total_cmp);
    // What the budget had no room for does not make an answer about the others void.
    let untried = || best(Word::NotTried).filter(|_| ruled_out.is_none());
    if let Some(open) = best(Word::CannotTell).or_else(untried) {
        return Outcome::CannotTell { why: format!("{}: {}", open.arm, open.why) };
    }
    ruled_out.map_or(Outcome::NothingKept, |above_share| Outcome::NoGain { above_share })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::plan::{FileKind, HugeFile, Settings};

    #[test]
    fn each_arm_leaves_the_files_of_the_others_as_a_plain_start_does() {
        let arm = |name: &str, paths: &[&str]| {
            let file = |path: &&str| HugeFile { path: (*path).into(), kind: FileKind::Input };
            let huge_files = paths.iter().map(file).collect();
            let settings = Settings { huge_files, ..Settings::default() };
            Arm { settings, ..Arm::unchanged(name, &[]) }
        };
        let arms = [arm("one", &["/a", "/b"]), arm("two", &["/b", "/c"]), arm("three", &[])];
        let all = huge_files(&arms);
        let natural = |arm: &Arm| beside(arm.clone(), &all).natural_files;
        assert_eq!(natural(&arms[0]), ["/c"]);
        assert_eq!(natural(&arms[1]), ["/a"]);
        assert_eq!(natural(&arms[2]), ["/a", "/b", "/c"]);
        assert_eq!(natural(&arm("plain", &[])), ["/a", "/b", "/c"]);
        assert_eq!(natural(&arm("both", &["/a", "/b", "/b", "/c"])), [""; 0]);
    }
}
