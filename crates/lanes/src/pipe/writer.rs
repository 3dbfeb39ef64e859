//! The end that writes.
//!
//! `write` copies (`pwritev2(2)` with RWF_NOWAIT, then `write(2)`). A call that may sleep gets as many bytes
//! as [`PeerWaiter::sleeping_write`] says. Writes of up to PIPE_BUF bytes stay atomic, as `pipe(7)` promises;
//! longer ones never were.

use super::waiter::{BlockingMode, PeerWaiter};
use super::{NonblockingAccess, PipeBase, PipeOptions, PipeStop, WaitCounts, duplicate};
use crate::buffer::SendWay;
use crate::end::CopyEnd;
use rustix::event::PollFlags;
use rustix::io::Errno;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The end of a pipe that writes, or any other descriptor.
///
/// # Examples
///
/// ```
/// use std::io::Write;
/// let mut writer = pagewise_lanes::pipe::Writer::stdout()?;
/// writer.write_all(b"to whatever standard output is\n")?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    pub(super) base: PipeBase,
    /// How frozen bytes go, once some were sent.
    pub(super) sending: Option<SendWay>,
    /// How dropped bytes go, once some were given.
    pub(super) giving: Option<SendWay>,
}

impl Writer {
    pub(super) fn over(base: PipeBase) -> Self {
        Self { base, sending: None, giving: None }
    }

    /// Writes to `fd` with [`PipeOptions::new`].
    ///
    /// # Errors
    ///
    /// As [`PipeOptions::writer`].
    pub fn new(fd: impl Into<OwnedFd>) -> io::Result<Self> {
        PipeOptions::new().writer(fd)
    }

    /// Writes to standard output, with a separate descriptor and past the buffer of `std::io::stdout`. Flush
    /// that buffer first.
    ///
    /// # Errors
    ///
    /// EMFILE, and as [`PipeOptions::writer`].
    pub fn stdout() -> io::Result<Self> {
        Self::new(duplicate(io::stdout())?)
    }

    /// Has `stop` end its waits.
    #[must_use]
    pub fn stopped_by(mut self, stop: &PipeStop) -> Self {
        self.base.stopped_by(stop);
        self
    }

    /// The descriptor it writes to.
    #[must_use]
    pub fn end(&self) -> CopyEnd {
        self.base.end
    }

    /// Capacity of the pipe in bytes. 0 if it is not a pipe.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.base.capacity
    }

    /// Its waits for room.
    #[must_use]
    pub fn waits(&self) -> WaitCounts {
        self.base.waiter.counts()
    }
}

/// Writes some bytes: at least one, unless `bytes` is empty.
pub(super) fn write_some(
    fd: BorrowedFd<'_>,
    attempt: &mut NonblockingAccess,
    waiter: &mut PeerWaiter,
    bytes: &[u8],
) -> Result<usize, Errno> {
    loop {
        let can_attempt = attempt.is_possible();
        let len = bytes.len();
        let cuts = can_attempt || waiter.is_stoppable();
        let piece = &bytes[..if cuts { waiter.sleeping_write(len) } else { len }];
        let answer = waiter.run(can_attempt, (fd, PollFlags::OUT), |moment| match moment {
            BlockingMode::Now => attempt.write(fd, bytes),
            BlockingMode::Sleeping => rustix::io::write(fd, piece),
        });
        match answer {
            Err(errno) if waiter.attempts() && attempt.is_refused(errno) => {
                *attempt = NonblockingAccess::without_flag(fd);
            }
            _ => return answer,
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let PipeBase { fd, attempt, waiter, .. } = &mut self.base;
        Ok(write_some(fd.as_fd(), attempt, waiter, bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Writer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.base.fd.as_fd()
    }
}

impl From<Writer> for OwnedFd {
    fn from(writer: Writer) -> Self {
        writer.base.fd
    }
}
