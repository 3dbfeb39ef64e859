//! A process that reads: it receives its task, prepares, waits for the start message, reads, and reports. With
//! a store it writes instead; what the file then holds is read back after the clock has stopped.
//!
//! Standard output is the file. Everything that takes time beforehand (the order of the blocks, the
//! destination memory) is prepared before the start. A separate process is needed because another program may
//! shorten the file: a touch of a missing page raises `SIGBUS` and ends only this process.

use super::account::{WORD, sampled};
use super::order::BlockSequence;
use crate::error::PriceError;
use crate::helper::{self, duplicate, end_with_starter};
use crate::kernels::ring::ReadQueue;
use crate::kernels::view::{MappedFileView, WritableFileView};
use hand::ReaderThread;
use pagewise_kernel::own_usage;
use pagewise_kernel::proc::{io as counters, own_pid, smaps};
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::{SysError, affinity, clock};
use pagewise_model::bench::file::{
    BenchmarkFlaw, BlockStore, CacheProof, FileCell, FileSample, ReadWay, UndisturbedPace,
};
use pagewise_model::{Bytes, Fact, Nanos};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::Advice;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ScopedJoinHandle;

mod hand;

/// Serves the bench at the other end of socket `fd` until the task is done.
///
/// # Errors
/// If this process was not started by a bench: the socket is missing then. Errors of the task itself are
/// reported to the bench.
pub fn serve_reader(fd: RawFd) -> Result<(), SysError> {
    helper::serve(fd, serve)
}

/// Does the task. Returns `None` if the bench has ended before the start.
fn serve(line: &Line, task: &FileTask) -> Result<Option<Done>, PriceError> {
    end_with_starter()?;
    // Only the end of the process shows that a page is missing. A core file of it is not wanted.
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(PriceError::sys("setrlimit", "RLIMIT_CORE"))?;
    let file = duplicate(io::stdout())?;
    let mut crew = ReaderThreads::prepare(task)?;
    line.say(&Word::Ready { period: None })?;
    match line.hear()? {
        Some(Word::Go { .. }) => crew.read(&file).map(Some),
        _ => Ok(None),
    }
}

/// All threads of a task and the resources that they need.
#[derive(Debug)]
struct ReaderThreads<'a> {
    task: &'a FileTask,
    blocks: BlockSequence,
    hands: Vec<ReaderThread>,
    /// Memory for queues, taken when they are made.
    memory: Vec<MemoryRegion>,
}

