//! How a producer passes bytes: one way for each kind of writer.
//!
//! A way that copies sends its buffer again and again. A way that lends alternates between two buffers. If
//! the consumer touches the bytes, each buffer is rewritten before each turn with its part of the sequence.
//! Bytes that cannot be changed any more (frozen, seed) are sent with a period. Fresh pages of a dropped
//! buffer are always touched, even if no consumer reads them. A page that was never written would be the
//! kernel's zero page, which costs nothing and contains no data.

use super::waiter::{EndWaiter, HERE};
use super::{PipeTask, failed, length, region_pages};
use crate::bench::pipe::sequence;
use crate::error::PriceError;
use crate::kernels::fizzbuzz::FizzBuzzWriter;
use crate::kernels::lend::WriteEnd;
use crate::kernels::ring::IoUringQueue;
use pagewise_kernel::region::MemoryRegion;
use pagewise_kernel::{SysError, clock, page_size, pipe};
use pagewise_lanes::buffer::{self, Dropped, Frozen, SendError, SendWay};
use pagewise_lanes::pipe as pipe_end;
use pagewise_model::bench::pipe::{
    PipeConsumption, PipeRung, RungBuffers, RungPages, RungWait, RungWriter,
};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::SpliceFlags;
use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};

/// What one call passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::bench::pipe) struct PassedBytes {
    pub(in crate::bench::pipe) bytes: usize,
    /// Base pages that they touch: slots of the pipe.
    pub(in crate::bench::pipe) slots: u64,
}

/// A producer's resources, prepared.
#[derive(Debug)]
pub(in crate::bench::pipe) struct PipeSource {
    way: SourceWay,
    /// Bytes of one turn.
    len: usize,
    /// Bytes of this turn that have been sent.
    at: usize,
    /// Bytes of all turns before.
    sent: u64,
    /// Each turn sends new bytes.
    refills: bool,
}

#[derive(Debug)]
enum SourceWay {
    Copy { pipe: OwnedFd, buffer: MemoryRegion, adaptive: bool },
    Ring { pipe: OwnedFd, buffer: MemoryRegion, ring: IoUringQueue },
    Lend { pipe: WriteEnd, buffers: Vec<MemoryRegion>, turn: usize, gift: bool },
    Frozen { pipe: OwnedFd, content: Frozen },
    Seed { pipe: OwnedFd, seed: SeedPipe },
    Dropped { end: pipe_end::Writer, content: Dropped },
    FizzBuzz(FizzBuzzWriter),
}

/// Prepares what the task needs.
pub(in crate::bench::pipe) fn prepare(
    pipe: OwnedFd,
    task: &PipeTask,
) -> Result<PipeSource, PriceError> {
    let rung = &task.rung;
    let busy = matches!(rung.wait, RungWait::Busy | RungWait::BusyPoll);
    let is_lane = matches!(rung.writer, RungWriter::GiveDropped | RungWriter::FizzBuzz);
    if busy && !is_lane {
        never_sleep(&pipe)?;
    }
    let (way, len) = choose(pipe, rung)?;
    let refills = task.consumption == PipeConsumption::Touched && !rung.writer.sends_constant();
    let mut source = PipeSource { way, len, at: 0, sent: 0, refills };
    // If the consumer reads the bytes, they must have been written.
    if !rung.untouched || task.consumption == PipeConsumption::Touched {
        source.fill_all()?;
    }
    if rung.check_huge && source.page_size().known().is_none_or(|&p| p < page_size::huge()) {
        return Err(PriceError::Unavailable("the buffer is not on huge pages".to_owned()));
    }
    Ok(source)
}

