//! The page cache state of a part of a file, and writing a part back to the disk: the calls of a copy past
//! the cache that no safe wrapper offers.
//!
//! `mincore(2)` over a mapping that is never touched takes 2 ns a page. For a file that this account neither
//! owns nor may write, the kernel reports every page as cached (mm/mincore.c). `sync_file_range(2)` writes
//! pages, not the file's metadata: it makes pages clean, but nothing durable.
#![allow(unsafe_code, reason = "calls that no safe wrapper offers; one operation a block")]

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

/// Whether each page of `range`, which begins on a page, is cached.
///
/// # Errors
/// If the file cannot be mapped, for example if it is open only for writing. It is not opened a second time
/// for that: closing any descriptor of a file drops the locks (`F_SETLK`) that this process has on it.
pub(crate) fn cached_pages(file: BorrowedFd<'_>, range: Range<u64>) -> Result<Vec<bool>, Errno> {
    let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(|_| Errno::NOMEM)?;
    if len == 0 {
        return Ok(Vec::new());
    }
    let (no_access, flags) = (ProtFlags::empty(), MapFlags::SHARED);
    // SAFETY: a fresh mapping at an address of the kernel's choice; without access, so nothing reads it.
    let start =
        unsafe { rustix::mm::mmap(ptr::null_mut(), len, no_access, flags, file, range.start) }?;
    let mut pages = vec![0_u8; len.div_ceil(rustix::param::page_size())];
    // SAFETY: the mapping has `len` bytes, and `pages` a byte for each of its pages.
    let done = unsafe { libc::mincore(start, len, pages.as_mut_ptr()) };
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    // SAFETY: the mapping is ours, nothing refers to it.
    unsafe { rustix::mm::munmap(start, len) }?;
    if done == 0 { Ok(pages.iter().map(|page| page & 1 == 1).collect()) } else { Err(errno) }
}

/// Begins to write the dirty pages of `range`, and waits for them if `waits`.
///
/// # Errors
/// EIO, ENOSPC and others if they could not be written, ESPIPE if it is not a file.
pub(crate) fn write_out(file: BorrowedFd<'_>, range: Range<u64>, waits: bool) -> Result<(), Errno> {
    let of = |at: u64| libc::off64_t::try_from(at).map_err(|_| Errno::INVAL);
    let (start, len) = (of(range.start)?, of(range.end.saturating_sub(range.start))?);
    let wait = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    let flags = libc::SYNC_FILE_RANGE_WRITE | if waits { wait } else { 0 };
    // SAFETY: the call takes numbers and an open descriptor only.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), start, len, flags) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    #[test]
    fn pages_that_are_written_are_cached_and_others_are_not() {
        let mut file = tempfile::tempfile().unwrap();
        let page = rustix::param::page_size() as u64;
        file.write_all(&vec![1; 3 * page as usize]).unwrap();
        file.set_len(5 * page).unwrap();
        let seen = cached_pages(file.as_fd(), 0..5 * page).unwrap();
        assert_eq!(seen, [true, true, true, false, false]);
        assert!(cached_pages(file.as_fd(), page..page).unwrap().is_empty());
        assert_eq!(write_out(file.as_fd(), 0..5 * page, true), Ok(()));
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4).unwrap();
        let writable = std::fs::File::options().write(true).open(file.path()).unwrap();
        assert_eq!(cached_pages(writable.as_fd(), 0..4), Err(Errno::ACCESS));
    }

    #[test]
    fn the_locks_of_the_process_stay() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(4).unwrap();
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        rustix::fs::fcntl_lock(&file, lock).unwrap();
        let inode = format!(":{} ", rustix::fs::fstat(&file).unwrap().st_ino);
        let locks = || std::fs::read_to_string("/proc/locks").unwrap_or_default();
        let is_locked = || locks().lines().any(|l| l.contains("POSIX") && l.contains(&inode));
        if !is_locked() {
            println!("SKIP the_locks_of_the_process_stay: /proc/locks does not show them");
            return;
        }
        cached_pages(file.as_fd(), 0..4).unwrap();
        assert!(is_locked());
    }

    #[test]
    fn what_is_no_file_is_an_error() {
        let (reader, _writer) = std::io::pipe().unwrap();
        assert!(cached_pages(reader.as_fd(), 0..4).is_err());
        assert_eq!(write_out(reader.as_fd(), 0..4, false), Err(Errno::SPIPE));
    }
}
