//! Runs at once: each below a separate supervising process, those of one block on one CPU.

use super::runs::ProgramRunner;
use super::{RealWorld, raised, stopped, within_limits};
use crate::output::CapturedOutput;
use crate::stop::SessionStop;
use crate::world::{ProgramArm, RunLimits, TimedRun};
use pagewise_kernel::{affinity, limits};
use pagewise_model::Bytes;
use pagewise_tracee::launch::{OutputSink, ProgramLaunch};
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::RunSupervisor;
use std::path::{Path, PathBuf};

/// How a supervising process is started.
pub(super) struct SupervisorLauncher {
    pub(super) exe: PathBuf,
    pub(super) args: Vec<String>,
}

impl SupervisorLauncher {
    pub(super) fn of(exe: &Path, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self { exe: exe.to_owned(), args }
    }

    pub(super) fn start(&self) -> Result<Box<dyn ProgramRunner>, SessionStop> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        Ok(Box::new(RunSupervisor::start(&self.exe, &args).map_err(stopped)?))
    }
}

impl RealWorld<'_> {
    /// What [`ProgramWorld::timed_at_once`] does.
    pub(super) fn run_side_by_side(
        &mut self,
        blocks: &[Vec<(&ProgramArm, RunLimits)>],
        fresh: Bytes,
        spread: bool,
        keep: bool,
    ) -> Result<Vec<Vec<Result<TimedRun, SessionStop>>>, SessionStop> {
        let cpus = affinity::get(0).map_err(|error| SessionStop::Broken(error.to_string()))?;
        // None of them has files in huge folios: until an arm has had some, all find them as they were.
        let first = blocks.iter().flatten().next().filter(|_| self.folios.has_changed());
        if let Some((arm, limits)) = first {
            self.settle(arm, limits)?;
        }
        let conditioned = self.condition(fresh)?;
        let room = limits::experiment_memory().ok().map(|room| room.bytes);
        let count = blocks.iter().map(Vec::len).sum::<usize>().max(1) as u64;
        let mut launches = Vec::new();
        for block in blocks {
            let cpu = cpus.get(self.shared % cpus.len().max(1)).copied().filter(|_| !spread);
            self.shared += 1;
            for (arm, limits) in block {
                let mut launch = self.launch(arm, limits);
                launch.settings.cpus = cpu.map(|cpu| vec![cpu]);
                let share = room.map(|bytes| Bytes(bytes.0 / count));
                launch.memory_limit_bytes =
                    launch.memory_limit_bytes.into_iter().chain(share).min();
                let [out, err] = self.outputs_of(launches.len());
                match launch.stdout {
                    OutputSink::File(_) => launch.stdout = OutputSink::File(out),
                    OutputSink::Pipe if keep => launch.stdout = OutputSink::PipeTo(out),
                    _ => {}
                }
                if keep {
                    launch.stderr = OutputSink::File(err);
                }
                launches.push(launch);
            }
        }
        let done = self.bounded_at_once(&launches)?.into_iter().enumerate();
        let timed = |at: usize, done: FinishedRun| {
            let kept = keep.then(|| {
                let [out, err] = self.outputs_of(at);
                CapturedOutput::of(done.usage.clone(), &out, &err)
            });
            TimedRun { done, huge_slots: Vec::new(), conditioned, kept }
        };
        let mut done = done.map(|(at, run)| run.map(|done| timed(at, done)));
        Ok(blocks.iter().map(|block| done.by_ref().take(block.len()).collect()).collect())
    }

    /// The output files of the run with this number.
    fn outputs_of(&self, at: usize) -> [PathBuf; 2] {
        ["stdout", "stderr"].map(|stream| self.scratch.file(&format!("timed-{stream}-{at}")))
    }

    /// Runs all of them at once, to their ends. Each ends independently of the others.
    fn bounded_at_once(
        &mut self,
        launches: &[ProgramLaunch],
    ) -> Result<Vec<Result<FinishedRun, SessionStop>>, SessionStop> {
        while self.beside.len() + 1 < launches.len() {
            let helper = self.helper.as_ref();
            let none = || SessionStop::Broken("nothing can run beside another".to_owned());
            self.beside.push(helper.ok_or_else(none)?.start()?);
        }
        let interrupted = raised(&self.stop);
        let mut runs: Vec<&mut Box<dyn ProgramRunner>> =
            std::iter::once(&mut self.runs).chain(&mut self.beside).take(launches.len()).collect();
        let begun: Vec<_> = runs.iter_mut().zip(launches).map(|(one, it)| one.begin(it)).collect();
        let ended =
            |((one, launch), begun): ((&mut &mut Box<dyn ProgramRunner>, _), Result<(), _>)| {
                let finished = begun.and_then(|()| one.end(&interrupted)).map_err(stopped)?;
                within_limits(launch, finished)
            };
        Ok(runs.iter_mut().zip(launches).zip(begun).map(ended).collect())
    }
}
