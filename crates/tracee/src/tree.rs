//! The live processes of a program that was started here.
//!
//! In an experiment they are what lies below our own process, helpers of ours left out: as a
//! subreaper (`PR_SET_CHILD_SUBREAPER`) we get the orphans, so nothing escapes. In `run` they are
//! the program and what lies below it, because we may have children from before our own `exec`
//! (`sidecar & exec pagewise run ...`); an orphan whose parent died between two looks is lost then,
//! one seen before is kept.
//!
//! Not a snapshot: a process forked during a look is seen by the next one. Cost of a look: one
//! read of the /proc directory and about 15 us for each process not seen before.

use crate::launch_error::LaunchError;
use crate::wait;
use pagewise_kernel::proc::{self, stat, tree::Scanner};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long processes that were killed are waited for: one in uninterruptible sleep ends late.
pub(crate) const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// The processes of one program.
#[derive(Debug)]
pub struct Tree {
    root: i32,
    helpers: HashSet<i32>,
    scanner: Scanner,
    /// The scanner looks below the root, and so does not find it.
    below_root: bool,
    live: Vec<i32>,
}

impl Tree {
    /// All below us, a subreaper, which is the tree of our child `root`; `helpers` are children of
    /// ours that do not belong to it.
    #[must_use]
    pub fn new(root: i32, helpers: impl IntoIterator<Item = i32>) -> Self {
        let helpers = helpers.into_iter().collect();
        let scanner = Scanner::new(proc::own_pid());
        Self { root, helpers, scanner, below_root: false, live: vec![root] }
    }

    /// The process `root` and what lies below it.
    #[must_use]
    pub fn below(root: i32) -> Self {
        let scanner = Scanner::new(root);
        Self { root, helpers: HashSet::new(), scanner, below_root: true, live: vec![root] }
    }

    /// Process id of the program itself.
    #[must_use]
    pub const fn root(&self) -> i32 {
        self.root
    }

    /// Its processes as of the last look, ended ones that nobody waited for included.
    #[must_use]
    pub fn pids(&self) -> &[i32] {
        &self.live
    }

    /// Looks again. When /proc cannot be read, what was known stays.
    pub fn refresh(&mut self) {
        if let Ok(found) = self.scanner.scan() {
            let root = self.below_root.then_some(self.root);
            let found = root.into_iter().chain(found);
            self.live = found.filter(|pid| !self.helpers.contains(pid)).collect();
        }
    }

    /// Kills every process of the tree but the unreaped `root`.
    pub(crate) fn kill_leftovers(&mut self) -> Killed {
        self.kill_all(Some(self.root))
    }

    /// Kills the whole tree; the root stays to be waited for.
    pub(crate) fn kill(&mut self) -> Killed {
        wait::kill(self.root, libc::SIGKILL);
        self.kill_all(Some(self.root))
    }

    /// SIGKILL to all but `spared`, again and again until none is left alive.
    fn kill_all(&mut self, spared: Option<i32>) -> Killed {
        let mut signalled = HashSet::new();
        let deadline = Instant::now() + KILL_PATIENCE;
        loop {
            self.refresh();
            let others = self.live.iter().copied().filter(|pid| Some(*pid) != spared);
            let mut alive = 0;
            for pid in others {
                if wait::reap_if_ended(pid) || !is_alive(pid) {
                    continue;
                }
                alive += 1;
                signalled.insert(pid);
                wait::kill(pid, libc::SIGKILL);
            }
            if alive == 0 || Instant::now() > deadline {
                let signalled = u32::try_from(signalled.len()).unwrap_or(u32::MAX);
                return Killed { killed: signalled.saturating_sub(alive), alive };
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }
}

/// What became of processes that were to be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Killed {
    /// Were alive and have ended.
    pub(crate) killed: u32,
    /// Are alive although [`KILL_PATIENCE`] has passed.
    pub(crate) alive: u32,
}

impl Killed {
    /// An error for `program` when some are alive.
    pub(crate) fn check(self, program: String) -> Result<(), LaunchError> {
        match self.alive {
            0 => Ok(()),
            alive => Err(LaunchError::Unkillable { program, alive }),
        }
    }
}

fn is_alive(pid: i32) -> bool {
    stat::read(pid).is_ok_and(|s| !s.is_zombie())
}

/// Kills what lies below our own process, `spared` processes and what is below them left out.
pub(crate) fn kill_own_descendants(spared: &[i32]) -> Killed {
    let mut tree = Tree::new(0, spared.iter().copied());
    tree.kill_all(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_a_program_is_nothing_of_ours() {
        use std::process::{Command, Stdio};
        let start = |script| Command::new("sh").args(["-c", script]).stdin(Stdio::piped()).spawn();
        let mut stranger = start("read wait").unwrap();
        let mut program = start("exec 3<&0; (read wait <&3) & wait").unwrap();
        let id = |child: &std::process::Child| i32::try_from(child.id()).unwrap();
        let mut tree = Tree::below(id(&program));
        let start = Instant::now();
        while tree.pids().len() < 2 && start.elapsed() < KILL_PATIENCE {
            tree.refresh();
        }
        assert!(tree.pids().len() == 2 && tree.pids()[0] == id(&program), "{tree:?}");
        let mut all = Tree::new(id(&program), []);
        all.refresh();
        assert!(all.pids().contains(&id(&stranger)) && !tree.pids().contains(&id(&stranger)));
        for child in [&mut stranger, &mut program] {
            drop(child.stdin.take());
            child.wait().unwrap();
        }
    }

    #[test]
    fn what_outlives_sigkill_is_a_failure() {
        assert_eq!(Killed { killed: 3, alive: 0 }.check("x".into()), Ok(()));
        let error = Killed { killed: 3, alive: 2 }.check("x".into()).unwrap_err();
        assert_eq!(error, LaunchError::Unkillable { program: "x".into(), alive: 2 });
        let text = format!("{} s after", KILL_PATIENCE.as_secs());
        assert!(error.to_string().contains(&text), "{error}");
    }
}
