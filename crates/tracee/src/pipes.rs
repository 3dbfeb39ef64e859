//! The pipes of a running tree, grown from outside.
//!
//! A pipe is found by its inode in `/proc/PID/fd`; one of its ends is borrowed with
//! `pidfd_getfd(2)`, or by opening `/proc/PID/fd/N` where that call is missing or refused, resized
//! by `fcntl(F_SETPIPE_SZ)` and closed at once: an end kept open would hide end of file and
//! SIGPIPE. Resizing keeps the content and wakes a writer that waits for room (fs/pipe.c).
//!
//! Capacities are bytes. What is grown counts against a budget, because all pipes of a user share
//! `pipe-user-pages-soft`: beyond it growth is refused (EPERM) and each new pipe of that user has
//! two pages only. EBUSY (content larger than the wanted size) passes and is tried again.
//!
//! Cost: 3 us for each descriptor of the tree per look, 10-20 us per pipe grown, once.

use crate::tree::Tree;
use pagewise_kernel::proc::fd::{self, Target};
use pagewise_kernel::{SysError, pidfd, pipe};
use pagewise_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::OwnedFd;

/// One end of a pipe as a process holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
    /// Who.
    pub pid: i32,
    /// Its descriptor.
    pub fd: i32,
    /// Inode of the pipe.
    pub inode: u64,
    /// It reads from the pipe.
    pub reads: bool,
    /// It writes to the pipe.
    pub writes: bool,
}

/// Every pipe end that processes of the tree hold now. Processes that are gone have none.
#[must_use]
pub fn ends(tree: &Tree) -> Vec<End> {
    tree.pids().iter().flat_map(|pid| ends_of(*pid)).collect()
}

fn ends_of(pid: i32) -> Vec<End> {
    let held = fd::list(pid).unwrap_or_default();
    let end = |d: fd::Descriptor| match d.target {
        Target::Pipe(inode) => {
            Some(End { pid, fd: d.fd, inode, reads: d.readable, writes: d.writable })
        }
        _ => None,
    };
    held.into_iter().filter_map(end).collect()
}

/// What became of an attempt to grow a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Growth {
    /// It has this capacity now, read back from the kernel, and had the other before.
    Grown {
        /// Before.
        from: Bytes,
        /// Now.
        to: Bytes,
    },
    /// It was at least as large already.
    LargeEnough,
    /// EBUSY or the process changed under us: worth another attempt.
    Later,
    /// EPERM: the user's limit on pipe memory is reached, or `pipe-max-size` exceeded.
    LimitReached,
    /// Refused with this error.
    Refused(i32),
}

/// What is known about the pipes of one program: which were done, which must not be touched, and
/// how much of the budget is left. Pure bookkeeping.
#[derive(Debug)]
pub struct Ledger {
    foreign: HashSet<u64>,
    done: HashSet<u64>,
    wanted: Bytes,
    budget: Bytes,
    held: HashMap<u64, Bytes>,
    grown: u64,
    most_held: Bytes,
    refusals: BTreeMap<i32, u64>,
    limit_reached: bool,
    /// Pipes that there is no budget for now, and how many ended like that.
    left_out: HashSet<u64>,
    ended_left_out: u64,
}

impl Ledger {
    /// Pipes are to have `wanted` bytes, all growth together at most `budget`, and those in
    /// `foreign` are left alone.
    #[must_use]
    pub fn new(wanted: Bytes, budget: Bytes, foreign: HashSet<u64>) -> Self {
        Self {
            foreign,
            done: HashSet::new(),
            wanted,
            budget,
            held: HashMap::new(),
            grown: 0,
            most_held: Bytes(0),
            refusals: BTreeMap::new(),
            limit_reached: false,
            left_out: HashSet::new(),
            ended_left_out: 0,
        }
    }

    /// The ends to grow now, one for each pipe that needs it; pipes that are gone give their share
    /// of the budget back.
    pub fn plan(&mut self, ends: &[End]) -> Vec<End> {
        let present: BTreeSet<u64> = ends.iter().map(|e| e.inode).collect();
        self.held.retain(|inode, _| present.contains(inode));
        self.done.retain(|inode| present.contains(inode));
        let waiting = self.left_out.len();
        self.left_out.retain(|inode| present.contains(inode));
        self.ended_left_out += (waiting - self.left_out.len()) as u64;
        let mut chosen = HashSet::new();
        let mut room = self.room();
        let mut plan = Vec::new();
        for end in ends {
            let open = !self.foreign.contains(&end.inode) && !self.done.contains(&end.inode);
            if !open || self.limit_reached || chosen.contains(&end.inode) {
                continue;
            }
            if room < self.wanted.0 {
                self.left_out.insert(end.inode);
                continue;
            }
            room -= self.wanted.0;
            self.left_out.remove(&end.inode);
            chosen.insert(end.inode);
            plan.push(*end);
        }
        plan
    }