/// The way with its memory, and the bytes of one turn.
fn choose(pipe: OwnedFd, rung: &PipeRung) -> Result<(SourceWay, usize), PriceError> {
    let len = length(rung.buffer_bytes)?;
    Ok(match rung.writer {
        RungWriter::Write => {
            let adaptive = rung.wait == RungWait::Adaptive;
            (SourceWay::Copy { pipe, buffer: memory(rung)?, adaptive }, len)
        }
        RungWriter::IoUring => {
            let ring = open_ring()?;
            (SourceWay::Ring { pipe, buffer: memory(rung)?, ring }, len)
        }
        RungWriter::Vmsplice => {
            let pipe = WriteEnd::new(pipe)?;
            let (buffers, len) = match rung.buffers {
                RungBuffers::One => (vec![memory(rung)?], len / 2),
                RungBuffers::Two => (vec![memory(rung)?, memory(rung)?], len),
            };
            (SourceWay::Lend { pipe, buffers, turn: 0, gift: rung.gift }, len)
        }
        RungWriter::SpliceFrozen => {
            let content = freeze(rung)?;
            let len = content.len();
            (SourceWay::Frozen { pipe, content }, len)
        }
        RungWriter::TeeSeed => {
            let seed = SeedPipe::new(rung.buffer_bytes)?;
            let len = seed.len;
            (SourceWay::Seed { pipe, seed }, len)
        }
        RungWriter::GiveDropped => {
            let pages = lane_pages(rung)?;
            let content = Dropped::new(len, pages).map_err(failed("mmap"))?;
            (SourceWay::Dropped { end: lane_end(pipe, rung)?, content }, len)
        }
        RungWriter::FizzBuzz => {
            let lines = FizzBuzzWriter::new(lane_end(pipe, rung)?);
            let lines = lines.map_err(|e| SysError::new("mmap", "a region for lines", e))?;
            // One turn: the lines never repeat.
            (SourceWay::FizzBuzz(lines), usize::MAX)
        }
    })
}

/// Makes calls on our end return instead of sleeping. Only this pair uses the open file description.
pub(in crate::bench::pipe) fn never_sleep(pipe: &OwnedFd) -> Result<(), PriceError> {
    let flags = rustix::fs::fcntl_getfl(pipe).map_err(failed("fcntl F_GETFL"))?;
    rustix::fs::fcntl_setfl(pipe, flags | OFlags::NONBLOCK).map_err(failed("fcntl F_SETFL"))
}

/// A queue for io_uring. An error if this machine has none.
pub(in crate::bench::pipe) fn open_ring() -> Result<IoUringQueue, PriceError> {
    IoUringQueue::new().map_err(|e| PriceError::Unavailable(format!("io_uring_setup: {e}")))
}

fn memory(rung: &PipeRung) -> Result<MemoryRegion, PriceError> {
    let mut region = MemoryRegion::new(rung.buffer_bytes, region_pages(rung)).map_err(|error| {
        match rung.pages {
            RungPages::HugeTlb => PriceError::Unavailable(format!(
                "{error}: no reserved huge page is free (vm.nr_hugepages)"
            )),
            _ => error.into(),
        }
    })?;
    if rung.lock {
        region.lock()?;
    }
    Ok(region)
}

fn lane_pages(rung: &PipeRung) -> Result<buffer::BufferPages, PriceError> {
    let refuse = |why: &str| Err(PriceError::Unavailable(why.to_owned()));
    match rung.pages {
        _ if rung.lock => refuse("pages passed by reference cannot be locked"),
        RungPages::Base => Ok(buffer::BufferPages::Base),
        RungPages::Huge => Ok(buffer::BufferPages::Huge),
        RungPages::HugeTlb => refuse("the library does not use pages of the reserved pool"),
    }
}

/// The library's end of a pipe that keeps its size.
fn lane_end(pipe: OwnedFd, rung: &PipeRung) -> Result<pipe_end::Writer, SysError> {
    let end = pipe_end::PipeOptions::new().capacity(0).wait(lane_wait(rung.wait)).writer(pipe);
    end.map_err(|e| SysError::new("fstat", "an end of a pipe", e))
}

/// How an end waits, as the library names it. Its ends poll by themselves if they must.
const fn lane_wait(wait: RungWait) -> pipe_end::WaitMode {
    match wait {
        RungWait::Block | RungWait::Poll => pipe_end::WaitMode::Block,
        RungWait::Busy | RungWait::BusyPoll => pipe_end::WaitMode::Busy,
        RungWait::Adaptive => pipe_end::WaitMode::Adaptive,
    }
}

