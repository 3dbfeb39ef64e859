//! What the page cache holds of a file, slot by slot, and on which pages a fresh mapping of it is.
//!
//! Asked in the order in which asking changes least: `mincore(2)` over a mapping that is not touched,
//! then one page of each slot that is cached whole is entered (a folio of a huge page is mapped whole by
//! that), then `PAGEMAP_SCAN` says which slots are mapped huge, and `smaps` how much
//! (`FilePmdMapped`). With the right to see frames, all cached pages are entered and the flags of their
//! frames (`/proc/kpageflags`) tell where folios begin and end.
//!
//! Of files that this account neither owns nor may write, `mincore` does not tell: there one page of
//! each slot is asked for with a read that must not wait, after `POSIX_FADV_RANDOM`, so that what is not
//! there begins to be read by that page alone. Nothing else is read from a device: the mapping is
//! advised not to read ahead (`MADV_RANDOM`).
//!
//! Not seen: folios of middle size without the right to see frames. Cost: 2 ns a page and 1 us a slot;
//! frames 60 ns a page, for files up to [`FOLIOS_LIMIT`].

use crate::error::SysError;
use crate::file_view::{self, FileView, is_answered_for, is_cached};
use crate::proc::holders::{self, HolderSearch};
use crate::{cachestat, file_system, page_frames, page_size, pagemap};
use pagewise_model::address::FrameFlags;
use pagewise_model::cache::{CacheCounts, CacheState, FolioShare, Holders, Slot, SlotMap};
use pagewise_model::{Bytes, Fact};
use rustix::fs::Advice;
use std::collections::BTreeMap;
use std::fs::File;
use std::iter::repeat_n;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Folios are not looked at in larger files.
const FOLIOS_LIMIT: Bytes = Bytes::gib(4);
/// Frames whose flags are asked for in one call, at most.
const FRAMES_AT_ONCE: usize = 1 << 12;

/// A regular file with content, open for reading.
#[derive(Debug)]
pub struct CachedFile {
    path: PathBuf,
    file: File,
    len: usize,
}

impl CachedFile {
    /// Opens it.
    ///
    /// # Errors
    /// When it cannot be opened, is of another kind, or is empty.
    pub fn open(path: &Path) -> Result<Self, SysError> {
        let (file, len) = file_view::open_regular(path)?;
        Ok(Self { path: path.to_owned(), file, len })
    }

    /// Where it is, as it was given.
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

    /// A fresh mapping of all of it.
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
    /// When it cannot be mapped or looked at.
    pub fn look(&self) -> Result<CacheState, SysError> {
        let view = self.view()?;
        let (slots, cached_bytes) = self.entered_slots(&view)?;
        let mut counts = self.counts().into();
        if cached_bytes != Fact::Known(Bytes(0)) && counts_nothing(&counts) {
            // An overlay has a cache of its own, which is empty: the pages are those of another file.
            counts =
                Fact::missing("pages of this file are cached, but the kernel reports no counts");
        }
        let (huge_bytes, folios) = (view.huge_bytes().into(), self.folios(&view));
        Ok(CacheState { cached_bytes, huge_bytes, slots, counts, folios })
    }

    /// Of that the slots alone.
    ///
    /// # Errors
    /// When it cannot be mapped or looked at.
    pub fn slots(&self) -> Result<SlotMap, SysError> {
        self.entered_slots(&self.view()?).map(|(slots, _)| slots)
    }

    /// What `cachestat` counts.
    ///
    /// # Errors
    /// Where it is not allowed or not there.
    pub fn counts(&self) -> Result<CacheCounts, SysError> {
        cachestat::read(&self.file, &self.name())
    }

    /// The file system that it lies on.
    ///
    /// # Errors
    /// When the call is refused.
    pub fn file_system(&self) -> Result<file_system::FileSystem, SysError> {
        file_system::look_up(&self.file, &self.name())
    }

    /// Who maps it, this process left out.
    ///
    /// # Errors
    /// When the processes cannot be listed.
    pub fn holders(&self) -> Result<Holders, SysError> {
        holders::find(&HolderSearch::for_mapping(&self.view()?.listed()?))
    }

    /// Drops what can be dropped of it from the cache (`POSIX_FADV_DONTNEED`): pages that are on disk and
    /// that nobody maps. The kernel begins to write what is dirty, so that is looked at before.
    ///
    /// # Errors
    /// When the file takes no advice.
    pub fn drop_cached(&self) -> Result<(), SysError> {
        self.advise(Advice::DontNeed, "POSIX_FADV_DONTNEED")
    }

    pub(crate) fn advise(&self, advice: Advice, name: &str) -> Result<(), SysError> {
        rustix::fs::fadvise(&self.file, 0, None, advice)
            .map_err(|e| SysError::new("posix_fadvise", format!("{name}, {}", self.name()), e))
    }

