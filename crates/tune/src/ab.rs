//! `ab`: commands against the first of them, through the same engine.

use crate::at_once::{self, ObservedProgram};
use crate::experiment::WorldLab;
use crate::look;
use crate::output::{CapturedOutput, OutputBaseline, OutputPolicy};
use crate::race::{ProgramSubject, RaceGoal};
use crate::request::SessionRequest;
use crate::session;
use crate::stop::SessionStop;
use crate::world::{ProgramArm, ProgramWorld, RunLimits, SessionEvent, TracedLookPlan};
use pagewise_model::look::LookFindings;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_model::{Fact, Nanos};
use std::ffi::OsString;

/// A command that takes longer is not traced.
const LONG: Nanos = Nanos::secs(10);

/// Commands to set against each other.
#[derive(Debug)]
pub struct CommandComparison<'a> {
    /// Its command is the first, its arms are the others, each judged against the first.
    pub request: &'a SessionRequest,
    /// Name of the first.
    pub first_name: String,
    /// When it has its answer.
    pub goal: RaceGoal,
}

impl CommandComparison<'_> {
    /// Runs the experiment. The run contains everything found so far, even after an early stop.
    pub fn run(&self, world: &mut dyn ProgramWorld) -> (SavedRun, Option<SessionStop>) {
        let others = self.request.spec.own_arms.iter().map(|other| &other.command);
        let all: Vec<&[OsString]> =
            std::iter::once(&self.request.spec.command).chain(others).map(Vec::as_slice).collect();
        let run = self.request.empty_run(RunKind::Ab, &all.join(&OsString::from("---")));
        filled(run, world, |run, world| self.fill(run, world))
    }

    fn fill(&self, run: &mut SavedRun, world: &mut dyn ProgramWorld) -> Result<(), SessionStop> {
        let request = self.request;
        let since = world.now();
        let machine = world.machine();
        if machine.hypervisor.is_some() {
            world.tell(&SessionEvent::Stage("measuring this machine's unit prices"));
            run.prices = Some(world.prices()?);
        }
        run.machine = Some(machine);
        world.tell(&SessionEvent::Stage("first runs"));
        let plain = ProgramArm::unchanged(&self.first_name, &request.spec.command);
        let first = self.captured(&plain, world)?;
        let (mut slowest, mut arms) = (first.usage.wall_ns, Vec::new());
        let mut seen = vec![self.seen(&plain, &first, world)?];
        // Two commands may well put out different things: the report says so, and no arm is rejected for it.
        let base =
            OutputBaseline::of_one(first).map_err(|why| SessionStop::Output(why.to_string()))?;
        for other in &request.spec.own_arms {
            let arm = ProgramArm::own(other);
            let captured = self.captured(&arm, world)?;
            run.output_checks.push(base.check(&arm.name, &captured));
            slowest = slowest.max(captured.usage.wall_ns);
            seen.push(self.seen(&arm, &captured, world)?);
            arms.push(arm);
        }
        let limits = RunLimits { time: Some(look::longest(slowest.0)), ..RunLimits::default() };
        let spent = Nanos(world.now().0.saturating_sub(since.0));
        let (runs, cost_ns) = if self.is_over(spent + slowest) {
            (seen[0].runs.clone(), slowest)
        } else {
            let ignore_failure = request.spec.ignore_failure;
            let timed = look::time(world, &plain, ignore_failure, limits, |_, _| false)?;
            (timed.runs, timed.cost_ns)
        };
        run.look = Some(LookFindings {
            runs,
            ..LookFindings::missing("not part of a comparison of commands")
        });
        let mut programs = ProgramSubject::new(WorldLab::new(request, world), plain);
        programs.learn(run, cost_ns, limits, &seen);
        let names = std::iter::once(&self.first_name).chain(arms.iter().map(|arm| &arm.name));
        for (arm, seen) in names.zip(&seen) {
            programs.learn_work(arm, &seen.runs);
        }
        let entrants = programs.enter_arms(arms, OutputPolicy::Free);
        session::race(&mut programs, run, since, self.goal, entrants)
    }

    /// One arm's effects on the outside world, if they can permit runs at once and are quick to trace.
    fn seen(
        &self,
        arm: &ProgramArm,
        first: &CapturedOutput,
        world: &mut dyn ProgramWorld,
    ) -> Result<ObservedProgram, SessionStop> {
        let traced = Fact::missing("it runs too long to be traced");
        let seen = ObservedProgram { traced, runs: vec![first.usage.clone()] };
        let in_turn = at_once::in_turn_by_request(self.request).is_some()
            || seen.waits(self.request.spec.quantity).is_some();
        if in_turn || first.usage.wall_ns > LONG {
            return Ok(seen);
        }
        Ok(ObservedProgram { traced: world.traced(arm, TracedLookPlan::default())?.0, ..seen })
    }

    /// Whether this is more time than the user gave, by more than a tenth.
    fn is_over(&self, time: Nanos) -> bool {
        let budget = self.request.spec.budget_ns;
        budget.is_some_and(|budget| time.0 > budget.0.saturating_add(budget.0 / 10))
    }

    /// An untimed run of one arm. Nothing is known yet that would limit it but the user's budget.
    fn captured(
        &self,
        arm: &ProgramArm,
        world: &mut dyn ProgramWorld,
    ) -> Result<CapturedOutput, SessionStop> {
        let time = self.request.spec.budget_ns;
        let run =
            world.captured(arm, &RunLimits { time, ..RunLimits::default() }).map_err(|stop| {
                match stop {
                    SessionStop::TooLong(limit) => SessionStop::OverBudget(limit),
                    stop => stop,
                }
            })?;
        if run.usage.ended.success() || self.request.spec.ignore_failure {
            return Ok(run);
        }
        let (arm, ended) = (Some(arm.name.clone()), run.usage.ended);
        Err(SessionStop::Failed { arm, ended, said: run.said, remove: None })
    }
}

/// A run that `fill` has filled as far as possible, with the time that took, and why it ended early.
pub(crate) fn filled(
    mut run: SavedRun,
    world: &mut dyn ProgramWorld,
    fill: impl FnOnce(&mut SavedRun, &mut dyn ProgramWorld) -> Result<(), SessionStop>,
) -> (SavedRun, Option<SessionStop>) {
    let start = world.now();
    let done = fill(&mut run, world);
    run.took_ns = Nanos(world.now().0.saturating_sub(start.0));
    session::ended(run, done)
}
