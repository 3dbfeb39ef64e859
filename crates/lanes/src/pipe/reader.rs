//! The end that reads.
//!
//! `read` copies what is available (`preadv2(2)` with RWF_NOWAIT, then `read(2)`). [`Reader::skip`] discards
//! without touching a byte, by `splice(2)` to /dev/null. [`Reader::copy_to`] passes everything to the copy
//! engine. A reader takes what is in the pipe, however little it is: it never waits for more.

use super::waiter::BlockingMode;
use super::{NonblockingAccess, PipeBase, PipeOptions, PipeStop, WaitCounts, duplicate};
use crate::copy::{BUFFER, CopyError, CopyOutcome, copy};
use crate::end::{CopyEnd, DescriptorKind};
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Most bytes asked of one splice: more than any pipe holds by default.
const MOST: usize = 1 << 30;

/// The end of a pipe that reads, or any other descriptor.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Write};
/// let (from, mut to) = std::io::pipe()?;
/// to.write_all(b"head: body")?;
/// drop(to);
/// let mut reader = pagewise_lanes::pipe::Reader::new(from)?;
/// assert_eq!(reader.skip(6)?, 6);
/// let mut rest = String::new();
/// reader.read_to_string(&mut rest)?;
/// assert_eq!(rest, "body");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader {
    base: PipeBase,
    /// Where skipped bytes go, once some were.
    null: Option<File>,
}

impl Reader {
    pub(super) fn over(base: PipeBase) -> Self {
        Self { base, null: None }
    }

    /// Reads from `fd` with [`PipeOptions::new`].
    ///
    /// # Errors
    ///
    /// As [`PipeOptions::reader`].
    pub fn new(fd: impl Into<OwnedFd>) -> io::Result<Self> {
        PipeOptions::new().reader(fd)
    }

    /// Reads from standard input, with a separate descriptor. Bytes that `std::io::stdin` has buffered are
    /// not seen.
    ///
    /// # Errors
    ///
    /// EMFILE, and as [`PipeOptions::reader`].
    pub fn stdin() -> io::Result<Self> {
        Self::new(duplicate(io::stdin())?)
    }

    /// Has `stop` end its waits.
    #[must_use]
    pub fn stopped_by(mut self, stop: &PipeStop) -> Self {
        self.base.stopped_by(stop);
        self
    }

    /// The descriptor it reads from.
    #[must_use]
    pub fn end(&self) -> CopyEnd {
        self.base.end
    }

    /// Capacity of the pipe in bytes. 0 if it is not a pipe.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.base.capacity
    }

    /// Its waits for data.
    #[must_use]
    pub fn waits(&self) -> WaitCounts {
        self.base.waiter.counts()
    }

    /// Moves everything that is left to `to`, by the fastest safe way.
    ///
    /// # Errors
    ///
    /// As [`crate::CopyJob::run`].
    pub fn copy_to(&mut self, to: &impl AsFd) -> Result<CopyOutcome, CopyError> {
        copy(&self.base.fd, to)
    }

    /// Discards the next `bytes` bytes and returns their number, which is smaller only at the end. Bytes in a
    /// pipe are not touched. If a [`PipeStop`] ends waits, a signal ends this too: it returns the number of bytes
    /// skipped before, or EINTR if there are none.
    ///
    /// # Errors
    ///
    /// Those of `read(2)`; bytes skipped before are lost.
    pub fn skip(&mut self, bytes: u64) -> io::Result<u64> {
        let mut skipped = 0;
        while skipped < bytes {
            let most = usize::try_from(bytes - skipped).map_or(MOST, |left| left.min(MOST));
            match self.splice_to_null(most) {
                Some(Ok(0)) => break,
                Some(Ok(n)) => skipped += n as u64,
                Some(Err(errno)) => match self.base.waiter.goes_on(errno) {
                    true => {}
                    false if skipped > 0 => break,
                    false => return Err(errno.into()),
                },
                None => return Ok(skipped + self.skip_by_reading(bytes - skipped)?),
            }
        }
        Ok(skipped)
    }

    fn skip_by_reading(&mut self, bytes: u64) -> io::Result<u64> {
        let mut buffer = vec![0; BUFFER];
        let mut skipped = 0;
        while skipped < bytes {
            let most = usize::try_from(bytes - skipped).map_or(BUFFER, |left| left.min(BUFFER));
            match self.read_some(&mut buffer[..most]) {
                Ok(0) => break,
                Ok(n) => skipped += n as u64,
                Err(errno) if self.base.waiter.goes_on(errno) => {}
                Err(Errno::INTR) if skipped > 0 => break,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(skipped)
    }

    /// The number of bytes discarded, EINTR or ECANCELED. `None` if reading is needed, which also reports
    /// errors better.
    fn splice_to_null(&mut self, most: usize) -> Option<Result<usize, Errno>> {
        if self.base.end.kind != DescriptorKind::Pipe {
            return None;
        }
        if self.null.is_none() {
            self.null = File::options().write(true).open("/dev/null").ok();
        }
        let (fd, null) = (self.base.fd.as_fd(), self.null.as_ref()?);
        let answer = self.base.waiter.run(true, (fd, PollFlags::IN), |moment| {
            rustix::pipe::splice(fd, None, null, None, most, moment.splice_flags())
        });
        match answer {
            Ok(_) | Err(Errno::INTR | Errno::CANCELED) => Some(answer),
            Err(_) => None,
        }
    }

    fn read_some(&mut self, into: &mut [u8]) -> Result<usize, Errno> {
        loop {
            let PipeBase { fd, attempt, waiter, .. } = &mut self.base;
            let (fd, can_attempt) = (fd.as_fd(), attempt.is_possible());
            let answer = waiter.run(can_attempt, (fd, PollFlags::IN), |moment| match moment {
                BlockingMode::Now => attempt.read(fd, into),
                BlockingMode::Sleeping => rustix::io::read(fd, &mut *into),
            });
            match answer {
                Err(errno) if waiter.attempts() && attempt.is_refused(errno) => {
                    *attempt = NonblockingAccess::without_flag(fd);
                }
                _ => return answer,
            }
        }
    }
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        Ok(self.read_some(into)?)
    }
}

impl AsFd for Reader {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.base.fd.as_fd()
    }
}

impl From<Reader> for OwnedFd {
    fn from(reader: Reader) -> Self {
        reader.base.fd
    }
}
