//! Watcher of `pipe-grow`: grows each suitable pipe of the tree once.

use super::Rhythm;
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::pipes::{PipeLedger, grow_all};
use pagewise_tracee::tree::ProcessTree;
use pagewise_tracee::watcher::{RunWatcher, WatchContext, WatchReport};

/// Pause between two looks after the set-up phase.
const STEADY: Nanos = Nanos::millis(5);

pub(super) struct PipeGrowthWatcher {
    ledger: PipeLedger,
}

impl PipeGrowthWatcher {
    pub(super) fn new(capacity: Bytes, budget: Bytes, context: &WatchContext) -> Self {
        Self { ledger: PipeLedger::new(capacity, budget, context.foreign_pipes.clone()) }
    }
}

impl RunWatcher for PipeGrowthWatcher {
    fn name(&self) -> &str {
        crate::pipe_grow::WATCH
    }

    fn tick(&mut self, tree: &ProcessTree, since_start: Nanos) -> Option<Nanos> {
        if self.ledger.limit_reached() {
            return None;
        }
        grow_all(tree, &mut self.ledger);
        Some(Rhythm { steady: STEADY }.next(since_start, since_start))
    }

    fn finish(&mut self) -> WatchReport {
        let (mut notes, mut failures) = (Vec::new(), Vec::new());
        if self.ledger.limit_reached() {
            failures.push(
                "the user's pipe budget (fs.pipe-user-pages-soft) is used up: some pipes were \
                 not grown"
                    .to_owned(),
            );
        }
        if self.ledger.left_out() > 0 {
            failures.push(format!(
                "{} pipe(s) not grown: pagewise's own budget of {} for more pipe memory was used up",
                self.ledger.left_out(),
                self.ledger.budget()
            ));
        }
        for (errno, count) in self.ledger.refusals() {
            let error = std::io::Error::from_raw_os_error(*errno);
            failures.push(format!("{count} pipe(s) not grown: {error}"));
        }
        for (why, count) in self.ledger.left_alone() {
            notes.push(format!("{count} pipe(s) unchanged: {why}"));
        }
        if self.ledger.grown() > 0 {
            notes.push(format!("at most {} more pipe memory at once", self.ledger.most_held()));
        }
        let watch = self.name().to_owned();
        WatchReport { watch, counter: self.ledger.grown(), notes, failures }
    }
}
