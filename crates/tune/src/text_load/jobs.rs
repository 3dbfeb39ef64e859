//! Copies of a program that run at the same time, on all CPUs.
//!
//! A traced look comes first: it says whether the program may run again, and whether two of it would write the same
//! file. The rate is the sum over all copies, one run in its wall time each.

use super::LoadedProgram;
use crate::at_once::ObservedProgram;
use crate::folios::NaturalFolios;
use crate::look;
use crate::race::SessionClock;
use crate::request::SessionRequest;
use crate::stop::SessionStop;
use crate::world::{ProgramArm, ProgramWorld, RunLimits, RunTiming, SessionEvent, TracedLookPlan};
use pagewise_kernel::keep::CacheKeeper;
use pagewise_kernel::limits;
use pagewise_model::bench::text_load::TextLoadWindow;
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Nanos};
use std::path::Path;

/// Both arms of a program.
pub(super) struct CopiesAtOnce<'a> {
    world: &'a mut dyn ProgramWorld,
    arms: [ProgramArm; 2],
    limits: RunLimits,
    /// Holds the code of both in the page cache as it is.
    _keeper: CacheKeeper,
}

impl<'a> CopiesAtOnce<'a> {
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

    /// One run of each of `size` copies, all at once.
    fn load(&mut self, arm: usize, size: u32) -> Result<TextLoadWindow, SessionStop> {
        let arm = &self.arms[arm];
        // Copies wait for each other's CPUs.
        let time = self.limits.time.map(|time| Nanos(time.0.saturating_mul(u64::from(size))));
        let block = vec![(arm, RunLimits { time, ..self.limits }); size as usize];
        let runs = self.world.timed_at_once(&[block], Bytes(0), true, false)?;
        let (mut rate_per_second, mut cpu) = (0.0, 0.0);
        for run in runs.into_iter().flatten() {
            let usage = run?.done.usage;
            sound(arm, &usage.ended)?;
            rate_per_second += 1e9 / usage.wall_ns.0.max(1) as f64;
            cpu += usage.cpu_ns().0 as f64;
        }
        Ok(TextLoadWindow { rate_per_second, cpu_ns: cpu / f64::from(size) })
    }
}

/// Refuses a run that failed.
fn sound(arm: &ProgramArm, ended: &ProgramEnd) -> Result<(), SessionStop> {
    if ended.success() {
        return Ok(());
    }
    let (arm, ended) = (Some(arm.name.clone()), *ended);
    Err(SessionStop::Failed { arm, ended, said: String::new(), remove: None })
}

impl SessionClock for CopiesAtOnce<'_> {
    fn now(&self) -> Nanos {
        self.world.now()
    }

    fn interrupted(&self) -> bool {
        self.world.interrupted()
    }
}

impl LoadedProgram for CopiesAtOnce<'_> {
    fn begin(&mut self) -> Result<(), SessionStop> {
        Ok(())
    }

    fn pair(&mut self, size: u32, on_first: bool) -> Result<[TextLoadWindow; 2], SessionStop> {
        let first = self.load(usize::from(on_first), size)?;
        let second = self.load(usize::from(!on_first), size)?;
        Ok(if on_first { [second, first] } else { [first, second] })
    }

    fn end(&mut self) {}

    fn tell(&mut self, text: &str) {
        self.world.tell(&SessionEvent::Stage(text));
    }
}
