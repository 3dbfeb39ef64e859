//! Which pages of a file are in the page cache, and how to bring in exactly the others.
//!
//! `mincore(2)` answers for files that this account owns or may write. Any other file is probed page by page
//! (see [`page_probe`](crate::page_probe)). If a page is missing, the kernel starts to read it. So if the first
//! page of a group is missing, the rest of the group is not probed. Pages that came in only because of a probe
//! are dropped again; what a marked page made the kernel read ahead stays.
//!
//! To bring pages in, all pieces are requested first (`posix_fadvise(2)`, WILLNEED), then awaited by reading
//! them. With `POSIX_FADV_RANDOM` on the descriptor, neither step reads more than requested (mm/readahead.c,
//! `force_page_cache_ra`).
//!
//! Not seen, in files of others: cached pages in a group whose first page is not cached; pages that come and
//! go meanwhile. Cost: 2 ns per page, 1 us in files of others.

use crate::cached_file::{PageCacheFile, runs};
use crate::error::SysError;
use crate::file_view::is_answered_for;
use crate::page_probe::is_cached;
use crate::page_size;
use pagewise_model::cache_list::PageRanges;
use pagewise_model::{Bytes, Fact};
use rustix::fs::Advice;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Number of pages that count as absent if the first of them is absent, in files of others.
const GROUP: u64 = 16;

impl PageCacheFile {
    /// The cached pages.
    ///
    /// # Errors
    /// When the file cannot be mapped or examined, or does not accept advice.
    pub fn cached_pages(&self) -> Result<PageRanges, SysError> {
        if is_answered_for(self.file()) { self.resident_pages(None) } else { self.asked_pages() }
    }

    /// The cached pages of `listed`. Unknown for files of others, where a probe may bring pages in.
    ///
    /// # Errors
    /// When the file cannot be mapped or examined.
    pub fn known_among(&self, listed: &PageRanges) -> Result<Fact<PageRanges>, SysError> {
        if is_answered_for(self.file()) {
            return Ok(Fact::Known(self.resident_pages(Some(listed))?.shared_with(listed)));
        }
        let why = "the kernel shows it only to accounts that own the file or may write it";
        Ok(Fact::missing(why))
    }

    /// Like [`Self::known_among`], for use after the pages were read: missing pages may be read by the probe.
    ///
    /// # Errors
    /// When the file cannot be mapped or examined, or does not accept advice.
    pub fn cached_among(&self, listed: &PageRanges) -> Result<PageRanges, SysError> {
        if let Fact::Known(known) = self.known_among(listed)? {
            return Ok(known);
        }
        self.read_nothing_ahead()?;
        let pages = listed.ranges().flatten();
        let cached = pages.filter(|page| self.is_there(*page));
        Ok(PageRanges::merged(cached.map(|page| page..page + 1)))
    }

    /// Limits reads through this descriptor to what is requested.
    ///
    /// # Errors
    /// When the file does not accept advice.
    pub fn read_nothing_ahead(&self) -> Result<(), SysError> {
        self.advise(Advice::Random, "POSIX_FADV_RANDOM")
    }

    /// Requests `length` bytes from `offset` on, at most what the device reads at once. This is a hint;
    /// failures are ignored.
    pub fn begin_reading(&self, offset: Bytes, length: Bytes) {
        let _hint =
            rustix::fs::fadvise(self.file(), offset.0, NonZeroU64::new(length.0), Advice::WillNeed);
    }

    /// The cached pages in windows of the file that contain pages of `listed`, or in all windows.
    fn resident_pages(&self, listed: Option<&PageRanges>) -> Result<PageRanges, SysError> {
        let (view, page) = (self.view()?, page_size::base().bytes());
        let mut cached: Vec<Range<u64>> = Vec::new();
        let mut ahead = listed.map(|listed| listed.ranges().peekable());
        for (window, is_empty) in self.counted_windows(&view) {
            let first = window.start as u64 / page;
            let past = (window.end as u64).div_ceil(page);
            if is_empty {
                continue;
            }
            if let Some(ahead) = &mut ahead {
                while ahead.next_if(|range| range.end <= first).is_some() {}
                if ahead.peek().is_none_or(|range| range.start >= past) {
                    continue;
                }
            }
            let found = runs(&view.resident_pages(window.start, window.len())?);
            cached.extend(
                found.into_iter().map(|run| first + run.start as u64..first + run.end as u64),
            );
        }
        Ok(PageRanges::merged(cached))
    }

    fn asked_pages(&self) -> Result<PageRanges, SysError> {
        self.read_nothing_ahead()?;
        let pages = self.size().pages(page_size::base());
        let (mut cached, mut brought) = (Vec::new(), Vec::new());
        let mut probe = |page: u64| {
            let is_there = self.is_there(page);
            let list = if is_there { &mut cached } else { &mut brought };
            list.push(page);
            is_there
        };
        for group in (0..pages.div_ceil(GROUP)).rev() {
            let first = group * GROUP;
            // No page is probed twice: the first probe may have brought it in.
            if probe(first) {
                for page in (first + 1..pages.min(first + GROUP)).rev() {
                    probe(page);
                }
            }
        }
        self.drop_again(&in_order(brought))?;
        Ok(in_order(cached))
    }

    /// Drops these pages, which were not in the cache a moment ago.
    fn drop_again(&self, pages: &PageRanges) -> Result<(), SysError> {
        let page = page_size::base().bytes();
        for number in pages.ranges().flatten() {
            // A page on its way cannot be dropped. This read waits for it.
            let _arrived = self.file().read_at(&mut [0], number * page);
        }
        for range in pages.ranges() {
            let length = NonZeroU64::new((range.end - range.start) * page);
            rustix::fs::fadvise(self.file(), range.start * page, length, Advice::DontNeed)
                .map_err(|e| SysError::new("posix_fadvise POSIX_FADV_DONTNEED", self.name(), e))?;
        }
        Ok(())
    }

