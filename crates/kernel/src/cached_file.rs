//! What the page cache holds of a file, slot by slot, and on which pages a fresh mapping of it lies.
//!
//! The least intrusive question comes first: `mincore(2)` over a mapping that is not touched. Then one page
//! of each completely cached slot is entered, which maps a huge folio as a whole. Then `PAGEMAP_SCAN` reports
//! which slots are mapped huge, and `smaps` how much (`FilePmdMapped`). With the right to see frames, all
//! cached pages are entered, and the flags of their frames (`/proc/kpageflags`) show where folios begin and
//! end.
//!
//! `mincore` gives no answer for files that this account neither owns nor may write. There, one page of each
//! slot is requested with a read that must not wait, after `POSIX_FADV_RANDOM`, so that a missing page starts
//! a read of that page only. Nothing else is read from a device: the mapping is advised not to read ahead
//! (`MADV_RANDOM`).
//!
//! Not seen: folios of middle size without the right to see frames. Cost: 2 ns per page and 1 us per slot;
//! frames 60 ns per page, for files up to [`FOLIOS_LIMIT`].

use crate::error::SysError;
use crate::file_view::{self, FileView, is_answered_for};
use crate::page_probe::are_cached;
use crate::proc::holders::{self, HolderSearch};
use crate::{cachestat, file_system, page_frames, page_size, pagemap};
use pagewise_model::address::FrameFlags;
use pagewise_model::cache::{CacheCounts, CacheSlot, CacheState, FileHolders, FolioShare, SlotMap};
use pagewise_model::{Bytes, Fact};
use rustix::fs::Advice;
use std::collections::BTreeMap;
use std::fs::File;
use std::iter::repeat_n;
use std::num::NonZeroU64;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Folios are not examined in larger files.
const FOLIOS_LIMIT: Bytes = Bytes::gib(4);
/// Maximum number of frames whose flags are read in one call.
const FRAMES_AT_ONCE: usize = 1 << 12;

/// A regular file with content, open for reading.
#[derive(Debug)]
pub struct PageCacheFile {
    path: PathBuf,
    file: File,
    len: usize,
}

impl PageCacheFile {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be opened, is of another kind, or is empty.
    pub fn open(path: &Path) -> Result<Self, SysError> {
        let (file, len) = file_view::open_regular(path)?;
        Ok(Self { path: path.to_owned(), file, len })
    }

