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

use crate::wait;
use pagewise_kernel::proc::{self, stat, tree::Scanner};
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// How long processes that were killed are waited for: one in uninterruptible sleep ends late.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

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

    /// Kills every process of the tree but the unreaped `root`; returns how many were alive.
    pub(crate) fn kill_leftovers(&mut self) -> u32 {
        self.kill_all(Some(self.root))
    }

    /// Kills the whole tree; the root stays to be waited for.
    pub(crate) fn kill(&mut self) {
        wait::kill(self.root, libc::SIGKILL);
        self.kill_all(Some(self.root));
    }

    /// SIGKILL to all but `spared`, again and again until none is left alive.
    fn kill_all(&mut self, spared: Option<i32>) -> u32 {
        let mut killed = HashSet::new();
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
                killed.insert(pid);
                wait::kill(pid, libc::SIGKILL);
            }
            if alive == 0 || Instant::now() > deadline {
                return u32::try_from(killed.len()).unwrap_or(u32::MAX);
            }
            std::thread::sleep(Duration::from_micros(300));
        }
    }

    /// Private memory resident in all processes together, in bytes.
    pub(crate) fn private_bytes(&self) -> u64 {
        let page = pagewise_kernel::page_size::base().bytes();
        self.live.iter().filter_map(|pid| private_pages(*pid)).sum::<u64>().saturating_mul(page)
    }
}

fn is_alive(pid: i32) -> bool {
    stat::read(pid).is_ok_and(|s| !s.is_zombie())
}

/// Resident pages of `pid` that are no pages of files or shared memory (`/proc/PID/statm`).
fn private_pages(pid: i32) -> Option<u64> {
    let text = proc::read_text(format!("/proc/{pid}/statm")).ok()?;
    parse_statm(&text)
}

fn parse_statm(text: &str) -> Option<u64> {
    let mut numbers = text.split_ascii_whitespace().skip(1).map(str::parse::<u64>);
    let resident = numbers.next()?.ok()?;
    let shared = numbers.next()?.ok()?;
    Some(resident.saturating_sub(shared))
}

/// Kills what lies below our own process, `spared` processes and what is below them left out.
pub(crate) fn kill_own_descendants(spared: &[i32]) -> u32 {
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
    fn private_memory_is_resident_less_shared() {
        assert_eq!(parse_statm("1000 300 200 1 0 90 0"), Some(100));
        assert_eq!(parse_statm("1000"), None);
        assert_eq!(parse_statm("0 0 0 0"), Some(0));
    }
}