    fn is_there(&self, page: u64) -> bool {
        is_cached(self.file(), page * page_size::base().bytes())
    }
}

fn in_order(mut pages: Vec<u64>) -> PageRanges {
    pages.sort_unstable();
    PageRanges::merged(pages.into_iter().map(|page| page..page + 1))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use pagewise_model::cache::CacheSlot;
    use std::fs::File;

    /// A file of 64 pages. 8 pages from page 16 on, and page 40, are cached. `None` if the file system keeps
    /// all pages.
    fn in_part(dir: &tempfile::TempDir) -> Option<PageCacheFile> {
        let page = page_size::base().bytes();
        let path = dir.path().join("file");
        std::fs::write(&path, vec![7; 64 * page as usize]).unwrap();
        let file = PageCacheFile::open(&path).unwrap();
        file.file().sync_all().unwrap();
        file.drop_cached().unwrap();
        if file.cached_pages().unwrap().count() > 0 {
            println!("SKIP cached pages: this file system keeps them");
            return None;
        }
        file.read_nothing_ahead().unwrap();
        let mut bytes = vec![0; 8 * page as usize];
        file.file().read_exact_at(&mut bytes, 16 * page).unwrap();
        file.file().read_exact_at(&mut bytes[..1], 40 * page).unwrap();
        Some(file)
    }

    #[test]
    fn exactly_what_was_read_is_cached() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = in_part(&dir) else { return };
        let cached = file.cached_pages().unwrap();
        assert_eq!(cached.ranges().collect::<Vec<_>>(), [16..24, 40..41]);
        let listed = PageRanges::merged([0..20, 40..50]);
        assert_eq!(
            file.cached_among(&listed).unwrap().ranges().collect::<Vec<_>>(),
            [16..20, 40..41]
        );
    }

    #[test]
    fn of_a_sparse_file_only_what_holds_pages_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let (page, len) = (page_size::base().bytes(), 1 << 40);
        let file = File::create(&path).unwrap();
        if file.set_len(len).is_err() {
            return println!("SKIP of_a_sparse_file: this file system has none of 1 TiB");
        }
        let at = [3, len / 2 / page, len / page - 1];
        for page_number in at {
            file.write_all_at(b"x", page_number * page).unwrap();
        }
        let file = PageCacheFile::open(&path).unwrap();
        if !file.file_system().unwrap().counts_own_pages || file.counts().is_err() {
            return println!("SKIP of_a_sparse_file: the kernel does not count its pages");
        }
        let windows: Vec<bool> =
            file.counted_windows(&file.view().unwrap()).map(|(_, is_empty)| is_empty).collect();
        assert_eq!(windows.iter().filter(|is_empty| !**is_empty).count(), 3);
        assert!(windows.len() > 1000, "{}", windows.len());
        let cached = file.cached_pages().unwrap();
        assert_eq!(cached.ranges().collect::<Vec<_>>(), at.map(|page| page..page + 1));
        let seen = file.look().unwrap();
        assert_eq!(seen.cached_bytes, Fact::Known(Bytes(3 * page)));
        let slots = seen.slots.0.iter().enumerate().filter(|(_, slot)| **slot != CacheSlot::Absent);
        let places = at.map(|number| (number * page / page_size::huge().bytes()) as usize);
        assert_eq!(slots.map(|(place, _)| place).collect::<Vec<_>>(), places);
        assert_eq!(seen.slots.0.len() as u64, len.div_ceil(page_size::huge().bytes()));
    }

    #[test]
    fn asking_finds_groups_by_their_first_page_and_leaves_the_cache_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = in_part(&dir) else { return };
        assert_eq!(
            file.asked_pages().unwrap().ranges().collect::<Vec<_>>(),
            std::slice::from_ref(&(16..24)),
            "page 40 is in no such group"
        );
        let left = file.resident_pages(None).unwrap();
        assert_eq!(left.ranges().collect::<Vec<_>>(), [16..24, 40..41]);
    }

    #[test]
    fn asking_takes_nothing_for_cached_that_a_marked_page_makes_the_kernel_read() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = in_part(&dir) else { return };
        file.drop_cached().unwrap();
        file.advise(Advice::Normal, "POSIX_FADV_NORMAL").unwrap();
        let page = page_size::base().bytes();
        let mut bytes = vec![0; page as usize];
        for number in 0..2 {
            file.file().read_exact_at(&mut bytes, number * page).unwrap();
        }
        // The counts of the kernel contain pages that are still on their way.
        let mut cached = file.resident_pages(None).unwrap();
        let Ok(mut counts) = file.counts() else {
            return println!("SKIP marked pages: the kernel does not count its pages");
        };
        while cached.count() * page != counts.cached_bytes.0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
            (cached, counts) = (file.resident_pages(None).unwrap(), file.counts().unwrap());
        }
        assert_eq!(file.asked_pages().unwrap(), cached);
    }

    #[test]
    fn what_is_begun_is_there_when_it_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let Some(file) = in_part(&dir) else { return };
        let page = page_size::base().bytes();
        file.begin_reading(Bytes(50 * page), Bytes(2 * page));
        let mut bytes = vec![0; 2 * page as usize];
        file.file().read_exact_at(&mut bytes, 50 * page).unwrap();
        assert_eq!(
            file.cached_pages().unwrap().ranges().collect::<Vec<_>>(),
            [16..24, 40..41, 50..52]
        );
    }
}
