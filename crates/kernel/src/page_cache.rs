//! How much of a file the page cache holds, and how it is made to let go of it.
//!
//! Three ways, tried in turn. `cachestat(2)` (Linux 6.5) counts the pages of a descriptor; it is for
//! who owns the file or may write it, as is `mincore(2)`, which older kernels have and which answers
//! "all" to anybody else. Whoever may only read the file can still ask page by page whether a byte is
//! there (`preadv2(2)` with `RWF_NOWAIT`): a page that is not there starts reading ahead, so that way
//! proves that all is there, and never that nothing is.
//!
//! `POSIX_FADV_DONTNEED` drops clean pages that nobody maps, for anybody who may open the file. Dirty
//! pages have to be written first (`fdatasync`). In a virtual machine the host's cache is not seen.
//!
//! Cost for each GiB: `cachestat` 1 to 5 ms, page by page 30 ms.

use crate::error::SysError;
use crate::page_size;
use pagewise_model::Bytes;
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// The number of the call, the same on all architectures.
const CACHESTAT: libc::c_long = 451;
/// Pages whose state is asked for at once.
const WINDOW: usize = 1 << 16;

/// What the cache holds of the beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cached {
    /// Pages that were asked for.
    pub pages: u64,
    /// Those that are there.
    pub cached: u64,
}

impl Cached {
    /// All of them.
    #[must_use]
    pub const fn is_all(self) -> bool {
        self.cached >= self.pages
    }
}

/// Counts the cached pages among the first `len` bytes of a file.
///
/// # Errors
/// `EPERM` for who neither owns the file nor may write it.
pub fn count(file: BorrowedFd<'_>, len: Bytes) -> Result<Cached, SysError> {
    match cachestat(file, len) {
        Err(error) if error.errno() == Some(libc::ENOSYS) => mincore(file, len),
        counted => counted,
    }
}

/// Whether all of the first `len` bytes is cached, also for who may only read the file.
///
/// # Errors
/// When neither way is to be had.
pub fn is_all_cached(file: BorrowedFd<'_>, len: Bytes) -> Result<bool, SysError> {
    match count(file, len) {
        Err(error) if error.errno() == Some(libc::EPERM) => {
            is_there(file, len).map_err(|e| SysError::new("preadv2 RWF_NOWAIT", "a file", e))
        }
        counted => counted.map(Cached::is_all),
    }
}

/// Writes what is dirty and drops what can be dropped of a whole file.
///
/// # Errors
/// When the file cannot be written back, or takes no advice.
pub fn evict(file: BorrowedFd<'_>) -> Result<(), SysError> {
    rustix::fs::fdatasync(file).map_err(|e| SysError::new("fdatasync", "a file", e))?;
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
        .map_err(|e| SysError::new("posix_fadvise POSIX_FADV_DONTNEED", "a file", e))
}

fn cachestat(file: BorrowedFd<'_>, len: Bytes) -> Result<Cached, SysError> {
    // `struct cachestat_range` and `struct cachestat` of linux/mman.h: offset and length; pages that are
    // cached, dirty, under writeback, evicted, recently evicted.
    let range = [0_u64, len.0];
    let mut stat = [0_u64; 5];
    let (range, filled) = (range.as_ptr(), stat.as_mut_ptr());
    // SAFETY: the kernel reads two live numbers and fills five, all of this frame, as the call documents.
    let done = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range, filled, 0) };
    if done != 0 {
        return Err(SysError::last("cachestat", "a file"));
    }
    Ok(Cached { pages: len.pages(page_size::base()), cached: stat[0] })
}

