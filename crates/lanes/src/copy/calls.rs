//! The system calls that the engine makes, behind a trait so that tests can refuse any of them at
//! any moment (`read(2)`, `write(2)`, those of [`TransferCall`], `poll(2)`, `sync_file_range(2)`).

use super::lending::LendingRegion;
use crate::end::CopyEnd;
use crate::probe::cached;
use rustix::event::PollFlags;
use rustix::fs::StatFs;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};
use std::io::{IoSlice, IoSliceMut};
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A call that moves bytes from one descriptor to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TransferCall {
    /// `splice(2)`; one side is a pipe.
    Splice,
    /// The same with SPLICE_F_NONBLOCK: EAGAIN if it would have to wait for a pipe.
    SpliceNow,
    /// `tee(2)`: both sides are pipes, and the bytes stay in the first.
    Tee,
    /// `sendfile(2)`.
    Sendfile,
    /// `copy_file_range(2)`.
    FileRange,
}

impl TransferCall {
    /// The call as its man page names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Splice | Self::SpliceNow => "splice",
            Self::Tee => "tee",
            Self::Sendfile => "sendfile",
            Self::FileRange => "copy_file_range",
        }
    }
}

/// The kernel calls. Counts are bytes; 0 from a source means its end.
pub(crate) trait CopyCalls {
    /// `read(2)`.
    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno>;
    /// `write(2)`.
    fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno>;
    /// `preadv2(2)` at the position, after which the kernel drops the pages that this has cached.
    fn read_uncached(&self, _from: BorrowedFd<'_>, _into: &mut [u8]) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }
    /// `pwritev2(2)` at the position, likewise once they are on the disk.
    fn write_uncached(&self, _to: BorrowedFd<'_>, _bytes: &[u8]) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }
    /// At most `most` bytes from one to the other without passing user space.
    fn transfer(
        &self,
        how: TransferCall,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno>;
    /// `vmsplice(2)` of some of the next `len` bytes, as [`LendingRegion::lend`].
    fn lend(
        &self,
        from: &mut LendingRegion,
        to: BorrowedFd<'_>,
        len: usize,
    ) -> Result<usize, Errno> {
        from.lend(to, len)
    }
    /// A new private pipe: reading end, writing end.
    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno>;
    /// Grows a pipe to `size`, or as near as the user's limits allow, unless its capacity was changed before.
    /// Returns the resulting capacity.
    fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno>;
    /// Waits until a descriptor that answered EAGAIN is ready.
    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno>;
    /// Whether EAGAIN of a descriptor means that it is not ready, as in [`CopyEnd::can_wait`].
    fn can_wait(&self, fd: BorrowedFd<'_>) -> bool {
        CopyEnd::can_wait(fd)
    }
    /// `sync_file_range(2)`, as [`cached::write_out`].
    fn write_out(&self, file: BorrowedFd<'_>, part: Range<u64>, waits: bool) -> Result<(), Errno> {
        cached::write_out(file, part, waits)
    }
    /// Whether a file's file system may have a special way to copy a range, such as sharing its extents or
    /// copying on a server.
    fn has_own_ranges(&self, file: BorrowedFd<'_>) -> bool;
}

/// File systems whose files have neither `copy_file_range` nor `remap_file_range` in their `file_operations`
/// (linux/magic.h). They cannot share extents or copy on a server, so `copy_file_range(2)` copies page by
/// page.
const RANGES_BY_PAGE: [u64; 3] = [0xef53, 0x0102_1994, 0xf2f5_2010]; // ext4, tmpfs, f2fs

/// `RWF_DONTCACHE` (linux/fs.h).
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);
/// Read and write at the position of the file and move it (preadv2(2)).
const AT_POSITION: u64 = u64::MAX;

/// The kernel itself.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelCalls;

impl CopyCalls for KernelCalls {
    fn read(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(from, into)
    }

    fn write(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::write(to, bytes)
    }

    fn read_uncached(&self, from: BorrowedFd<'_>, into: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::preadv2(from, &mut [IoSliceMut::new(into)], AT_POSITION, DONTCACHE)
    }

    fn write_uncached(&self, to: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        rustix::io::pwritev2(to, &[IoSlice::new(bytes)], AT_POSITION, DONTCACHE)
    }

    fn transfer(
        &self,
        how: TransferCall,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        most: usize,
    ) -> Result<usize, Errno> {
        // Not SPLICE_F_MORE: it would hold the last part of a message back in a TCP sink.
        let flags = SpliceFlags::empty();
        match how {
            TransferCall::Splice => rustix::pipe::splice(from, None, to, None, most, flags),
            TransferCall::SpliceNow => {
                rustix::pipe::splice(from, None, to, None, most, SpliceFlags::NONBLOCK)
            }
            TransferCall::Tee => rustix::pipe::tee(from, to, most, flags),
            TransferCall::Sendfile => rustix::fs::sendfile(to, from, None, most),
            TransferCall::FileRange => rustix::fs::copy_file_range(from, None, to, None, most),
        }
    }

    fn pipe(&self) -> Result<(OwnedFd, OwnedFd), Errno> {
        rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
    }

    fn grow(&self, pipe: BorrowedFd<'_>, size: usize) -> Result<usize, Errno> {
        crate::pipe::capacity::grow_unset(pipe, size)
    }

    fn wait(&self, fd: BorrowedFd<'_>, ready: PollFlags) -> Result<(), Errno> {
        crate::end::wait(fd, ready)
    }

    fn has_own_ranges(&self, file: BorrowedFd<'_>) -> bool {
        // 32 bits of a word whose width and sign differ between architectures.
        let magic = |found: StatFs| found.f_type as u64 & u64::from(u32::MAX);
        !rustix::fs::fstatfs(file).is_ok_and(|found| RANGES_BY_PAGE.contains(&magic(found)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::{CopyJob, CopyRoute};
    use rustix::fs::MemfdFlags;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_file_system_that_copies_by_page_is_read_and_written() {
        // A memfd is a file of tmpfs.
        let memory = || File::from(rustix::fs::memfd_create("copy", MemfdFlags::CLOEXEC).unwrap());
        let (mut from, mut to) = (memory(), memory());
        let content: Vec<u8> = (0..3_000_000_u32).map(|number| number as u8).collect();
        from.write_all(&content).unwrap();
        from.rewind().unwrap();
        assert!(!KernelCalls.has_own_ranges(to.as_fd()));
        let copied = CopyJob::new(&from, &to).run().unwrap();
        assert_eq!((copied.bytes, copied.way), (3_000_000, CopyRoute::ReadWrite));
        let mut found = Vec::new();
        to.rewind().unwrap();
        to.read_to_end(&mut found).unwrap();
        assert!(found == content);
    }

    #[test]
    fn what_is_not_known_may_have_own_ranges() {
        let file = File::open("/proc/self/stat").unwrap();
        assert!(KernelCalls.has_own_ranges(file.as_fd()));
    }
}
