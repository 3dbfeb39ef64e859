//! The experiment of a session: a [`race`](crate::race) of arms that [`ProgramWorld`] runs.
//!
//! A run becomes a point here. Its work is compared with that of the plain runs. The counter of each remedy's
//! mechanism is read from the kernel's accounting ([`crate::expectation`]): for the arm and, in the control's
//! runs, for every arm.

mod outputs;

use crate::at_once::{self, MachineRoom, ObservedProgram, RunConcurrency};
use crate::choose;
use crate::expectation::{RunExpectation, WorkRange};
use crate::look;
use crate::output::{BaselineError, CapturedOutput, OutputPolicy};
use crate::race::{
    ProgramSubject, RaceArms, RaceLab, RaceProgress, RunFailure, SessionClock, SystemTotals,
};
use crate::request::SessionRequest;
use crate::stop::SessionStop;
use crate::world::{
    ProgramArm, ProgramWorld, RunLimits, RunObservation, RunTiming, SessionEvent, TimedRun,
};
use pagewise_judge::race::RaceEntrant;
use pagewise_kernel::{affinity, limits};
use pagewise_model::plan::RemedyDose;
use pagewise_model::run::{SavedRun, SessionOutcome};
use pagewise_model::trial::{ArmRun, ArmVerdict, ComparedQuantity, Experiment, VerdictWord};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Nanos};
use std::collections::{BTreeSet, HashMap};

/// Files that arms bring into huge folios.
fn huge_files(arms: &[ProgramArm]) -> BTreeSet<String> {
    let all = arms.iter().flat_map(|arm| &arm.settings.huge_files);
    all.map(|file| file.path.clone()).collect()
}

/// `arm` with the files among `all` that it leaves as a plain start does.
fn beside(arm: ProgramArm, all: &BTreeSet<String>) -> ProgramArm {
    let own = huge_files(std::slice::from_ref(&arm));
    ProgramArm { natural_files: all.difference(&own).cloned().collect(), ..arm }
}

/// The limits of an arm. An arm with a separate command may need more memory than the program.
fn limits_of(arm: &ProgramArm, limits: &RunLimits) -> RunLimits {
    RunLimits { memory: limits.memory.filter(|_| !arm.mechanism.is_empty()), ..*limits }
}

/// The results of the plain runs, which arms are compared with.
#[derive(Debug, Default)]
struct PlainResults {
    runs: Vec<ProgramUsage>,
    /// The limits of a run.
    limits: RunLimits,
    expectation: RunExpectation,
    work: WorkRange,
    /// Work of runs with kept output, by name of the user's own command.
    own_work: HashMap<String, WorkRange>,
}

/// Runs programs in a [`ProgramWorld`].
pub(crate) struct WorldLab<'a> {
    pub(crate) request: &'a SessionRequest,
    pub(crate) world: &'a mut dyn ProgramWorld,
    /// Whether an arm's output has to be the control's.
    pub(crate) outputs: OutputPolicy,
    /// Outputs of runs at once that are not yet compared, by arm.
    at_hand: HashMap<String, Vec<CapturedOutput>>,
    /// Why outputs could not be compared, if that was tried.
    pub(crate) incomparable: Option<BaselineError>,
    known: PlainResults,
    /// Runs so far of arms that are other programs, by name.
    others: HashMap<String, Vec<ProgramUsage>>,
    /// How many runs may run at once, or why they run one at a time.
    pub(crate) width: Result<RunConcurrency, String>,
    cold: u32,
    unconditioned: u32,
}

