//! The live processes of a program that was started here.
//!
//! In an experiment these are the descendants of this process, without its helpers: as a subreaper
//! (`PR_SET_CHILD_SUBREAPER`) it gets the orphans. In `run` they are the program and its descendants, because
//! this process may have children from before its own `exec` (`sidecar & exec pagewise run ...`). There, an
//! orphan whose parent died between two looks is lost; one seen before is kept.
//!
//! This is not a snapshot: a process forked during a look is seen by the next one. So use this to look at a
//! tree, and `descendants` to end it. Cost of a look: one read of the /proc directory and about 15 us for
//! each process not seen before.

use pagewise_kernel::proc::{self, tree::DescendantScanner};
use std::collections::HashSet;

/// The processes of one program.
#[derive(Debug)]
pub struct ProcessTree {
    root: i32,
    helpers: HashSet<i32>,
    scanner: DescendantScanner,
    /// The scanner searches below the root, so it does not find the root itself.
    below_root: bool,
    live: Vec<i32>,
}

impl ProcessTree {
    /// All descendants of this process, a subreaper, as the tree of the child `root`. `helpers` are children
    /// that do not belong to it.
    #[must_use]
    pub fn new(root: i32, helpers: impl IntoIterator<Item = i32>) -> Self {
        let helpers = helpers.into_iter().collect();
        let scanner = DescendantScanner::new(proc::own_pid());
        Self { root, helpers, scanner, below_root: false, live: vec![root] }
    }

    /// The process `root` and its descendants.
    #[must_use]
    pub fn below(root: i32) -> Self {
        let scanner = DescendantScanner::new(root);
        Self { root, helpers: HashSet::new(), scanner, below_root: true, live: vec![root] }
    }

    /// Process id of the program itself.
    #[must_use]
    pub const fn root(&self) -> i32 {
        self.root
    }

    /// Its processes as of the last look, including ended ones that were not reaped.
    #[must_use]
    pub fn pids(&self) -> &[i32] {
        &self.live
    }

    /// Looks again. If /proc cannot be read, the previous result stays.
    pub fn refresh(&mut self) {
        if let Ok(found) = self.scanner.scan() {
            let root = self.below_root.then_some(self.root);
            let found = root.into_iter().chain(found);
            self.live = found.filter(|pid| !self.helpers.contains(pid)).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_program_is_nothing_of_ours() {
        use std::process::{Command, Stdio};
        use std::time::{Duration, Instant};
        let start = |script| Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn();
        let mut stranger = start("read wait").unwrap();
        let mut program = start("exec 3<&0; (read wait <&3) & wait").unwrap();
        let id = |child: &std::process::Child| i32::try_from(child.id()).unwrap();
        let mut tree = ProcessTree::below(id(&program));
        let start = Instant::now();
        while tree.pids().len() < 2 && start.elapsed() < Duration::from_secs(10) {
            tree.refresh();
        }
        assert!(tree.pids().len() == 2 && tree.pids()[0] == id(&program), "{tree:?}");
        let mut all = ProcessTree::new(id(&program), []);
        all.refresh();
        assert!(all.pids().contains(&id(&stranger)) && !tree.pids().contains(&id(&stranger)));
        for child in [&mut stranger, &mut program] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }
}