    /// Its path, as given.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The open file.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes(self.len as u64)
    }

    /// Maps all of it, in a new mapping.
    ///
    /// # Errors
    /// When it cannot be mapped.
    pub fn view(&self) -> Result<FileView, SysError> {
        FileView::map(&self.file, self.len)
    }

    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// What the cache holds of it now.
    ///
    /// # Errors
    /// When it cannot be mapped or examined.
    pub fn look(&self) -> Result<CacheState, SysError> {
        let view = self.view()?;
        let (slots, cached_bytes) = self.entered_slots(&view)?;
        let mut counts = self.counts().into();
        if cached_bytes != Fact::Known(Bytes(0)) && counts_nothing(&counts) {
            // An overlay has a separate cache, which is empty: the pages belong to another file.
            counts =
                Fact::missing("pages of this file are cached, but the kernel reports no counts");
        }
        let (huge_bytes, folios) = (view.huge_bytes().into(), self.folios(&view));
        Ok(CacheState { cached_bytes, huge_bytes, slots, counts, folios })
    }

    /// Only the slots of that.
    ///
    /// # Errors
    /// When it cannot be mapped or examined.
    pub fn slots(&self) -> Result<SlotMap, SysError> {
        self.entered_slots(&self.view()?).map(|(slots, _)| slots)
    }

    /// The counts of `cachestat`.
    ///
    /// # Errors
    /// When the call is not permitted or not available.
    pub fn counts(&self) -> Result<CacheCounts, SysError> {
        cachestat::read(&self.file, &self.name())
    }

    /// The file system that it is on.
    ///
    /// # Errors
    /// When the call is refused.
    pub fn file_system(&self) -> Result<file_system::FileSystem, SysError> {
        file_system::look_up(&self.file, &self.name())
    }

    /// Processes that map it, except this one.
    ///
    /// # Errors
    /// When the processes cannot be listed.
    pub fn holders(&self) -> Result<FileHolders, SysError> {
        holders::find(&HolderSearch::for_mapping(&self.view()?.listed()?))
    }

    /// Drops what it can from the cache (`POSIX_FADV_DONTNEED`): pages that are on disk and not mapped. The
    /// kernel also starts to write dirty pages, so callers check for those before.
    ///
    /// # Errors
    /// When the file does not accept advice.
    pub fn drop_cached(&self) -> Result<(), SysError> {
        self.advise(Advice::DontNeed, "POSIX_FADV_DONTNEED")
    }

    /// Drops a part that no process maps, and reads it back in huge folios if the file system has them.
    ///
    /// # Errors
    /// When it cannot be mapped or read, or the file does not accept advice.
    pub fn reread_huge(&self, part: &Range<u64>) -> Result<(), SysError> {
        let view = self.view()?;
        view.read_nothing_ahead()?;
        view.ask_for_huge()?;
        let len = part.end.saturating_sub(part.start);
        rustix::fs::fadvise(&self.file, part.start, NonZeroU64::new(len), Advice::DontNeed)
            .map_err(|e| SysError::new("posix_fadvise POSIX_FADV_DONTNEED", self.name(), e))?;
        let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        view.enter(size(part.start), size(len))
    }

    pub(crate) fn advise(&self, advice: Advice, name: &str) -> Result<(), SysError> {
        rustix::fs::fadvise(&self.file, 0, None, advice)
            .map_err(|e| SysError::new("posix_fadvise", format!("{name}, {}", self.name()), e))
    }

    /// The slots, with the huge ones marked, and the number of cached bytes.
    fn entered_slots(&self, view: &FileView) -> Result<(SlotMap, Fact<Bytes>), SysError> {
        view.read_nothing_ahead()?;
        let (mut slots, cached) = if is_answered_for(&self.file) {
            let (slots, cached) = self.resident_slots(view)?;
            (slots, Fact::Known(cached))
        } else {
            let why = "the kernel shows it only to accounts that own the file or may write it";
            (self.asked_slots()?, Fact::missing(why))
        };
        mark_huge(view, &mut slots);
        Ok((SlotMap(slots), cached))
    }

    /// The slots according to `mincore`, and the number of cached bytes.
    fn resident_slots(&self, view: &FileView) -> Result<(Vec<CacheSlot>, Bytes), SysError> {
        let page = page_size::base().bytes() as usize;
        let slot_pages = slot_len() / page;
        let (mut slots, mut cached) = (Vec::new(), 0_u64);
        for (window, is_empty) in self.counted_windows(view) {
            if is_empty {
                slots.extend(repeat_n(CacheSlot::Absent, window.len().div_ceil(slot_len())));
                continue;
            }
            let pages = view.resident_pages(window.start, window.len())?;
            cached += pages.iter().filter(|page| **page).count() as u64;
            slots.extend(pages.chunks(slot_pages).map(|pages| match pages {
                pages if pages.iter().all(|page| *page) => CacheSlot::Whole,
                pages if pages.iter().any(|page| *page) => CacheSlot::Part,
                _ => CacheSlot::Absent,
            }));
        }
        Ok((slots, Bytes(cached * page as u64)))
    }

    /// The windows of a view of the whole file. The flag is true if `cachestat` says that the window has no
    /// cached page. It saves time: `mincore` checks each page separately, which takes minutes for a sparse
    /// file of a terabyte.
    pub(crate) fn counted_windows(
        &self,
        view: &FileView,
    ) -> impl Iterator<Item = (Range<usize>, bool)> {
        let is_told = self.file_system().is_ok_and(|system| system.counts_own_pages);
        view.windows().map(move |window| {
            let (start, len) = (Bytes(window.start as u64), Bytes(window.len() as u64));
            let counts = || cachestat::of_range(&self.file, start, len, "a file");
            // An evicted page may still be found on its way to swap.
            let nothing =
                |counts: CacheCounts| counts.cached_bytes.max(counts.evicted_bytes).0 == 0;
            let is_empty = is_told && counts().is_ok_and(nothing);
            (window, is_empty)
        })
    }

    /// The slots, by whether their first page can be read without waiting.
    fn asked_slots(&self) -> Result<Vec<CacheSlot>, SysError> {
        self.read_nothing_ahead()?;
        let offsets = (0..self.len).step_by(slot_len()).map(|offset| offset as u64);
        let cached = are_cached(&self.file, offsets);
        self.advise(Advice::Normal, "POSIX_FADV_NORMAL")?;
        let slot = |is_cached| if is_cached { CacheSlot::Asked } else { CacheSlot::Absent };
        Ok(cached.into_iter().map(slot).collect())
    }

    /// The folios, from the flags of their frames.
    fn folios(&self, view: &FileView) -> Fact<Vec<FolioShare>> {
        if self.size() > FOLIOS_LIMIT {
            return Fact::missing(format!("not examined in files above {FOLIOS_LIMIT}"));
        }
        match pagemap::shows_frames() {
            Ok(true) => self.cached_folios(view).into(),
            Ok(false) => Fact::missing("only root can see folio sizes"),
            Err(error) => Fact::missing(error.to_string()),
        }
    }

    fn cached_folios(&self, view: &FileView) -> Result<Vec<FolioShare>, SysError> {
        let page = page_size::base().bytes() as usize;
        for window in view.windows() {
            for run in runs(&view.resident_pages(window.start, window.len())?) {
                view.enter(window.start + run.start * page, run.len() * page)?;
            }
        }
        let frames = view.frames()?;
        let mut flags = Vec::with_capacity(frames.len());
        for run in consecutive(&frames) {
            match frames[run.start] {
                Some(first) => {
                    flags.extend(page_frames::flags(first, run.len())?.into_iter().map(Some))
                }
                None => flags.extend(repeat_n(None, run.len())),
            }
        }
        Ok(shares(&flags))
    }
}

