//! Copies of a program that run at the same time, on all CPUs.
//!
//! A traced look comes first: it says whether the program may run again, and whether two of it would write the same
//! file. The rate of an arm is the sum over its copies, one run in its wall time each. Arms at once share all CPUs.

use super::LoadedProgram;
use crate::at_once::ObservedProgram;
use crate::folios::NaturalFolios;
use crate::look;
use crate::race::SessionClock;
use crate::request::SessionRequest;
use crate::stop::SessionStop;
use crate::world::{
    ProgramArm, ProgramWorld, RunLimits, RunTiming, SessionEvent, TimedRun, TracedLookPlan,
};
use pagewise_kernel::keep::CacheKeeper;
use pagewise_kernel::limits;
use pagewise_model::bench::text_load::TextLoadWindow;
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Nanos};
use std::path::Path;

/// Both arms of a program.
pub(super) struct CopiesOfProgram<'a> {
    world: &'a mut dyn ProgramWorld,
    arms: [ProgramArm; 2],
    limits: RunLimits,
    /// Holds the code of both in the page cache as it is.
    _keeper: CacheKeeper,
}

impl<'a> CopiesOfProgram<'a> {
    /// Looks at the program, and reads off as a plain start does.
    pub(super) fn new(
        request: &SessionRequest,
        arms: [ProgramArm; 2],
        world: &'a mut dyn ProgramWorld,
    ) -> Result<(Self, Vec<String>), SessionStop> {
        world.tell(&SessionEvent::Stage("tracing one run"));
        let (traced, said) =
            world.traced(&ProgramArm::plain(request), TracedLookPlan::default())?;
        let notes = look::rerun(request, &traced, said)?;
        let limits = look::first_limits(&traced);
        let seen = ObservedProgram { traced, runs: Vec::new() };
        if let Some(why) = seen.meets_itself().filter(|_| !request.spec.rerun_safe) {
            return Err(SessionStop::Service(format!("--jobs: {why}")));
        }
        let room = limits::experiment_memory().map_or(Bytes(0), |room| room.bytes);
        let (mut folios, mut keeper) = (NaturalFolios::default(), CacheKeeper::new(room));
        let [off, on] = &arms;
        folios.drop_changed(&off.natural_files, &mut keeper).map_err(SessionStop::Broken)?;
        // With the settings of no arm: the code lies already as it should.
        let plain = |arm: &ProgramArm| ProgramArm::unchanged(&arm.name, &arm.command);
        let timing = RunTiming { limits, ..RunTiming::default() };
        sound(&arms[0], &world.timed(&plain(off), &timing)?.done.usage.ended)?;
        folios.settle(&off.natural_files, &mut keeper).map_err(SessionStop::Broken)?;
        for file in &on.settings.huge_files {
            keeper.hold(Path::new(&file.path));
        }
        let arms = [plain(off), plain(on)];
        Ok((Self { world, arms, limits, _keeper: keeper }, notes))
    }
}

/// The figures of the next `size` runs, those of this arm.
fn figures(
    arm: &ProgramArm,
    runs: &mut dyn Iterator<Item = Result<TimedRun, SessionStop>>,
    size: u32,
) -> Result<TextLoadWindow, SessionStop> {
    let (mut rate_per_second, mut cpu) = (0.0, 0.0);
    for run in runs.take(size as usize) {
        let usage = run?.done.usage;
        sound(arm, &usage.ended)?;
        rate_per_second += 1e9 / usage.wall_ns.0.max(1) as f64;
        cpu += usage.cpu_ns().0 as f64;
    }
    Ok(TextLoadWindow { rate_per_second, cpu_ns: cpu / f64::from(size) })
}

/// Refuses a run that failed.
fn sound(arm: &ProgramArm, ended: &ProgramEnd) -> Result<(), SessionStop> {
    if ended.success() {
        return Ok(());
    }
    let (arm, ended) = (Some(arm.name.clone()), *ended);
    Err(SessionStop::Failed { arm, ended, said: String::new(), remove: None })
}

impl SessionClock for CopiesOfProgram<'_> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl LoadedProgram for CopiesOfProgram<'_> {
    fn begin(&mut self) -> Result<(), SessionStop> {
        Ok(())
    }

    fn load(&mut self, arms: &[usize], size: u32) -> Result<Vec<TextLoadWindow>, SessionStop> {
        // Copies wait for each other's CPUs.
        let time = |time: Nanos| Nanos(time.0.saturating_mul(2 * u64::from(size)));
        let limits = RunLimits { time: self.limits.time.map(time), ..self.limits };
        let of_arm = |arm: &usize| vec![(&self.arms[*arm], limits); size as usize];
        let block: Vec<(&ProgramArm, RunLimits)> = arms.iter().flat_map(of_arm).collect();
        let runs = self.world.timed_at_once(&[block], Bytes(0), true, false)?;
        let mut runs = runs.into_iter().flatten();
        arms.iter().map(|arm| figures(&self.arms[*arm], &mut runs, size)).collect()
    }

    fn end(&mut self) {}

    fn tell(&mut self, text: &str) {
        self.world.tell(&SessionEvent::Stage(text));
    }
}
