//! The experiment of a session: arms of [`World`] as arms of [`pagewise_trial`].
//!
//! Here a run becomes a point: its work is held against that of the plain runs, and the counter of
//! each remedy's mechanism is read from what the kernel accounted ([`crate::expectation`]), for
//! the arm and, in the control's runs, for every arm.

use crate::choose;
use crate::expectation::{Expectation, Work};
use crate::look;
use crate::output::Baseline;
use crate::request::Request;
use crate::stop::Stop;
use crate::world::{Arm, Event, Limits, Timed, Timing, World};
use pagewise_judge::stats::pooled_sd;
use pagewise_model::Nanos;
use pagewise_model::look::Look;
use pagewise_model::plan::Dose;
use pagewise_model::price::Prices;
use pagewise_model::run::OutputCheck;
use pagewise_model::trial::{Design, Experiment, Point};
use pagewise_model::usage::Usage;
use pagewise_trial as trial;
use pagewise_trial::{ArmId, Bench, Canary, Kind, Plan, Progress, RunFailure, WeatherMark};
use std::collections::{BTreeSet, HashMap};

/// What an experiment starts from.
#[derive(Debug)]
pub struct Setup<'a> {
    /// What the user asked for.
    pub request: &'a Request,
    /// Whether all arms go to confirmation at once.
    pub kind: Kind,
    /// The control.
    pub plain: Arm,
    /// The arms.
    pub arms: Vec<Arm>,
    /// Doses by arm, in the order of `arms`; the user's own arms have none.
    pub doses: Vec<Vec<Dose>>,
    /// Plain runs made before.
    pub look: &'a Look,
    /// Time from one of them to the next.
    pub cost_ns: Nanos,
    /// What a run may take.
    pub limits: Limits,
    /// Prices of the session.
    pub prices: Option<&'a Prices>,
    /// What plain runs put out; arms that are combined later are held against it.
    pub base: Option<&'a Baseline>,
    /// Output checks made so far; more are added.
    pub checks: Vec<OutputCheck>,
    /// So many pairs of the control and the arms, whatever time that takes; without it what the budget
    /// holds.
    pub pairs: Option<u32>,
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
}

/// Says that the budget holds no confirmation, if so: before anything is run for it.
///
/// # Errors
/// [`Stop::Budget`].
pub fn afford(request: &Request, kind: Kind, arms: usize, cost: Nanos) -> Result<(), Stop> {
    let budget = budget(request, cost);
    let screened = if kind == Kind::Screened { arms.max(1) } else { 1 };
    let least = trial::least_budget(u32::try_from(screened).unwrap_or(u32::MAX), cost);
    if budget >= least {
        return Ok(());
    }
    Err(Stop::Budget(format!(
        "{budget} holds no confirmation of {arms} arm(s) with runs of {cost}; at least {least} needed"
    )))
}

fn budget(request: &Request, cost: Nanos) -> Nanos {
    request.budget.unwrap_or_else(|| trial::default_budget(cost))
}

/// Files that arms bring into huge folios.
fn huge_files(arms: &[Arm]) -> BTreeSet<String> {
    let all = arms.iter().flat_map(|arm| &arm.settings.huge_files);
    all.map(|file| file.path.clone()).collect()
}

/// `arm` with the files among `all` that it leaves as a plain start does.
fn beside(arm: &Arm, all: &BTreeSet<String>) -> Arm {
    let own = huge_files(std::slice::from_ref(arm));
    Arm { natural_files: all.difference(&own).cloned().collect(), ..arm.clone() }
}

