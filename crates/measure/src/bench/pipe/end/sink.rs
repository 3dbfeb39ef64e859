//! How a consumer takes bytes out of the pipe, and where they go.
//!
//! The file to forward to has no name. It lies in the page cache, is filled beforehand and is overwritten
//! again and again, so that neither its growth nor a disk is measured.
//!
//! The lines of FizzBuzz are compared with plainly formatted ones up to [`PREFIX`] and only read from there on.

use super::source::{never_sleep, open_ring};
use super::waiter::{EndWaiter, HERE};
use super::{PipeEndResult, PipeTask, UsageMeter, failed, length, plain};
use crate::bench::pipe::sequence;
use crate::error::PriceError;
use crate::kernels::fizzbuzz;
use crate::kernels::lend::ReadEnd;
use crate::kernels::ring::IoUringQueue;
use crate::prices::file::{BLOCK, create_cached};
use crate::stream::sum;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::{SysError, clock};
use pagewise_lanes::copy::CopyJob;
use pagewise_model::bench::pipe::{
    self, PipeConsumption, PipeEndUsage, RungReader, RungWait, RungWriter,
};
use pagewise_model::{Bytes, Nanos};
use rustix::event::PollFlags;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::pipe::SpliceFlags;
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::io::{IoSliceMut, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Size of the file that is written over and over.
const WINDOW: Bytes = Bytes::mib(32);
/// Bytes of FizzBuzz that are compared.
const PREFIX: usize = 16 << 20;

/// A consumer's resources, prepared.
#[derive(Debug)]
pub(super) struct PipeSink {
    way: SinkWay,
    to: SinkTarget,
    /// Most bytes taken in one call.
    len: usize,
    adaptive: bool,
    /// The first lines, of FizzBuzz that is touched.
    lines: Option<Vec<u8>>,
}

#[derive(Debug)]
enum SinkWay {
    Read {
        pipe: OwnedFd,
        buffer: MemoryRegion,
    },
    Out {
        pipe: ReadEnd,
        buffer: MemoryRegion,
    },
    Ring {
        pipe: OwnedFd,
        buffer: MemoryRegion,
        ring: IoUringQueue,
    },
    Splice {
        pipe: OwnedFd,
        moves: bool,
    },
    /// One call for the first bytes, which start the clock, then one job for all others.
    Meter {
        pipe: OwnedFd,
        is_begun: bool,
    },
}

#[derive(Debug)]
enum SinkTarget {
    Nowhere,
    Null(File),
    Socket(File),
    Window { file: File, at: u64 },
}

/// Prepares what the task needs. `socket` is where a forwarding consumer writes.
pub(super) fn prepare(
    pipe: OwnedFd,
    socket: OwnedFd,
    task: &PipeTask,
) -> Result<PipeSink, PriceError> {
    let rung = &task.rung;
    if matches!(rung.wait, RungWait::Busy | RungWait::BusyPoll) {
        never_sleep(&pipe)?;
    }
    let reader = rung.reader_for(task.consumption);
    let pages = match rung.pages {
        pipe::RungPages::Base => RegionPages::Base,
        pipe::RungPages::Huge | pipe::RungPages::HugeTlb => RegionPages::Huge,
    };
    let buffer = || -> Result<MemoryRegion, PriceError> {
        let mut region = MemoryRegion::new(rung.buffer_bytes, pages)?;
        region.populate()?;
        Ok(region)
    };
    let way = match reader {
        RungReader::Read => SinkWay::Read { pipe, buffer: buffer()? },
        RungReader::VmspliceOut => SinkWay::Out { pipe: ReadEnd::new(pipe)?, buffer: buffer()? },
        RungReader::IoUring => SinkWay::Ring { pipe, buffer: buffer()?, ring: open_ring()? },
        RungReader::Splice => SinkWay::Splice { pipe, moves: rung.gift },
        RungReader::Meter => SinkWay::Meter { pipe, is_begun: false },
    };
    let to = match task.consumption {
        PipeConsumption::Untouched | PipeConsumption::Touched if reader.copies() => {
            SinkTarget::Nowhere
        }
        PipeConsumption::Untouched | PipeConsumption::Touched => SinkTarget::Null(open_null()?),
        PipeConsumption::ForwardedSocket => SinkTarget::Socket(socket.into()),
        PipeConsumption::ForwardedFile => SinkTarget::Window { file: open_window()?, at: 0 },
    };
    let has_lines =
        rung.writer == RungWriter::FizzBuzz && task.consumption == PipeConsumption::Touched;
    let prefix = length(task.bytes)?.min(PREFIX);
    Ok(PipeSink {
        lines: has_lines.then(|| fizzbuzz::plain(prefix)),
        way,
        to,
        len: length(rung.buffer_bytes)?,
        adaptive: rung.wait == RungWait::Adaptive,
    })
}

fn open_null() -> Result<File, PriceError> {
    let null = File::options().write(true).open("/dev/null");
    null.map_err(|e| PriceError::Unavailable(format!("open /dev/null: {e}")))
}

fn open_window() -> Result<File, PriceError> {
    create_cached(&std::env::temp_dir(), length(WINDOW)?, BLOCK)
        .map_err(|e| PriceError::Unavailable(e.to_string()))
}

impl PipeSink {
    /// Takes at most `most` bytes by one call that moves any; 0 at the end.
    pub(super) fn take(
        &mut self,
        most: usize,
        waiter: &mut EndWaiter,
    ) -> Result<usize, PriceError> {
        let len = most.min(self.len);
        let adaptive = self.adaptive;
        match &mut self.way {
            SinkWay::Read { pipe, buffer } => {
                let into = &mut buffer.as_mut_slice()[..len];
                waiter.run((pipe.as_fd(), PollFlags::IN), |nonblocking| {
                    if nonblocking && adaptive {
                        let mut into = [IoSliceMut::new(into)];
                        rustix::io::preadv2(&*pipe, &mut into, HERE, ReadWriteFlags::NOWAIT)
                    } else {
                        rustix::io::read(&*pipe, &mut *into)
                    }
                })
            }
            SinkWay::Out { pipe, buffer } => {
                let into = &mut buffer.as_mut_slice()[..len];
                waiter.run((pipe.as_fd(), PollFlags::IN), |nonblocking| {
                    pipe.take(into, flags(nonblocking, false))
                })
            }
            SinkWay::Ring { pipe, buffer, ring } => {
                let into = &mut buffer.as_mut_slice()[..len];
                waiter.run((pipe.as_fd(), PollFlags::IN), |_| ring.read(pipe.as_fd(), into))
            }
            SinkWay::Splice { pipe, moves } => splice(pipe, &mut self.to, len, *moves, waiter),
            SinkWay::Meter { pipe, is_begun } if *is_begun => {
                waiter.count(|| meter(pipe, &self.to, most))
            }
            SinkWay::Meter { pipe, is_begun } => {
                *is_begun = true;
                splice(pipe, &mut self.to, len, false, waiter)
            }
        }
        .map_err(failed(self.way.call()))
    }

    /// The bytes that were taken last, if they were copied.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        match &self.way {
            SinkWay::Read { buffer, .. }
            | SinkWay::Out { buffer, .. }
            | SinkWay::Ring { buffer, .. } => &buffer.as_slice()[..len],
            SinkWay::Splice { .. } | SinkWay::Meter { .. } => &[],
        }
    }

    /// Whether the `len` bytes that were taken last are those that belong at `offset`.
    fn is_whole(&self, len: usize, offset: usize, period: Option<u64>) -> bool {
        let bytes = self.bytes(len);
        let Some(lines) = &self.lines else {
            return sequence::is_whole(bytes, offset as u64, period);
        };
        let expected = lines.get(offset..).unwrap_or_default();
        let (compared, rest) = bytes.split_at(expected.len().min(len));
        black_box(sum(rest));
        expected.starts_with(compared)
    }

    /// Forwards the bytes that were taken last, where taking them has not done it.
    pub(super) fn pass_on(&mut self, len: usize) -> Result<(), PriceError> {
        let bytes = match &self.way {
            SinkWay::Read { buffer, .. }
            | SinkWay::Out { buffer, .. }
            | SinkWay::Ring { buffer, .. } => &buffer.as_slice()[..len],
            SinkWay::Splice { .. } | SinkWay::Meter { .. } => return Ok(()),
        };
        let written = match &mut self.to {
            SinkTarget::Nowhere | SinkTarget::Null(_) => return Ok(()),
            SinkTarget::Socket(socket) => socket.write_all(bytes),
            SinkTarget::Window { file, at } => {
                let from = room(at, len as u64);
                *at += len as u64;
                file.write_all_at(bytes, from)
            }
        };
        written.map_err(|e| PriceError::Unavailable(format!("write: {e}")))
    }
}

