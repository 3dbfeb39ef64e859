//! Reading and writing a pipe without sleeping and without a change to its flags.
//!
//! O_NONBLOCK belongs to the open file description, which a shell and its other children share, so we must
//! not set it. `preadv2(2)` and `pwritev2(2)` with RWF_NOWAIT make a single call that does not sleep. Pipes
//! support it since Linux 6.4; fifos that were opened by name do not (EOPNOTSUPP). For those, a second
//! description is opened through /proc/self/fd with O_NONBLOCK, which needs /proc and the rights of an
//! ordinary open. If that fails as well, nothing is attempted and the end sleeps in its calls. The only cost
//! is the call itself; a refusal occurs once for each end.

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

/// Makes the kernel use the file's own position. A pipe has no position.
const HERE: u64 = u64::MAX;

/// How an end is read or written without sleeping.
#[derive(Debug)]
pub(super) enum NonblockingAccess {
    /// By RWF_NOWAIT.
    Flag,
    /// Through a second description with O_NONBLOCK.
    Second(OwnedFd),
    /// Not at all.
    Never,
}

impl NonblockingAccess {
    /// Whether there is a way.
    pub(super) fn is_possible(&self) -> bool {
        !matches!(self, Self::Never)
    }

    /// Reads what is available now. EAGAIN if nothing is, 0 at the end.
    pub(super) fn read(&self, pipe: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Self::Flag => {
                let mut into = [IoSliceMut::new(into)];
                rustix::io::preadv2(pipe, &mut into, HERE, ReadWriteFlags::NOWAIT)
            }
            Self::Second(fd) => rustix::io::read(fd, into),
            Self::Never => Err(Errno::AGAIN),
        }
    }

    /// Writes as much of `bytes` as fits. EAGAIN if nothing does.
    pub(super) fn write(&self, pipe: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Self::Flag => {
                rustix::io::pwritev2(pipe, &[IoSlice::new(bytes)], HERE, ReadWriteFlags::NOWAIT)
            }
            Self::Second(fd) => rustix::io::write(fd, bytes),
            Self::Never => Err(Errno::AGAIN),
        }
    }

    /// Whether `errno` may be caused by the way instead of the pipe: old kernels do not support the flag or
    /// the call, and a sandbox may refuse them.
    pub(super) fn is_refused(&self, errno: Errno) -> bool {
        let refusals = [Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::PERM];
        matches!(self, Self::Flag) && refusals.contains(&errno)
    }

    /// The way that is left for `pipe` after RWF_NOWAIT was refused.
    pub(super) fn without_flag(pipe: BorrowedFd<'_>) -> Self {
        second(pipe).map_or(Self::Never, Self::Second)
    }
}

/// A second, private description of the same end, in the same packet mode (O_DIRECT).
fn second(pipe: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let kept = rustix::fs::fcntl_getfl(pipe)? & (OFlags::ACCMODE | OFlags::DIRECT);
    let flags = kept | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::open(format!("/proc/self/fd/{}", pipe.as_raw_fd()), flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    fn exchange(
        attempt: &mut [NonblockingAccess; 2],
        reader: BorrowedFd<'_>,
        writer: BorrowedFd<'_>,
    ) {
        let [reading, writing] = attempt;
        let mut into = [0; 8];
        assert_eq!(reading.read(reader, &mut into), Err(Errno::AGAIN));
        assert_eq!(writing.write(writer, b"now"), Ok(3));
        assert_eq!(reading.read(reader, &mut into), Ok(3));
        assert_eq!(&into[..3], b"now");
        let full = vec![0; 2 << 20];
        let room = rustix::pipe::fcntl_getpipe_size(writer).unwrap();
        assert_eq!(writing.write(writer, &full), Ok(room));
        assert_eq!(writing.write(writer, b"more"), Err(Errno::AGAIN));
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn a_second_description_does_not_sleep() {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut seconds = [reader.as_fd(), writer.as_fd()].map(NonblockingAccess::without_flag);
        if !seconds.iter().all(NonblockingAccess::is_possible) {
            println!("SKIP a_second_description_does_not_sleep: /proc/self/fd cannot be opened");
            return;
        }
        exchange(&mut seconds, reader.as_fd(), writer.as_fd());
        for end in [reader.as_fd(), writer.as_fd()] {
            assert!(!rustix::fs::fcntl_getfl(end).unwrap().contains(OFlags::NONBLOCK));
        }
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn the_flag_does_not_sleep() {
        let (reader, writer) = std::io::pipe().unwrap();
        if let Err(errno) = NonblockingAccess::Flag.write(writer.as_fd(), b"?") {
            println!("SKIP the_flag_does_not_sleep: {errno}");
            return;
        }
        NonblockingAccess::Flag.read(reader.as_fd(), &mut [0]).unwrap();
        exchange(
            &mut [NonblockingAccess::Flag, NonblockingAccess::Flag],
            reader.as_fd(),
            writer.as_fd(),
        );
    }
}
