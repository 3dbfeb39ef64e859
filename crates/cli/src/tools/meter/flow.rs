//! Moving the data that `meter` measures, and the figures that the display reads meanwhile.
//!
//! Whatever can be spliced goes through a pipe of our own, so that neither of the user's pipes is
//! polled or asked for its content and the time on either side is known. Lines, `-A`, `-B` and
//! `-C` need the bytes in our memory: read and write then.

use super::super::message::{quoted, reason, tell};
use super::allowance::Allowance;
use super::asked::{Asked, Unit};
use pagewise_kernel::start::was_closed;
use pagewise_lanes::{Copy, CopyError, Side, Step, Way};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Exit bits of pv: a file could not be opened.
pub(super) const NOT_OPENED: u8 = 2;
/// An input is the output.
pub(super) const IS_OUTPUT: u8 = 4;
/// Moving data failed.
pub(super) const NOT_MOVED: u8 = 16;
/// A signal ended it.
pub(super) const SIGNALLED: u8 = 32;

/// Bytes left out where the source cannot be read (`-E`): a sector of a disk.
const SECTOR: u64 = 512;

/// What has been moved, read by the display while it goes on.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) bytes: AtomicU64,
    pub(super) lines: AtomicU64,
    pub(super) source_ns: AtomicU64,
    pub(super) sink_ns: AtomicU64,
    /// Bytes that passed by reference.
    pub(super) spliced: AtomicU64,
    pub(super) is_over: AtomicBool,
    /// When the first byte had been moved.
    pub(super) first: OnceLock<Instant>,
    pub(super) last_written: Mutex<Vec<u8>>,
}

impl Tally {
    fn add(&self, bytes: u64, way: Way, source: Duration, sink: Duration) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes, Relaxed);
        self.source_ns.fetch_add(ns(source), Relaxed);
        self.sink_ns.fetch_add(ns(sink), Relaxed);
        if way != Way::ReadWrite {
            self.spliced.fetch_add(bytes, Relaxed);
        }
        self.first.get_or_init(Instant::now);
    }

    fn remember(&self, chunk: &[u8], count: usize) {
        let mut last = self.last_written.lock().unwrap_or_else(PoisonError::into_inner);
        last.extend_from_slice(&chunk[chunk.len().saturating_sub(count)..]);
        let surplus = last.len().saturating_sub(count);
        last.drain(..surplus);
    }
}

/// Moves all inputs to `output`; pv's exit bits.
pub(super) fn run(asked: &Asked, output: BorrowedFd<'_>, tally: &Tally) -> u8 {
    let mut flow =
        Flow { asked, output, tally, allowance: asked.rate_limit.map(Allowance::new), bits: 0 };
    let standard_input = ["-".into()];
    let files = if asked.files.is_empty() { &standard_input[..] } else { &asked.files };
    for name in files {
        if !flow.one(name) {
            break;
        }
    }
    tally.is_over.store(true, Relaxed);
    flow.bits
}

/// The inputs on their way.
struct Flow<'a> {
    asked: &'a Asked,
    output: BorrowedFd<'a>,
    tally: &'a Tally,
    allowance: Option<Allowance>,
    bits: u8,
}

