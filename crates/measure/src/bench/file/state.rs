//! Proves what the page cache holds of the file before and after a cell. Without the proof the cell is not
//! read.
//!
//! Warm: every page is cached before and after. Missing pages are read in before. If pages are missing
//! afterwards, the cell was not warm and is read again. Cold: nothing is cached. The file is written back and
//! dropped by `POSIX_FADV_DONTNEED`, which needs no rights, and its pages are counted. Pages that another
//! process maps stay cached. In a virtual machine the host may still have them: the cell is cold only for the
//! guest.

use crate::error::PriceError;
use pagewise_kernel::{page_cache, page_size};
use pagewise_model::Bytes;
use pagewise_model::bench::file::CacheResidency;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

/// How often a state is tried to be reached.
const TRIES: u32 = 3;
/// Bytes of one read that fills the cache: as large as the largest readahead of a disk.
const FILL: Bytes = Bytes::mib(1);

/// A file whose pages are counted.
#[derive(Debug)]
pub(super) struct FilePageCache<'a> {
    pub(super) file: &'a File,
    pub(super) size: Bytes,
}

/// What was done to reach a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReachedCacheState {
    /// Cached pages.
    pub(super) pages: u64,
    /// Part of the file was read in.
    pub(super) filled: bool,
}

impl FilePageCache<'_> {
    /// All pages of the file.
    pub(super) fn all(&self) -> u64 {
        self.size.pages(page_size::base())
    }

    /// Brings the file into a state, and counts.
    pub(super) fn bring(&self, wanted: CacheResidency) -> Result<ReachedCacheState, PriceError> {
        match wanted {
            CacheResidency::Warm => self.warm(),
            CacheResidency::Cold => self.cool(),
        }
    }

    /// Cached pages, after a cell.
    pub(super) fn count(&self) -> Result<u64, PriceError> {
        match page_cache::count(self.file.as_fd(), self.size) {
            Err(error) if error.errno() == Some(libc::EPERM) => {
                let is_all = page_cache::is_all_cached(self.file.as_fd(), self.size)?;
                // Not all: how many is not known, and fewer than all is what matters.
                Ok(if is_all { self.all() } else { 0 })
            }
            counted => Ok(counted?.cached),
        }
    }

    fn warm(&self) -> Result<ReachedCacheState, PriceError> {
        for tried in 0..TRIES {
            if page_cache::is_all_cached(self.file.as_fd(), self.size)? {
                return Ok(ReachedCacheState { pages: self.all(), filled: tried > 0 });
            }
            self.fill()?;
        }
        Err(PriceError::Unavailable(
            "the page cache does not hold the whole file: not enough memory is free".to_owned(),
        ))
    }

    /// Reads all of the file once.
    fn fill(&self) -> Result<(), PriceError> {
        let mut buffer = vec![0; FILL.0 as usize];
        for offset in (0..self.size.0).step_by(buffer.len()) {
            let len = (self.size.0 - offset).min(FILL.0) as usize;
            let read = self.file.read_exact_at(&mut buffer[..len], offset);
            read.map_err(PriceError::sys("pread", "the file"))?;
        }
        Ok(())
    }

    fn cool(&self) -> Result<ReachedCacheState, PriceError> {
        let drop = || {
            page_cache::evict(self.file.as_fd())?;
            Ok::<_, PriceError>(page_cache::count(self.file.as_fd(), self.size)?.cached)
        };
        let left = page_cache::drop_until_gone(drop, |left| *left == 0)?;
        if left == 0 {
            return Ok(ReachedCacheState { pages: 0, filled: false });
        }
        Err(PriceError::Unavailable(format!(
            "{left} of {} pages stay in the page cache after POSIX_FADV_DONTNEED: another process maps \
             the file, or its file system keeps them",
            self.all()
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::view::MappedFileView;

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn states_are_reached_or_say_why() {
        let file = tempfile::tempfile().expect("a file");
        let page = page_size::base().bytes();
        let size = Bytes(20 * page - 100);
        file.set_len(size.0).expect("sized");
        file.write_all_at(&vec![1; size.0 as usize], 0).expect("written");
        let cache = FilePageCache { file: &file, size };
        assert_eq!(
            cache.bring(CacheResidency::Warm).expect("warm"),
            ReachedCacheState { pages: 20, filled: false }
        );
        match cache.bring(CacheResidency::Cold) {
            Ok(reached) => assert_eq!(reached, ReachedCacheState { pages: 0, filled: false }),
            Err(error) => {
                eprintln!("SKIP states_are_reached_or_say_why: {error}");
                return;
            }
        }
        assert_eq!(
            cache.bring(CacheResidency::Warm).expect("warm"),
            ReachedCacheState { pages: 20, filled: true }
        );
        assert_eq!(cache.count().expect("counted"), 20);
        let view = MappedFileView::map(file.as_fd(), page as usize, true).expect("mapped");
        let kept = cache.bring(CacheResidency::Cold).expect_err("a page is mapped").to_string();
        assert!(
            kept.contains("of 20 pages stay") && kept.contains("another process maps"),
            "{kept}"
        );
        drop(view);
        assert!(cache.bring(CacheResidency::Cold).is_ok());
    }
}
