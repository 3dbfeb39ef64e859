//! Keeping files in the page cache for as long as a session lasts.
//!
//! Where something pages out idle memory (DAMON schemes, proactive reclaim), page cache decays
//! within minutes. What counts as use is an entry in a page table: a mapping that nobody has
//! touched decays nearly as fast as no mapping at all, one whose pages are entered once stays. A
//! [`Keeper`] maps a file and lets the kernel enter the pages that the cache holds already
//! (`mincore(2)`, then `MADV_POPULATE_READ`): nothing is read from a device, and a file that is
//! shortened meanwhile is an error of the call instead of `SIGBUS`, because the mapping itself is
//! never touched. Of files of others that this account may not write `mincore` calls every page cached;
//! those are asked for page by page with reads that must not wait (`preadv2(2)`, RWF_NOWAIT).
//!
//! Only regular files are opened: opening a FIFO waits for its other end, opening a device may do
//! something. Cost: one mapping per file, 8 bytes of page table and about 50 ns per page. No memory
//! of others is taken beyond the bound given to [`Keeper::new`].
//!
//! Not seen: reclaim under memory pressure, which takes mapped pages too. Before Linux 5.14
//! nothing is kept.

use crate::page_size;
use pagewise_model::Bytes;
use rustix::fs::{Mode, OFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::ffi::c_void;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Pages whose residency is asked for in one call.
const WINDOW: usize = 1 << 15;

/// Mappings that are held and never read.
#[derive(Debug)]
pub struct Keeper {
    room: Bytes,
    held: Vec<Held>,
}

impl Keeper {
    /// A keeper of at most `room` of cached pages.
    #[must_use]
    pub const fn new(room: Bytes) -> Self {
        Self { room, held: Vec::new() }
    }

    /// Holds what the page cache has of `path`, if it is a regular file that may be read, is not
    /// empty and fits the room that is left; says whether all of that is held.
    pub fn hold(&mut self, path: &Path) -> bool {
        let Some(held) = open_regular(path).and_then(|(file, len)| Held::map(file, len)) else {
            return false;
        };
        let (entered, whole) = held.enter_cached(self.room);
        self.room = Bytes(self.room.0.saturating_sub(entered.0));
        if entered > Bytes(0) {
            self.held.push(held);
        }
        whole && entered > Bytes(0)
    }
}

/// A regular file open for reading, and its length; `None` for all else, an empty one too.
#[must_use]
pub fn open_regular(path: &Path) -> Option<(File, usize)> {
    // Looked at before it is opened: the opening alone wakes the writer of a FIFO.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    // The name may lead elsewhere by now: no waiting, no terminal of ours, and looked at again.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    let len = usize::try_from(metadata.len()).ok()?;
    (metadata.is_file() && len > 0).then_some((file, len))
}

/// One mapping, unmapped when dropped.
#[derive(Debug)]
struct Held {
    start: *mut c_void,
    len: usize,
    /// The file, where `mincore` does not answer for it.
    foreign: Option<File>,
}

/// Whether `mincore` tells this account the truth about a file (mm/mincore.c, `can_do_mincore`).
fn is_answered_for(file: &File) -> bool {
    let user = rustix::process::geteuid();
    let is_own = file.metadata().is_ok_and(|found| found.uid() == user.as_raw());
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    user.is_root() || is_own || rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
}

impl Held {
    fn map(file: File, len: usize) -> Option<Self> {
        let (flags, prot) = (MapFlags::SHARED, ProtFlags::READ);
        // SAFETY: a fresh mapping at an address of the kernel's choice; nothing else refers to it.
        let start = unsafe { mmap(std::ptr::null_mut(), len, prot, flags, &file, 0) }.ok()?;
        let foreign = (!is_answered_for(&file)).then_some(file);
        Some(Self { start, len, foreign })
    }

    /// Enters cached pages into the page table, at most `room`: how much, and whether that is all.
    fn enter_cached(&self, room: Bytes) -> (Bytes, bool) {
        let page = page_size::base().bytes() as usize;
        let mut entered = 0;
        for first in (0..self.len.div_ceil(page)).step_by(WINDOW) {
            let Some(cached) = self.cached_pages(first * page) else {
                return (Bytes(entered), false);
            };
            for run in runs(&cached) {
                let bytes = (run.len() * page) as u64;
                if entered + bytes > room.0 || !self.enter((first + run.start) * page, run.len()) {
                    return (Bytes(entered), false);
                }
                entered += bytes;
            }
        }
        (Bytes(entered), true)
    }

    /// Which pages are in the cache, of one window from byte `offset` on.
    fn cached_pages(&self, offset: usize) -> Option<Vec<bool>> {
        let page = page_size::base().bytes() as usize;
        let len = (self.len - offset).min(WINDOW * page);
        if let Some(file) = &self.foreign {
            let pages = (offset..offset + len).step_by(page);
            return Some(pages.map(|at| is_cached(file, at as u64)).collect());
        }
        let mut bytes = vec![0_u8; len.div_ceil(page)];
        let from = self.start.wrapping_byte_add(offset);
        // SAFETY: the range is this mapping's own, `bytes` has one byte for each of its pages, is
        // alive and not otherwise referenced, and the kernel writes nothing else.
        let done = unsafe { libc::mincore(from, len, bytes.as_mut_ptr()) };
        (done == 0).then(|| bytes.into_iter().map(|b| b & 1 == 1).collect())
    }

    /// Enters `count` pages from byte `offset` on.
    fn enter(&self, offset: usize, count: usize) -> bool {
        let len = (count * page_size::base().bytes() as usize).min(self.len - offset);
        let from = self.start.wrapping_byte_add(offset);
        // SAFETY: the range is this mapping's own; the advice reads pages in and changes nothing.
        unsafe { madvise(from, len, Advice::LinuxPopulateRead) }.is_ok()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made in `map`, never handed out.
        let unmapped = unsafe { munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an owned mapping");
    }
}

/// Whether the byte at `offset` can be read without waiting for a device. Where it cannot, the kernel
/// may begin to read it.
#[must_use]
pub fn is_cached(file: &File, offset: u64) -> bool {
    let mut byte = [0];
    let mut into = [std::io::IoSliceMut::new(&mut byte)];
    rustix::io::preadv2(file, &mut into, offset, rustix::io::ReadWriteFlags::NOWAIT).is_ok()
}

/// The ranges of `flags` that are set.
fn runs(flags: &[bool]) -> Vec<std::ops::Range<usize>> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{own_pid, smaps};
    use rustix::fs::{CWD, FileType, mknodat};

    /// Resident part of all mappings of `path`; `None` where there is none.
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
        let mut keeper = Keeper::new(room());
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
        let mut keeper = Keeper::new(room());
        assert!(keeper.hold(&path), "only what is cached counts against the room");
        let entered = resident(&path).unwrap();
        assert!(entered >= Bytes::kib(64) && entered <= Bytes::mib(64), "{entered}");
    }

    #[test]
    fn no_more_than_the_room() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().canonicalize().unwrap().join("file");
        std::fs::write(&path, vec![7; Bytes::kib(192).0 as usize]).unwrap();
        let mut keeper = Keeper::new(Bytes::kib(256));
        assert!(keeper.hold(&path));
        assert!(!keeper.hold(&path), "64 KiB are left");
        assert_eq!(resident(&path), Some(Bytes::kib(192)));
    }

    #[test]
    fn only_regular_files_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RWXU, 0).unwrap();
        let empty = dir.path().join("empty");
        std::fs::write(&empty, []).unwrap();
        let mut keeper = Keeper::new(room());
        // Without a writer an ordinary open of the FIFO would wait for ever.
        assert!(!keeper.hold(&fifo));
        for path in [Path::new("/dev/zero"), Path::new("/"), Path::new("/nonexistent"), &empty] {
            assert!(!keeper.hold(path), "{path:?}");
        }
    }

    #[test]
    fn runs_of_pages() {
        assert_eq!(runs(&[true, true, false, true]), [0..2, 3..4]);
        assert!(runs(&[false, false]).is_empty() && runs(&[]).is_empty());
    }
}