impl<'a> ReaderThreads<'a> {
    fn prepare(task: &'a FileTask) -> Result<Self, PriceError> {
        if let Some(first) = task.cpus.first() {
            affinity::set(0, &[*first])?;
        }
        let threads = task.cell.threads.max(1) as usize;
        let blocks = BlockSequence::new(&task.cell, &task.slips, task.seed);
        let hand = |nth| ReaderThread::prepare(task, blocks.share(nth, threads));
        let hands = (0..threads).map(hand).collect::<Result<Vec<_>, _>>()?;
        let is_queued = matches!(task.cell.arm, ReadWay::Uring | ReadWay::UringFixed);
        let count = if is_queued { threads } else { 0 };
        let memory = (0..count).map(|_| queue_memory(task)).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { task, blocks, hands, memory })
    }

    /// Everything that is timed.
    fn read(&mut self, file: &OwnedFd) -> Result<Done, PriceError> {
        // The given descriptor is not read from: opening is part of the timed work.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let memory = std::mem::take(&mut self.memory);
        let early = if self.is_unclocked() {
            Some(ReaderResources::new(&path, self.task, Vec::new())?)
        } else {
            None
        };
        let mapped_before_bytes = mapped(file)?;
        let fetched = device_bytes();
        let before = own_usage::process().map_err(PriceError::sys("getrusage", "this process"))?;
        let times =
            self.timed(|task| early.map_or_else(|| ReaderResources::new(&path, task, memory), Ok))?;
        let after = own_usage::process().map_err(PriceError::sys("getrusage", "this process"))?;
        let mut ledger = ReaderThread::account(&mut self.hands).ledger(mapped_before_bytes);
        if self.task.cell.store.is_some() {
            ledger.checksum = stored_checksum(file.as_fd(), self.task)?;
        }
        let sample = FileSample {
            repeat: 0,
            place: 0,
            set_up_ns: times.set_up_ns,
            pass_ns: times.pass_ns,
            pass_faults: times.pass_faults,
            tear_down_ns: times.tear_down_ns,
            user_ns: since(before.user, after.user),
            sys_ns: since(before.sys, after.sys),
            calls: self.hands.iter().map(ReaderThread::calls).sum(),
            minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
            major_faults: after.major_faults.saturating_sub(before.major_faults),
            device_bytes: difference(fetched, device_bytes()),
            ledger,
            proof: CacheProof::default(),
        };
        Ok((sample, (self.hands.len() == 1).then_some(times.pace)))
    }

    /// Opening, all passes, closing; on the wall, and on the CPU clock of this thread.
    fn timed(
        &mut self,
        open: impl FnOnce(&'a FileTask) -> Result<ReaderResources, PriceError>,
    ) -> Result<PassTimes, PriceError> {
        let (begin, begin_cpu) = (clock::now(), clock::thread_cpu());
        let opened = open(self.task)?;
        let set_up_ns = since(begin, clock::now());
        let set_up_cpu_ns = since(begin_cpu, clock::thread_cpu());
        let passes = self.task.cell.passes as usize;
        let (mut pass_ns, mut slice_ns) = (Vec::with_capacity(passes), Vec::with_capacity(passes));
        let mut pass_faults = Vec::with_capacity(passes);
        for _ in 0..passes {
            // Counted between the passes, outside their time.
            let before = faults()?;
            let at = clock::now();
            slice_ns.extend(self.pass(&opened)?);
            pass_ns.push(since(at, clock::now()));
            pass_faults.push(faults()?.saturating_sub(before));
        }
        let at = clock::now();
        let end_cpu = clock::thread_cpu();
        if self.task.cell.store == Some(BlockStore::Synced) {
            opened.sync()?;
        }
        drop(opened);
        self.hands.iter_mut().for_each(ReaderThread::let_go);
        let tear_down_ns = since(at, clock::now());
        let tear_down_cpu_ns = since(end_cpu, clock::thread_cpu());
        let pace =
            UndisturbedPace { set_up_ns: set_up_cpu_ns, slice_ns, tear_down_ns: tear_down_cpu_ns };
        Ok(PassTimes { set_up_ns, pass_ns, pass_faults, tear_down_ns, pace })
    }

    /// Whether the file is mapped before the clock starts, as the published benchmark did it.
    fn is_unclocked(&self) -> bool {
        let slip = BenchmarkFlaw::UnclockedPopulate;
        self.task.slips.contains(&slip) && slip.changes(&self.task.cell)
    }

    /// Reads all blocks once. Returns the CPU time of each slice if a single thread reads them. Threads are
    /// started for each pass: that is inside the clock, some 50 us each.
    fn pass(&mut self, opened: &ReaderResources) -> Result<Option<Vec<Nanos>>, PriceError> {
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
            // Waits for all of them, even if one fails.
            let ends: Vec<Result<(), PriceError>> = started.into_iter().map(end).collect();
            ends.into_iter().collect::<Result<(), PriceError>>().map(|()| None)
        })
    }
}

#[derive(Debug)]
struct PassTimes {
    set_up_ns: Nanos,
    pass_ns: Vec<Nanos>,
    pass_faults: Vec<u64>,
    tear_down_ns: Nanos,
    /// Of one thread; meaningless where others read as well.
    pace: UndisturbedPace,
}

/// The sum of the words of all blocks in the file, less the stamp that this task put on each: that of a file whose
/// blocks were all written.
fn stored_checksum(file: BorrowedFd<'_>, task: &FileTask) -> Result<u64, PriceError> {
    let block = task.cell.block_bytes.0;
    let mut sum = 0_u64;
    for index in 0..task.cell.blocks() {
        let offset = index * block + sampled(index, block as usize) as u64;
        let mut word = [0; WORD];
        let read = rustix::io::pread(file, &mut word, offset);
        read.map_err(PriceError::sys("pread", "the file"))?;
        sum = sum.wrapping_add(u64::from_ne_bytes(word)).wrapping_sub(task.stamp);
    }
    Ok(sum)
}

/// Memory for the reads that a queue has at a time.
fn queue_memory(task: &FileTask) -> Result<MemoryRegion, PriceError> {
    let size = Bytes(task.cell.block_bytes.0.saturating_mul(u64::from(DEPTH)));
    let mut region = MemoryRegion::new(size, RegionPages::Base)?;
    region.populate()?;
    Ok(region)
}