    fn room(&self) -> u64 {
        self.budget.0.saturating_sub(self.held_now().0)
    }

    fn held_now(&self) -> Bytes {
        self.held.values().fold(Bytes(0), |sum, b| sum + *b)
    }

    /// Notes what became of the pipe `inode`.
    pub fn note(&mut self, inode: u64, growth: Growth) {
        match growth {
            Growth::Grown { from, to } => {
                self.grown += 1;
                self.done.insert(inode);
                self.held.insert(inode, Bytes(to.0.saturating_sub(from.0)));
                self.most_held = self.most_held.max(self.held_now());
            }
            Growth::LargeEnough => {
                self.done.insert(inode);
            }
            Growth::Later => {}
            Growth::LimitReached => self.limit_reached = true,
            Growth::Refused(errno) => {
                self.done.insert(inode);
                *self.refusals.entry(errno).or_default() += 1;
            }
        }
    }

    /// Capacity that pipes are brought to.
    #[must_use]
    pub const fn wanted(&self) -> Bytes {
        self.wanted
    }

    /// Pipes grown so far.
    #[must_use]
    pub const fn grown(&self) -> u64 {
        self.grown
    }

    /// Most pipe memory added at any one time.
    #[must_use]
    pub const fn most_held(&self) -> Bytes {
        self.most_held
    }

    /// The kernel refused growth because of the user's limit; nothing more is tried.
    #[must_use]
    pub const fn limit_reached(&self) -> bool {
        self.limit_reached
    }

    /// Pipes that were not grown because our own budget was used up as long as they lived.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.ended_left_out + self.left_out.len() as u64
    }

    /// The budget for all growth together.
    #[must_use]
    pub const fn budget(&self) -> Bytes {
        self.budget
    }

    /// Refusals by error number, the user's limit left out.
    #[must_use]
    pub const fn refusals(&self) -> &BTreeMap<i32, u64> {
        &self.refusals
    }
}

/// Grows the pipes of `tree` that `ledger` wants grown; returns how many were.
pub fn grow_all(tree: &Tree, ledger: &mut Ledger) -> u64 {
    let before = ledger.grown();
    let ends = ends(tree);
    for end in ledger.plan(&ends) {
        let growth = grow(end, ledger.wanted());
        ledger.note(end.inode, growth);
    }
    ledger.grown() - before
}

/// Brings the pipe behind `end` to `wanted` bytes.
#[must_use]
pub fn grow(end: End, wanted: Bytes) -> Growth {
    // The borrowed end lives for these few calls only.
    match borrow(end) {
        Ok(Some(pipe)) => resize(&pipe, wanted),
        Ok(None) => Growth::Later,
        Err(error) if error.is_gone() || error.errno() == Some(libc::EBADF) => Growth::Later,
        Err(error) => Growth::Refused(error.errno().unwrap_or(libc::EIO)),
    }
}

fn resize(pipe: &OwnedFd, wanted: Bytes) -> Growth {
    let attempt = || -> Result<Growth, SysError> {
        let from = pipe::capacity(pipe)?;
        if from >= wanted {
            return Ok(Growth::LargeEnough);
        }
        pipe::set_capacity(pipe, wanted)?;
        Ok(Growth::Grown { from, to: pipe::capacity(pipe)? })
    };
    attempt().unwrap_or_else(|error| match error.errno() {
        Some(libc::EBUSY) => Growth::Later,
        Some(libc::EPERM) => Growth::LimitReached,
        errno => Growth::Refused(errno.unwrap_or(libc::EIO)),
    })
}

/// A copy of `end`; `None` when that descriptor has become something else.
fn borrow(end: End) -> Result<Option<OwnedFd>, SysError> {
    let copy = pidfd::open(end.pid).and_then(|process| pidfd::get_fd(process, end.fd));
    let copy = match copy {
        Err(error) if !error.is_gone() && error.errno() != Some(libc::EBADF) => reopen(end)?,
        other => other?,
    };
    let stat = rustix::fs::fstat(&copy)
        .map_err(|e| SysError::new("fstat", format!("pipe of process {}", end.pid), e))?;
    Ok((stat.st_ino == end.inode).then_some(copy))
}

