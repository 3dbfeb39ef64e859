//! Watcher of `place=apart`: processes that pipes connect alternate over the given CPUs.

use super::Rhythm;
use pagewise_model::Nanos;
use pagewise_tracee::pipes::ends;
use pagewise_tracee::placement::{CpuPlacer, edges, place};
use pagewise_tracee::tree::ProcessTree;
use pagewise_tracee::watcher::{RunWatcher, WatchContext, WatchReport};
use std::collections::HashSet;

/// Pause between two looks after the set-up phase.
const STEADY: Nanos = Nanos::millis(10);

pub(super) struct CpuAlternationWatcher {
    placer: CpuPlacer,
    foreign: HashSet<u64>,
    placed: u64,
    refused: u64,
}

impl CpuAlternationWatcher {
    pub(super) fn new(cpus: Vec<u32>, context: &WatchContext) -> Self {
        let foreign = context.foreign_pipes.clone();
        Self { placer: CpuPlacer::new(cpus), foreign, placed: 0, refused: 0 }
    }
}

impl RunWatcher for CpuAlternationWatcher {
    fn name(&self) -> &str {
        crate::place::WATCH
    }

    fn tick(&mut self, tree: &ProcessTree, since_start: Nanos) -> Option<Nanos> {
        for (pid, cpu) in self.placer.assign(&edges(&ends(tree), &self.foreign)) {
            match place(pid, cpu) {
                Ok(threads) => self.placed += u64::from(threads > 0),
                Err(_gone_or_refused) => self.refused += 1,
            }
        }
        Some(Rhythm { steady: STEADY }.next(since_start, since_start))
    }

    fn finish(&mut self) -> WatchReport {
        let failures = if self.refused > 0 {
            vec![format!("{} process(es) could not be placed", self.refused)]
        } else {
            Vec::new()
        };
        let watch = self.name().to_owned();
        WatchReport { watch, counter: self.placed, notes: Vec::new(), failures }
    }
}