fn counts_nothing(counts: &Fact<CacheCounts>) -> bool {
    counts.known().is_some_and(|counts| counts.cached_bytes == Bytes(0))
}

/// Length of a slot in bytes.
fn slot_len() -> usize {
    usize::try_from(page_size::huge().bytes()).unwrap_or(usize::MAX)
}

/// Enters a page of each slot that may be huge, and marks the huge ones. Before Linux 6.7 the kernel does not
/// report which ones are huge; then either all slots are marked or none.
fn mark_huge(view: &FileView, slots: &mut [CacheSlot]) {
    for (at, slot) in slots.iter().enumerate() {
        if matches!(slot, CacheSlot::Whole | CacheSlot::Asked) {
            // A page that cannot be entered is not mapped huge, and is reported so.
            let _left_small = view.enter(at * slot_len(), 1);
        }
    }
    let found = view.huge_ranges();
    for range in found.unwrap_or_else(|_| all_or_none(view, slots).into_iter().collect()) {
        let (first, end) = (range.start as usize / slot_len(), range.end as usize / slot_len());
        slots.iter_mut().take(end).skip(first).for_each(|slot| *slot = CacheSlot::Huge);
    }
}

/// The range of all slots, if the sum in `smaps` shows that all are huge.
fn all_or_none(view: &FileView, slots: &[CacheSlot]) -> Option<Range<u64>> {
    let is_entered = |slot: &CacheSlot| matches!(slot, CacheSlot::Whole | CacheSlot::Asked);
    let whole = (view.len() / slot_len() * slot_len()) as u64;
    let is_all = slots.iter().all(is_entered)
        && view.huge_bytes().is_ok_and(|huge| huge > Bytes(0) && huge.0 >= whole);
    is_all.then_some(0..whole)
}

/// The ranges of `flags` that are set.
pub(crate) fn runs(flags: &[bool]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    for run in flags.chunk_by(|a, b| a == b) {
        if run[0] {
            found.push(at..at + run.len());
        }
        at += run.len();
    }
    found
}

/// Runs of pages with consecutive frames, limited to some thousand pages each.
fn consecutive(frames: &[Option<u64>]) -> Vec<Range<usize>> {
    let is_next = |a: &Option<u64>, b: &Option<u64>| match (a, b) {
        (Some(a), Some(b)) => a.checked_add(1) == Some(*b),
        (None, None) => true,
        _ => false,
    };
    let mut found = Vec::new();
    let mut at = 0;
    for run in frames.chunk_by(is_next) {
        for piece in run.chunks(FRAMES_AT_ONCE) {
            found.push(at..at + piece.len());
            at += piece.len();
        }
    }
    found
}

