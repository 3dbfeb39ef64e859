//! vmsplice(2), both ways: pages lent to a pipe, and bytes taken out of one.
//!
//! Into a pipe the call puts references to the caller's pages (one slot a base page) and copies nothing. The
//! pages remain the caller's: a process that holds a slot sees later writes of the caller. Out of a pipe the
//! call copies. Overhead: one system call.
//!
//! The end that a descriptor refers to decides whether the kernel reads or writes the memory. It is checked
//! once, when [`WriteEnd`] or [`ReadEnd`] is made.

use pagewise_kernel::SysError;
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{IoSliceRaw, SpliceFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A descriptor that can only be written to.
#[derive(Debug)]
pub(crate) struct WriteEnd(OwnedFd);

/// A descriptor that can only be read from.
#[derive(Debug)]
pub(crate) struct ReadEnd(OwnedFd);

impl WriteEnd {
    /// `fd`, if it is one.
    pub(crate) fn new(fd: OwnedFd) -> Result<Self, SysError> {
        has_mode(&fd, OFlags::WRONLY).map(|()| Self(fd))
    }

    /// Lends the pages of `bytes`, as many as there are free slots. Returns the number of bytes.
    pub(crate) fn lend(&self, bytes: &[u8], flags: SpliceFlags) -> Result<usize, Errno> {
        let piece = [IoSliceRaw::from_slice(bytes)];
        // SAFETY: the descriptor was checked to be a writing end, so the kernel only reads the
        // pages. With SPLICE_F_GIFT they are changed later all the same: the kernel takes no page
        // away for that (the flag is only noted in the slot), and the data is the caller's concern.
        unsafe { rustix::pipe::vmsplice(&self.0, &piece, flags) }
    }
}

impl ReadEnd {
    /// `fd`, if it is one.
    pub(crate) fn new(fd: OwnedFd) -> Result<Self, SysError> {
        has_mode(&fd, OFlags::RDONLY).map(|()| Self(fd))
    }

    /// Copies bytes out of the pipe into `bytes`; gives their number, 0 at the end.
    pub(crate) fn take(&self, bytes: &mut [u8], flags: SpliceFlags) -> Result<usize, Errno> {
        let piece = [IoSliceRaw::from_slice_mut(bytes)];
        // SAFETY: the kernel writes into memory that is borrowed alone for the call, and keeps no
        // reference to it: out of a pipe, vmsplice copies.
        unsafe { rustix::pipe::vmsplice(&self.0, &piece, flags) }
    }
}

impl AsFd for WriteEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for ReadEnd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn has_mode(fd: &OwnedFd, mode: OFlags) -> Result<(), SysError> {
    let flags = rustix::fs::fcntl_getfl(fd);
    let flags = flags.map_err(|e| SysError::new("fcntl F_GETFL", "an end of a pipe", e))?;
    if flags & OFlags::RWMODE == mode {
        Ok(())
    } else {
        Err(SysError::new("vmsplice", "the other end of a pipe", Errno::BADF))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::pipe::pipe;

    #[test]
    fn what_is_lent_is_what_is_taken() {
        let (reader, writer) = pipe().expect("a pipe");
        let (reader, writer) = (ReadEnd::new(reader).unwrap(), WriteEnd::new(writer).unwrap());
        assert_eq!(writer.lend(b"pages", SpliceFlags::empty()), Ok(5));
        let mut bytes = [0; 8];
        assert_eq!(reader.take(&mut bytes, SpliceFlags::empty()), Ok(5));
        assert_eq!(&bytes[..5], b"pages");
        assert_eq!(reader.take(&mut bytes, SpliceFlags::NONBLOCK), Err(Errno::AGAIN));
    }

    #[test]
    fn the_wrong_end_is_refused() {
        let (reader, writer) = pipe().expect("a pipe");
        assert_eq!(WriteEnd::new(reader).unwrap_err().errno(), Some(libc::EBADF));
        assert_eq!(ReadEnd::new(writer).unwrap_err().errno(), Some(libc::EBADF));
    }
}