/// A new open end of the same pipe, without waiting for the other side.
fn reopen(end: End) -> Result<OwnedFd, SysError> {
    use rustix::fs::{Mode, OFlags};
    let path = format!("/proc/{}/fd/{}", end.pid, end.fd);
    let access = if end.writes { OFlags::WRONLY } else { OFlags::RDONLY };
    rustix::fs::open(&path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| SysError::new("open", path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(inode: u64) -> End {
        End { pid: 1, fd: 3, inode, reads: true, writes: false }
    }

    fn ledger(budget_mib: u64, foreign: &[u64]) -> Ledger {
        Ledger::new(Bytes::mib(1), Bytes::mib(budget_mib), foreign.iter().copied().collect())
    }

    const GROWN: Growth = Growth::Grown { from: Bytes::kib(64), to: Bytes::mib(1) };

    #[test]
    fn each_pipe_is_planned_once_and_foreign_ones_never() {
        let mut ledger = ledger(16, &[7]);
        let plan = ledger.plan(&[end(5), end(5), end(7), end(6)]);
        assert_eq!(plan.iter().map(|e| e.inode).collect::<Vec<_>>(), [5, 6]);
        ledger.note(5, GROWN);
        ledger.note(6, Growth::LargeEnough);
        assert!(ledger.plan(&[end(5), end(6), end(7)]).is_empty());
        assert_eq!(ledger.grown(), 1);
    }

    #[test]
    fn the_budget_holds_and_comes_back_when_a_pipe_is_gone() {
        let mut ledger = ledger(2, &[]);
        assert_eq!(ledger.plan(&[end(1), end(2), end(3)]).len(), 2);
        ledger.note(1, GROWN);
        ledger.note(2, GROWN);
        assert!(ledger.plan(&[end(1), end(2), end(3)]).is_empty());
        assert_eq!(ledger.left_out(), 1);
        assert_eq!(ledger.plan(&[end(2), end(3)]).len(), 1);
        ledger.note(3, GROWN);
        assert_eq!(ledger.left_out(), 0, "there was room for it in the end");
        assert_eq!(ledger.most_held(), Bytes(2 * (1024 - 64) * 1024));
        assert!(ledger.plan(&[end(2), end(3), end(4), end(4)]).is_empty());
        assert!(ledger.plan(&[]).is_empty());
        assert_eq!(ledger.left_out(), 1, "it ended without");
    }

    #[test]
    fn refusals_are_told_apart() {
        let mut ledger = ledger(16, &[]);
        ledger.note(1, Growth::Later);
        assert_eq!(ledger.plan(&[end(1)]).len(), 1);
        ledger.note(1, Growth::Refused(libc::EACCES));
        assert!(ledger.plan(&[end(1)]).is_empty());
        assert!(!ledger.limit_reached());
        ledger.note(2, Growth::LimitReached);
        assert!(ledger.limit_reached() && ledger.plan(&[end(3)]).is_empty());
        assert_eq!(ledger.refusals()[&libc::EACCES], 1);
        assert_eq!(ledger.refusals().len(), 1, "the limit is told by itself");
    }

    #[test]
    fn a_pipe_grows_through_a_borrowed_end() {
        use std::os::fd::AsRawFd;
        let (reader, writer) = pipe::pipe().unwrap();
        let inode = rustix::fs::fstat(&reader).unwrap().st_ino;
        let pid = pagewise_kernel::proc::own_pid();
        let fd = reader.as_raw_fd();
        let mine = End { pid, fd, inode, reads: true, writes: false };
        let wanted = Bytes::kib(256);
        assert!(matches!(grow(mine, wanted), Growth::Grown { to, .. } if to == wanted));
        assert_eq!(grow(mine, wanted), Growth::LargeEnough);
        assert_eq!(pipe::capacity(&writer).unwrap(), wanted);
        assert_eq!(grow(End { inode: inode + 1, ..mine }, Bytes::kib(512)), Growth::Later);
        let again = reopen(mine).unwrap();
        assert_eq!(rustix::fs::fstat(&again).unwrap().st_ino, inode);
        drop((again, writer));
        assert_eq!(rustix::io::read(&reader, &mut [0_u8; 8]), Ok(0), "no writer was left open");
    }
}