/// Content of the buffer's size, and of whole huge pages where those are asked for.
fn freeze(rung: &PipeRung) -> Result<Frozen, PriceError> {
    let pages = lane_pages(rung)?;
    let unit =
        if pages == buffer::BufferPages::Huge { page_size::huge() } else { page_size::base() };
    let len = length(Bytes(rung.buffer_bytes.0.next_multiple_of(unit.bytes())))?;
    let content = Frozen::build(len, |space| sequence::fill(space, 0));
    let content = content.map_err(failed("memfd_create"))?;
    match content.memfd() {
        Some(_) => Ok(content),
        None => Err(PriceError::Unavailable("a sealed memfd is not allowed here".to_owned())),
    }
}

impl PipeSource {
    /// Bytes after which the stream repeats itself. `None` if every turn is new.
    pub(in crate::bench::pipe) fn period(&self) -> Option<u64> {
        (!self.refills).then_some(self.len as u64)
    }

    /// Begins the next turn, when the last one is over: the other buffer, with new bytes. The time
    /// that they took.
    pub(in crate::bench::pipe) fn turn(&mut self) -> Result<Nanos, PriceError> {
        if self.at < self.len {
            return Ok(Nanos(0));
        }
        (self.at, self.sent) = (0, self.sent + self.len as u64);
        if let SourceWay::Lend { turn, .. } = &mut self.way {
            *turn ^= 1;
        }
        let is_fresh = matches!(self.way, SourceWay::Dropped { .. });
        if !self.refills && !is_fresh {
            return Ok(Nanos(0));
        }
        let start = clock::now();
        if self.refills { self.fill() } else { self.touch_fresh() }?;
        Ok(Nanos(clock::now().0.saturating_sub(start.0)))
    }

    /// Passes at most `most` bytes, with one call that moves any.
    pub(in crate::bench::pipe) fn give(
        &mut self,
        most: usize,
        waiter: &mut EndWaiter,
    ) -> Result<PassedBytes, PriceError> {
        let (at, end) = (self.at, self.len.min(self.at.saturating_add(most)));
        let given = match &mut self.way {
            SourceWay::Copy { pipe, buffer, adaptive } => {
                let bytes = &buffer.as_slice()[at..end];
                let piece = &bytes[..waiter.sleeping_write(bytes.len())];
                waiter.run((pipe.as_fd(), PollFlags::OUT), |nonblocking| {
                    if nonblocking && *adaptive {
                        let now = ReadWriteFlags::NOWAIT;
                        rustix::io::pwritev2(&*pipe, &[IoSlice::new(bytes)], HERE, now)
                    } else {
                        rustix::io::write(&*pipe, piece)
                    }
                })
            }
            SourceWay::Ring { pipe, buffer, ring } => {
                let bytes = &buffer.as_slice()[at..end];
                waiter.run((pipe.as_fd(), PollFlags::OUT), |_| ring.write(pipe.as_fd(), bytes))
            }
            SourceWay::Lend { pipe, buffers, turn, gift } => {
                let bytes = &lent(buffers, *turn, self.len)[at..end];
                let gift = if *gift { SpliceFlags::GIFT } else { SpliceFlags::empty() };
                waiter.run((pipe.as_fd(), PollFlags::OUT), |nonblocking| {
                    pipe.lend(bytes, gift | flags(nonblocking))
                })
            }
            SourceWay::Frozen { pipe, content } => {
                let Some(memfd) = content.memfd() else {
                    return Err(failed("splice")(Errno::BADF));
                };
                waiter.run((pipe.as_fd(), PollFlags::OUT), |nonblocking| {
                    let mut offset = at as u64;
                    let (len, flags) = (end - at, flags(nonblocking));
                    rustix::pipe::splice(memfd, Some(&mut offset), &*pipe, None, len, flags)
                })
            }
            SourceWay::Seed { pipe, seed } => seed.give(pipe, end - at, waiter),
            SourceWay::Dropped { end: writer, content } => {
                waiter.count(|| give_away(content, writer, end - at))
            }
            SourceWay::FizzBuzz(lines) => {
                let given = waiter.count(|| lines.write_first((end - at) as u64));
                given.map_err(|error| errno(&error)).map(|()| end - at)
            }
        };
        let bytes = given.map_err(failed(self.way.call()))?;
        self.at += bytes;
        Ok(PassedBytes { bytes, slots: slots(at, bytes) })
    }

