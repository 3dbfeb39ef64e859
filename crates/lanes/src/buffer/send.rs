//! The shared part of all buffers: the way bytes went, errors, and the loop that runs until everything is
//! taken.
//!
//! By reference is tried first. Any error except EINTR, EAGAIN and EPIPE means "not this way": EPERM, EINVAL,
//! ENOSYS, EOPNOTSUPP from a filter or a kernel without such a call, EBADF and EINVAL from a descriptor that
//! is not a pipe. From then on `write(2)` copies the bytes, and its error is the one returned.

use crate::{end, probe};
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;

/// How bytes went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendWay {
    /// References to the pages were handed over.
    ByReference,
    /// At least the last bytes were copied by `write(2)`: the kernel refused the other way.
    Copied,
}

impl SendWay {
    /// The way to try first: by reference, unless `to` cannot be written at all. At the reading end of a
    /// pipe, vmsplice would instead overwrite the memory passed to it. This check prevents that.
    pub(crate) fn first(to: BorrowedFd<'_>) -> Self {
        match rustix::fs::fcntl_getfl(to) {
            Ok(flags) if flags & OFlags::RWMODE != OFlags::RDONLY => Self::ByReference,
            _ => Self::Copied,
        }
    }

    /// The way to try first with memory that would have to be kept: a copy where vmsplice makes one
    /// anyway, as `write(2)` then gives the same with a promise.
    pub(crate) fn first_of_memory(to: BorrowedFd<'_>) -> Self {
        if probe::vmsplice_copies() { Self::Copied } else { Self::first(to) }
    }

    /// Sends some bytes: by `refer`, or by `write` once that was refused.
    pub(super) fn some(
        &mut self,
        refer: impl FnOnce() -> Result<usize, Errno>,
        write: impl FnOnce() -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        if *self == Self::ByReference {
            match refer() {
                Ok(n) if n > 0 => return Ok(n),
                Err(errno @ (Errno::INTR | Errno::AGAIN | Errno::PIPE)) => return Err(errno),
                Ok(_) | Err(_) => *self = Self::Copied,
            }
        }
        write()
    }
}

/// Bytes that were not all taken. Those counted are with the receiver, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendError {
    /// The call, as its man page names it.
    pub call: &'static str,
    /// The kernel's error.
    pub errno: Errno,
    /// Bytes taken until then.
    pub taken: usize,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { call, errno, taken } = self;
        write!(f, "`{call}` failed after {taken} bytes: {errno}")
    }
}

impl std::error::Error for SendError {}

impl From<SendError> for std::io::Error {
    fn from(error: SendError) -> Self {
        Self::new(Self::from(error.errno).kind(), error)
    }
}

/// Sends `len` bytes, blocking: `some` gets the number sent so far and sends some more. `call` names the way
/// by reference. With `interrupts` a signal ends it with EINTR.
pub(super) fn send_all(
    to: BorrowedFd<'_>,
    len: usize,
    call: &'static str,
    mut by: SendWay,
    interrupts: bool,
    mut some: impl FnMut(usize, &mut SendWay) -> Result<usize, Errno>,
) -> Result<SendWay, SendError> {
    let mut taken = 0;
    while taken < len {
        match some(taken, &mut by) {
            Ok(n) => {
                taken += n;
                // A short count of write(2) may be the signal's.
                if interrupts && by == SendWay::Copied && taken < len {
                    return Err(SendError { call: "write", errno: Errno::INTR, taken });
                }
            }
            Err(Errno::INTR) if !interrupts => {}
            Err(Errno::AGAIN) => match end::wait(to, PollFlags::OUT) {
                Err(Errno::INTR) if !interrupts => {}
                waited => waited.map_err(|errno| SendError { call: "poll", errno, taken })?,
            },
            Err(errno) => {
                let call = if by == SendWay::Copied { "write" } else { call };
                return Err(SendError { call, errno, taken });
            }
        }
    }
    Ok(by)
}

/// Some of `bytes` by `write(2)`.
pub(super) fn write(to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
    match rustix::io::write(to, bytes)? {
        0 if !bytes.is_empty() => Err(Errno::NOSPC),
        n => Ok(n),
    }
}