/// Page faults of this process so far.
fn faults() -> Result<u64, PriceError> {
    let usage = own_usage::process().map_err(PriceError::sys("getrusage", "this process"))?;
    Ok(usage.minor_faults + usage.major_faults)
}

const fn since(begin: Nanos, end: Nanos) -> Nanos {
    Nanos(end.0.saturating_sub(begin.0))
}

/// The bytes of the file that this process has mapped shared, as ways to read do. Our own program, which may
/// be the file, is mapped privately.
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

// The file as a way to read has it open: a descriptor, queues, or a mapping with advice.

/// Reads that a queue has at a time.
const DEPTH: u32 = 16;

/// Descriptors, queues and mapping; dropped, the descriptors go last.
#[derive(Debug)]
struct ReaderResources {
    view: Option<MappedFileView>,
    /// The mapping that blocks are copied into.
    stored: Option<Mutex<WritableFileView>>,
    /// One queue for each thread, which locks it for a whole pass.
    queues: Vec<Mutex<ReadQueue>>,
    /// One, or for calls that use its position one for each thread.
    descriptors: Vec<OwnedFd>,
}

impl ReaderResources {
    /// Opens the file for a task: all that a program does before the first byte. Queues get `memory`, one
    /// piece each.
    fn new(path: &str, task: &FileTask, memory: Vec<MemoryRegion>) -> Result<Self, PriceError> {
        let arm = task.cell.arm;
        let has_position = matches!(arm, ReadWay::Read | ReadWay::Readv);
        let count = if has_position { task.cell.threads.max(1) } else { 1 };
        let open = |_| {
            let past = if arm == ReadWay::Direct { OFlags::DIRECT } else { OFlags::empty() };
            let rights = if task.cell.store.is_some() { OFlags::RDWR } else { OFlags::RDONLY };
            let flags = rights | OFlags::CLOEXEC | past;
            rustix::fs::open(path, flags, Mode::empty()).map_err(PriceError::sys("open", path))
        };
        let descriptors = (0..count).map(open).collect::<Result<Vec<_>, _>>()?;
        let queue = |buffer| {
            ReadQueue::new(DEPTH, buffer, arm == ReadWay::UringFixed)
                .map(Mutex::new)
                .map_err(PriceError::sys("io_uring_setup", "a queue of reads"))
        };
        let queues = memory.into_iter().map(queue).collect::<Result<Vec<_>, _>>()?;
        let mut opened = Self { view: None, stored: None, queues, descriptors };
        if arm.is_mapped() && task.cell.store.is_some() {
            let len = usize::try_from(task.cell.span_bytes.0).unwrap_or(usize::MAX);
            let view = WritableFileView::map(opened.descriptor(0)?, len);
            let view = view.map_err(PriceError::sys("mmap", "the file, to write"))?;
            opened.stored = Some(Mutex::new(view));
        } else if arm.is_mapped() {
            opened.view = Some(map(opened.descriptor(0)?, task)?);
        }
        Ok(opened)
    }

