//! Runs at once: each below a separate supervising process, those of one block on one CPU.

use super::runs::Runs;
use super::{Live, raised, stopped, within_limits};
use crate::output::Captured;
use crate::stop::Stop;
use crate::world::{Arm, Limits, Timed};
use pagewise_kernel::{affinity, limits};
use pagewise_model::Bytes;
use pagewise_tracee::launch::{Launch, Sink};
use pagewise_tracee::run::Finished;
use pagewise_tracee::supervise::Supervisor;
use std::path::{Path, PathBuf};

/// How a supervising process is started.
pub(super) struct Helper {
    pub(super) exe: PathBuf,
    pub(super) args: Vec<String>,
}

impl Helper {
    pub(super) fn of(exe: &Path, args: &[&str]) -> Self {
        let args = args.iter().map(|arg| (*arg).to_owned()).collect();
        Self { exe: exe.to_owned(), args }
    }

    pub(super) fn start(&self) -> Result<Box<dyn Runs>, Stop> {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        Ok(Box::new(Supervisor::start(&self.exe, &args).map_err(stopped)?))
    }
}

impl Live<'_> {
    /// What [`World::timed_at_once`] does.
    pub(super) fn run_side_by_side(
        &mut self,
        blocks: &[Vec<(&Arm, Limits)>],
        fresh: Bytes,
        spread: bool,
        keep: bool,
    ) -> Result<Vec<Vec<Result<Timed, Stop>>>, Stop> {
        let cpus = affinity::get(0).map_err(|error| Stop::Broken(error.to_string()))?;
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
                    Sink::File(_) => launch.stdout = Sink::File(out),
                    Sink::Pipe if keep => launch.stdout = Sink::PipeTo(out),
                    _ => {}
                }
                if keep {
                    launch.stderr = Sink::File(err);
                }
                launches.push(launch);
            }
        }
        let done = self.bounded_at_once(&launches)?.into_iter().enumerate();
        let timed = |at: usize, done: Finished| {
            let kept = keep.then(|| {
                let [out, err] = self.outputs_of(at);
                Captured::of(done.usage.clone(), &out, &err)
            });
            Timed { done, huge_slots: Vec::new(), conditioned, kept }
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
        launches: &[Launch],
    ) -> Result<Vec<Result<Finished, Stop>>, Stop> {
        while self.beside.len() + 1 < launches.len() {
            let helper = self.helper.as_ref();
            let none = || Stop::Broken("nothing can run beside another".to_owned());
            self.beside.push(helper.ok_or_else(none)?.start()?);
        }
        let interrupted = raised(&self.stop);
        let mut runs: Vec<&mut Box<dyn Runs>> =
            std::iter::once(&mut self.runs).chain(&mut self.beside).take(launches.len()).collect();
        let begun: Vec<_> = runs.iter_mut().zip(launches).map(|(one, it)| one.begin(it)).collect();
        let ended = |((one, launch), begun): ((&mut &mut Box<dyn Runs>, _), Result<(), _>)| {
            let finished = begun.and_then(|()| one.end(&interrupted)).map_err(stopped)?;
            within_limits(launch, finished)
        };
        Ok(runs.iter_mut().zip(launches).zip(begun).map(ended).collect())
    }
}
