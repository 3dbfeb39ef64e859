//! Keeps files in the page cache for the duration of a session.
//!
//! If the system pages out idle memory (DAMON schemes, proactive reclaim), the page cache decays within
//! minutes. An entry in a page table counts as use. A mapping that is never touched decays almost as fast as
//! no mapping; one whose pages are entered once stays. A [`CacheKeeper`] maps a file and makes the kernel enter
//! the pages that are cached already (`mincore(2)`, then `MADV_POPULATE_READ`). Nothing is read from a
//! device, except single missing pages of files of others. The mapping itself is never touched, so a file
//! that is shortened meanwhile causes an error of the call instead of `SIGBUS`. For files of others that this
//! account may not write, `mincore` calls every page cached. Those are probed page by page (see
//! [`page_probe`](crate::page_probe)).
//!
//! Only regular files are opened: opening a FIFO waits for its other end, and opening a device may have an
//! effect. Cost: one mapping per file, 8 bytes of page table and about 50 ns per page. No memory beyond the
//! limit given to [`CacheKeeper::new`] is used.
//!
//! Not seen: reclaim under memory pressure, which takes mapped pages too. Before Linux 5.14 nothing is kept.

use crate::cached_file::runs;
use crate::file_view::{FileView, is_answered_for, open_regular};
use crate::page_probe::are_cached;
use crate::page_size;
use pagewise_model::Bytes;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Mappings that are held and never read.
#[derive(Debug)]
pub struct CacheKeeper {
    room: Bytes,
    held: Vec<KeptView>,
}

impl CacheKeeper {
    /// A keeper for at most `room` bytes of cached pages.
    #[must_use]
    pub const fn new(room: Bytes) -> Self {
        Self { room, held: Vec::new() }
    }

    /// Holds what the page cache has of `path`. The file must be regular, readable, not empty, and fit the
    /// remaining room. Returns whether all of it is held.
    pub fn hold(&mut self, path: &Path) -> bool {
        let Some(mut held) =
            open_regular(path).ok().and_then(|(file, len)| KeptView::map(file, len))
        else {
            return false;
        };
        let (entered, whole) = held.enter_cached(self.room);
        self.room = Bytes(self.room.0.saturating_sub(entered.0));
        if entered > Bytes(0) {
            held.entered = entered;
            self.held.push(held);
        }
        whole && entered > Bytes(0)
    }

    /// Releases the file that `path` refers to now, under whichever name it was held: mapped pages cannot be
    /// dropped from the cache.
    pub fn release(&mut self, path: &Path) {
        let Some(identity) = std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
        else {
            return;
        };
        let (gone, kept) = std::mem::take(&mut self.held)
            .into_iter()
            .partition::<Vec<KeptView>, _>(|held| held.identity == identity);
        let freed: u64 = gone.iter().map(|held| held.entered.0).sum();
        self.room = Bytes(self.room.0.saturating_add(freed));
        self.held = kept;
    }
}

#[derive(Debug)]
struct KeptView {
    view: FileView,
    /// The file, if `mincore` does not answer for it.
    foreign: Option<File>,
    /// Device and inode.
    identity: (u64, u64),
    entered: Bytes,
}

