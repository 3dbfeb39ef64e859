//! Moves the data that `meter` measures, and updates the figures that the display reads.
//!
//! As in pv, pages pass by reference if either side is a pipe. The user's pipes are never polled or queried
//! for their content. The source pipe keeps its capacity, except with `--live`. Only if the time of either
//! side is to be shown, data goes through a private pipe. Lines, `-A`, `-B`, `-C` and `-Y` need the bytes in
//! memory, so they use read and write.

use super::allowance::RateLimit;
use super::control::MeterControl;
use super::gauge;
use super::options::{MeterOptions, ProgressUnit};
use crate::files::{self, PassThroughFile};
use crate::message::{quoted, reason};
use pagewise_lanes::copy::{AlignedBuffer, BUFFER};
use pagewise_lanes::{CopyEnd, CopyError, CopyJob, CopyRoute, CopySide, CopyStep, DescriptorKind};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Exit bit of pv: a file could not be opened.
pub(super) const NOT_OPENED: u8 = 2;
/// Exit bit of pv: an input is the output.
pub(super) const IS_OUTPUT: u8 = 4;
/// Exit bit of pv: no file could be opened.
const NONE_OPENED: u8 = 8;
/// Exit bit of pv: moving data failed.
pub(super) const NOT_MOVED: u8 = 16;
/// Exit bit of pv: a signal ended the transfer.
pub(super) const SIGNALLED: u8 = 32;

/// Bytes skipped at a read error (`-E`): a disk sector.
const SECTOR: u64 = 512;

/// Running totals, which the display reads during the transfer.
#[derive(Debug, Default)]
pub(super) struct MeterTally {
    pub(super) bytes: AtomicU64,
    pub(super) lines: AtomicU64,
    pub(super) source_ns: AtomicU64,
    pub(super) sink_ns: AtomicU64,
    /// Bytes passed by reference.
    pub(super) spliced: AtomicU64,
    pub(super) is_over: AtomicBool,
    /// Time at which the first byte had been moved.
    pub(super) first: OnceLock<Instant>,
    pub(super) last_written: Mutex<Vec<u8>>,
}

impl MeterTally {
    fn add(&self, bytes: u64, way: CopyRoute, source: Duration, sink: Duration) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes, Relaxed);
        self.source_ns.fetch_add(ns(source), Relaxed);
        self.sink_ns.fetch_add(ns(sink), Relaxed);
        if way != CopyRoute::ReadWrite {
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

/// Moves all inputs to `output`; returns pv's exit bits.
pub(super) fn run(control: &MeterControl, output: &File, tally: &MeterTally) -> u8 {
    let options = control.options();
    let allowance = options.rate_limit.map(|rate| RateLimit::new(rate, 0));
    let names = options.files.clone();
    let (has_reported, has_opened, bits) = (false, false, 0);
    let sink = PassThroughFile::new(output, options.no_cache);
    let mut flow = MeterFlow {
        control,
        options,
        output,
        sink,
        tally,
        allowance,
        has_reported,
        has_opened,
        bits,
    };
    for name in &names {
        if !flow.one(name) {
            break;
        }
    }
    if let Err(errno) = flow.sink.finish() {
        flow.bits |= NOT_MOVED;
        control.tell(&format!("write error: {}", reason(&errno.into())));
    }
    tally.is_over.store(true, Relaxed);
    // As in pv, does not apply to standard input.
    let has_none = !flow.has_opened && names.iter().all(|name| name != files::STANDARD);
    if has_none { flow.bits | NONE_OPENED } else { flow.bits }
}

/// Error text if the input is the output.
pub(super) fn refusal(name: &OsStr, found: io::Result<Metadata>, output: &File) -> Option<String> {
    let is_output = found.is_ok_and(|found| files::is_output(&found, output));
    is_output.then(|| format!("{}: input file is output file", quoted(name)))
}

/// State of the transfer over all inputs.
struct MeterFlow<'a> {
    control: &'a MeterControl,
    /// The options when last read.
    options: Arc<MeterOptions>,
    output: &'a File,
    /// The output, for bytes that pass through this process.
    sink: PassThroughFile<'a>,
    tally: &'a MeterTally,
    allowance: Option<RateLimit>,
    /// A read error of this input was already reported.
    has_reported: bool,
    has_opened: bool,
    bits: u8,
}

