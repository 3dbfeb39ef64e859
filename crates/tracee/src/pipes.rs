//! The pipes of a running tree, grown from outside where that can harm nobody.
//!
//! A pipe is found by its inode in `/proc/PID/fd`; the end of its writer is borrowed with
//! `pidfd_getfd(2)`, or by opening `/proc/PID/fd/N` where that call is missing or refused, and closed
//! at once: an end kept open would hide end of file and SIGPIPE. Resizing keeps the content and wakes
//! a writer that waits for room (fs/pipe.c).
//!
//! A program that lends pages to a pipe and uses them again by its capacity is wrong as soon as the
//! pipe is larger than it knows ([`crate::lending`]). So a pipe grows once only, and only while
//! - it has the default capacity, which nobody has changed, and is at least half full;
//! - one process alone can write to it, and has called exec since its fork: a shell that still has to
//!   start the writer is not the writer;
//! - no process at either end could lend pages, and no process outside the tree holds the pipe;
//! - all this is known without reading a file, so that microseconds pass between answer and growth:
//!   where files had to be read for an answer, it is asked for again.
//!
//! Capacities are bytes. What is grown counts against a budget, because all pipes of a user share
//! `pipe-user-pages-soft`: beyond it growth is refused (EPERM) and each new pipe of that user has
//! two pages only. EBUSY (content larger than the wanted size) passes and is tried again.
//!
//! Cost: 3 us for each descriptor of the tree per look, 10-20 us for each pipe that has not grown
//! yet, and once 0.1 ms and what its programs take to be read.

use crate::lending::Files;
use crate::tree::Tree;
use pagewise_kernel::proc::fd::{self, Target};
use pagewise_kernel::proc::{self, stat};
use pagewise_kernel::{SysError, pidfd, pipe};
use pagewise_model::units::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;

/// One end of a pipe as a process holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct End {
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
    tree.pids().iter().flat_map(|pid| ends_of(*pid).unwrap_or_default()).collect()
}

fn ends_of(pid: i32) -> Result<Vec<End>, SysError> {
    let held = fd::list(pid)?;
    let end = |d: fd::Descriptor| match d.target {
        Target::Pipe(inode) => {
            Some(End { pid, fd: d.fd, inode, reads: d.readable, writes: d.writable })
        }
        _ => None,
    };
    Ok(held.into_iter().filter_map(end).collect())
}

/// What became of an attempt to grow a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// Not at this moment: worth another attempt.
    Later,
    /// Files had to be read for an answer, which is old by now: worth another attempt at once.
    Again,
    /// There is no budget for it now.
    NoBudget,
    /// EPERM: the user's limit on pipe memory is reached, or `pipe-max-size` exceeded.
    LimitReached,
    /// It must not grow, and why: a sentence after "left alone: ".
    LeftAlone(String),
    /// Refused with this error.
    Refused(i32),
}

/// What is known about the pipes of one program: which were done, which must not be touched, and
/// how much of the budget is left. Pure bookkeeping.
#[derive(Debug)]
pub struct Ledger {
    foreign: HashSet<u64>,
    /// Processes that were there before the program.
    strangers: HashSet<i32>,
    files: Files,
    done: HashSet<u64>,
    wanted: Bytes,
    budget: Bytes,
    held: HashMap<u64, Bytes>,
    grown: u64,
    most_held: Bytes,
    left_alone: BTreeMap<String, u64>,
    refusals: BTreeMap<i32, u64>,
    limit_reached: bool,
    /// Pipes that there is no budget for now, and how many ended like that.
    left_out: HashSet<u64>,
    ended_left_out: u64,
}

impl Ledger {
    /// Pipes are to have `wanted` bytes, all growth together at most `budget`, and those in
    /// `foreign` are left alone. To be made before the program starts.
    #[must_use]
    pub fn new(wanted: Bytes, budget: Bytes, foreign: HashSet<u64>) -> Self {
        Self {
            foreign,
            strangers: proc::tree::all().unwrap_or_default().into_iter().collect(),
            files: Files::default(),
            done: HashSet::new(),
            wanted,
            budget,
            held: HashMap::new(),
            grown: 0,
            most_held: Bytes(0),
            left_alone: BTreeMap::new(),
            refusals: BTreeMap::new(),
            limit_reached: false,
            left_out: HashSet::new(),
            ended_left_out: 0,
        }
    }

    /// The pipes that may need growth, as their ends among `ends`; pipes that are gone give their
    /// share of the budget back.
    pub fn open(&mut self, ends: &[End]) -> Vec<Vec<End>> {
        let mut pipes: BTreeMap<u64, Vec<End>> = BTreeMap::new();
        for end in ends {
            pipes.entry(end.inode).or_default().push(*end);
        }
        self.held.retain(|inode, _| pipes.contains_key(inode));
        self.done.retain(|inode| pipes.contains_key(inode));
        let waiting = self.left_out.len();
        self.left_out.retain(|inode| pipes.contains_key(inode));
        self.ended_left_out += (waiting - self.left_out.len()) as u64;
        pipes.retain(|inode, _| !self.foreign.contains(inode) && !self.done.contains(inode));
        pipes.into_values().collect()
    }

    /// Whether there is budget for one more.
    fn has_room(&self) -> bool {
        self.budget.0.saturating_sub(self.held_now().0) >= self.wanted.0
    }

    fn held_now(&self) -> Bytes {
        self.held.values().fold(Bytes(0), |sum, b| sum + *b)
    }