/// Bytes in folios of each size, from the flags of pages in file order. A page without flags is not mapped.
fn shares(flags: &[Option<FrameFlags>]) -> Vec<FolioShare> {
    let mut pages_by_size: BTreeMap<u64, u64> = BTreeMap::new();
    let continues = |_: &Option<FrameFlags>, next: &Option<FrameFlags>| {
        next.is_some_and(|flags| flags.is_tail())
    };
    for folio in flags.chunk_by(continues).filter(|folio| folio[0].is_some()) {
        *pages_by_size.entry(folio.len() as u64).or_default() += folio.len() as u64;
    }
    let page = page_size::base().bytes();
    let share = |(size, pages): (u64, u64)| FolioShare {
        folio_bytes: Bytes(size * page),
        total_bytes: Bytes(pages * page),
    };
    pages_by_size.into_iter().map(share).collect()
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::io::Write;

    /// A file of whole pages, written page by page and synced to disk.
    fn written(pages: u64) -> (tempfile::TempDir, PageCacheFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = File::create(&path).unwrap();
        let page = vec![7; page_size::base().bytes() as usize];
        for _ in 0..pages {
            file.write_all(&page).unwrap();
        }
        file.sync_all().unwrap();
        let opened = PageCacheFile::open(&path).unwrap();
        (dir, opened)
    }

    #[test]
    fn what_was_written_page_by_page_is_there_in_small_folios_until_it_is_dropped() {
        let (_dir, file) = written(20);
        let state = file.look().unwrap();
        assert_eq!(state.cached_bytes, Fact::Known(file.size()));
        assert_eq!(
            (state.slots.0.as_slice(), state.huge_bytes),
            (&[CacheSlot::Whole][..], Fact::Known(Bytes(0)))
        );
        match &state.folios {
            Fact::Known(folios) => {
                let total: u64 = folios.iter().map(|share| share.total_bytes.0).sum();
                assert_eq!(total, file.size().0, "{folios:?}");
            }
            Fact::Missing(why) => println!("SKIP folios: {why}"),
        }
        file.drop_cached().unwrap();
        let after = file.look().unwrap();
        match after.cached_bytes {
            Fact::Known(Bytes(0)) => assert_eq!(after.slots.0, [CacheSlot::Absent]),
            left => println!("SKIP dropping: this file system keeps {left:?}"),
        }
    }

    #[test]
    fn nobody_else_holds_a_file_of_our_own() {
        let (_dir, file) = written(1);
        let kept = file.view().unwrap();
        assert_eq!(file.holders().unwrap().seen, []);
        drop(kept);
    }

    #[test]
    fn runs_of_pages() {
        assert_eq!(runs(&[true, true, false, true]), [0..2, 3..4]);
        assert!(runs(&[false, false]).is_empty() && runs(&[]).is_empty());
    }

    #[test]
    fn frames_are_asked_for_in_runs() {
        let found = consecutive(&[Some(7), Some(8), None, None, Some(9), Some(11)]);
        assert_eq!(found, [0..2, 2..4, 4..5, 5..6]);
        let long: Vec<Option<u64>> = (0..FRAMES_AT_ONCE as u64 + 1).map(Some).collect();
        assert_eq!(consecutive(&long), [0..FRAMES_AT_ONCE, FRAMES_AT_ONCE..FRAMES_AT_ONCE + 1]);
    }

    #[test]
    fn folios_begin_at_heads_and_single_pages() {
        let (single, head, tail) = (FrameFlags(0), FrameFlags(1 << 15), FrameFlags(1 << 16));
        let flags =
            [Some(single), Some(head), Some(tail), None, Some(head), Some(tail), Some(single)];
        let page = page_size::base().bytes();
        let share = |size, total| FolioShare {
            folio_bytes: Bytes(size * page),
            total_bytes: Bytes(total * page),
        };
        assert_eq!(shares(&flags), [share(1, 2), share(2, 4)]);
    }
}
