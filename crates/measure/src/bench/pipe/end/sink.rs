//! How a consumer takes bytes out of the pipe, and where they go.
//!
//! The file to forward to has no name. It lies in the page cache, is filled beforehand and is overwritten
//! again and again, so that neither its growth nor a disk is measured.

use super::source::{never_sleep, open_ring};
use super::waiter::{HERE, Waiter};
use super::{Done, Meter, Task, failed, length, plain};
use crate::bench::pipe::sequence;
use crate::error::PriceError;
use crate::kernels::lend::ReadEnd;
use crate::kernels::ring::Ring;
use crate::prices::file::{BLOCK, create_cached};
use pagewise_kernel::region::{Pages, Region};
use pagewise_kernel::{SysError, clock};
use pagewise_model::bench::pipe::{self, Consumption, EndUsage, Reader, Wait};
use pagewise_model::{Bytes, Nanos};
use rustix::event::PollFlags;
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::pipe::SpliceFlags;
use std::fs::File;
use std::io;
use std::io::{IoSliceMut, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// Size of the file that is written over and over.
const WINDOW: Bytes = Bytes::mib(32);

/// A consumer's resources, prepared.
#[derive(Debug)]
pub(super) struct Sink {
    way: Way,
    to: To,
    /// Most bytes taken in one call.
    len: usize,
    adaptive: bool,
}

#[derive(Debug)]
enum Way {
    Read { pipe: OwnedFd, buffer: Region },
    Out { pipe: ReadEnd, buffer: Region },
    Ring { pipe: OwnedFd, buffer: Region, ring: Ring },
    Splice { pipe: OwnedFd, moves: bool },
}

#[derive(Debug)]
enum To {
    Nowhere,
    Null(File),
    Socket(File),
    Window { file: File, at: u64 },
}

/// Prepares what the task needs. `socket` is where a forwarding consumer writes.
pub(super) fn prepare(pipe: OwnedFd, socket: OwnedFd, task: &Task) -> Result<Sink, PriceError> {
    let rung = &task.rung;
    if matches!(rung.wait, Wait::Busy | Wait::BusyPoll) {
        never_sleep(&pipe)?;
    }
    let reader = rung.reader_for(task.consumption);
    let pages = match rung.pages {
        pipe::Pages::Base => Pages::Base,
        pipe::Pages::Huge | pipe::Pages::HugeTlb => Pages::Huge,
    };
    let buffer = || -> Result<Region, PriceError> {
        let mut region = Region::new(rung.buffer_bytes, pages)?;
        region.populate()?;
        Ok(region)
    };
    let way = match reader {
        Reader::Read => Way::Read { pipe, buffer: buffer()? },
        Reader::VmspliceOut => Way::Out { pipe: ReadEnd::new(pipe)?, buffer: buffer()? },
        Reader::IoUring => Way::Ring { pipe, buffer: buffer()?, ring: open_ring()? },
        Reader::Splice => Way::Splice { pipe, moves: rung.gift },
    };
    let to = match task.consumption {
        Consumption::Untouched | Consumption::Touched if reader.copies() => To::Nowhere,
        Consumption::Untouched | Consumption::Touched => To::Null(open_null()?),
        Consumption::ForwardedSocket => To::Socket(socket.into()),
        Consumption::ForwardedFile => To::Window { file: open_window()?, at: 0 },
    };
    Ok(Sink { way, to, len: length(rung.buffer_bytes)?, adaptive: rung.wait == Wait::Adaptive })
}

fn open_null() -> Result<File, PriceError> {
    let null = File::options().write(true).open("/dev/null");
    null.map_err(|e| PriceError::Unavailable(format!("open /dev/null: {e}")))
}

fn open_window() -> Result<File, PriceError> {
    create_cached(&std::env::temp_dir(), length(WINDOW)?, BLOCK)
        .map_err(|e| PriceError::Unavailable(e.to_string()))
}

impl Sink {
    /// Takes at most `most` bytes by one call that moves any; 0 at the end.
    pub(super) fn take(&mut self, most: usize, waiter: &mut Waiter) -> Result<usize, PriceError> {
        let len = most.min(self.len);
        let adaptive = self.adaptive;
        match &mut self.way {
            Way::Read { pipe, buffer } => {
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
            Way::Out { pipe, buffer } => {
                let into = &mut buffer.as_mut_slice()[..len];
                waiter.run((pipe.as_fd(), PollFlags::IN), |nonblocking| {
                    pipe.take(into, flags(nonblocking, false))
                })
            }
            Way::Ring { pipe, buffer, ring } => {
                let into = &mut buffer.as_mut_slice()[..len];
                waiter.run((pipe.as_fd(), PollFlags::IN), |_| ring.read(pipe.as_fd(), into))
            }
            Way::Splice { pipe, moves } => splice(pipe, &mut self.to, len, *moves, waiter),
        }
        .map_err(failed(self.way.call()))
    }

    /// The bytes that were taken last, if they were copied.
    pub(super) fn bytes(&self, len: usize) -> &[u8] {
        match &self.way {
            Way::Read { buffer, .. } | Way::Out { buffer, .. } | Way::Ring { buffer, .. } => {
                &buffer.as_slice()[..len]
            }
            Way::Splice { .. } => &[],
        }
    }

    /// Forwards the bytes that were taken last, where taking them has not done it.
    pub(super) fn pass_on(&mut self, len: usize) -> Result<(), PriceError> {
        let bytes = match &self.way {
            Way::Read { buffer, .. } | Way::Out { buffer, .. } | Way::Ring { buffer, .. } => {
                &buffer.as_slice()[..len]
            }
            Way::Splice { .. } => return Ok(()),
        };
        let written = match &mut self.to {
            To::Nowhere | To::Null(_) => return Ok(()),
            To::Socket(socket) => socket.write_all(bytes),
            To::Window { file, at } => {
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
    to: &mut To,
    len: usize,
    moves: bool,
    waiter: &mut Waiter,
) -> Result<usize, Errno> {
    let ready = (pipe.as_fd(), PollFlags::IN);
    match to {
        To::Nowhere => Err(Errno::BADF),
        To::Null(out) | To::Socket(out) => waiter.run(ready, |nonblocking| {
            rustix::pipe::splice(pipe, None, &*out, None, len, flags(nonblocking, moves))
        }),
        To::Window { file, at } => {
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

fn flags(nonblocking: bool, moves: bool) -> SpliceFlags {
    let mut flags = SpliceFlags::empty();
    flags.set(SpliceFlags::NONBLOCK, nonblocking);
    flags.set(SpliceFlags::MOVE, moves);
    flags
}

impl Way {
    const fn call(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::Out { .. } => "vmsplice",
            Self::Ring { .. } => "io_uring read",
            Self::Splice { .. } => "splice",
        }
    }
}

// The timed loop of a consumer: takes the exact number of bytes and does the requested work with them. The
// clock runs from the arrival of the first bytes, which do not count, to the end of the last.

/// Bytes per read of the process behind the socket.
const DRAIN: usize = 256 << 10;

/// Takes what the task requires.
pub(super) fn run(sink: &mut Sink, task: &Task, period: Option<u64>) -> Result<Done, PriceError> {
    let touches = task.consumption == Consumption::Touched;
    let mut waiter = Waiter::new(task.rung.wait);
    let total = length(task.bytes)?;
    let (mut whole, mut own) = (true, Nanos(0));
    let meter = Meter::start()?;
    let mut taken = sink.take(total, &mut waiter)?;
    let (start, first) = (clock::now(), taken);
    let mut fresh = taken;
    loop {
        if fresh == 0 {
            return Err(ended_early(taken, total));
        }
        if touches {
            let start = clock::now();
            whole &= sequence::is_whole(sink.bytes(fresh), (taken - fresh) as u64, period);
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
    let usage = meter.stop(EndUsage { bytes, own_ns, ..waiter.counts() })?;
    Ok(Done {
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
pub(super) fn drain(socket: &OwnedFd, task: &Task) -> Result<Done, PriceError> {
    let mut buffer = vec![0; DRAIN];
    let total = length(task.bytes)?;
    let mut taken = 0;
    let meter = Meter::start()?;
    while taken < total {
        let got = retry_on_intr(|| rustix::io::read(socket, &mut buffer[..]));
        match got.map_err(|e: Errno| SysError::new("read", "a socket", e))? {
            0 => return Err(ended_early(taken, total)),
            n => taken += n,
        }
    }
    meter.stop(EndUsage { bytes: Bytes(taken as u64), ..EndUsage::default() }).map(plain)
}
