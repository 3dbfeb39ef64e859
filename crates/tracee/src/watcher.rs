//! Actions on a running tree from outside. A [`RunWatcher`] is called when it asked to be, later if its looks
//! take long, and never otherwise.
//!
//! The supervising loop sleeps until the earliest of these moments, so a run without watchers has no wake-ups
//! at all. After the first 20 ms of the program, a watcher rests for at least twenty times the CPU time of
//! its last look (`run`).

use crate::tree::ProcessTree;
use pagewise_model::plan::WatchAction;
use pagewise_model::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// An action while the program runs.
pub trait RunWatcher {
    /// Its name in reports.
    fn name(&self) -> &str;
    /// Looks at the tree and acts. Returns when to be called next, as time since the start of the program;
    /// `None` for never. The call may come later.
    fn tick(&mut self, tree: &ProcessTree, since_start: Nanos) -> Option<Nanos>;
    /// Called once after the program has ended.
    fn finish(&mut self) -> WatchReport;
}

/// What a watcher did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchReport {
    pub watch: String,
    /// Number of times its mechanism took effect.
    pub counter: u64,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
    /// What failed, one sentence each.
    #[serde(default)]
    pub failures: Vec<String>,
}

/// Facts about the start that a watcher may need.
#[derive(Debug, Clone, Default)]
pub struct WatchContext {
    /// Process id of the program.
    pub pid: i32,
    /// Pipes that the launcher holds, has inherited, or gave to the program: never touch them.
    pub foreign_pipes: HashSet<u64>,
}

/// Creates the watcher for a part of a plan.
pub type MakeWatcher<'a> = &'a dyn Fn(&WatchAction, &WatchContext) -> Box<dyn RunWatcher>;