impl ProgramSubject<WorldLab<'_>> {
    /// Stores the results of the look of `run`: the time from one plain run to the next, the limits of every
    /// run, and the facts that decide whether runs may be made at once.
    pub(crate) fn learn(
        &mut self,
        run: &SavedRun,
        run_ns: Nanos,
        limits: RunLimits,
        seen: &[ObservedProgram],
    ) {
        self.run_ns = run_ns;
        let Some(look) = &run.look else { return };
        let guest = run.machine.as_ref().is_some_and(|machine| machine.hypervisor.is_some());
        self.lab.known = PlainResults {
            runs: look.runs.clone(),
            limits,
            expectation: RunExpectation::of(look, run.prices.as_ref(), guest),
            work: WorkRange::of(&look.runs),
            own_work: HashMap::new(),
        };
        let memory = limits::experiment_memory().map_or(Bytes(0), |room| room.bytes);
        let cpus = affinity::get(0).map_or(1, |cpus| u32::try_from(cpus.len()).unwrap_or(1));
        self.lab.width = at_once::width(self.lab.request, seen, &MachineRoom { memory, cpus });
        let blocks = self.lab.width.as_ref().map_or(0, |width| width.blocks);
        self.beside_ns = Nanos(look::touching(look::peak(&look.runs)).0 * u64::from(blocks));
    }

    /// Stores the work of runs with kept output of a user's own command.
    pub(crate) fn learn_work(&mut self, arm: &str, runs: &[ProgramUsage]) {
        self.lab.known.own_work.insert(arm.to_owned(), WorkRange::of(runs));
    }

    /// Lets these arms enter.
    pub(crate) fn enter_arms(
        &mut self,
        arms: Vec<ProgramArm>,
        outputs: OutputPolicy,
    ) -> Vec<RaceEntrant> {
        let all = huge_files(&arms);
        self.arms.control.natural_files = all.iter().cloned().collect();
        let barred = |arm: ProgramArm| ProgramArm {
            barred: arm.barred.clone().or_else(|| outputs.bars(&arm)),
            ..beside(arm, &all)
        };
        self.arms.tried = arms.into_iter().map(barred).collect();
        self.lab.outputs = outputs;
        self.entrants()
    }
}

impl<'a> WorldLab<'a> {
    pub(crate) fn new(request: &'a SessionRequest, world: &'a mut dyn ProgramWorld) -> Self {
        Self {
            request,
            world,
            outputs: OutputPolicy::Free,
            at_hand: HashMap::new(),
            incomparable: None,
            known: PlainResults::default(),
            others: HashMap::new(),
            width: Err(String::new()),
            cold: 0,
            unconditioned: 0,
        }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        let told = [
            (self.cold, "run(s) read from disk what had been in the page cache"),
            (self.unconditioned, "run(s) started before the host had supplied their memory"),
        ];
        let counted = told.into_iter().filter(|(runs, _)| *runs > 0);
        counted.map(|(runs, what)| format!("{runs} {what}")).collect()
    }

    /// Limits of an arm. The plain program's needs do not predict those of a user's own program.
    fn limits(&self, arm: &ProgramArm) -> RunLimits {
        limits_of(arm, &self.known.limits)
    }

    fn timed(&mut self, arm: &ProgramArm) -> Result<TimedRun, RunFailure> {
        let fresh = look::conditioned(&self.known.runs);
        let memory = self.request.spec.quantity == ComparedQuantity::Memory;
        let timing =
            RunTiming { fresh, watch: RunObservation::Speeds, memory, limits: self.limits(arm) };
        self.world.timed(arm, &timing).map_err(|stop| match stop {
            SessionStop::TooLong(limit) => RunFailure::Failed(self.too_long(limit)),
            other => other.into_failure(),
        })
    }

    /// Converts a run to a point.
    fn point(
        &mut self,
        arm: &ProgramArm,
        arms: &RaceArms,
        run: TimedRun,
    ) -> Result<ArmRun, RunFailure> {
        self.cold += u32::from(self.known.expectation.is_cold(&run.done.usage));
        self.unconditioned += u32::from(!run.conditioned);
        self.check_work(arm, arms, &run)?;
        if arm.command != arms.control.command {
            self.others.entry(arm.name.clone()).or_default().push(run.done.usage.clone());
        }
        let control = arm.name == arms.control.name;
        let expectation = &self.known.expectation;
        let idle = |other: &ProgramArm| {
            expectation.counter(other, &run).map(|reading| (other.name.clone(), reading))
        };
        let idle_mechanisms =
            if control { arms.tried.iter().filter_map(idle).collect() } else { Vec::new() };
        Ok(ArmRun {
            arm: arm.name.clone(),
            mechanism: expectation.counter(arm, &run),
            idle_mechanisms,
            huge_faults: run.huge_pages(),
            supervisor_ns: run.done.supervisor_ns,
            usage: run.done.usage,
        })
    }

    /// Runs at once share all CPUs instead of one.
    fn is_spread(&self) -> bool {
        self.width.as_ref().is_ok_and(|width| width.spread)
    }

    fn too_long(&self, limit: Nanos) -> String {
        let slowest = self.known.runs.iter().map(|u| u.wall_ns.0).max().unwrap_or(1).max(1);
        let times = limit.0 / slowest;
        format!("it took more than {times} times the slowest plain run ({limit}) and was stopped")
    }