fn mincore(file: BorrowedFd<'_>, len: Bytes) -> Result<Cached, SysError> {
    let owner = rustix::fs::fstat(file).map_err(|e| SysError::new("fstat", "a file", e))?.st_uid;
    let user = rustix::process::geteuid();
    if !user.is_root() && owner != user.as_raw() {
        return Err(SysError::new("mincore", "a file of another user", Errno::PERM));
    }
    let page = page_size::base();
    let pages = len.pages(page);
    let mut cached = 0;
    let window = Bytes(WINDOW as u64 * page.bytes());
    for first in (0..pages).step_by(WINDOW) {
        let offset = first * page.bytes();
        let size = Bytes(len.0.saturating_sub(offset).min(window.0));
        cached += count_window(file, offset, size)?;
    }
    Ok(Cached { pages, cached })
}

/// Cached pages of `size` bytes from `offset` on, by a mapping that is not touched.
fn count_window(file: BorrowedFd<'_>, offset: u64, size: Bytes) -> Result<u64, SysError> {
    let failed = |call| move |e: Errno| SysError::new(call, "a file", e);
    let len = usize::try_from(size.0).unwrap_or(usize::MAX);
    let mut states = vec![0_u8; size.pages(page_size::base()) as usize];
    let (none, shared) = (std::ptr::null_mut(), MapFlags::SHARED);
    // SAFETY: no address is asked for, so the kernel picks a free range and replaces nothing.
    let start = unsafe { rustix::mm::mmap(none, len, ProtFlags::READ, shared, file, offset) }
        .map_err(failed("mmap"))?;
    // SAFETY: the range was mapped above, and there is a byte for each of its pages.
    let asked = unsafe { libc::mincore(start, len, states.as_mut_ptr()) };
    let error = SysError::last("mincore", "a file");
    // SAFETY: the range was mapped above, and nobody refers to it.
    unsafe { rustix::mm::munmap(start, len) }.map_err(failed("munmap"))?;
    if asked != 0 {
        return Err(error);
    }
    Ok(states.iter().filter(|state| **state & 1 == 1).count() as u64)
}

/// Whether one byte of each page can be read without waiting.
fn is_there(file: BorrowedFd<'_>, len: Bytes) -> Result<bool, Errno> {
    let step = usize::try_from(page_size::base().bytes()).unwrap_or(usize::MAX);
    let mut byte = [0_u8; 1];
    for offset in (0..len.0).step_by(step) {
        let mut piece = [IoSliceMut::new(&mut byte)];
        match rustix::io::preadv2(file.as_fd(), &mut piece, offset, ReadWriteFlags::NOWAIT) {
            Ok(1..) => {}
            Ok(0) | Err(Errno::AGAIN) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;

    /// A temporary file of `pages` pages, just written.
    fn written(pages: u64) -> (File, Bytes) {
        let mut file = tempfile::tempfile().unwrap();
        let len = Bytes(pages * page_size::base().bytes());
        file.write_all(&vec![7; len.0 as usize]).unwrap();
        (file, len)
    }

    #[test]
    fn what_was_written_is_there_by_every_way() {
        let (file, len) = written(16);
        let all = Cached { pages: 16, cached: 16 };
        assert_eq!(count(file.as_fd(), len).unwrap(), all);
        assert_eq!(mincore(file.as_fd(), len).unwrap(), all);
        assert!(is_all_cached(file.as_fd(), len).unwrap());
        assert_eq!(is_there(file.as_fd(), len), Ok(true));
        assert_eq!(is_there(file.as_fd(), Bytes(len.0 + 1)), Ok(false), "beyond the end");
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn what_is_evicted_is_gone() {
        let (file, len) = written(16);
        evict(file.as_fd()).unwrap();
        let left = count(file.as_fd(), len).unwrap();
        if left.cached > 0 {
            eprintln!("SKIP what_is_evicted_is_gone: this file system keeps {} pages", left.cached);
            return;
        }
        assert_eq!(mincore(file.as_fd(), len).unwrap().cached, 0);
        assert!(!is_all_cached(file.as_fd(), len).unwrap());
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let (reader, _writer) = crate::pipe::pipe().unwrap();
        assert!(evict(reader.as_fd()).is_err());
        assert!(is_there(reader.as_fd(), Bytes(1)).is_err());
    }
}
