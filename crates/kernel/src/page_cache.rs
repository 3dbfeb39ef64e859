//! How much of a file the page cache holds, and how to evict it.
//!
//! Three ways are tried in turn. `cachestat(2)` (Linux 6.5) counts the pages of a descriptor; it requires to
//! own the file or to have write access. So does `mincore(2)`, which exists on older kernels and answers
//! "all" to other accounts. An account with read access only can still test page by page whether a byte is
//! cached (`page_probe`). A missing page starts read-ahead, so this way can prove that all
//! is cached, but never that nothing is.
//!
//! `POSIX_FADV_DONTNEED` drops clean, unmapped pages, for any account that may open the file. Dirty pages
//! must be written first (`fdatasync`). In a virtual machine the host's cache is not seen.
//!
//! Cost per GiB: `cachestat` 1 to 5 ms, page by page 30 ms.

use crate::cachestat;
use crate::error::SysError;
use crate::file_view::{FileView, is_answered_for};
use crate::page_probe::is_cached;
use crate::page_size;
use pagewise_model::Bytes;
use rustix::fs::Advice;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// Attempts to drop. Reclaim, compaction and an exit in progress hold pages for a moment (`folio_try_get`). A
/// held page, or one that is being read, is not dropped (mm/truncate.c, `mapping_evict_folio`).
const DROPS: usize = 8;

/// How long pages may be held before the next attempt.
const IN_HAND: Duration = Duration::from_millis(10);

/// How much of the beginning of a file is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CachedPages {
    /// Number of pages examined.
    pub pages: u64,
    pub cached: u64,
}

impl CachedPages {
    #[must_use]
    pub const fn is_all(self) -> bool {
        self.cached >= self.pages
    }
}

/// Counts the cached pages among the first `len` bytes of a file.
///
/// # Errors
/// `EPERM` for an account that neither owns the file nor may write it.
pub fn count(file: BorrowedFd<'_>, len: Bytes) -> Result<CachedPages, SysError> {
    match by_cachestat(file, len) {
        Err(error) if error.errno() == Some(libc::ENOSYS) => mincore(file, len),
        counted => counted,
    }
}

/// Whether all of the first `len` bytes are cached. Read access to the file is enough.
///
/// # Errors
/// When neither way is available.
pub fn is_all_cached(file: BorrowedFd<'_>, len: Bytes) -> Result<bool, SysError> {
    match count(file, len) {
        Err(error) if error.errno() == Some(libc::EPERM) => Ok(is_there(file, len)),
        counted => counted.map(CachedPages::is_all),
    }
}

/// Writes dirty pages and drops whatever it can of a whole file.
///
/// # Errors
/// When the file cannot be written back, or does not accept advice.
pub fn evict(file: BorrowedFd<'_>) -> Result<(), SysError> {
    rustix::fs::fdatasync(file).map_err(|e| SysError::new("fdatasync", "a file", e))?;
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed)
        .map_err(|e| SysError::new("posix_fadvise POSIX_FADV_DONTNEED", "a file", e))
}

/// Calls `drop`, which drops pages and returns what is left, until `is_gone` accepts that or the attempts are
/// used up.
///
/// # Errors
/// Those of `drop`.
pub fn drop_until_gone<T, E>(
    mut drop: impl FnMut() -> Result<T, E>,
    is_gone: impl Fn(&T) -> bool,
) -> Result<T, E> {
    for _ in 1..DROPS {
        let left = drop()?;
        if is_gone(&left) {
            return Ok(left);
        }
        std::thread::sleep(IN_HAND);
    }
    drop()
}

fn by_cachestat(file: BorrowedFd<'_>, len: Bytes) -> Result<CachedPages, SysError> {
    let page = page_size::base();
    let cached = cachestat::of_first(&file, len, "a file")?.cached_bytes;
    Ok(CachedPages { pages: len.pages(page), cached: cached.pages(page) })
}

fn mincore(file: BorrowedFd<'_>, len: Bytes) -> Result<CachedPages, SysError> {
    if !is_answered_for(&file) {
        return Err(SysError::new("mincore", "a file of another user", Errno::PERM));
    }
    let view = FileView::map(&file, usize::try_from(len.0).unwrap_or(usize::MAX))?;
    let mut cached = 0;
    for window in view.windows() {
        let pages = view.resident_pages(window.start, window.len())?;
        cached += pages.iter().filter(|page| **page).count() as u64;
    }
    Ok(CachedPages { pages: len.pages(page_size::base()), cached })
}

/// Whether one byte of each page can be read without waiting.
fn is_there(file: BorrowedFd<'_>, len: Bytes) -> bool {
    let step = usize::try_from(page_size::base().bytes()).unwrap_or(usize::MAX);
    (0..len.0).step_by(step).all(|offset| is_cached(&file, offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::os::fd::AsFd;

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
        let all = CachedPages { pages: 16, cached: 16 };
        assert_eq!(count(file.as_fd(), len).unwrap(), all);
        assert_eq!(mincore(file.as_fd(), len).unwrap(), all);
        assert!(is_all_cached(file.as_fd(), len).unwrap());
        assert!(is_there(file.as_fd(), len));
        assert!(!is_there(file.as_fd(), Bytes(len.0 + 1)), "beyond the end");
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
    fn what_is_in_hand_is_dropped_on_a_later_try() {
        let after = |last: usize| {
            let mut tried = 0;
            let drop = || {
                tried += 1;
                Ok::<_, SysError>(last.saturating_sub(tried))
            };
            let left = drop_until_gone(drop, |left| *left == 0).unwrap();
            (left, tried)
        };
        assert_eq!((after(1), after(3), after(9)), ((0, 1), (0, 3), (9 - DROPS, DROPS)));
    }

    #[test]
    fn what_is_no_file_is_refused() {
        let (reader, _writer) = crate::pipe::pipe().unwrap();
        assert!(evict(reader.as_fd()).is_err());
        assert!(!is_there(reader.as_fd(), Bytes(1)));
    }
}
