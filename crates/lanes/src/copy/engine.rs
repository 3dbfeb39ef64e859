//! The loop of a copy: one way after the other until the end of the source or an error of a side.

use super::calls::{CopyCalls, TransferCall};
use super::lending::{self, LendingRegion};
use super::memory::AlignedBuffer;
use super::outlet::{CopyOutlet, is_given_once};
use super::polling::SourcePolling;
use super::route::CopyRoute;
use super::{BUFFER, CopyError, CopyOutcome, CopySide, CopyStep, PIPE, grow};
use crate::end::{CopyEnd, DescriptorKind};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Most bytes asked of one call that needs no buffer: large enough that its cost does not show,
/// small enough that progress is seen.
const MOST: usize = 16 * PIPE;

/// If our pipe stays smaller than this (the user's soft limit gives two slots), it costs more calls than
/// reading and writing.
const LEAST: usize = BUFFER / 4;

/// Bytes of the buffer that are used at first. The whole buffer is used once eight times as many bytes have
/// moved.
const FIRST: usize = BUFFER / 2;

/// The buffer grows by multiples of this: a file opened with O_DIRECT takes whole sectors only.
const STEP: usize = BUFFER / 4;

/// How a way ended.
enum RouteOutcome {
    /// The source gave its end, or the limit is reached.
    Ended,
    /// The kernel does not allow it here, or it failed and the next way must report the error.
    Refused,
}

/// Bytes that were taken from the source and that the sink has not got yet.
enum HeldBytes {
    Nothing,
    /// A part of our memory.
    Memory(AlignedBuffer, Range<usize>),
    /// This many bytes in our own pipe.
    Pipe(OwnedFd, usize),
}

impl HeldBytes {
    /// A copy of some bytes, if there are any.
    fn copy_of(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Nothing;
        }
        let mut memory = AlignedBuffer::new(bytes.len());
        memory.bytes().copy_from_slice(bytes);
        Self::Memory(memory, 0..bytes.len())
    }
}

/// A copy in progress. After an error it can continue: it keeps the bytes it holds.
pub(super) struct CopyEngine<'a, C, P> {
    from: BorrowedFd<'a>,
    source: DescriptorKind,
    pub(super) outlet: CopyOutlet<'a, C>,
    progress: P,
    ways: &'static [CopyRoute],
    /// The way that took the last bytes from the source.
    last: CopyRoute,
    held: HeldBytes,
    /// Bytes of the buffer between `read` and `write`.
    pub(super) buffer: usize,
    /// Bytes of it that are used at first.
    pub(super) first: usize,
    /// Bytes moved after which pages are lent to the sink, which is a pipe.
    pub(super) lend_after: Option<u64>,
    /// Most bytes to move.
    pub(super) limit: Option<u64>,
    /// Bytes moved at which it pauses, as at a limit.
    pub(super) pause: u64,
    /// Nothing more is moved once it is true.
    pub(super) stop: Option<&'a AtomicBool>,
    /// Whether the time on either side is taken.
    pub(super) is_timed: bool,
    polling: SourcePolling,
}