impl KeptView {
    fn map(file: File, len: usize) -> Option<Self> {
        let view = FileView::map(&file, len).ok()?;
        let _hint = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random);
        let found = file.metadata().ok()?;
        let foreign = (!is_answered_for(&file)).then_some(file);
        Some(Self { view, foreign, identity: (found.dev(), found.ino()), entered: Bytes(0) })
    }

    /// Enters cached pages into the page table, at most `room` bytes. Returns how many bytes, and whether
    /// that is all.
    fn enter_cached(&self, room: Bytes) -> (Bytes, bool) {
        let page = page_size::base().bytes() as usize;
        let mut entered = 0;
        for window in self.view.windows() {
            let Some(cached) = self.cached_pages(window.clone()) else {
                return (Bytes(entered), false);
            };
            for run in runs(&cached) {
                let (at, len) = (window.start + run.start * page, run.len() * page);
                if entered + len as u64 > room.0 || self.view.enter(at, len).is_err() {
                    return (Bytes(entered), false);
                }
                entered += len as u64;
            }
        }
        (Bytes(entered), true)
    }

    /// Which pages of one window are cached.
    fn cached_pages(&self, window: Range<usize>) -> Option<Vec<bool>> {
        if let Some(file) = &self.foreign {
            let pages = window.step_by(page_size::base().bytes() as usize);
            return Some(are_cached(file, pages.map(|at| at as u64)));
        }
        self.view.resident_pages(window.start, window.len()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{own_pid, smaps};
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    /// Resident bytes of all mappings of `path`; `None` if there is no mapping.
    fn resident(path: &Path) -> Option<Bytes> {
        let all = smaps::read(own_pid()).unwrap();
        let of_file = all.iter().filter(|e| Path::new(&e.mapping.path) == path);
        of_file.map(|e| e.residency.rss).reduce(|a, b| Bytes(a.0 + b.0))
    }

    fn room() -> Bytes {
        Bytes::mib(64)
    }

    #[test]
    fn cached_pages_are_entered_while_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        let len = Bytes::kib(300);
        std::fs::write(&path, vec![7; len.0 as usize]).unwrap();
        let mut keeper = CacheKeeper::new(room());
        assert!(keeper.hold(&path), "a file that was just written is in the cache");
        let pages = len.0.next_multiple_of(page_size::base().bytes());
        assert_eq!(resident(&path), Some(Bytes(pages)));
        std::fs::write(&path, []).unwrap();
        drop(keeper);
        assert_eq!(resident(&path), None);
    }

    #[test]
    fn what_is_not_cached_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("sparse");
        std::fs::write(&path, vec![7; Bytes::kib(64).0 as usize]).unwrap();
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(Bytes::mib(512).0).unwrap();
        let mut keeper = CacheKeeper::new(room());
        assert!(keeper.hold(&path), "only what is cached counts against the room");
        let entered = resident(&path).unwrap();
        assert!(entered >= Bytes::kib(64) && entered <= Bytes::mib(64), "{entered}");
    }

    #[test]
    fn no_more_than_the_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        std::fs::write(&path, vec![7; Bytes::kib(192).0 as usize]).unwrap();
        let mut keeper = CacheKeeper::new(Bytes::kib(256));
        assert!(keeper.hold(&path));
        assert!(!keeper.hold(&path), "64 KiB are left");
        assert_eq!(resident(&path), Some(Bytes::kib(192)));
    }

    #[test]
    fn what_is_released_is_mapped_no_more_and_leaves_its_room() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let [path, other, link] = ["file", "other", "link"].map(|name| dir.join(name));
        std::fs::write(&path, vec![7; Bytes::kib(192).0 as usize]).unwrap();
        std::fs::write(&other, vec![7; Bytes::kib(64).0 as usize]).unwrap();
        std::fs::hard_link(&path, &link).unwrap();
        let mut keeper = CacheKeeper::new(Bytes::kib(256));
        assert!(keeper.hold(&path) && keeper.hold(&other));
        assert!(!keeper.hold(&path), "there is no room for it twice");
        keeper.release(&link);
        keeper.release(&dir.join("nonexistent"));
        assert_eq!((resident(&path), resident(&other)), (None, Some(Bytes::kib(64))));
        assert!(keeper.hold(&path));
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let empty = dir.path().join("empty");
        std::fs::write(&empty, []).unwrap();
        let mut keeper = CacheKeeper::new(room());
        // Without a writer, a plain open of the FIFO would wait for ever.
        assert!(!keeper.hold(&fifo));
        for path in [Path::new("/dev/zero"), Path::new("/"), Path::new("/nonexistent"), &empty] {
            assert!(!keeper.hold(path), "{path:?}");
        }
    }
}
