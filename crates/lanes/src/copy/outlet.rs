//! The sink's side of a copy. Writes all of some bytes, from memory or from our own pipe, into one
//! descriptor, and waits on EAGAIN. Its errors are the sink's.

use super::calls::{CopyCalls, TransferCall};
use super::lending::LendingRegion;
use super::memory::AlignedBuffer;
use super::{BUFFER, CopyError, CopySide, grow};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A copy grows the sink's pipe only after this many bytes: the default capacity of a pipe. So a short header
/// that is written before another program takes over the pipe does not change its capacity.
const SMALL: u64 = 64 * 1024;

/// Whether a connection gives this error to one call only: a `write` after it gets EPIPE, as if the reader had
/// left on purpose.
pub(super) fn is_given_once(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::PIPE
            | Errno::CONNRESET
            | Errno::CONNREFUSED
            | Errno::CONNABORTED
            | Errno::TIMEDOUT
            | Errno::HOSTUNREACH
            | Errno::NETUNREACH
            | Errno::NETDOWN
    )
}

/// A sink and what it has taken.
pub(super) struct CopyOutlet<'a, C> {
    pub(super) calls: &'a C,
    pub(super) to: BorrowedFd<'a>,
    pub(super) moved: u64,
    /// It is a pipe, and will be grown once more than [`SMALL`] bytes have gone into it.
    pub(super) grows: bool,
    /// A signal ends an interrupted call with EINTR. The caller must then keep the held bytes.
    pub(super) interrupts: bool,
}

impl<'a, C: CopyCalls> CopyOutlet<'a, C> {
    /// An error of this copy.
    pub(super) fn error(&self, side: CopySide, call: &'static str, errno: Errno) -> CopyError {
        CopyError { side, call, errno, moved: self.moved }
    }

    /// Continues after a signal interrupted `call`, unless signals end this copy's calls.
    pub(super) fn interrupted(&self, side: CopySide, call: &'static str) -> Result<(), CopyError> {
        if self.interrupts { Err(self.error(side, call, Errno::INTR)) } else { Ok(()) }
    }

    /// Counts `n` bytes that the sink has taken.
    pub(super) fn took(&mut self, n: usize) {
        self.moved += n as u64;
        if self.grows && self.moved > SMALL {
            self.grows = false;
            grow(self.calls, self.to);
        }
    }

    /// Moves `held` bytes from our pipe to the sink, and reduces `held` by the bytes moved. Returns false if
    /// the rest needs read and write, which are then better from the start.
    pub(super) fn splice_all(
        &mut self,
        pipe: &OwnedFd,
        held: &mut usize,
    ) -> Result<bool, CopyError> {
        while *held > 0 {
            match self.calls.transfer(TransferCall::Splice, pipe.as_fd(), self.to, *held) {
                Ok(n) if n > 0 => {
                    self.took(n);
                    *held -= n;
                }
                Err(Errno::INTR) => self.interrupted(CopySide::Sink, "splice")?,
                Err(errno) if is_given_once(errno) => {
                    return Err(self.error(CopySide::Sink, "splice", errno));
                }
                Ok(_) | Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Writes the `held` bytes of our pipe with read and write.
    pub(super) fn drain(&mut self, pipe: &OwnedFd, mut held: usize) -> Result<(), CopyError> {
        let mut buffer = AlignedBuffer::new(held.min(BUFFER));
        while held > 0 {
            let most = held.min(BUFFER);
            let n = self.read_held(pipe, &mut buffer.bytes()[..most])?;
            self.write_all(&buffer.bytes()[..n])?;
            held -= n;
        }
        Ok(())
    }

    /// Reads some bytes of our pipe, which holds some.
    pub(super) fn read_held(&self, pipe: &OwnedFd, into: &mut [u8]) -> Result<usize, CopyError> {
        match self.read(pipe.as_fd(), into)? {
            0 => Err(self.error(CopySide::Source, "read", Errno::IO)),
            n => Ok(n),
        }
    }

    /// Reads some bytes; 0 is the end.
    pub(super) fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, CopyError> {
        loop {
            match self.calls.read(from, into) {
                Ok(n) => return Ok(n),
                Err(Errno::INTR) => self.interrupted(CopySide::Source, "read")?,
                Err(Errno::AGAIN) if self.calls.can_wait(from) => {
                    self.wait(from, PollFlags::IN, CopySide::Source)?;
                }
                Err(errno) => return Err(self.error(CopySide::Source, "read", errno)),
            }
        }
    }

    /// Writes all of `bytes`.
    pub(super) fn write_all(&mut self, bytes: &[u8]) -> Result<(), CopyError> {
        self.put_all(bytes.len(), "write", |calls, to, done| calls.write(to, &bytes[done..]))
    }

    /// Lends the next `len` bytes. Returns whether more can be lent. Bytes that the kernel refuses to take
    /// are written.
    pub(super) fn lend_all(
        &mut self,
        from: &mut LendingRegion,
        len: usize,
    ) -> Result<bool, CopyError> {
        let before = self.moved;
        let all = self.put_all(len, "vmsplice", |calls, to, done| calls.lend(from, to, len - done));
        match all {
            Ok(()) => Ok(true),
            Err(error) if error.errno == Errno::PIPE => Err(error),
            Err(_refused) => {
                // A part of `len`, so it fits.
                let left = len - (self.moved - before) as usize;
                self.write_all(from.bytes(left)).map(|()| false)
            }
        }
    }

    /// Gives the sink `len` bytes by a `call` that takes some of those after the ones that are done. Where signals end
    /// calls, a short count counts as one: the signal has come while the call waited.
    fn put_all(
        &mut self,
        len: usize,
        call: &'static str,
        mut some: impl FnMut(&C, BorrowedFd<'_>, usize) -> Result<usize, Errno>,
    ) -> Result<(), CopyError> {
        let mut done = 0;
        while done < len {
            match some(self.calls, self.to, done) {
                Ok(0) => return Err(self.error(CopySide::Sink, call, Errno::NOSPC)),
                Ok(n) => {
                    self.took(n);
                    done += n;
                    if done < len {
                        self.interrupted(CopySide::Sink, call)?;
                    }
                }
                Err(Errno::INTR) => self.interrupted(CopySide::Sink, call)?,
                Err(Errno::AGAIN) if self.calls.can_wait(self.to) => {
                    self.wait(self.to, PollFlags::OUT, CopySide::Sink)?;
                }
                Err(errno) => return Err(self.error(CopySide::Sink, call, errno)),
            }
        }
        Ok(())
    }

    /// Waits for a descriptor that answered EAGAIN.
    pub(super) fn wait(
        &self,
        fd: BorrowedFd<'_>,
        ready: PollFlags,
        side: CopySide,
    ) -> Result<(), CopyError> {
        match self.calls.wait(fd, ready) {
            Ok(()) => Ok(()),
            Err(Errno::INTR) => self.interrupted(side, "poll"),
            Err(errno) => Err(self.error(side, "poll", errno)),
        }
    }
}
