//! The system calls that the engine makes, behind a trait so that tests can refuse any of them at
//! any moment (`read(2)`, `write(2)`, `splice(2)`, `sendfile(2)`, `copy_file_range(2)`, `poll(2)`).

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::os::fd::{BorrowedFd, OwnedFd};

/// What the kernel is asked for. Counts are bytes; 0 from a source means its end.
pub(crate) trait Calls {
    /// `read(2)`.
    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno>;
    /// `write(2)`.
    fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno>;
    /// `splice(2)`; one side is a pipe.
    fn splice(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize)
    -> Result<usize, Errno>;
    /// `tee(2)`: both sides are pipes, and the bytes stay in the first.
    fn tee(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> Result<usize, Errno>;
    /// `sendfile(2)`.
    fn sendfile(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno>;
    /// `copy_file_range(2)`.
    fn copy_file_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno>;
    /// A pipe of our own: reading end, writing end.
    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno>;
    /// Grows a pipe to `size` where the user's limits allow; the capacity it has then.
    fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno>;
    /// Waits until a descriptor that answered EAGAIN is ready.
    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno>;
}

/// The kernel itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel;

impl Calls for Kernel {
    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(from, into)
    }

    fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(to, bytes)
    }

    fn splice(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        // Not SPLICE_F_MORE: it would hold the last part of a message back in a TCP sink.
        rustix::pipe::splice(from, None, to, None, most, SpliceFlags::empty())
    }

    fn tee(&self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, most: usize) -> Result<usize, Errno> {
        rustix::pipe::tee(from, to, most, SpliceFlags::empty())
    }

    fn sendfile(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        rustix::fs::sendfile(to, from, None, most)
    }

    fn copy_file_range(
        &self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        rustix::fs::copy_file_range(from, None, to, None, most)
    }

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
    }

    fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno> {
        let has = rustix::pipe::fcntl_getpipe_size(pipe)?;
        if has >= size {
            return Ok(has);
        }
        rustix::pipe::fcntl_setpipe_size(pipe, size).or(Ok(has))
    }

    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno> {
        let mut list = [PollFd::from_borrowed_fd(fd, ready)];
        match rustix::event::poll(&mut list, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