    /// How long the library's own end waited, if it is used.
    pub(in crate::bench::pipe) fn waits(&self) -> pipe_end::WaitCounts {
        match &self.way {
            SourceWay::Dropped { end, .. } => end.waits(),
            SourceWay::FizzBuzz(lines) => lines.waits(),
            _ => pipe_end::WaitCounts::default(),
        }
    }

    /// Page size of the buffer, as the kernel shows it now. Pages that were given away can no longer be
    /// checked, so one more turn is faulted in first.
    pub(in crate::bench::pipe) fn prove_page_size(&mut self) -> Fact<PageSize> {
        match self.touch_fresh() {
            Ok(()) => self.page_size(),
            Err(error) => Fact::missing(error.to_string()),
        }
    }

    fn page_size(&self) -> Fact<PageSize> {
        let of_lane = |size: std::io::Result<usize>| match size {
            Ok(size) => PageSize::new(size as u64).map_or(
                Fact::missing("the kernel reported a size that is not a page size"),
                Fact::Known,
            ),
            Err(error) => Fact::missing(format!("read /proc/self/smaps: {error}")),
        };
        match &self.way {
            SourceWay::Copy { buffer, .. } | SourceWay::Ring { buffer, .. } => {
                proven(std::slice::from_ref(buffer))
            }
            SourceWay::Lend { buffers, .. } => proven(buffers),
            SourceWay::Frozen { content, .. } => of_lane(content.page_size()),
            SourceWay::Seed { .. } => {
                Fact::missing("the kernel's own pages, which it does not show")
            }
            SourceWay::Dropped { content, .. } => of_lane(content.page_size()),
            SourceWay::FizzBuzz(lines) => of_lane(lines.page_size()),
        }
    }

    /// Fills every buffer before the start.
    fn fill_all(&mut self) -> Result<(), PriceError> {
        if let SourceWay::Lend { buffers, .. } = &mut self.way {
            for buffer in buffers {
                sequence::fill(buffer.as_mut_slice(), 0);
            }
        }
        self.fill()
    }

    /// Writes the part of the sequence that this turn sends.
    fn fill(&mut self) -> Result<(), PriceError> {
        let (len, offset) = (self.len, if self.refills { self.sent } else { 0 });
        match &mut self.way {
            SourceWay::Copy { buffer, .. } | SourceWay::Ring { buffer, .. } => {
                sequence::fill(&mut buffer.as_mut_slice()[..len], offset);
            }
            SourceWay::Lend { buffers, turn, .. } => {
                sequence::fill(lent_mut(buffers, *turn, len), offset);
            }
            SourceWay::Dropped { content, .. } => {
                let space = content.space(len).map_err(failed("madvise MADV_DONTNEED"))?;
                sequence::fill(&mut space[..len], offset);
            }
            SourceWay::Frozen { .. } | SourceWay::Seed { .. } | SourceWay::FizzBuzz(_) => {}
        }
        Ok(())
    }

    /// Makes the fresh pages of a dropped buffer real.
    fn touch_fresh(&mut self) -> Result<(), PriceError> {
        let len = self.len;
        if let SourceWay::Dropped { content, .. } = &mut self.way {
            let space = content.space(len).map_err(failed("madvise MADV_DONTNEED"))?;
            for byte in space[..len].iter_mut().step_by(page_bytes()) {
                *std::hint::black_box(byte) = 1;
            }
        }
        Ok(())
    }
}

impl SourceWay {
    const fn call(&self) -> &'static str {
        match self {
            Self::Copy { .. } => "write",
            Self::Ring { .. } => "io_uring write",
            Self::Lend { .. } | Self::Dropped { .. } | Self::FizzBuzz(_) => "vmsplice",
            Self::Frozen { .. } | Self::Seed { .. } => "splice",
        }
    }
}

/// A pipe that keeps bytes of the kernel, and one between it and the real one. tee(2) copies references only
/// from the head, so the bytes that a full pipe did not take are kept in between.
#[derive(Debug)]
struct SeedPipe {
    kept: (OwnedFd, OwnedFd),
    between: (OwnedFd, OwnedFd),
    len: usize,
    waiting: usize,
}