impl Flow<'_> {
    /// Moves one input; false when none after it can be moved.
    fn one(&mut self, name: &OsStr) -> bool {
        let input = if name == "-" && was_closed(0) {
            Err(Errno::BADF.into())
        } else if name == "-" {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(name)
        };
        let input = match input {
            Ok(input) => input,
            Err(error) => {
                tell("meter", &format!("{}: {}", quoted(name), reason(&error)));
                self.bits |= NOT_OPENED;
                return true;
            }
        };
        if self.is_output(&input) {
            tell("meter", &format!("{}: input file is output file", quoted(name)));
            self.bits |= IS_OUTPUT;
            return true;
        }
        loop {
            match self.pass(&input) {
                Ok(()) => return true,
                Err(error) if error.side == Side::Source && self.skips(&input, error) => {}
                // The reader has what it wanted.
                Err(error) if error.side == Side::Sink && error.errno == Errno::PIPE => {
                    return false;
                }
                Err(error) => {
                    self.bits |= NOT_MOVED;
                    let side = match error.side {
                        Side::Source => quoted(name),
                        Side::Sink => "write error".to_owned(),
                    };
                    tell("meter", &format!("{side}: {}", reason(&error.errno.into())));
                    return error.side == Side::Source;
                }
            }
        }
    }

    /// A regular file that is both would grow for ever.
    fn is_output(&self, input: &File) -> bool {
        let of = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned().ok().and_then(|fd| File::from(fd).metadata().ok())
        };
        match (of(input.as_fd()), of(self.output)) {
            (Some(from), Some(to)) => {
                to.is_file() && (from.dev(), from.ino()) == (to.dev(), to.ino())
            }
            _ => false,
        }
    }

    /// Writes zeroes for a sector that cannot be read and goes past it, with `-E`.
    fn skips(&mut self, mut input: &File, error: CopyError) -> bool {
        if !self.asked.skips_errors || error.errno != Errno::IO {
            return false;
        }
        let Ok(at) = input.stream_position() else { return false };
        let end = input.metadata().map_or(u64::MAX, |found| found.len().max(at + 1));
        let past = ((at / SECTOR + 1) * SECTOR).min(end);
        let zeroes = vec![0; (past - at) as usize];
        let is_past = self.write(&zeroes).is_ok() && input.seek(SeekFrom::Start(past)).is_ok();
        if is_past {
            self.tally.add(past - at, Way::ReadWrite, Duration::ZERO, Duration::ZERO);
            tell(
                "meter",
                &format!("skipped {} bytes at {at}: {}", past - at, reason(&Errno::IO.into())),
            );
            self.bits |= NOT_MOVED;
        }
        is_past
    }

    fn pass(&mut self, input: &File) -> Result<(), CopyError> {
        let asked = self.asked;
        let needs_bytes = asked.unit == Unit::Lines
            || asked.last_written.is_some()
            || asked.copies
            || asked.buffer.is_some();
        if needs_bytes { self.by_hand(input) } else { self.by_reference(input) }
    }

    /// Bytes that may be moved now; sleeps until there are some. None when all have been.
    fn room(&mut self) -> Option<u64> {
        let moved = self.tally.bytes.load(Relaxed);
        let size = self.asked.size.filter(|_| self.asked.stops);
        let left = size.map_or(u64::MAX, |size| size.saturating_sub(moved));
        if left == 0 {
            return None;
        }
        Some(self.allowance.as_mut().map_or(left, |allowance| allowance.wait(moved).min(left)))
    }

    fn by_reference(&mut self, input: &File) -> Result<(), CopyError> {
        while let Some(room) = self.room() {
            let (tally, asked, output) = (self.tally, self.asked, self.output);
            let mut before = 0;
            let copied =
                Copy::new(input, &output).limit(room).tell_sides().run_watched(|step| {
                    let Step { moved, way, source, sink } = step;
                    tally.add(moved - before, way, source, sink);
                    before = moved;
                    if asked.syncs {
                        sync(output);
                    }
                })?;
            if copied.bytes < room {
                return Ok(());
            }
        }
        Ok(())
    }

    fn by_hand(&mut self, input: &File) -> Result<(), CopyError> {
        let size = self.asked.buffer.unwrap_or(pagewise_lanes::copy::BUFFER);
        let mut buffer = vec![0; size];
        while let Some(room) = self.room() {
            let most = usize::try_from(room).map_or(size, |room| room.min(size));
            let start = Instant::now();
            let n = match rustix::io::read(input, &mut buffer[..most]) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    await_ready(input.as_fd(), rustix::event::PollFlags::IN);
                    continue;
                }
                Err(errno) => return Err(self.error(Side::Source, "read", errno)),
            };
            let middle = Instant::now();
            self.write(&buffer[..n])?;
            let (source, sink) = (middle - start, middle.elapsed());
            self.tally.add(n as u64, Way::ReadWrite, source, sink);
            self.account(&buffer[..n]);
        }
        Ok(())
    }

    fn account(&self, chunk: &[u8]) {
        if self.asked.unit == Unit::Lines {
            let end = if self.asked.is_null_ended { 0 } else { b'\n' };
            let lines = chunk.iter().filter(|byte| **byte == end).count();
            self.tally.lines.fetch_add(lines as u64, Relaxed);
        }
        if let Some(count) = self.asked.last_written {
            self.tally.remember(chunk, count);
        }
        if self.asked.syncs {
            sync(self.output);
        }
    }

    fn error(&self, side: Side, call: &'static str, errno: Errno) -> CopyError {
        CopyError { side, call, errno, moved: self.tally.bytes.load(Relaxed) }
    }

    fn write(&self, mut bytes: &[u8]) -> Result<(), CopyError> {
        while !bytes.is_empty() {
            match rustix::io::write(self.output, bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => await_ready(self.output, rustix::event::PollFlags::OUT),
                Err(errno) => return Err(self.error(Side::Sink, "write", errno)),
            }
        }
        Ok(())
    }
}

/// Waits for a descriptor that answered EAGAIN; the call after it tells what is wrong.
fn await_ready(fd: BorrowedFd<'_>, ready: rustix::event::PollFlags) {
    let mut list = [rustix::event::PollFd::from_borrowed_fd(fd, ready)];
    let _told = rustix::event::poll(&mut list, None);
}

/// Has what was written put on the disk; what is no file cannot be.
fn sync(output: BorrowedFd<'_>) {
    let _synced = rustix::fs::fdatasync(output);
}