    /// The descriptor of a thread.
    fn descriptor(&self, thread: usize) -> Result<BorrowedFd<'_>, PriceError> {
        let own = self.descriptors.get(thread).or_else(|| self.descriptors.first());
        own.map(AsFd::as_fd)
            .ok_or_else(|| PriceError::Unavailable("no descriptor was opened".to_owned()))
    }

    /// The queue of a thread.
    fn queue(&self, thread: usize) -> Result<MutexGuard<'_, ReadQueue>, PriceError> {
        let own = self.queues.get(thread);
        let own = own.ok_or_else(|| PriceError::Unavailable("no queue was created".to_owned()))?;
        Ok(own.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The mapping that blocks are copied into.
    fn stored(&self) -> Result<MutexGuard<'_, WritableFileView>, PriceError> {
        let view = self.stored.as_ref().ok_or_else(unmapped)?;
        Ok(view.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits until the device has what was written.
    fn sync(&self) -> Result<(), PriceError> {
        match &self.stored {
            Some(_) => self.stored()?.sync().map_err(PriceError::sys("msync", "the file")),
            None => {
                rustix::fs::fsync(self.descriptor(0)?).map_err(PriceError::sys("fsync", "the file"))
            }
        }
    }

    /// The mapping.
    fn view(&self) -> Result<&MappedFileView, PriceError> {
        self.view.as_ref().ok_or_else(unmapped)
    }
}

fn unmapped() -> PriceError {
    PriceError::Unavailable("this way to read maps nothing".to_owned())
}

fn map(file: BorrowedFd<'_>, task: &FileTask) -> Result<MappedFileView, PriceError> {
    let arm = task.cell.arm;
    let span = task.cell.span_bytes;
    let failed = |call| PriceError::sys::<Errno>(call, format!("{span} of the file"));
    let len = usize::try_from(span.0).unwrap_or(usize::MAX);
    let is_whole = matches!(arm, ReadWay::MapPopulate | ReadWay::PlacePopulate);
    let view = MappedFileView::map(file, len, is_whole).map_err(failed("mmap"))?;
    let advice = match arm {
        ReadWay::MapWillNeed => Advice::WillNeed,
        ReadWay::MapSequential => Advice::Sequential,
        ReadWay::MapRandom => Advice::Random,
        _ => return Ok(view),
    };
    view.advise(0, len, advice).map_err(failed("madvise"))?;
    Ok(view)
}

// The memory that blocks are put into: the same buffer again, or memory that was never touched.

/// Memory for blocks, at this offset from the beginning of a page.
#[derive(Debug)]
struct BlockDestination {
    region: MemoryRegion,
    offset: usize,
    at: usize,
    /// Each piece follows the one before, in memory that was not touched before.
    fresh: bool,
    len: usize,
}

impl BlockDestination {
    /// Reused memory for pieces of `piece` bytes. If it must be fresh, memory for `all` bytes.
    fn new(task: &FileTask, piece: usize, all: usize) -> Result<Self, PriceError> {
        let fresh = task.cell.fresh;
        let len = if fresh { all.max(piece) } else { piece };
        let size = Bytes(task.cell.offset_bytes.0.saturating_add(len as u64));
        let mut region = MemoryRegion::new(size, RegionPages::Base)?;
        if !fresh {
            region.populate()?;
        }
        let offset = usize::try_from(task.cell.offset_bytes.0).unwrap_or(usize::MAX);
        Ok(Self { region, offset, at: 0, fresh, len })
    }

    /// The next place for `len` bytes. Shorter only if `len` exceeds the size requested at first.
    fn next(&mut self, len: usize) -> &mut [u8] {
        if self.at.saturating_add(len) > self.len {
            self.at = 0;
        }
        let start = self.offset.saturating_add(self.at);
        if self.fresh {
            self.at += len;
        }
        let end = start.saturating_add(len);
        self.region.as_mut_slice().get_mut(start..end).unwrap_or_default()
    }

    /// Whether its memory is allocated for each task, so that freeing it is part of the task.
    const fn is_fresh(&self) -> bool {
        self.fresh
    }
}

// The messages between a bench and a process that reads for it.

/// What a process must do. The file is its standard output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FileTask {
    /// What is read, and in which way.
    pub(super) cell: FileCell,
    /// Errors that are repeated.
    pub(super) slips: Vec<BenchmarkFlaw>,
    /// All bytes of each copied block are added up.
    pub(super) summed: bool,
    /// Seed of a random order.
    pub(super) seed: u64,
    /// Where threads run, one after the other.
    pub(super) cpus: Vec<u32>,
    /// What is added to a word of each block that is written; another in each task.
    pub(super) stamp: u64,
}

/// What a process has done: a sample without its numbers and proof, which are filled in later, and the pace
/// if there is a single thread.
pub(super) type Done = (FileSample, Option<UndisturbedPace>);

pub(super) type Word = helper::BenchMessage<FileTask, Done>;

/// One end of the line between the bench and a process.
pub(super) type Line = helper::BenchLine<Word>;

#[cfg(test)]
mod tests {
    use super::super::process::example::{cell, task};
    use super::*;
    use pagewise_model::bench::file::{FileCell, ReadWay};

    #[test]
    fn fresh_memory_goes_on_and_other_comes_again() {
        let offset_bytes = Bytes(64);
        let places = |fresh| {
            let task = task(FileCell { fresh, offset_bytes, ..cell(ReadWay::Read) });
            let mut destination = BlockDestination::new(&task, 512, 4 * 512).expect("memory");
            let start = destination.region.as_ptr().addr();
            let mut next = || destination.next(512).as_ptr().addr() - start;
            [next(), next(), next()]
        };
        assert_eq!(places(false), [64; 3]);
        assert_eq!(places(true), [64, 576, 1088]);
    }
}
