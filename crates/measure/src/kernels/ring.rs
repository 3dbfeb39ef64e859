//! Reading and writing through io_uring, one operation at a time.
//!
//! An operation is queued, submitted and awaited by one io_uring_enter(2); nothing is in flight between two
//! calls. Not seen: the gain of a deeper queue. On a pipe, whose operations take one lock in turn, it causes
//! ordering problems and no overlap. Refused if `kernel.io_uring_disabled` or a filter of the container
//! forbids it. Overhead: two memory rings, one call an operation.

use io_uring::{IoUring, opcode, squeue, types};
use pagewise_kernel::region::MemoryRegion;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A queue of one.
pub(crate) struct IoUringQueue(Box<IoUring>);

impl std::fmt::Debug for IoUringQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IoUringQueue").finish_non_exhaustive()
    }
}

impl IoUringQueue {
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

// Reading a file through io_uring, several blocks at a time, into a buffer that the queue owns.
//
// All reads of a batch are submitted and awaited by one io_uring_enter(2). Nothing is in flight between two
// batches, so the buffer can be read then. With fixed buffers the kernel pins the pages for the lifetime of
// the queue instead of at each read. Refused if `kernel.io_uring_disabled` or a filter of the container
// forbids it.

/// A queue with its buffer. On drop, the ring goes first.
pub(crate) struct ReadQueue {
    ring: Box<IoUring>,
    buffer: MemoryRegion,
    is_fixed: bool,
}

impl std::fmt::Debug for ReadQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadQueue").finish_non_exhaustive()
    }
}

impl ReadQueue {
    /// A queue with `depth` places over `buffer`. With `is_fixed` the kernel keeps its pages pinned.
    pub(crate) fn new(depth: u32, mut buffer: MemoryRegion, is_fixed: bool) -> io::Result<Self> {
        let ring = Box::new(IoUring::new(depth)?);
        if is_fixed {
            let start = buffer.as_mut_ptr().cast();
            let len = usize::try_from(buffer.size().0).unwrap_or(0);
            let whole = [libc::iovec { iov_base: start, iov_len: len }];
            // SAFETY: the memory is this queue's own, moves with it as a mapping does, and is unmapped
            // after the ring is gone, which is declared before it.
            unsafe { ring.submitter().register_buffers(&whole) }?;
        }
        Ok(Self { ring, buffer, is_fixed })
    }

    /// Reads `len` bytes from each of `offsets` into places one after the other; gives the fewest bytes
    /// that one read gave.
    pub(crate) fn read(
        &mut self,
        file: BorrowedFd<'_>,
        offsets: impl ExactSizeIterator<Item = u64>,
        len: usize,
    ) -> Result<usize, Errno> {
        let count = offsets.len();
        if count.checked_mul(len).is_none_or(|all| all as u64 > self.buffer.size().0) {
            return Err(Errno::INVAL);
        }
        let mut queued = 0;
        for (nth, offset) in offsets.enumerate() {
            let entry = self.entry(file, offset, nth * len, len);
            // SAFETY: the descriptor is borrowed for the whole call, the place lies within the buffer by
            // the check above, and this function returns only when every queued read has completed.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                break;
            }
            queued += 1;
        }
        let ended = self.complete(queued)?;
        if queued == count { Ok(ended) } else { Err(Errno::BUSY) }
    }

    fn entry(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        place: usize,
        len: usize,
    ) -> squeue::Entry {
        let to = self.buffer.as_mut_ptr().wrapping_add(place);
        let (file, len) = (types::Fd(file.as_raw_fd()), u32::try_from(len).unwrap_or(u32::MAX));
        if self.is_fixed {
            opcode::ReadFixed::new(file, to, len, 0).offset(offset).build()
        } else {
            opcode::Read::new(file, to, len).offset(offset).build()
        }
    }

    /// Waits until `open` reads have ended. Returns the smallest number of bytes, or the first error.
    fn complete(&mut self, mut open: usize) -> Result<usize, Errno> {
        let mut fewest = Ok(usize::MAX);
        while open > 0 {
            // A signal or a lack of kernel memory ends the waiting, not the reads, whose memory must not
            // be given back: only their completion ends this loop, or the watchdog.
            let _waited = self.ring.submit_and_wait(open);
            for ended in self.ring.completion() {
                let result = ended.result();
                let got = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result));
                fewest = match (fewest, got) {
                    (Ok(least), Ok(got)) => Ok(least.min(got)),
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                };
                open -= 1;
            }
        }
        fewest
    }

    /// The place number `nth` of a batch, from 0. Empty if there is none.
    pub(crate) fn taken(&self, nth: usize, len: usize) -> &[u8] {
        let start = nth.saturating_mul(len);
        self.buffer.as_slice().get(start..start.saturating_add(len)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::pipe::pipe;
    use pagewise_kernel::region::RegionPages;
    use pagewise_model::Bytes;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn bytes_go_through() {
        let mut ring = match IoUringQueue::new() {
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

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn every_block_comes_to_its_place() {
        let mut file = tempfile::tempfile().expect("a file");
        for block in 0..8_u8 {
            file.write_all(&[block; 512]).expect("written");
        }
        for is_fixed in [false, true] {
            let buffer = MemoryRegion::new(Bytes(4 * 512), RegionPages::Base).expect("memory");
            let mut queue = match ReadQueue::new(4, buffer, is_fixed) {
                Ok(queue) => queue,
                Err(error) => {
                    eprintln!("SKIP every_block_comes_to_its_place: io_uring_setup: {error}");
                    return;
                }
            };
            let offsets = [7_u64, 0, 3].map(|block| block * 512);
            assert_eq!(queue.read(file.as_fd(), offsets.into_iter(), 512), Ok(512));
            for (nth, block) in [7, 0, 3].into_iter().enumerate() {
                assert!(queue.taken(nth, 512).iter().all(|byte| *byte == block), "{nth}");
            }
            let beyond = [0_u64, 4000, 5000];
            assert_eq!(queue.read(file.as_fd(), beyond.into_iter(), 512), Ok(0), "the end");
            let many = [0_u64; 9];
            assert_eq!(queue.read(file.as_fd(), many.into_iter(), 512), Err(Errno::INVAL));
            assert!(queue.taken(9, 512).is_empty());
        }
    }
}