impl MeterFlow<'_> {
    /// Moves one input. Returns false if no later one can be moved.
    fn one(&mut self, name: &OsStr) -> bool {
        let input = match files::open(name) {
            Ok(input) => input,
            Err(error) => {
                self.control.tell(&format!("{}: {}", quoted(name), reason(&error)));
                self.bits |= NOT_OPENED;
                return true;
            }
        };
        self.has_opened = true;
        if let Some(why) = refusal(name, input.metadata(), self.output) {
            self.control.tell(&why);
            self.bits |= IS_OUTPUT;
            return true;
        }
        self.has_reported = false;
        loop {
            match self.pass(&input) {
                Ok(()) => return true,
                Err(error) if error.side == CopySide::Source && self.skips(&input, error) => {}
                // The reader closed the pipe: it has all it wants.
                Err(error) if error.side == CopySide::Sink && error.errno == Errno::PIPE => {
                    return false;
                }
                Err(error) => {
                    self.bits |= NOT_MOVED;
                    let side = match error.side {
                        CopySide::Source => quoted(name),
                        CopySide::Sink => "write error".to_owned(),
                    };
                    self.control.tell(&format!("{side}: {}", reason(&error.errno.into())));
                    return error.side == CopySide::Source;
                }
            }
        }
    }

    /// With `-E`: writes zeroes for an unreadable sector and skips it.
    fn skips(&mut self, mut input: &File, error: CopyError) -> bool {
        if !self.options.skips_errors || error.errno != Errno::IO {
            return false;
        }
        let Ok(at) = input.stream_position() else { return false };
        // The metadata of a device hold no size.
        let end = input.metadata().map_or(0, |found| found.len());
        let end = if end > at { end } else { u64::MAX };
        let count = (SECTOR - at % SECTOR).min(end - at).min(self.room().unwrap_or_default());
        let zeroes = [0; SECTOR as usize];
        let is_past = self.write(&zeroes[..count as usize]).is_ok()
            && input.seek(SeekFrom::Start(at + count)).is_ok();
        if is_past {
            self.tally.add(count, CopyRoute::ReadWrite, Duration::ZERO, Duration::ZERO);
            if !std::mem::replace(&mut self.has_reported, self.options.tells_once) {
                let why = reason(&Errno::IO.into());
                self.control.tell(&format!("skipped {count} bytes at {at}: {why}"));
            }
            self.bits |= NOT_MOVED;
        }
        is_past
    }

    fn pass(&mut self, input: &File) -> Result<(), CopyError> {
        let options = &self.options;
        let needs_bytes = options.unit == ProgressUnit::Lines
            || options.last_written.is_some()
            || options.copies
            || options.syncs
            || options.buffer.is_some();
        if needs_bytes { self.by_hand(input) } else { self.by_reference(input) }
    }

    /// Bytes or lines that may be moved now; sleeps until there are some. `None` at the limit.
    fn room(&mut self) -> Option<u64> {
        let moved = match self.options.unit {
            ProgressUnit::Lines => self.tally.lines.load(Relaxed),
            ProgressUnit::Bytes | ProgressUnit::Bits => self.tally.bytes.load(Relaxed),
        };
        if self.control.is_new.swap(false, Relaxed) {
            let before = std::mem::replace(&mut self.options, self.control.options());
            if before.rate_limit != self.options.rate_limit {
                self.allowance = self.options.rate_limit.map(|rate| RateLimit::new(rate, moved));
            }
        }
        let size = self.options.size.filter(|_| self.options.stops);
        let left = size.map_or(u64::MAX, |size| size.saturating_sub(moved));
        if left == 0 {
            return None;
        }
        Some(self.allowance.as_mut().map_or(left, |allowance| allowance.wait(moved).min(left)))
    }

    fn by_reference(&mut self, input: &File) -> Result<(), CopyError> {
        let is_pipe =
            |end: &File| CopyEnd::of(end).is_ok_and(|end| end.kind == DescriptorKind::Pipe);
        let has_pipe = is_pipe(input) || is_pipe(self.output);
        while let Some(room) = self.room() {
            let tally = self.tally;
            let is_new = &self.control.is_new;
            let mut copy = CopyJob::new(input, self.output).limit(room).until(is_new);
            if self.options.live {
                copy = copy.live().grow_source();
            } else if has_pipe {
                copy = copy.live();
            }
            if gauge::tells_sides(&self.options) {
                copy = copy.tell_sides();
            }
            if self.options.no_cache {
                copy = copy.past_cache();
            }
            let mut before = 0;
            let copied = copy.run_watched(|step| {
                let CopyStep { moved, way, source, sink } = step;
                tally.add(moved - before, way, source, sink);
                before = moved;
            })?;
            if copied.bytes < room && !is_new.load(Relaxed) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn by_hand(&mut self, input: &File) -> Result<(), CopyError> {
        let size = self.options.buffer.unwrap_or(BUFFER);
        let mut memory = AlignedBuffer::new(size);
        let buffer = memory.bytes();
        let mut source_file = PassThroughFile::new(input, self.options.no_cache);
        while let Some(room) = self.room() {
            let most = match self.options.unit {
                // The bytes of a line are known only after reading.
                ProgressUnit::Lines => size,
                ProgressUnit::Bytes | ProgressUnit::Bits => {
                    usize::try_from(room).map_or(size, |n| n.min(size))
                }
            };
            let start = Instant::now();
            let n = source_file
                .read(&mut buffer[..most])
                .map_err(|errno| self.error(CopySide::Source, "read", errno))?;
            if n == 0 {
                break;
            }
            let mut source = start.elapsed();
            let mut rest = &buffer[..n];
            while !rest.is_empty() {
                let Some(room) = self.room() else { return Ok(()) };
                let now;
                (now, rest) = rest.split_at(self.fitting(rest, room));
                let start = Instant::now();
                self.write(now)?;
                self.account(now, std::mem::take(&mut source), start.elapsed())?;
            }
        }
        source_file.finish().map_err(|errno| self.error(CopySide::Source, "lseek", errno))
    }

    /// Length of the part of `bytes` that holds at most `room` bytes or lines.
    fn fitting(&self, bytes: &[u8], room: u64) -> usize {
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        if self.options.unit != ProgressUnit::Lines {
            return room.min(bytes.len());
        }
        let mut ends = bytes.iter().enumerate().filter(|(_, byte)| self.ends_line(**byte));
        ends.nth(room - 1).map_or(bytes.len(), |(at, _)| at + 1)
    }

    fn ends_line(&self, byte: u8) -> bool {
        byte == if self.options.is_null_ended { 0 } else { b'\n' }
    }

    /// Counts the written bytes; with `-Y`, syncs them to the disk.
    fn account(&self, bytes: &[u8], source: Duration, sink: Duration) -> Result<(), CopyError> {
        self.tally.add(bytes.len() as u64, CopyRoute::ReadWrite, source, sink);
        if self.options.unit == ProgressUnit::Lines {
            let lines = bytes.iter().filter(|byte| self.ends_line(**byte)).count();
            self.tally.lines.fetch_add(lines as u64, Relaxed);
        }
        if let Some(count) = self.options.last_written {
            self.tally.remember(bytes, count);
        }
        match self.options.syncs.then(|| rustix::fs::fdatasync(self.output)) {
            Some(Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT))) => {
                Err(self.error(CopySide::Sink, "fdatasync", errno))
            }
            // Pipes and devices cannot be synced.
            _ => Ok(()),
        }
    }

    fn error(&self, side: CopySide, call: &'static str, errno: Errno) -> CopyError {
        CopyError { side, call, errno, moved: self.tally.bytes.load(Relaxed) }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        let written = self.sink.write_all(bytes);
        written.map_err(|errno| self.error(CopySide::Sink, "write", errno))
    }
}