impl<'a, C: CopyCalls, P: FnMut(CopyStep)> CopyEngine<'a, C, P> {
    /// A copy from a source that was looked at.
    pub(super) fn new(
        (from, source): (BorrowedFd<'a>, CopyEnd),
        outlet: CopyOutlet<'a, C>,
        ways: &'static [CopyRoute],
        progress: P,
    ) -> Self {
        Self {
            from,
            source: source.kind,
            outlet,
            progress,
            ways,
            last: CopyRoute::ReadWrite,
            held: HeldBytes::Nothing,
            buffer: BUFFER,
            first: FIRST,
            lend_after: None,
            limit: None,
            pause: u64::MAX,
            stop: None,
            is_timed: false,
            polling: SourcePolling::new(source.kind == DescriptorKind::Pipe),
        }
    }

    /// Tries the ways in order. After an error, continues where it stopped.
    pub(super) fn run(&mut self) -> Result<CopyOutcome, CopyError> {
        self.give_held()?;
        while let [way, rest @ ..] = self.ways {
            let way = *way;
            let left = match way {
                CopyRoute::ReadWrite | CopyRoute::Lend => self.by_read_write(),
                CopyRoute::Broker => self.by_broker(),
                CopyRoute::Splice => self.by_one_call(way, TransferCall::Splice),
                CopyRoute::Sendfile => self.by_one_call(way, TransferCall::Sendfile),
                CopyRoute::FileRange => self.by_one_call(way, TransferCall::FileRange),
            };
            match left? {
                RouteOutcome::Ended if self.is_really_over(way) => break,
                RouteOutcome::Ended | RouteOutcome::Refused => self.ways = rest,
            }
        }
        Ok(CopyOutcome { bytes: self.outlet.moved, way: self.last })
    }

    /// Whether bytes were taken from the source that the sink has not got.
    pub(super) fn holds(&self) -> bool {
        !matches!(self.held, HeldBytes::Nothing)
    }

    /// Writes the held bytes to the sink. Bytes that the sink does not take stay held.
    fn give_held(&mut self) -> Result<(), CopyError> {
        match std::mem::replace(&mut self.held, HeldBytes::Nothing) {
            HeldBytes::Nothing => Ok(()),
            HeldBytes::Memory(memory, part) => self.give(memory, part).map(drop),
            HeldBytes::Pipe(pipe, left) => self.give_pipe(pipe, left).map(drop),
        }
    }

    /// Writes a part of our memory; gives the memory back.
    fn give(
        &mut self,
        mut memory: AlignedBuffer,
        part: Range<usize>,
    ) -> Result<AlignedBuffer, CopyError> {
        let before = self.outlet.moved;
        let written = self.outlet.write_all(&memory.bytes()[part.clone()]);
        match written {
            Ok(()) => Ok(memory),
            Err(error) => {
                // A part of our memory, so the difference fits.
                let left = part.start + (self.outlet.moved - before) as usize..part.end;
                if !left.is_empty() {
                    self.held = HeldBytes::Memory(memory, left);
                }
                Err(error)
            }
        }
    }

    /// Splices `left` bytes of our pipe to the sink; gives the pipe back, or nothing once the kernel has refused
    /// that and they were written by hand.
    fn give_pipe(&mut self, pipe: OwnedFd, mut left: usize) -> Result<Option<OwnedFd>, CopyError> {
        match self.outlet.splice_all(&pipe, &mut left) {
            Ok(true) => Ok(Some(pipe)),
            Ok(false) => self.give_by_hand(&pipe, left).map(|()| None),
            Err(error) => {
                if left > 0 {
                    self.held = HeldBytes::Pipe(pipe, left);
                }
                Err(error)
            }
        }
    }

    /// Writes the bytes of our pipe through memory that holds all of them, so that none is lost.
    fn give_by_hand(&mut self, pipe: &OwnedFd, left: usize) -> Result<(), CopyError> {
        let mut memory = AlignedBuffer::new(left);
        let mut have = 0;
        while have < left {
            match self.outlet.read_held(pipe, &mut memory.bytes()[have..]) {
                Ok(n) => have += n,
                // The content of our pipe is available immediately.
                Err(error) if error.errno == Errno::INTR => {}
                Err(error) => return Err(error),
            }
        }
        self.give(memory, 0..left).map(drop)
    }

    /// Whether the end reported by `way` is certain. Only `read` is reliable for a file whose bytes are made
    /// when they are read.
    fn is_really_over(&self, way: CopyRoute) -> bool {
        way == CopyRoute::ReadWrite || self.room(1) == 0 || self.source != DescriptorKind::Regular
    }

    /// Reports what was moved between these moments.
    fn tell(&mut self, [start, middle, end]: [Option<Instant>; 3]) {
        let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
            (Some(from), Some(to)) => to.duration_since(from),
            _ => Duration::ZERO,
        };
        let (source, sink) = (between(start, middle), between(middle, end));
        (self.progress)(CopyStep { moved: self.outlet.moved, way: self.last, source, sink });
    }

    /// Moves at most `most` bytes from the source by one call. A splice polls a few times before it sleeps,
    /// if that has proved worthwhile.
    fn take(&mut self, how: TransferCall, to: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
        let (calls, from) = (self.outlet.calls, self.from);
        match how {
            TransferCall::Splice => self.polling.splice(|how| calls.transfer(how, from, to, most)),
            _ => calls.transfer(how, from, to, most),
        }
    }

    /// The time, if sides are timed.
    fn now(&self) -> Option<Instant> {
        self.is_timed.then(Instant::now)
    }

    /// How many of `most` bytes the limit leaves. 0 once the copy must stop or pause.
    fn room(&self, most: usize) -> usize {
        if self.stop.is_some_and(|stop| stop.load(Relaxed)) {
            return 0;
        }
        let limit = self.limit.unwrap_or(u64::MAX).min(self.pause);
        let left = limit - self.outlet.moved.min(limit);
        usize::try_from(left).map_or(most, |left| left.min(most))
    }