/// Where the next `len` bytes go: from the start again when the window is full.
fn room(at: &mut u64, len: u64) -> u64 {
    if *at + len > WINDOW.0 {
        *at = 0;
    }
    *at
}

fn splice(
    pipe: &OwnedFd,
    to: &mut SinkTarget,
    len: usize,
    moves: bool,
    waiter: &mut EndWaiter,
) -> Result<usize, Errno> {
    let ready = (pipe.as_fd(), PollFlags::IN);
    match to {
        SinkTarget::Nowhere => Err(Errno::BADF),
        SinkTarget::Null(out) | SinkTarget::Socket(out) => waiter.run(ready, |nonblocking| {
            rustix::pipe::splice(pipe, None, &*out, None, len, flags(nonblocking, moves))
        }),
        SinkTarget::Window { file, at } => {
            let mut from = room(at, len as u64);
            let moved = waiter.run(ready, |nonblocking| {
                let flags = flags(nonblocking, moves);
                rustix::pipe::splice(pipe, None, &*file, Some(&mut from), len, flags)
            })?;
            *at += moved as u64;
            Ok(moved)
        }
    }
}

/// All of `bytes` bytes by the copy engine, as `pagewise meter` runs it.
fn meter(pipe: &OwnedFd, to: &SinkTarget, bytes: usize) -> Result<usize, Errno> {
    let SinkTarget::Null(null) = to else { return Err(Errno::BADF) };
    let job = CopyJob::new(pipe, null).live().limit(bytes as u64);
    job.run().map(|done| done.bytes as usize).map_err(|error| error.errno)
}

