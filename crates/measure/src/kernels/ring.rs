//! Reading and writing through io_uring, one operation at a time.
//!
//! An operation is queued, submitted and waited for by one io_uring_enter(2); nothing is in flight
//! between two calls. What a deeper queue would give is not seen: on a pipe, whose operations take one
//! lock in turn, it gives order problems and no overlap. Refused where `kernel.io_uring_disabled`
//! or a filter of the container says so. Overhead: two memory rings, one call an operation.

use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A queue of one.
pub(crate) struct Ring(Box<IoUring>);

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").finish_non_exhaustive()
    }
}

impl Ring {
    /// Sets up the queue.
    pub(crate) fn new() -> io::Result<Self> {
        IoUring::new(1).map(|ring| Self(Box::new(ring)))
    }

    /// Writes from `bytes`; gives the number written.
    pub(crate) fn write(&mut self, fd: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Write::new(types::Fd(fd.as_raw_fd()), bytes.as_ptr(), len);
        self.complete(&entry.build())
    }

    /// Reads into `bytes`; gives the number read, 0 at the end.
    pub(crate) fn read(&mut self, fd: BorrowedFd<'_>, bytes: &mut [u8]) -> Result<usize, Errno> {
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let entry = opcode::Read::new(types::Fd(fd.as_raw_fd()), bytes.as_mut_ptr(), len);
        self.complete(&entry.build())
    }

    /// Registers `bytes` as a fixed buffer, which pins their pages, and gives them back.
    pub(crate) fn register(&self, bytes: &[u8]) -> io::Result<()> {
        let start = bytes.as_ptr().cast_mut().cast();
        let buffer = [libc::iovec { iov_base: start, iov_len: bytes.len() }];
        // SAFETY: the memory is borrowed for the call and given back in the next line. Should that fail,
        // the kernel holds the pages until the ring is closed and writes to none of them: no operation
        // names the buffer.
        unsafe { self.0.submitter().register_buffers(&buffer) }?;
        self.0.submitter().unregister_buffers()
    }

    /// Submits one operation whose memory the caller has borrowed, and waits until it has ended.
    fn complete(&mut self, entry: &squeue::Entry) -> Result<usize, Errno> {
        // SAFETY: descriptor and memory of the entry are borrowed by the caller of this function,
        // which does not return before the operation has completed.
        unsafe { self.0.submission().push(entry) }.map_err(|_| Errno::BUSY)?;
        loop {
            if let Some(ended) = self.0.completion().next() {
                let result = ended.result();
                return usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
            }
            // A signal or a lack of kernel memory ends the waiting, not the operation, whose memory
            // must not be given back: only its completion ends this loop, or the watchdog.
            let _waited = self.0.submit_and_wait(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::pipe::pipe;
    use std::os::fd::AsFd;

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn bytes_go_through() {
        let mut ring = match Ring::new() {
            Ok(ring) => ring,
            Err(error) => {
                eprintln!("SKIP bytes_go_through: io_uring_setup: {error}");
                return;
            }
        };
        let (reader, writer) = pipe().expect("a pipe");
        assert_eq!(ring.write(writer.as_fd(), b"ring"), Ok(4));
        let mut bytes = [0; 8];
        assert_eq!(ring.read(reader.as_fd(), &mut bytes), Ok(4));
        assert_eq!(&bytes[..4], b"ring");
        let page = vec![1_u8; 8192];
        if let Err(error) = ring.register(&page).and_then(|()| ring.register(&page)) {
            eprintln!("SKIP registering of bytes_go_through: {error}");
        }
        drop(reader);
        assert_eq!(ring.write(writer.as_fd(), b"ring"), Err(Errno::PIPE));
    }
}