/// Runs the experiment.
pub fn experiment(mut setup: Setup<'_>, world: &mut dyn World) -> Tried {
    let all = huge_files(&setup.arms);
    setup.plain = beside(&setup.plain, &all);
    setup.arms = setup.arms.iter().map(|arm| beside(arm, &all)).collect();
    let plan = plan(&setup);
    let logs = plan.look_wall_ns.iter().map(|wall| (wall.0.max(1) as f64).ln()).collect();
    let deviation = pooled_sd(&[logs]);
    world.tell(&Event::Design(&trial::forecast(&plan, setup.cost_ns, deviation)));
    let guest = world.machine().hypervisor.is_some();
    let mut bench = WorldBench {
        expectation: Expectation::of(setup.look, setup.prices, guest),
        others: HashMap::new(),
        work: Work::of(&setup.look.runs),
        setup,
        world,
        cold: 0,
        unconditioned: 0,
    };
    let mut experiment = trial::run(&mut bench, &plan);
    experiment.warnings.extend(bench.warnings());
    let Setup { arms, doses, checks, .. } = bench.setup;
    let names = arms.into_iter().map(|arm| arm.name);
    Tried { experiment, doses: names.zip(doses).filter(|(_, d)| !d.is_empty()).collect(), checks }
}

fn plan(setup: &Setup<'_>) -> Plan {
    let look_wall_ns: Vec<Nanos> = setup.look.runs.iter().map(|u| u.wall_ns).collect();
    Plan {
        kind: setup.kind,
        control: ArmId(setup.plain.name.clone()),
        arms: setup.arms.iter().map(|arm| planned(arm, &setup.checks)).collect(),
        budget: match setup.pairs {
            Some(pairs) => room_for(pairs, setup.cost_ns),
            None => budget(setup.request, setup.cost_ns),
        },
        seed: setup.request.seed,
        look_wall_ns,
        blocks: setup.pairs,
    }
}

/// More time than so many pairs take when runs take `cost`: in each three runs and two that read files
/// back, and twice that.
fn room_for(pairs: u32, cost: Nanos) -> Nanos {
    const RUNS: u64 = 10;
    Nanos(cost.0.saturating_mul(RUNS * u64::from(pairs))) + Nanos::secs(60)
}

fn planned(arm: &Arm, checks: &[OutputCheck]) -> trial::Arm {
    let unequal = checks.iter().find(|c| c.arm == arm.name && !c.equal);
    trial::Arm {
        id: ArmId(arm.name.clone()),
        counted: !arm.mechanism.is_empty(),
        barred: unequal
            .map(|check| format!("its output is not the control's: {}", check.notes.join("; "))),
    }
}

/// The limits of an arm: one with a command of its own may need more memory than the program does.
fn limits_of(arm: &Arm, limits: &Limits) -> Limits {
    Limits { memory: limits.memory.filter(|_| !arm.mechanism.is_empty()), ..*limits }
}

/// Runs an arm untimed and holds what it puts out against plain runs. An arm that cannot run is
/// unequal, for the reason that is told.
///
/// # Errors
/// What is not the arm's own failure.
pub fn check(
    world: &mut dyn World,
    base: &Baseline,
    arm: &Arm,
    limits: &Limits,
) -> Result<OutputCheck, Stop> {
    match world.captured(arm, &limits_of(arm, limits)) {
        Ok(run) => Ok(base.check(&arm.name, &run)),
        Err(stop) => match stop.into_failure() {
            RunFailure::Interrupted => Err(Stop::Interrupted),
            RunFailure::Broken(why) => Err(Stop::Broken(why)),
            RunFailure::Failed(why) => Ok(OutputCheck {
                arm: arm.name.clone(),
                equal: false,
                notes: vec![format!("there is none ({why})")],
            }),
        },
    }
}

struct WorldBench<'a, 'w> {
    setup: Setup<'a>,
    expectation: Expectation,
    /// Runs so far of arms that are other programs, by name.
    others: HashMap<String, Vec<Usage>>,
    work: Work,
    world: &'w mut dyn World,
    cold: u32,
    unconditioned: u32,
}

