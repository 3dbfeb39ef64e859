//! `cachestat(2)` (Linux 6.5): how much of a file the page cache holds, and in which state.
//!
//! It walks once through the cache of the file, without touching it: some nanoseconds per folio. The kernel
//! answers for files that this account owns or may write (mm/filemap.c, `can_do_cachestat`), and with EPERM
//! for others. Not seen: which processes map the pages, and how large their folios are.

use crate::error::SysError;
use crate::page_size;
use pagewise_model::Bytes;
use pagewise_model::cache::CacheCounts;
use std::os::fd::{AsFd, AsRawFd};

/// System call number, the same on every architecture.
const CALL: libc::c_long = 451;

/// The state of the whole of `file`, which `subject` names.
///
/// # Errors
/// EPERM for a file of others, ENOSYS before Linux 6.5, EOPNOTSUPP for files on reserved huge pages.
pub fn read(file: &impl AsFd, subject: &str) -> Result<CacheCounts, SysError> {
    of_first(file, Bytes(0), subject)
}

/// The state of the first `len` bytes; of the whole file if `len` is 0.
///
/// # Errors
/// As [`read`].
pub fn of_first(file: &impl AsFd, len: Bytes, subject: &str) -> Result<CacheCounts, SysError> {
    of_range(file, Bytes(0), len, subject)
}

/// The state of `len` bytes from `offset` on.
///
/// # Errors
/// As [`read`].
pub(crate) fn of_range(
    file: &impl AsFd,
    offset: Bytes,
    len: Bytes,
    subject: &str,
) -> Result<CacheCounts, SysError> {
    // `struct cachestat_range` and `struct cachestat`.
    let range = [offset.0, len.0];
    let mut counts = [0_u64; 5];
    let fd = file.as_fd().as_raw_fd();
    // SAFETY: both arrays have the sizes of the structures that the call reads and fills. They outlive the
    // call, and nothing else borrows `counts`.
    let done = unsafe { libc::syscall(CALL, fd, range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    if done != 0 {
        return Err(SysError::last("cachestat", subject));
    }
    let page = page_size::base().bytes();
    let [cached_bytes, dirty_bytes, writeback_bytes, evicted_bytes, _of_these_lately] =
        counts.map(|pages| Bytes(pages.saturating_mul(page)));
    Ok(CacheCounts { cached_bytes, dirty_bytes, writeback_bytes, evicted_bytes })
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn what_is_written_is_cached_and_dirty_until_it_is_on_disk() {
        let mut file = tempfile::tempfile().unwrap();
        let size = Bytes(5 * page_size::base().bytes());
        file.write_all(&vec![1; size.0 as usize]).unwrap();
        let before = match read(&file, "a file") {
            Ok(stat) => stat,
            Err(error) => return println!("SKIP what_is_written_is_cached: {error}"),
        };
        assert_eq!(before.cached_bytes, size);
        file.sync_all().unwrap();
        let after = read(&file, "a file").unwrap();
        assert_eq!(after.cached_bytes, size);
        assert!(after.dirty_bytes <= before.dirty_bytes, "{after:?}");
    }

    #[test]
    fn what_was_not_opened_to_be_read_is_an_error() {
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::CLOEXEC;
        let place = rustix::fs::open("/", flags, rustix::fs::Mode::empty()).unwrap();
        let error = read(&place, "a place").unwrap_err();
        assert_eq!((error.call, error.subject.as_str()), ("cachestat", "a place"));
    }
}