    /// A way that is one call from the source to the sink. EAGAIN does not say which side caused it, so both
    /// are awaited once before the call counts as refused.
    fn by_one_call(
        &mut self,
        way: CopyRoute,
        how: TransferCall,
    ) -> Result<RouteOutcome, CopyError> {
        let mut waited = false;
        loop {
            let most = self.room(MOST);
            if most == 0 {
                return Ok(RouteOutcome::Ended);
            }
            match self.take(how, self.outlet.to, most) {
                Ok(0) => return Ok(RouteOutcome::Ended),
                Ok(n) => {
                    self.outlet.took(n);
                    self.last = way;
                    self.tell([None; 3]);
                    waited = false;
                }
                Err(Errno::INTR) => self.outlet.interrupted(CopySide::Source, how.name())?,
                Err(Errno::AGAIN) if !waited => {
                    self.outlet.wait(self.from, PollFlags::IN, CopySide::Source)?;
                    self.outlet.wait(self.outlet.to, PollFlags::OUT, CopySide::Sink)?;
                    waited = true;
                }
                Err(errno) if self.is_of_sink(how, errno) => {
                    return Err(self.outlet.error(CopySide::Sink, how.name(), errno));
                }
                Err(_) => return Ok(RouteOutcome::Refused),
            }
        }
    }

    /// Whether this error of one call is the sink's and no later call repeats it. The source is never a
    /// socket here. A file on a network may give the same errors, but repeats them; only `sendfile` cannot
    /// show which side caused them.
    fn is_of_sink(&self, how: TransferCall, errno: Errno) -> bool {
        let is_file = self.source != DescriptorKind::Pipe && how != TransferCall::Sendfile;
        errno == Errno::PIPE || (!is_file && is_given_once(errno))
    }

    /// Through our own pipe. Bytes in it are never lost.
    fn by_broker(&mut self) -> Result<RouteOutcome, CopyError> {
        let calls = self.outlet.calls;
        let Ok((mut reading, writing)) = calls.pipe() else { return Ok(RouteOutcome::Refused) };
        let capacity = grow(calls, writing.as_fd());
        if capacity < LEAST {
            return Ok(RouteOutcome::Refused);
        }
        loop {
            let most = self.room(capacity);
            if most == 0 {
                return Ok(RouteOutcome::Ended);
            }
            let start = self.now();
            match self.take(TransferCall::Splice, writing.as_fd(), most) {
                Ok(0) => return Ok(RouteOutcome::Ended),
                Ok(n) => {
                    let middle = self.now();
                    self.last = CopyRoute::Broker;
                    let given = self.give_pipe(reading, n)?;
                    self.tell([start, middle, self.now()]);
                    let Some(pipe) = given else { return Ok(RouteOutcome::Refused) };
                    reading = pipe;
                }
                Err(Errno::INTR) => self.outlet.interrupted(CopySide::Source, "splice")?,
                Err(_) => return Ok(RouteOutcome::Refused),
            }
        }
    }

    /// Through our memory. Each page of the buffer costs a fault, so a short input uses few of them.
    fn by_read_write(&mut self) -> Result<RouteOutcome, CopyError> {
        let mut buffer = AlignedBuffer::new(self.buffer);
        let mut used = self.first;
        loop {
            if self.lend_after.is_some_and(|after| self.outlet.moved >= after) {
                self.lend_after = None;
                let lending = LendingRegion::begin(self.outlet.to);
                if let Some(RouteOutcome::Ended) =
                    lending.map(|l| self.by_lending(l)).transpose()?
                {
                    return Ok(RouteOutcome::Ended);
                }
            }
            let most = self.room(used);
            if most == 0 {
                return Ok(RouteOutcome::Ended);
            }
            let start = self.now();
            let n = self.outlet.read(self.from, &mut buffer.bytes()[..most])?;
            if n == 0 {
                return Ok(RouteOutcome::Ended);
            }
            let middle = self.now();
            self.last = CopyRoute::ReadWrite;
            buffer = self.give(buffer, 0..n)?;
            let eighth = usize::try_from(self.outlet.moved / 8).unwrap_or(usize::MAX);
            used = used.max(eighth - eighth % STEP).min(self.buffer);
            self.tell([start, middle, self.now()]);
        }
    }

    /// Through our own pages that the sink's pipe refers to, as long as they come back.
    fn by_lending(&mut self, mut lending: LendingRegion) -> Result<RouteOutcome, CopyError> {
        loop {
            let most = self.room(lending::PIECE);
            if most == 0 {
                return Ok(RouteOutcome::Ended);
            }
            let Some(space) = lending.space(most) else { return Ok(RouteOutcome::Refused) };
            let start = self.now();
            let n = self.outlet.read(self.from, space)?;
            if n == 0 {
                return Ok(RouteOutcome::Ended);
            }
            let (middle, before) = (self.now(), self.outlet.moved);
            self.last = CopyRoute::Lend;
            let lent = if n < lending::least() {
                self.outlet.write_all(lending.bytes(n)).map(|()| true)
            } else {
                self.outlet.lend_all(&mut lending, n)
            };
            if lent.is_err() {
                // A part of `n`, so the difference fits.
                let left = n - (self.outlet.moved - before) as usize;
                self.held = HeldBytes::copy_of(lending.bytes(left));
            }
            let can_lend = lent?;
            self.tell([start, middle, self.now()]);
            if !can_lend {
                return Ok(RouteOutcome::Refused);
            }
        }
    }
}
