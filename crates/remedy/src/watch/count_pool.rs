//! Watcher of `pool`: how much memory of the tree is on reserved huge pages.
//!
//! `HugetlbPages` in `/proc/PID/status` counts the pages that a process has touched. The count is lost when
//! the process ends, so it is read while the tree lives, and the maximum counts. A look takes some 20 us per
//! process. Not seen: pages touched after the last look. Shared pages count for each process.

use super::Rhythm;
use pagewise_kernel::proc::status;
use pagewise_model::{Bytes, Nanos, PageSize};
use pagewise_tracee::tree::ProcessTree;
use pagewise_tracee::watcher::{RunWatcher, WatchReport};

/// Pause between two looks after the set-up phase.
const STEADY: Nanos = Nanos::millis(20);

pub(super) struct PoolCountWatcher {
    page: PageSize,
    most: Bytes,
}

impl PoolCountWatcher {
    pub(super) const fn new(page: PageSize) -> Self {
        Self { page, most: Bytes(0) }
    }
}

impl RunWatcher for PoolCountWatcher {
    fn name(&self) -> &str {
        crate::pool::NAME
    }

    fn tick(&mut self, tree: &ProcessTree, since_start: Nanos) -> Option<Nanos> {
        let used = |pid: &i32| status::read(*pid).ok().and_then(|s| s.pool).unwrap_or_default().0;
        self.most = self.most.max(Bytes(tree.pids().iter().map(used).sum()));
        Some(Rhythm { steady: STEADY }.next(since_start, since_start))
    }

    fn finish(&mut self) -> WatchReport {
        let (mut notes, mut failures) = (Vec::new(), Vec::new());
        if self.most > Bytes(0) {
            notes.push(format!("at least {} on pages of the pool at once", self.most));
        } else {
            failures.push(
                "no memory was on pages of the pool: only a heap of glibc 2.35 or later asks for them"
                    .to_owned(),
            );
        }
        let watch = self.name().to_owned();
        WatchReport { watch, counter: self.most.pages(self.page), notes, failures }
    }
}
