//! A process that reads: it gets its task, prepares, waits for the word, reads, and tells.
//!
//! Standard output is the file. What takes time beforehand (the
//! order of the blocks, the memory that they are put into) is prepared before the word. It is a process
//! of its own so that a file that somebody shortens ends it alone: a touch of a page that is gone is
//! `SIGBUS`.

mod destination;
mod hand;
mod opened;

use super::order::Blocks;
use super::wire::{Done, Line, Task, Word};
use crate::error::PriceError;
use crate::helper::{self, duplicate, end_with_starter};
use crate::kernels::usage;
use hand::Hand;
use opened::Opened;
use pagewise_kernel::proc::{io as counters, own_pid, smaps};
use pagewise_kernel::region::{Pages, Region};
use pagewise_kernel::{SysError, affinity, clock};
use pagewise_model::bench::file::{Arm, Pace, Proof, Sample, Slip};
use pagewise_model::{Bytes, Fact, Nanos};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::thread::ScopedJoinHandle;

/// Serves the bench at the other end of socket `fd` until the task is done.
///
/// # Errors
/// When this was not started by a bench, whose line is missing then; what goes wrong in the task itself is
/// told to the bench.
pub fn serve_reader(fd: RawFd) -> Result<(), SysError> {
    helper::serve(fd, serve)
}

/// Does the task; nothing is told when the bench has gone before the start.
fn serve(line: &Line, task: &Task) -> Result<Option<Done>, PriceError> {
    end_with_starter()?;
    // A page that is gone is told by the end alone; nobody wants the memory of this process on disk.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(PriceError::sys("setrlimit", "RLIMIT_CORE"))?;
    let file = duplicate(io::stdout())?;
    let mut crew = Crew::prepare(task)?;
    line.say(&Word::Ready { period: None })?;
    match line.hear()? {
        Some(Word::Go { .. }) => crew.read(&file).map(Some),
        _ => Ok(None),
    }
}

/// All threads of a task with what they need.
#[derive(Debug)]
struct Crew<'a> {
    task: &'a Task,
    blocks: Blocks,
    hands: Vec<Hand>,
    /// For queues, which have memory of their own; taken when they are made.
    memory: Vec<Region>,
}

impl<'a> Crew<'a> {
    fn prepare(task: &'a Task) -> Result<Self, PriceError> {
        if let Some(first) = task.cpus.first() {
            affinity::set(0, &[*first])?;
        }
        let threads = task.cell.threads.max(1) as usize;
        let blocks = Blocks::new(&task.cell, &task.slips, task.seed);
        let hand = |nth| Hand::prepare(task, blocks.share(nth, threads));
        let hands = (0..threads).map(hand).collect::<Result<Vec<_>, _>>()?;
        let is_queued = matches!(task.cell.arm, Arm::Uring | Arm::UringFixed);
        let count = if is_queued { threads } else { 0 };
        let memory = (0..count).map(|_| queue_memory(task)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { task, blocks, hands, memory })
    }

    /// Everything that is timed.
    fn read(&mut self, file: &OwnedFd) -> Result<Done, PriceError> {
        // The descriptor that was given is not used: opening is a part of what is timed.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let memory = std::mem::take(&mut self.memory);
        let early = if self.is_unclocked() {
            Some(Opened::new(&path, self.task, Vec::new())?)
        } else {
            None
        };
        let mapped_before_bytes = mapped(file)?;
        let fetched = device_bytes();
        let before = usage::process().map_err(PriceError::sys("getrusage", "this process"))?;
        let times =
            self.timed(|task| early.map_or_else(|| Opened::new(&path, task, memory), Ok))?;
        let after = usage::process().map_err(PriceError::sys("getrusage", "this process"))?;
        let sample = Sample {
            repeat: 0,
            place: 0,
            set_up_ns: times.set_up_ns,
            pass_ns: times.pass_ns,
            tear_down_ns: times.tear_down_ns,
            user_ns: since(before.user, after.user),
            sys_ns: since(before.sys, after.sys),
            calls: self.hands.iter().map(Hand::calls).sum(),
            minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
            major_faults: after.major_faults.saturating_sub(before.major_faults),
            device_bytes: difference(fetched, device_bytes()),
            ledger: Hand::account(&mut self.hands).ledger(mapped_before_bytes),
            proof: Proof::default(),
        };
        Ok((sample, (self.hands.len() == 1).then_some(times.pace)))
    }