impl WorldBench<'_, '_> {
    fn warnings(&self) -> Vec<String> {
        let told = [
            (self.cold, "run(s) read from a device what had been in the page cache"),
            (self.unconditioned, "run(s) began without the memory that the host should have ready"),
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
        let timing = Timing { fresh, observed: false, limits: self.limits(arm) };
        let run = self.world.timed(arm, &timing).map_err(|stop| match stop {
            Stop::TooLong(limit) => RunFailure::Failed(self.too_long(limit)),
            other => other.into_failure(),
        })?;
        self.cold += u32::from(self.expectation.is_cold(&run.usage));
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
            self.work = self.work.with(&run.usage);
        }
        if arm.mechanism.is_empty() || run.leftovers > 0 {
            return Ok(());
        }
        let unequal = self.work.unequal(&run.usage, &arm.settings.tools);
        unequal.map_or(Ok(()), |why| Err(RunFailure::Failed(why)))
    }

    fn arm(&self, id: &ArmId) -> Option<&Arm> {
        let all = std::iter::once(&self.setup.plain).chain(&self.setup.arms);
        all.into_iter().find(|arm| arm.name == id.0)
    }

    fn doses(&self, id: &ArmId) -> Option<&Vec<Dose>> {
        let at = self.setup.arms.iter().position(|arm| arm.name == id.0)?;
        self.setup.doses.get(at)
    }
}

impl Bench for WorldBench<'_, '_> {
    fn run(&mut self, id: &ArmId) -> Result<Point, RunFailure> {
        let arm = self.arm(id).cloned();
        let arm = arm.ok_or_else(|| RunFailure::Failed(format!("no arm `{id}`")))?;
        let run = self.timed(&arm)?;
        self.check_work(&arm, &run)?;
        if arm.command != self.setup.plain.command {
            self.others.entry(arm.name.clone()).or_default().push(run.usage.clone());
        }
        let control = arm.name == self.setup.plain.name;
        let idle = |other: &Arm| {
            self.expectation.counter(other, &run).map(|reading| (other.name.clone(), reading))
        };
        let idle_mechanisms =
            if control { self.setup.arms.iter().filter_map(idle).collect() } else { Vec::new() };
        Ok(Point {
            arm: arm.name.clone(),
            mechanism: self.expectation.counter(&arm, &run),
            idle_mechanisms,
            huge_faults: run.huge_pages(),
            supervisor_ns: run.supervisor_ns,
            usage: run.usage,
        })
    }

    fn canary(&mut self) -> Canary {
        self.world.canary()
    }

    fn weather(&mut self) -> WeatherMark {
        self.world.weather()
    }

    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }

    fn progress(&mut self, progress: &Progress) {
        self.world.tell(&Event::Progress(progress));
    }

    fn announce(&mut self, design: &Design) {
        self.world.tell(&Event::Design(design));
    }

    fn host_ns(&mut self, point: &Point) -> Nanos {
        match self.others.get(&point.arm) {
            Some(runs) => self.expectation.host_ns_of_other(&point.usage, runs),
            None => self.expectation.host_ns(&point.usage, point.huge_faults),
        }
    }

    fn combine(&mut self, first: &ArmId, second: &ArmId) -> Result<Option<trial::Arm>, RunFailure> {
        let doses = self.doses(first).zip(self.doses(second));
        let Some(both) = doses.and_then(|(a, b)| choose::combine(a, b)) else { return Ok(None) };
        let all = huge_files(&self.setup.arms);
        let arm = beside(&choose::arm(self.setup.request, &both), &all);
        if let Some(base) = self.setup.base {
            let limits = &self.setup.limits;
            let check = check(self.world, base, &arm, limits).map_err(Stop::into_failure)?;
            self.setup.checks.push(check);
        }
        let planned = planned(&arm, &self.setup.checks);
        self.setup.arms.push(arm);
        self.setup.doses.push(both);
        Ok(Some(planned))
    }
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
        let natural = |arm: &Arm| beside(arm, &all).natural_files;
        assert_eq!(natural(&arms[0]), ["/c"]);
        assert_eq!(natural(&arms[1]), ["/a"]);
        assert_eq!(natural(&arms[2]), ["/a", "/b", "/c"]);
        assert_eq!(natural(&arm("plain", &[])), ["/a", "/b", "/c"]);
        assert_eq!(natural(&arm("both", &["/a", "/b", "/b", "/c"])), [""; 0]);
    }
}
