//! Grows the pipes of a running tree from outside, where that cannot do harm.
//!
//! A pipe is found by its inode in `/proc/PID/fd`. The writer's end is borrowed with `pidfd_getfd(2)`, or by
//! opening `/proc/PID/fd/N` if that call is missing or refused. It is closed at once: an end kept open would
//! hide end of file and SIGPIPE. Resizing keeps the content and wakes a writer that waits for room
//! (fs/pipe.c).
//!
//! A program that lends pages to a pipe and reuses them according to its capacity fails as soon as the pipe
//! is larger than it knows ([`crate::lending`]). So a pipe grows only once, and only while
//! - it has the default capacity, which no program has changed, and is at least half full;
//! - only one process can write to it, and has called exec since its fork: a shell that still has to start
//!   the writer is not the writer;
//! - no process at either end could lend pages, and no process outside the tree holds the pipe;
//! - all this is known without reading a file, so that only microseconds pass between answer and growth: if
//!   files had to be read for an answer, the question is asked again.
//!
//! Capacities are bytes. Growth counts against a budget, because all pipes of a user share
//! `pipe-user-pages-soft`. Beyond that, growth is refused (EPERM) and each new pipe of that user has only two
//! pages. EBUSY (content larger than the wanted size) is temporary and is tried again.
//!
//! Cost: 3 us for each descriptor of the tree per look, and 10-20 us for each pipe that has not grown yet.
//! Once: 0.1 ms plus the time to read its programs.

use crate::lending::LendingFiles;
use crate::tree::ProcessTree;
use pagewise_kernel::proc::fd::{self, DescriptorTarget};
use pagewise_kernel::proc::{self, stat};
use pagewise_kernel::{SysError, pidfd, pipe};
use pagewise_model::units::Bytes;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::fd::OwnedFd;

/// One end of a pipe, held by a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PipeEnd {
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

/// All pipe ends that processes of the tree hold now. Processes that have ended hold none.
#[must_use]
pub fn ends(tree: &ProcessTree) -> Vec<PipeEnd> {
    tree.pids().iter().flat_map(|pid| ends_of(*pid).unwrap_or_default()).collect()
}

fn ends_of(pid: i32) -> Result<Vec<PipeEnd>, SysError> {
    let held = fd::list(pid)?;
    let end = |d: fd::OpenDescriptor| match d.target {
        DescriptorTarget::Pipe(inode) => {
            Some(PipeEnd { pid, fd: d.fd, inode, reads: d.readable, writes: d.writable })
        }
        _ => None,
    };
    Ok(held.into_iter().filter_map(end).collect())
}

/// Outcome of an attempt to grow a pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PipeGrowth {
    /// It was grown. `to` was read back from the kernel.
    Grown {
        /// Capacity before.
        from: Bytes,
        /// Capacity now.
        to: Bytes,
    },
    /// It was already large enough.
    LargeEnough,
    /// Not possible at this moment: try again later.
    Later,
    /// Files had to be read for the answer, which is out of date by now: try again at once.
    Again,
    /// The budget is used up for now.
    NoBudget,
    /// EPERM: the user's limit on pipe memory is reached, or `pipe-max-size` exceeded.
    LimitReached,
    /// It must not grow, and why: a sentence after "left alone: ".
    LeftAlone(String),
    /// Refused with this error.
    Refused(i32),
}

/// State of the pipes of one program: which are done, which must not be touched, and how much of the budget
/// is left. Pure bookkeeping.
#[derive(Debug)]
pub struct PipeLedger {
    foreign: HashSet<u64>,
    /// Processes that existed before the program.
    strangers: HashSet<i32>,
    files: LendingFiles,
    done: HashSet<u64>,
    wanted: Bytes,
    budget: Bytes,
    held: HashMap<u64, Bytes>,
    grown: u64,
    most_held: Bytes,
    left_alone: BTreeMap<String, u64>,
    refusals: BTreeMap<i32, u64>,
    limit_reached: bool,
    /// Pipes without budget for now; below, the number of pipes that ended in this state.
    left_out: HashSet<u64>,
    ended_left_out: u64,
}