    /// Opening, all passes, closing; on the wall, and on the CPU clock of this thread.
    fn timed(
        &mut self,
        open: impl FnOnce(&'a Task) -> Result<Opened, PriceError>,
    ) -> Result<Times, PriceError> {
        let (begin, begin_cpu) = (clock::now(), clock::thread_cpu());
        let opened = open(self.task)?;
        let mut at = clock::now();
        let set_up_ns = since(begin, at);
        let set_up_cpu_ns = since(begin_cpu, clock::thread_cpu());
        let passes = self.task.cell.passes as usize;
        let (mut pass_ns, mut slice_ns) = (Vec::with_capacity(passes), Vec::with_capacity(passes));
        for _ in 0..passes {
            slice_ns.extend(self.pass(&opened)?);
            let end = clock::now();
            pass_ns.push(since(at, end));
            at = end;
        }
        let end_cpu = clock::thread_cpu();
        drop(opened);
        self.hands.iter_mut().for_each(Hand::let_go);
        let tear_down_ns = since(at, clock::now());
        let tear_down_cpu_ns = since(end_cpu, clock::thread_cpu());
        let pace = Pace { set_up_ns: set_up_cpu_ns, slice_ns, tear_down_ns: tear_down_cpu_ns };
        Ok(Times { set_up_ns, pass_ns, tear_down_ns, pace })
    }

    /// Whether the file is mapped before the clock starts, as the published benchmark did it.
    fn is_unclocked(&self) -> bool {
        let slip = Slip::UnclockedPopulate;
        self.task.slips.contains(&slip) && slip.changes(&self.task.cell)
    }

    /// All blocks once; the CPU time of each slice, where one thread alone takes them. Threads are started
    /// for each pass: that is in the clock, some 50 us each.
    fn pass(&mut self, opened: &Opened) -> Result<Option<Vec<Nanos>>, PriceError> {
        let (task, blocks) = (self.task, &self.blocks);
        if let [only] = self.hands.as_mut_slice() {
            return only.work(opened, blocks, task, 0).map(Some);
        }
        std::thread::scope(|scope| {
            let mut started = Vec::with_capacity(self.hands.len());
            for (nth, hand) in self.hands.iter_mut().enumerate() {
                started.push(scope.spawn(move || {
                    if let Some(cpu) = task.cpus.get(nth) {
                        affinity::set(0, &[*cpu])?;
                    }
                    hand.work(opened, blocks, task, nth).map(drop)
                }));
            }
            let end = |one: ScopedJoinHandle<'_, Result<(), PriceError>>| {
                one.join().map_err(|_| PriceError::ThreadLost)?
            };
            // All of them are waited for, whichever fails.
            let ends: Vec<Result<(), PriceError>> = started.into_iter().map(end).collect();
            ends.into_iter().collect::<Result<(), PriceError>>().map(|()| None)
        })
    }
}

/// What was timed.
#[derive(Debug)]
struct Times {
    set_up_ns: Nanos,
    pass_ns: Vec<Nanos>,
    tear_down_ns: Nanos,
    /// Of one thread; meaningless where others read as well.
    pace: Pace,
}

/// Memory for the reads that a queue has at a time.
fn queue_memory(task: &Task) -> Result<Region, PriceError> {
    let size = Bytes(task.cell.block_bytes.0.saturating_mul(u64::from(opened::DEPTH)));
    let mut region = Region::new(size, Pages::Base)?;
    region.populate()?;
    Ok(region)
}

const fn since(begin: Nanos, end: Nanos) -> Nanos {
    Nanos(end.0.saturating_sub(begin.0))
}

/// What of the file this process has mapped shared, as ways to read do: our own program, which may be the
/// file, is mapped privately.
fn mapped(file: &OwnedFd) -> Result<Bytes, PriceError> {
    let inode = rustix::fs::fstat(file).map_err(PriceError::sys("fstat", "the file"))?.st_ino;
    let mut entries = smaps::read(own_pid())?;
    entries.retain(|entry| entry.mapping.inode == inode && entry.mapping.perms.shared);
    Ok(smaps::total(&entries).rss)
}

/// Bytes that this process has fetched from the device so far.
fn device_bytes() -> Fact<Bytes> {
    counters::read(own_pid()).map(|io| io.storage_read).into()
}

fn difference(before: Fact<Bytes>, after: Fact<Bytes>) -> Fact<Bytes> {
    match (before, after) {
        (Fact::Known(before), after) => after.map(|after| Bytes(after.0.saturating_sub(before.0))),
        (missing, _) => missing,
    }
}
