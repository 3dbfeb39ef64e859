//! The loop of a copy: one way after the other until the end of the source or an error of a side.

use super::calls::Calls;
use super::route::Way;
use super::{BUFFER, Copied, CopyError, PIPE, Side};
use crate::end::{End, Kind};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most bytes asked of one call that needs no buffer: large enough that its cost does not show,
/// small enough that progress is seen.
const MOST: usize = 16 * PIPE;

/// How a way ended.
enum Left {
    /// The source gave its end, or the limit is reached.
    Ended,
    /// The kernel does not allow it here, or something failed whose side it cannot tell.
    Refused,
}

/// A copy at work.
pub(super) struct Engine<'a, C, P> {
    calls: &'a C,
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    source: End,
    limit: Option<u64>,
    moved: u64,
    progress: P,
}

impl<'a, C: Calls, P: FnMut(u64)> Engine<'a, C, P> {
    /// A copy between two ends that were looked at.
    pub(super) fn new(
        calls: &'a C,
        (from, source): (BorrowedFd<'a>, End),
        (to, _): (BorrowedFd<'a>, End),
        limit: Option<u64>,
        progress: P,
    ) -> Self {
        Self { calls, from, to, source, limit, moved: 0, progress }
    }

    /// Tries the ways in order.
    pub(super) fn run(mut self, ways: &[Way]) -> Result<Copied, CopyError> {
        let mut last = Way::ReadWrite;
        for &way in ways {
            let before = self.moved;
            let left = match way {
                Way::ReadWrite => self.by_read_write(),
                Way::Broker => self.by_broker(),
                Way::Splice => self.by_one_call(C::splice),
                Way::Sendfile => self.by_one_call(C::sendfile),
                Way::FileRange => self.by_one_call(C::copy_file_range),
            }?;
            if self.moved > before {
                last = way;
            }
            if matches!(left, Left::Ended) && self.is_really_over(way) {
                break;
            }
        }
        Ok(Copied { bytes: self.moved, way: last })
    }

    /// Whether the end that `way` told needs no second opinion: only `read` speaks for a file
    /// whose bytes are made when they are read.
    fn is_really_over(&self, way: Way) -> bool {
        way == Way::ReadWrite || self.room(1) == 0 || self.source.kind != Kind::Regular
    }

    /// How many of `most` bytes the limit leaves.
    fn room(&self, most: usize) -> usize {
        let left = self.limit.map_or(u64::MAX, |limit| limit - self.moved.min(limit));
        usize::try_from(left).map_or(most, |left| left.min(most))
    }

    fn advance(&mut self, bytes: usize) {
        self.moved += bytes as u64;
        (self.progress)(self.moved);
    }

    fn error(&self, side: Side, call: &'static str, errno: Errno) -> CopyError {
        CopyError { side, call, errno, moved: self.moved }
    }

    /// A way that is one call from the source to the sink. EAGAIN does not say whose it is: both
    /// are waited for, once, before the call counts as refused.
    fn by_one_call(
        &mut self,
        call: impl Fn(&C, BorrowedFd<'_>, BorrowedFd<'_>, usize) -> Result<usize, Errno>,
    ) -> Result<Left, CopyError> {
        let mut waited = false;
        loop {
            let most = self.room(MOST);
            if most == 0 {
                return Ok(Left::Ended);
            }
            match call(self.calls, self.from, self.to, most) {
                Ok(0) => return Ok(Left::Ended),
                Ok(n) => {
                    self.advance(n);
                    waited = false;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !waited => {
                    self.wait(self.from, PollFlags::IN, Side::Source)?;
                    self.wait(self.to, PollFlags::OUT, Side::Sink)?;
                    waited = true;
                }
                Err(Errno::PIPE) => return Err(self.error(Side::Sink, "splice", Errno::PIPE)),
                Err(_) => return Ok(Left::Refused),
            }
        }
    }

    /// Through a pipe of our own: an error of the first splice is the source's, one of the second
    /// the sink's, and what is in the pipe is never lost.
    fn by_broker(&mut self) -> Result<Left, CopyError> {
        let Ok((reading, writing)) = self.calls.pipe() else { return Ok(Left::Refused) };
        let Ok(capacity) = self.calls.grow(writing.as_fd(), PIPE) else {
            return Ok(Left::Refused);
        };
        loop {
            let most = self.room(capacity);
            if most == 0 {
                return Ok(Left::Ended);
            }
            match self.calls.splice(self.from, writing.as_fd(), most) {
                Ok(0) => return Ok(Left::Ended),
                Ok(n) => {
                    if !self.empty(&reading, n)? {
                        return Ok(Left::Refused);
                    }
                }
                Err(Errno::INTR) => {}
                Err(_) => return Ok(Left::Refused),
            }
        }
    }

    /// Moves `held` bytes from our pipe to the sink; false when that needed read and write.
    fn empty(&mut self, pipe: &OwnedFd, mut held: usize) -> Result<bool, CopyError> {
        while held > 0 {
            match self.calls.splice(pipe.as_fd(), self.to, held) {
                Ok(n) if n > 0 => {
                    self.advance(n);
                    held -= n;
                }
                Err(Errno::INTR) => {}
                Ok(_) | Err(_) => {
                    self.drain(pipe, held)?;
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Writes the `held` bytes of our pipe out by hand.
    fn drain(&mut self, pipe: &OwnedFd, mut held: usize) -> Result<(), CopyError> {
        let mut buffer = vec![0; held.min(BUFFER)];
        while held > 0 {
            let most = held.min(buffer.len());
            let n = self.read(pipe.as_fd(), &mut buffer[..most])?;
            if n == 0 {
                return Err(self.error(Side::Source, "read", Errno::IO));
            }
            self.write_all(&buffer[..n])?;
            held -= n;
        }
        Ok(())
    }

    fn by_read_write(&mut self) -> Result<Left, CopyError> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let most = self.room(BUFFER);
            if most == 0 {
                return Ok(Left::Ended);
            }
            match self.read(self.from, &mut buffer[..most])? {
                0 => return Ok(Left::Ended),
                n => self.write_all(&buffer[..n])?,
            }
        }
    }

    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, CopyError> {
        loop {
            match self.calls.read(from, into) {
                Ok(n) => return Ok(n),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(from, PollFlags::IN, Side::Source)?,
                Err(errno) => return Err(self.error(Side::Source, "read", errno)),
            }
        }
    }

    fn write_all(&mut self, mut bytes: &[u8]) -> Result<(), CopyError> {
        while !bytes.is_empty() {
            match self.calls.write(self.to, bytes) {
                Ok(0) => return Err(self.error(Side::Sink, "write", Errno::NOSPC)),
                Ok(n) => {
                    self.advance(n);
                    bytes = &bytes[n..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(self.to, PollFlags::OUT, Side::Sink)?,
                Err(errno) => return Err(self.error(Side::Sink, "write", errno)),
            }
        }
        Ok(())
    }

    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags, side: Side) -> Result<(), CopyError> {
        self.calls.wait(fd, ready).map_err(|errno| self.error(side, "poll", errno))
    }
}