    /// Converts a run made beside others to a point. An arm is blamed only for what it also does by itself.
    fn point_at_once(
        &mut self,
        arm: &ProgramArm,
        all: &RaceArms,
        run: Result<TimedRun, SessionStop>,
    ) -> Result<ArmRun, RunFailure> {
        let mut run = run.map_err(|stop| {
            let is_start = matches!(stop, SessionStop::Launch(_));
            match stop.into_failure() {
                RunFailure::Failed(why) if !is_start => RunFailure::NotAtOnce(why),
                other => other,
            }
        })?;
        let (is_other, done) = (arm.command != all.control.command, &run.done);
        let cpus = Some(&done.cpus_at_end).filter(|_| !self.is_spread());
        if let Some(why) = at_once::differs(&done.usage, cpus, &self.known.runs, is_other) {
            return Err(RunFailure::NotAtOnce(why));
        }
        let kept = run.kept.take();
        let point = self.point(arm, all, run).map_err(|failure| match failure {
            RunFailure::Failed(why) => RunFailure::NotAtOnce(why),
            other => other,
        })?;
        self.at_hand.entry(arm.name.clone()).or_default().extend(kept);
        Ok(point)
    }

    /// If a run does a different amount of work than the plain program, its time is worthless. A user's own
    /// command may do its work in another way, but must do the same in every run.
    fn check_work(
        &mut self,
        arm: &ProgramArm,
        arms: &RaceArms,
        run: &TimedRun,
    ) -> Result<(), RunFailure> {
        let work = &mut self.known.work;
        if arm.name == arms.control.name {
            *work = work.with(&run.done.usage);
        }
        if run.done.leftovers_killed > 0 {
            return Ok(());
        }
        // For /dev/null some programs do no work.
        let own = self.known.own_work.get(&arm.name);
        if let Some(why) = own.and_then(|own| own.other_amount(&run.done.usage, &[])) {
            let why =
                format!("its timed runs do other work than a run whose output is kept: one {why}");
            return Err(RunFailure::Failed(why));
        }
        if arm.mechanism.is_empty() {
            return Ok(());
        }
        let unequal = work.unequal(&run.done.usage, &arm.settings.tools);
        unequal.map_or(Ok(()), |why| Err(RunFailure::Failed(why)))
    }
}

impl SessionClock for WorldLab<'_> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl RaceLab for WorldLab<'_> {
    fn run(&mut self, arm: &ProgramArm, arms: &RaceArms) -> Result<ArmRun, RunFailure> {
        let run = self.timed(arm)?;
        self.point(arm, arms, run)
    }

    fn run_at_once(
        &mut self,
        blocks: &[Vec<&ProgramArm>],
        all: &RaceArms,
    ) -> Result<Vec<Vec<Result<ArmRun, RunFailure>>>, RunFailure> {
        let peak = look::peak(&self.known.runs).0;
        let others = blocks.iter().map(Vec::len).sum::<usize>().saturating_sub(1) as u64;
        let fresh = look::conditioned(&self.known.runs) + Bytes(peak.saturating_mul(others));
        let mut limited = Vec::new();
        for block in blocks {
            let limits = |arm| {
                let limits = self.limits(arm);
                // They share a CPU.
                let times = block.len() as u64;
                let time = limits.time.map(|time| Nanos(time.0.saturating_mul(times)));
                RunLimits { time, ..limits }
            };
            limited.push(block.iter().map(|arm| (*arm, limits(arm))).collect::<Vec<_>>());
        }
        let is_new = |arm: &&ProgramArm| {
            arm.name != all.control.name && !self.at_hand.contains_key(&arm.name)
        };
        let keep = self.keeps_output() && blocks.iter().flatten().any(is_new);
        let spread = self.is_spread();
        let done = self.world.timed_at_once(&limited, fresh, spread, keep);
        let done = done.map_err(SessionStop::into_failure)?;
        let mut points = Vec::new();
        for (block, done) in blocks.iter().zip(done) {
            let runs = block.iter().zip(done);
            points.push(runs.map(|(arm, run)| self.point_at_once(arm, all, run)).collect());
        }
        Ok(points)
    }

    fn most_side_by_side(&self) -> usize {
        self.width.as_ref().map_or(1, |width| width.blocks as usize)
    }

    fn system_totals(&mut self) -> SystemTotals {
        self.world.system_totals()
    }

    fn progress(&mut self, progress: &RaceProgress<'_>) {
        self.world.tell(&SessionEvent::Progress(progress));
    }