    /// The slots, those mapped huge marked, and how much is cached.
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

    /// The slots by what `mincore` says, and how much is cached.
    fn resident_slots(&self, view: &FileView) -> Result<(Vec<Slot>, Bytes), SysError> {
        let page = page_size::base().bytes() as usize;
        let slot_pages = slot_len() / page;
        let (mut slots, mut cached) = (Vec::new(), 0_u64);
        for (window, is_empty) in self.counted_windows(view) {
            if is_empty {
                slots.extend(repeat_n(Slot::Absent, window.len().div_ceil(slot_len())));
                continue;
            }
            let pages = view.resident_pages(window.start, window.len())?;
            cached += pages.iter().filter(|page| **page).count() as u64;
            slots.extend(pages.chunks(slot_pages).map(|pages| match pages {
                pages if pages.iter().all(|page| *page) => Slot::Whole,
                pages if pages.iter().any(|page| *page) => Slot::Part,
                _ => Slot::Absent,
            }));
        }
        Ok((slots, Bytes(cached * page as u64)))
    }

    /// The windows of a view of all of it, and whether `cachestat` counts no page in it, where it tells: `mincore`
    /// looks for each page alone, which takes minutes in a sparse file of a terabyte.
    pub(crate) fn counted_windows(
        &self,
        view: &FileView,
    ) -> impl Iterator<Item = (Range<usize>, bool)> {
        let is_told = self.file_system().is_ok_and(|system| system.counts_own_pages);
        view.windows().map(move |window| {
            let (start, len) = (Bytes(window.start as u64), Bytes(window.len() as u64));
            let counts = || cachestat::of_range(&self.file, start, len, "a file");
            // What was evicted may still be found on its way to swap.
            let nothing =
                |counts: CacheCounts| counts.cached_bytes.max(counts.evicted_bytes).0 == 0;
            let is_empty = is_told && counts().is_ok_and(nothing);
            (window, is_empty)
        })
    }

    /// The slots by whether their first page can be read without waiting.
    fn asked_slots(&self) -> Result<Vec<Slot>, SysError> {
        self.read_nothing_ahead()?;
        let asked = |offset: usize| match is_cached(&self.file, offset as u64) {
            true => Slot::Asked,
            false => Slot::Absent,
        };
        let slots = (0..self.len).step_by(slot_len()).map(asked).collect();
        self.advise(Advice::Normal, "POSIX_FADV_NORMAL")?;
        Ok(slots)
    }

    /// The folios, by the flags of their frames.
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

/// The length of a slot.
fn slot_len() -> usize {
    usize::try_from(page_size::huge().bytes()).unwrap_or(usize::MAX)
}

/// Enters a page of each slot that may be huge, and marks those that are; before Linux 6.7, which does not say
/// which those are, all or none.
fn mark_huge(view: &FileView, slots: &mut [Slot]) {
    for (at, slot) in slots.iter().enumerate() {
        if matches!(slot, Slot::Whole | Slot::Asked) {
            // What cannot be entered is not mapped huge, which is what is reported then.
            let _left_small = view.enter(at * slot_len(), 1);
        }
    }
    let found = view.huge_ranges();
    for range in found.unwrap_or_else(|_| all_or_none(view, slots).into_iter().collect()) {
        let (first, end) = (range.start as usize / slot_len(), range.end as usize / slot_len());
        slots.iter_mut().take(end).skip(first).for_each(|slot| *slot = Slot::Huge);
    }
}

/// Where all slots are huge by the sum of `smaps`, that range.
fn all_or_none(view: &FileView, slots: &[Slot]) -> Option<Range<u64>> {
    let is_entered = |slot: &Slot| matches!(slot, Slot::Whole | Slot::Asked);
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

/// Pages in order, cut where the next frame is not the one after, or after some thousand.
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

/// How much lies in folios of each size, from the flags of pages in the order of the file; a page
/// without flags is not mapped.
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

    /// A file of whole pages, written page by page and brought to disk.
    fn written(pages: u64) -> (tempfile::TempDir, CachedFile) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut file = File::create(&path).unwrap();
        let page = vec![7; page_size::base().bytes() as usize];
        for _ in 0..pages {
            file.write_all(&page).unwrap();
        }
        file.sync_all().unwrap();
        let opened = CachedFile::open(&path).unwrap();
        (dir, opened)
    }

    #[test]
    fn what_was_written_page_by_page_is_there_in_small_folios_until_it_is_dropped() {
        let (_dir, file) = written(20);
        let state = file.look().unwrap();
        assert_eq!(state.cached_bytes, Fact::Known(file.size()));
        assert_eq!(
            (state.slots.0.as_slice(), state.huge_bytes),
            (&[Slot::Whole][..], Fact::Known(Bytes(0)))
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
            Fact::Known(Bytes(0)) => assert_eq!(after.slots.0, [Slot::Absent]),
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