impl PipeLedger {
    /// Pipes are to have `wanted` bytes, and total growth is limited to `budget`. Pipes in `foreign` are
    /// never touched. Create this before the program starts.
    #[must_use]
    pub fn new(wanted: Bytes, budget: Bytes, foreign: HashSet<u64>) -> Self {
        Self {
            foreign,
            strangers: proc::tree::all().unwrap_or_default().into_iter().collect(),
            files: LendingFiles::default(),
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

    /// The pipes that may need growth, each with its ends from `ends`. Pipes that no longer exist return
    /// their share of the budget.
    pub fn open(&mut self, ends: &[PipeEnd]) -> Vec<Vec<PipeEnd>> {
        let mut pipes: BTreeMap<u64, Vec<PipeEnd>> = BTreeMap::new();
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

    /// Whether the budget suffices for one more pipe.
    fn has_room(&self) -> bool {
        self.budget.0.saturating_sub(self.held_now().0) >= self.wanted.0
    }

    fn held_now(&self) -> Bytes {
        self.held.values().fold(Bytes(0), |sum, b| sum + *b)
    }

    /// Records the outcome for pipe `inode`.
    pub fn note(&mut self, inode: u64, growth: PipeGrowth) {
        self.left_out.remove(&inode);
        match growth {
            PipeGrowth::Grown { from, to } => {
                self.grown += 1;
                self.held.insert(inode, Bytes(to.0.saturating_sub(from.0)));
                self.most_held = self.most_held.max(self.held_now());
            }
            PipeGrowth::LargeEnough => {}
            PipeGrowth::LeftAlone(why) => *self.left_alone.entry(why).or_default() += 1,
            PipeGrowth::Refused(errno) => *self.refusals.entry(errno).or_default() += 1,
            PipeGrowth::Later | PipeGrowth::Again => return,
            PipeGrowth::LimitReached => {
                self.limit_reached = true;
                return;
            }
            PipeGrowth::NoBudget => {
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

    /// Maximum pipe memory added at any one time.
    #[must_use]
    pub const fn most_held(&self) -> Bytes {
        self.most_held
    }

    /// The kernel refused growth because of the user's limit. No more attempts are made.
    #[must_use]
    pub const fn limit_reached(&self) -> bool {
        self.limit_reached
    }

    /// Pipes that were not grown because the budget was used up for as long as they existed.
    #[must_use]
    pub fn left_out(&self) -> u64 {
        self.ended_left_out + self.left_out.len() as u64
    }

    /// The budget for all growth together.
    #[must_use]
    pub const fn budget(&self) -> Bytes {
        self.budget
    }

    /// Number of pipes that must not grow, by reason.
    #[must_use]
    pub const fn left_alone(&self) -> &BTreeMap<String, u64> {
        &self.left_alone
    }

    /// Refusals by error number, except those by the user's limit.
    #[must_use]
    pub const fn refusals(&self) -> &BTreeMap<i32, u64> {
        &self.refusals
    }
}

/// Number of attempts: the first may have to read files, the second then decides.
const ATTEMPTS: usize = 3;

/// Grows the pipes of `tree` as `ledger` wants; returns the number of grown pipes.
pub fn grow_all(tree: &ProcessTree, ledger: &mut PipeLedger) -> u64 {
    let before = ledger.grown();
    for _ in 0..ATTEMPTS {
        if !attempt(tree, ledger) {
            break;
        }
    }
    ledger.grown() - before
}

/// Tries each pipe once. True if another attempt should follow at once.
fn attempt(tree: &ProcessTree, ledger: &mut PipeLedger) -> bool {
    let mut ends = Vec::new();
    for &pid in tree.pids() {
        match ends_of(pid) {
            Ok(held) => ends.extend(held),
            Err(error) if error.is_gone() => {}
            // It may hold any of the pipes.
            Err(_) => return false,
        }
    }
    let mut again = false;
    for holders in ledger.open(&ends) {
        if ledger.limit_reached() {
            return false;
        }
        let growth = grow(&holders, tree, ledger);
        again |= growth == PipeGrowth::Again;
        ledger.note(holders[0].inode, growth);
    }
    again
}

/// Grows the pipe whose ends in `tree` are `holders`, if that is permitted.
fn grow(holders: &[PipeEnd], tree: &ProcessTree, ledger: &mut PipeLedger) -> PipeGrowth {
    let Some(writer) = only_writer(holders) else { return PipeGrowth::Later };
    // The borrowed end is open only during these few calls.
    match borrow(writer).and_then(|pipe| match pipe {
        Some(pipe) => consider(&pipe, writer, holders, tree, ledger),
        None => Ok(PipeGrowth::Later),
    }) {
        Ok(growth) => growth,
        Err(error) if error.is_gone() || error.errno() == Some(libc::EBADF) => PipeGrowth::Later,
        Err(error) => PipeGrowth::Refused(error.errno().unwrap_or(libc::EIO)),
    }
}

/// An end of the only process that can write; `None` if there are several.
fn only_writer(holders: &[PipeEnd]) -> Option<PipeEnd> {
    let mut writers = holders.iter().filter(|end| end.writes);
    let first = writers.next()?;
    writers.all(|end| end.pid == first.pid).then_some(*first)
}

fn consider(
    pipe: &OwnedFd,
    writer: PipeEnd,
    holders: &[PipeEnd],
    tree: &ProcessTree,
    ledger: &mut PipeLedger,
) -> Result<PipeGrowth, SysError> {
    let from = pipe::capacity(pipe)?;
    if from >= ledger.wanted {
        return Ok(PipeGrowth::LargeEnough);
    }
    if from != pipe::default_capacity() {
        return Ok(PipeGrowth::LeftAlone(format!("one of {from} does not have the default size")));
    }
    let content = rustix::io::ioctl_fionread(pipe)
        .map_err(|e| SysError::new("ioctl(FIONREAD)", "a pipe", e))?;
    if content < from.0 / 2 || !stat::read(writer.pid)?.has_execed() {
        return Ok(PipeGrowth::Later);
    }
    if !ledger.has_room() {
        return Ok(PipeGrowth::NoBudget);
    }
    if held_outside(writer.inode, tree, &ledger.strangers) {
        return Ok(PipeGrowth::Later);
    }
    let mut took_long = false;
    for end in holders {
        let answer = ledger.files.of_process(end.pid)?;
        if let Some((path, why)) = answer.lender {
            return Ok(PipeGrowth::LeftAlone(format!("{} {why}", path.display())));
        }
        took_long |= answer.took_long;
    }
    Ok(if took_long { PipeGrowth::Again } else { resize(pipe, from, ledger.wanted) })
}

/// Whether a process outside `tree` holds the pipe: one that has left the tree. Processes from before the
/// program are not checked: they can have the pipe only if it was sent to them.
fn held_outside(inode: u64, tree: &ProcessTree, strangers: &HashSet<i32>) -> bool {
    let holds = |pid: i32| ends_of(pid).is_ok_and(|ends| ends.iter().any(|e| e.inode == inode));
    let all = proc::tree::all().unwrap_or_default();
    let own = proc::own_pid();
    let is_other =
        |pid: &i32| *pid != own && !strangers.contains(pid) && !tree.pids().contains(pid);
    all.into_iter().filter(is_other).any(holds)
}

fn resize(pipe: &OwnedFd, from: Bytes, wanted: Bytes) -> PipeGrowth {
    let resized = pipe::set_capacity(pipe, wanted).and_then(|_| pipe::capacity(pipe));
    match resized {
        Ok(to) => PipeGrowth::Grown { from, to },
        Err(error) => match error.errno() {
            Some(libc::EBUSY) => PipeGrowth::Later,
            Some(libc::EPERM) => PipeGrowth::LimitReached,
            errno => PipeGrowth::Refused(errno.unwrap_or(libc::EIO)),
        },
    }
}

/// A copy of `end`; `None` if that descriptor now refers to something else.
fn borrow(end: PipeEnd) -> Result<Option<OwnedFd>, SysError> {
    let copy = pidfd::open(end.pid).and_then(|process| pidfd::get_fd(process, end.fd));
    let copy = match copy {
        Err(error) if !error.is_gone() && error.errno() != Some(libc::EBADF) => reopen(end)?,
        other => other?,
    };
    let stat = rustix::fs::fstat(&copy)
        .map_err(|e| SysError::new("fstat", format!("pipe of process {}", end.pid), e))?;
    Ok((stat.st_ino == end.inode).then_some(copy))
}

/// Opens the same pipe again, without waiting for the other side.
fn reopen(end: PipeEnd) -> Result<OwnedFd, SysError> {
    use rustix::fs::{Mode, OFlags};
    let path = format!("/proc/{}/fd/{}", end.pid, end.fd);
    let access = if end.writes { OFlags::WRONLY } else { OFlags::RDONLY };
    rustix::fs::open(&path, access | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())
        .map_err(|e| SysError::new("open", path, e))
}

#[cfg(test)]
mod tests;