    fn host_ns(&mut self, point: &ArmRun, at_once: bool) -> Nanos {
        let expectation = &self.known.expectation;
        match self.others.get(&point.arm) {
            Some(runs) => expectation.host_ns_of_other(&point.usage, runs),
            None => expectation.host_ns(&point.usage, point.huge_faults, at_once),
        }
    }

    fn combine(
        &mut self,
        apart: &[&ProgramArm],
        arms: &RaceArms,
    ) -> Result<Option<ProgramArm>, RunFailure> {
        let doses: Vec<&[RemedyDose]> = apart.iter().map(|arm| arm.doses.as_slice()).collect();
        let Some(together) = choose::combine(&doses) else { return Ok(None) };
        let arm = beside(choose::arm(self.request, &together), &huge_files(&arms.tried));
        Ok(Some(ProgramArm { barred: self.outputs.bars(&arm), ..arm }))
    }

    fn compare_output(
        &mut self,
        arm: &ProgramArm,
        arms: &RaceArms,
    ) -> Result<Option<String>, RunFailure> {
        self.compare(arm, arms)
    }
}

/// The verdicts of one word, the largest gain first.
pub(crate) fn ranked(experiment: &Experiment, word: VerdictWord) -> Vec<&ArmVerdict> {
    let mut all: Vec<&ArmVerdict> = experiment.verdicts.iter().filter(|v| v.word == word).collect();
    let ratio = |verdict: &ArmVerdict| verdict.effect.as_ref().map_or(1.0, |e| e.ratio);
    all.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    all
}

/// How an experiment ended.
pub(crate) fn outcome(experiment: &Experiment) -> SessionOutcome {
    if experiment.interrupted {
        return SessionOutcome::Interrupted;
    }
    if let Some(why) = &experiment.halted {
        return SessionOutcome::CannotTell { why: why.clone() };
    }
    let named = |word| -> Vec<String> {
        ranked(experiment, word).into_iter().map(|verdict| verdict.arm.clone()).collect()
    };
    let (keep, arms) = (named(VerdictWord::Keep), named(VerdictWord::Likely));
    if !keep.is_empty() {
        return SessionOutcome::Proven { keep };
    }
    if !arms.is_empty() {
        return SessionOutcome::Likely { arms };
    }
    let ratio = |v: &ArmVerdict| v.effect.as_ref().map_or(f64::INFINITY, |effect| effect.ratio);
    let best = |word: VerdictWord| {
        let of_word = experiment.verdicts.iter().filter(move |v| v.word == word);
        of_word.min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    };
    let little = experiment.verdicts.iter().filter(|v| v.word == VerdictWord::NoGain);
    let ruled_out = little.filter_map(|v| v.no_gain_above_share).max_by(f64::total_cmp);
    // An arm that the budget had no time for does not invalidate the answer about the others.
    let untried = || best(VerdictWord::NotTried).filter(|_| ruled_out.is_none());
    if let Some(open) = best(VerdictWord::CannotTell).or_else(untried) {
        return SessionOutcome::CannotTell { why: format!("{}: {}", open.arm, open.why) };
    }
    ruled_out
        .map_or(SessionOutcome::NothingKept, |above_share| SessionOutcome::NoGain { above_share })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::plan::{ArmSettings, FileKind, HugeFile};

    #[test]
    fn each_arm_leaves_the_files_of_the_others_as_a_plain_start_does() {
        let arm = |name: &str, paths: &[&str]| {
            let file = |path: &&str| HugeFile { path: (*path).into(), kind: FileKind::Input };
            let huge_files = paths.iter().map(file).collect();
            let settings = ArmSettings { huge_files, ..ArmSettings::default() };
            ProgramArm { settings, ..ProgramArm::unchanged(name, &[]) }
        };
        let arms = [arm("one", &["/a", "/b"]), arm("two", &["/b", "/c"]), arm("three", &[])];
        let all = huge_files(&arms);
        let natural = |arm: &ProgramArm| beside(arm.clone(), &all).natural_files;
        assert_eq!(natural(&arms[0]), ["/c"]);
        assert_eq!(natural(&arms[1]), ["/a"]);
        assert_eq!(natural(&arms[2]), ["/a", "/b", "/c"]);
        assert_eq!(natural(&arm("plain", &[])), ["/a", "/b", "/c"]);
        assert_eq!(natural(&arm("both", &["/a", "/b", "/b", "/c"])), [""; 0]);
    }
}