    /// Notes what became of the pipe `inode`.
    pub fn note(&mut self, inode: u64, growth: Growth) {
        self.left_out.remove(&inode);
        match growth {
            Growth::Grown { from, to } => {
                self.grown += 1;
                self.held.insert(inode, Bytes(to.0.saturating_sub(from.0)));
                self.most_held = self.most_held.max(self.held_now());
            }
            Growth::LargeEnough => {}
            Growth::LeftAlone(why) => *self.left_alone.entry(why).or_default() += 1,
            Growth::Refused(errno) => *self.refusals.entry(errno).or_default() += 1,
            Growth::Later | Growth::Again => return,
            Growth::LimitReached => {
                self.limit_reached = true;
                return;
            }
            Growth::NoBudget => {
                self.left_out.insert(inode);
                return;
            }
        }
        self.done.insert(inode);
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

    /// Pipes that must not grow, by the reason.
    #[must_use]
    pub const fn left_alone(&self) -> &BTreeMap<String, u64> {
        &self.left_alone
    }

    /// Refusals by error number, the user's limit left out.
    #[must_use]
    pub const fn refusals(&self) -> &BTreeMap<i32, u64> {
        &self.refusals
    }
}

/// What a first attempt had to read is decided by the second.
const ATTEMPTS: usize = 3;

/// Grows the pipes of `tree` that `ledger` wants grown; returns how many were.
pub fn grow_all(tree: &Tree, ledger: &mut Ledger) -> u64 {
    let before = ledger.grown();
    for _ in 0..ATTEMPTS {
        if !attempt(tree, ledger) {
            break;
        }
    }
    ledger.grown() - before
}

/// Tries each pipe once; true when it is to be done again at once.
fn attempt(tree: &Tree, ledger: &mut Ledger) -> bool {
    let mut ends = Vec::new();
    for &pid in tree.pids() {
        match ends_of(pid) {
            Ok(held) => ends.extend(held),
            Err(error) if error.is_gone() => {}
            // It may hold any of them.
            Err(_) => return false,
        }
    }
    let mut again = false;
    for holders in ledger.open(&ends) {
        if ledger.limit_reached() {
            return false;
        }
        let growth = grow(&holders, tree, ledger);
        again |= growth == Growth::Again;
        ledger.note(holders[0].inode, growth);
    }
    again
}

/// Brings the pipe whose ends in `tree` are `holders` to the capacity wanted, if it may grow.
fn grow(holders: &[End], tree: &Tree, ledger: &mut Ledger) -> Growth {
    let Some(writer) = only_writer(holders) else { return Growth::Later };
    // The borrowed end lives for these few calls only.
    match borrow(writer).and_then(|pipe| match pipe {
        Some(pipe) => consider(&pipe, writer, holders, tree, ledger),
        None => Ok(Growth::Later),
    }) {
        Ok(growth) => growth,
        Err(error) if error.is_gone() || error.errno() == Some(libc::EBADF) => Growth::Later,
        Err(error) => Growth::Refused(error.errno().unwrap_or(libc::EIO)),
    }
}

/// An end of the one process that can write.
fn only_writer(holders: &[End]) -> Option<End> {
    let mut writers = holders.iter().filter(|end| end.writes);
    let first = writers.next()?;
    writers.all(|end| end.pid == first.pid).then_some(*first)
}

fn consider(
    pipe: &OwnedFd,
    writer: End,
    holders: &[End],
    tree: &Tree,
    ledger: &mut Ledger,
) -> Result<Growth, SysError> {
    let from = pipe::capacity(pipe)?;
    if from >= ledger.wanted {
        return Ok(Growth::LargeEnough);
    }
    if from != pipe::default_capacity() {
        return Ok(Growth::LeftAlone(format!("one of {from} does not have the default size")));
    }
    let content = rustix::io::ioctl_fionread(pipe)
        .map_err(|e| SysError::new("ioctl(FIONREAD)", "a pipe", e))?;
    if content < from.0 / 2 || !stat::read(writer.pid)?.has_execed() {
        return Ok(Growth::Later);
    }
    if !ledger.has_room() {
        return Ok(Growth::NoBudget);
    }
    if held_outside(writer.inode, tree, &ledger.strangers) {
        return Ok(Growth::Later);
    }
    let mut took_long = false;
    for end in holders {
        let answer = ledger.files.of_process(end.pid)?;
        if let Some((path, why)) = answer.lender {
            return Ok(Growth::LeftAlone(format!("{} {why}", path.display())));
        }
        took_long |= answer.took_long;
    }
    Ok(if took_long { Growth::Again } else { resize(pipe, from, ledger.wanted) })
}

/// Whether a process holds the pipe that is not of `tree` and was not there before it: one that has
/// left the tree. Of those before it none can have the pipe unless it was sent there.
fn held_outside(inode: u64, tree: &Tree, strangers: &HashSet<i32>) -> bool {
    let holds = |pid: i32| ends_of(pid).is_ok_and(|ends| ends.iter().any(|e| e.inode == inode));
    let all = proc::tree::all().unwrap_or_default();
    let own = proc::own_pid();
    let is_other =
        |pid: &i32| *pid != own && !strangers.contains(pid) && !tree.pids().contains(pid);
    all.into_iter().filter(is_other).any(holds)
}

fn resize(pipe: &OwnedFd, from: Bytes, wanted: Bytes) -> Growth {
    let resized = pipe::set_capacity(pipe, wanted).and_then(|_| pipe::capacity(pipe));
    match resized {
        Ok(to) => Growth::Grown { from, to },
        Err(error) => match error.errno() {
            Some(libc::EBUSY) => Growth::Later,
            Some(libc::EPERM) => Growth::LimitReached,
            errno => Growth::Refused(errno.unwrap_or(libc::EIO)),
        },
    }
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
mod tests;