fn flags(nonblocking: bool, moves: bool) -> SpliceFlags {
    let mut flags = SpliceFlags::empty();
    flags.set(SpliceFlags::NONBLOCK, nonblocking);
    flags.set(SpliceFlags::MOVE, moves);
    flags
}

impl SinkWay {
    const fn call(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Out { .. } => "vmsplice",
            Self::Ring { .. } => "io_uring read",
            Self::Splice { .. } | Self::Meter { .. } => "splice",
        }
    }
}

// The timed loop of a consumer: takes the exact number of bytes and does the requested work with them. The
// clock runs from the arrival of the first bytes, which do not count, to the end of the last.

/// Bytes per read of the process behind the socket.
const DRAIN: usize = 256 << 10;

/// Takes what the task requires.
pub(super) fn run(
    sink: &mut PipeSink,
    task: &PipeTask,
    period: Option<u64>,
) -> Result<PipeEndResult, PriceError> {
    let touches = task.consumption == PipeConsumption::Touched;
    let mut waiter = EndWaiter::new(task.rung.wait);
    let total = length(task.bytes)?;
    let (mut whole, mut own) = (true, Nanos(0));
    let meter = UsageMeter::start()?;
    let mut taken = sink.take(total, &mut waiter)?;
    let (start, first) = (clock::now(), taken);
    let mut fresh = taken;
    loop {
        if fresh == 0 {
            return Err(ended_early(taken, total));
        }
        if touches {
            let start = clock::now();
            whole &= sink.is_whole(fresh, taken - fresh, period);
            own += Nanos(clock::now().0.saturating_sub(start.0));
        }
        sink.pass_on(fresh)?;
        if taken >= total {
            break;
        }
        fresh = sink.take(total - taken, &mut waiter)?;
        taken += fresh;
    }
    let end = clock::now();
    let (bytes, own_ns) = (Bytes(taken as u64), Some(own));
    let usage = meter.stop(PipeEndUsage { bytes, own_ns, ..waiter.counts() })?;
    Ok(PipeEndResult {
        timed_bytes: Bytes((taken - first) as u64),
        wall_ns: Nanos(end.0.saturating_sub(start.0)),
        verified: touches.then_some(whole),
        ..plain(usage)
    })
}

fn ended_early(taken: usize, total: usize) -> PriceError {
    let gone = io::Error::other(format!("the producer ended after {taken} of {total} bytes"));
    SysError::new("read", "the pipe", gone).into()
}

/// Empties the socket behind a forwarding consumer, and counts.
pub(super) fn drain(socket: &OwnedFd, task: &PipeTask) -> Result<PipeEndResult, PriceError> {
    let mut buffer = vec![0; DRAIN];
    let total = length(task.bytes)?;
    let mut taken = 0;
    let meter = UsageMeter::start()?;
    while taken < total {
        let got = retry_on_intr(|| rustix::io::read(socket, &mut buffer[..]));
        match got.map_err(|e: Errno| SysError::new("read", "a socket", e))? {
            0 => return Err(ended_early(taken, total)),
            n => taken += n,
        }
    }
    meter.stop(PipeEndUsage { bytes: Bytes(taken as u64), ..PipeEndUsage::default() }).map(plain)
}