impl SeedPipe {
    fn new(wanted: Bytes) -> Result<Self, PriceError> {
        let (kept, between) = (pipe::pipe()?, pipe::pipe()?);
        let grow = |end: &OwnedFd| match pipe::set_capacity(end, wanted) {
            Ok(held) => Ok(held),
            // Beyond the user's limits, the pipe keeps its size.
            Err(_) => pipe::capacity(end),
        };
        let len = length(grow(&kept.1)?.min(grow(&between.1)?).min(wanted))?;
        let mut content = vec![0; len];
        sequence::fill(&mut content, 0);
        let written = rustix::io::write(&kept.1, &content).map_err(failed("write"))?;
        if written < len {
            return Err(PriceError::Unavailable(format!("the seed took {written} of {len} bytes")));
        }
        Ok(Self { kept, between, len, waiting: 0 })
    }

    fn give(
        &mut self,
        pipe: &OwnedFd,
        most: usize,
        waiter: &mut EndWaiter,
    ) -> Result<usize, Errno> {
        if self.waiting == 0 {
            let now = SpliceFlags::NONBLOCK;
            self.waiting = rustix::pipe::tee(&self.kept.0, &self.between.1, self.len, now)?;
        }
        let len = self.waiting.min(most);
        let given = waiter.run((pipe.as_fd(), PollFlags::OUT), |nonblocking| {
            rustix::pipe::splice(&self.between.0, None, pipe, None, len, flags(nonblocking))
        })?;
        self.waiting -= given;
        Ok(given)
    }
}

const fn flags(nonblocking: bool) -> SpliceFlags {
    if nonblocking { SpliceFlags::NONBLOCK } else { SpliceFlags::empty() }
}

/// Gives away exactly `bytes` bytes, waiting as the end waits. Copied bytes are an error.
fn give_away(
    content: &mut Dropped,
    end: &mut pipe_end::Writer,
    len: usize,
) -> Result<usize, Errno> {
    match end.give(content, len) {
        Ok(SendWay::ByReference) => Ok(len),
        Ok(SendWay::Copied) => Err(Errno::OPNOTSUPP),
        Err(error) => Err(error.errno),
    }
}

/// The error of a call behind one of std.
fn errno(error: &std::io::Error) -> Errno {
    let sent = error.get_ref().and_then(|inner| inner.downcast_ref::<SendError>());
    sent.map_or(Errno::IO, |sent| sent.errno)
}

/// The bytes of a turn: of one buffer its halves, of two each.
fn lent(buffers: &[MemoryRegion], turn: usize, len: usize) -> &[u8] {
    match buffers {
        [only] => &only.as_slice()[turn * len..][..len],
        several => &several[turn].as_slice()[..len],
    }
}

fn lent_mut(buffers: &mut [MemoryRegion], turn: usize, len: usize) -> &mut [u8] {
    match buffers {
        [only] => &mut only.as_mut_slice()[turn * len..][..len],
        several => &mut several[turn].as_mut_slice()[..len],
    }
}

fn page_bytes() -> usize {
    usize::try_from(page_size::base().bytes()).unwrap_or(usize::MAX)
}

/// Base pages that these `bytes` bytes from `at` on touch.
fn slots(at: usize, bytes: usize) -> u64 {
    let page = page_bytes();
    ((at % page + bytes).div_ceil(page)) as u64
}

/// The page size of all of these regions. Unknown if the sizes are mixed or nothing is resident.
fn proven(regions: &[MemoryRegion]) -> Fact<PageSize> {
    let (mut resident, mut huge) = (Bytes(0), Bytes(0));
    for region in regions {
        let residency: Result<_, SysError> = region.residency();
        match residency {
            Ok(found) => {
                resident += found.rss + found.pool;
                huge += found.anon_huge + found.pool;
            }
            Err(error) => return Fact::missing(error.to_string()),
        }
    }
    if resident == Bytes(0) {
        Fact::missing("never written: the kernel sent its zero page")
    } else if huge == Bytes(0) {
        Fact::Known(page_size::base())
    } else if huge == resident {
        Fact::Known(page_size::huge())
    } else {
        Fact::missing(format!("mixed: {huge} of {resident} on huge pages"))
    }
}
