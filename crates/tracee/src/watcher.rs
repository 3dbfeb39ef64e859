//! What is done to a running tree from outside: a [`Watcher`] is called when it asked to be, later
//! where its looks take long, and never otherwise.
//!
//! The supervising loop sleeps until the earliest of these moments, so a run without watchers has
//! no wake-ups of ours at all. After the first 20 ms of the program a watcher rests for at least
//! twenty times the CPU time of its last look (`run`).

use crate::tree::Tree;
use pagewise_model::plan::Watch;
use pagewise_model::units::Nanos;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;

/// Something done while the program runs.
pub trait Watcher {
    /// Its name in reports.
    fn name(&self) -> &str;
    /// Looks at the tree and acts. Returns when to be called next, counted from the start of the
    /// program; `None`: never again. It may be called later than it says.
    fn tick(&mut self, tree: &Tree, since_start: Nanos) -> Option<Nanos>;
    /// Called once after the program has ended.
    fn finish(&mut self) -> WatchReport;
}

/// What a watcher did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchReport {
    pub watch: String,
    /// How often its mechanism took effect.
    pub counter: u64,
    /// What else to know, a sentence each.
    pub notes: Vec<String>,
    /// What did not work, a sentence each.
    #[serde(default)]
    pub failures: Vec<String>,
}

/// What a watcher may need to know about the start.
#[derive(Debug, Clone, Default)]
pub struct Context {
    /// Process id of the program.
    pub pid: i32,
    /// Pipes that the launcher holds, inherited or gave to the program: never to be touched.
    pub foreign_pipes: HashSet<u64>,
}

/// Makes the watcher for a part of a plan.
pub type MakeWatcher<'a> = &'a dyn Fn(&Watch, &Context) -> Box<dyn Watcher>;
