//! Reads saved pages back into the page cache.
//!
//! Files are read in path order, pages in file order, in pieces of up to 128 KiB, which every device reads
//! whole. Pieces are requested (`posix_fadvise(2)`, WILLNEED) ahead of the one that is awaited by reading it,
//! so the device always has work and may reorder it. Only pages that `mincore(2)` reports missing are read.
//! For files of others it does not answer, and all pages are read.
//!
//! A file must be unchanged: length, modification time and inode. Nothing is read while other processes wait
//! for memory (pressure), nor beyond the bounds. What counts is what is cached after everything was read.
//!
//! Not seen: whether the restored cache displaced something that is needed more; the memory limit keeps that
//! small.

use super::{bytes, inode};
use crate::recache::is_pressed;
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::{clock, page_size};
use pagewise_model::cache::CacheOutcome;
use pagewise_model::cache_list::{CacheList, CacheRestore, ListedFile, PageRanges, RestoredFile};
use pagewise_model::{Bytes, Fact, Nanos};
use pagewise_tracee::read_ahead::modified;
use std::collections::VecDeque;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

/// Size of one request. A call reads ahead no more than the device's window, which is at least this.
const PIECE: Bytes = Bytes::kib(128);
/// Maximum requested ahead in bytes; below, in pieces and open files.
const AHEAD: Bytes = Bytes::mib(8);
const MOST_PIECES: usize = 2048;
const MOST_FILES: usize = 250;
/// Number of pauses per second if a rate is set.
const PAUSES_IN_A_SECOND: u64 = 8;
/// How often to check for the end of a pause; below, for memory pressure.
const WAIT: Duration = Duration::from_millis(20);
const PRESSURE_EVERY: Nanos = Nanos::secs(1);

/// Limits of a restore.
#[derive(Debug, Clone, Copy)]
pub struct RestoreBounds {
    /// Bytes per second; `None` for no limit.
    pub rate: Option<Bytes>,
    /// Total bytes.
    pub limit: Bytes,
}

/// Restores the listed pages until `is_over`. Reports progress to `see`.
pub fn restore(
    list: &CacheList,
    bounds: RestoreBounds,
    is_over: &dyn Fn() -> bool,
    see: &mut dyn FnMut(Bytes, Bytes),
) -> CacheRestore {
    let mut listed: Vec<&ListedFile> = list.files.iter().collect();
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    let files = listed.iter().map(|file| unread(file)).collect();
    let mut session = RestoreSession::new(bounds, files, is_over);
    let (all, mut done) = (Bytes(list.pages().saturating_mul(page_size::base().bytes())), Bytes(0));
    for (at, file) in listed.iter().enumerate() {
        if session.is_over() {
            break;
        }
        if let Err(why) = session.bring(at, file) {
            session.files[at].left_out = Some(why);
        }
        done += bytes(&file.pages);
        see(done, all);
    }
    session.flush();
    for (file, listed) in session.files.iter_mut().zip(&listed) {
        verify(file, listed);
    }
    CacheRestore {
        files: session.files,
        read_bytes: session.read,
        limit_bytes: bounds.limit,
        rate_bytes: bounds.rate,
        ended_early: session.ended_early,
        interrupted: is_over(),
    }
}

fn unread(listed: &ListedFile) -> RestoredFile {
    RestoredFile {
        path: listed.path.to_string_lossy().into_owned(),
        listed_bytes: bytes(&listed.pages),
        before_bytes: Fact::missing("not examined"),
        resident_bytes: Bytes(0),
        left_out: None,
    }
}

/// Counts the currently cached pages of a file.
fn verify(file: &mut RestoredFile, listed: &ListedFile) {
    if file.left_out.is_some() {
        return;
    }
    let cached = unchanged(listed)
        .and_then(|open| open.cached_among(&listed.pages).map_err(|e| e.source.to_string()));
    match cached {
        Ok(pages) => file.resident_bytes = bytes(&pages),
        Err(why) => file.left_out = Some(why),
    }
}

/// The file, if it is the saved one; otherwise how it differs.
fn unchanged(listed: &ListedFile) -> Result<PageCacheFile, String> {
    let file = PageCacheFile::open(&listed.path).map_err(|e| e.source.to_string())?;
    let changed = if file.size() != listed.size_bytes {
        Some("its length has changed")
    } else if inode(&file) != Some(listed.inode) {
        Some("it has been replaced")
    } else if modified(file.file()) != Some(listed.modified_unix_ns) {
        Some("it has been written")
    } else {
        None
    };
    changed.map_or(Ok(file), |how| Err(format!("{how} since the list was saved")))
}

/// A requested part of a file.
struct RequestedPiece {
    file: Rc<PageCacheFile>,
    /// Index of its file in the list.
    at: usize,
    offset: Bytes,
    length: Bytes,
}

/// Requested pieces that were not awaited yet, in order.
#[derive(Default)]
struct RequestedPieces {
    pieces: VecDeque<RequestedPiece>,
    size: Bytes,
    /// Number of files of these pieces; pieces of one file are adjacent.
    files: usize,
}

impl RequestedPieces {
    fn push(&mut self, piece: RequestedPiece) {
        self.files += usize::from(self.pieces.back().is_none_or(|last| last.at != piece.at));
        self.size += piece.length;
        self.pieces.push_back(piece);
    }

    fn pop(&mut self) -> Option<RequestedPiece> {
        let piece = self.pieces.pop_front()?;
        self.files -= usize::from(self.pieces.front().is_none_or(|next| next.at != piece.at));
        self.size = Bytes(self.size.0 - piece.length.0);
        Some(piece)
    }

    fn is_full(&self) -> bool {
        self.size > AHEAD || self.pieces.len() > MOST_PIECES || self.files > MOST_FILES
    }
}

struct RestoreSession<'a> {
    bounds: RestoreBounds,
    is_over: &'a dyn Fn() -> bool,
    files: Vec<RestoredFile>,
    ahead: RequestedPieces,
    buffer: Vec<u8>,
    start: Nanos,
    pressure_at: Nanos,
    /// Bytes requested in total; below, since the last pause.
    asked: Bytes,
    unpaused: Bytes,
    read: Bytes,
    ended_early: Option<String>,
}

impl<'a> RestoreSession<'a> {
    fn new(bounds: RestoreBounds, files: Vec<RestoredFile>, is_over: &'a dyn Fn() -> bool) -> Self {
        Self {
            bounds,
            is_over,
            files,
            ahead: RequestedPieces::default(),
            buffer: vec![0; PIECE.0 as usize],
            start: clock::now(),
            pressure_at: Nanos(0),
            asked: Bytes(0),
            unpaused: Bytes(0),
            read: Bytes(0),
            ended_early: None,
        }
    }

    fn is_over(&self) -> bool {
        self.ended_early.is_some() || (self.is_over)()
    }

    /// Reads the missing pages of a file.
    fn bring(&mut self, at: usize, listed: &ListedFile) -> Result<(), String> {
        let file = unchanged(listed)?;
        let failed = |error: pagewise_kernel::SysError| error.source.to_string();
        let known = file.known_among(&listed.pages).map_err(failed)?;
        let missing = match &known {
            Fact::Known(cached) => listed.pages.without(cached),
            Fact::Missing(_) => listed.pages.clone(),
        };
        self.files[at].before_bytes = known.map(|pages| bytes(&pages));
        if missing.count() == 0 {
            return Ok(());
        }
        file.read_nothing_ahead().map_err(failed)?;
        let file = Rc::new(file);
        for (offset, length) in pieces(&missing) {
            if self.is_over() {
                break;
            }
            self.ask_for(RequestedPiece { file: Rc::clone(&file), at, offset, length });
        }
        Ok(())
    }

    /// Requests a piece. Waits for earlier ones if too much is in transit.
    fn ask_for(&mut self, piece: RequestedPiece) {
        let length = piece.length;
        if self.asked + length > self.bounds.limit {
            let limit = self.bounds.limit;
            self.ended_early = Some(format!("the limit of {limit} was reached"));
            return;
        }
        self.asked += length;
        self.unpaused += length;
        piece.file.begin_reading(piece.offset, length);
        self.ahead.push(piece);
        while self.ahead.is_full() {
            self.read_next();
        }
        self.pause();
        self.look_at_pressure();
    }

    /// Waits for the oldest requested piece; false if there is none.
    fn read_next(&mut self) -> bool {
        let Some(piece) = self.ahead.pop() else { return false };
        let part = self.buffer.get_mut(..piece.length.0 as usize).unwrap_or_default();
        match piece.file.file().read_at(part, piece.offset.0) {
            Ok(read) => self.read += Bytes(read as u64),
            Err(error) => self.files[piece.at].left_out = Some(format!("cannot be read: {error}")),
        }
        true
    }

    /// Waits for all requested pieces.
    fn flush(&mut self) {
        while self.read_next() {}
    }

    /// Pauses until the rate permits more, if enough was requested since the last pause.
    fn pause(&mut self) {
        let Some(rate) = self.bounds.rate else { return };
        if self.unpaused.0 < rate.0 / PAUSES_IN_A_SECOND {
            return;
        }
        self.unpaused = Bytes(0);
        let due = self.start + Nanos::from_f64(self.asked.0 as f64 / rate.0.max(1) as f64 * 1e9);
        while !self.is_over() {
            let left = due.0.saturating_sub(clock::now().0);
            if left == 0 {
                return;
            }
            std::thread::sleep(Nanos(left).duration().min(WAIT));
        }
    }

    /// Stops if other processes wait for memory.
    fn look_at_pressure(&mut self) {
        let now = clock::now();
        if now < self.pressure_at {
            return;
        }
        self.pressure_at = now + PRESSURE_EVERY;
        if let Some(CacheOutcome::Refused { why, .. }) = is_pressed() {
            self.ended_early = Some(why);
        }
    }
}

/// Splits ranges of pages into pieces: offset and length of each.
fn pieces(pages: &PageRanges) -> impl Iterator<Item = (Bytes, Bytes)> {
    let page = page_size::base().bytes();
    let step = (PIECE.0 / page).max(1);
    pages.ranges().flat_map(move |range| {
        let end = range.end;
        let cut = range.clone().step_by(usize::try_from(step).unwrap_or(usize::MAX));
        cut.map(move |first| (Bytes(first * page), Bytes((end - first).min(step) * page)))
    })
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::saved_cache::save;
    use std::cell::Cell;
    use std::path::{Path, PathBuf};

    const PAGES: u64 = 128;

    /// A file of which pages 10 to 19 and the last are cached, and the list of that; none where the file
    /// system keeps all.
    fn saved(dir: &Path) -> Option<(PathBuf, CacheList)> {
        let page = page_size::base().bytes();
        let path = dir.join("file");
        std::fs::write(&path, vec![7; (PAGES * page - 5) as usize]).unwrap();
        let file = PageCacheFile::open(&path).unwrap();
        file.file().sync_all().unwrap();
        file.drop_cached().unwrap();
        file.read_nothing_ahead().unwrap();
        let mut bytes = vec![0; 10 * page as usize];
        file.file().read_exact_at(&mut bytes, 10 * page).unwrap();
        file.file().read_exact_at(&mut bytes[..1], (PAGES - 1) * page).unwrap();
        let list = save(std::slice::from_ref(&path), &|| false, &mut |_| {}).list;
        file.drop_cached().unwrap();
        if file.cached_pages().unwrap().count() > 0 {
            println!("SKIP restore: this file system keeps its pages");
            return None;
        }
        Some((path, list))
    }

    fn cached(path: &Path) -> PageRanges {
        PageCacheFile::open(path).unwrap().cached_pages().unwrap()
    }

    fn bounds(limit: Bytes) -> RestoreBounds {
        RestoreBounds { rate: None, limit }
    }

    #[test]
    fn pieces_cover_all_ranges() {
        let page = page_size::base().bytes();
        let step = PIECE.0 / page;
        let found: Vec<_> =
            pieces(&PageRanges::merged([1..step + 3, step + 9..step + 10])).collect();
        let at = |first: u64, pages: u64| (Bytes(first * page), Bytes(pages * page));
        assert_eq!(found, [at(1, step), at(step + 1, 2), at(step + 9, 1)]);
    }

    #[test]
    fn what_is_on_its_way_is_counted_in_bytes_and_files() {
        let dir = tempfile::tempdir().unwrap();
        let open = |name: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, "x").unwrap();
            Rc::new(PageCacheFile::open(&path).unwrap())
        };
        let (one, two) = (open("one"), open("two"));
        let piece = |file: &Rc<PageCacheFile>, at| RequestedPiece {
            file: Rc::clone(file),
            at,
            offset: Bytes(0),
            length: PIECE,
        };
        let mut ahead = RequestedPieces::default();
        for piece in [piece(&one, 0), piece(&one, 0), piece(&two, 1)] {
            ahead.push(piece);
        }
        assert_eq!((ahead.files, ahead.size), (2, Bytes(3 * PIECE.0)));
        let left =
            std::iter::from_fn(|| ahead.pop().map(|_| (ahead.files, ahead.size.0 / PIECE.0)));
        assert_eq!(left.collect::<Vec<_>>(), [(2, 2), (1, 1), (0, 0)]);
    }

    #[test]
    fn exactly_what_was_saved_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let Some((path, list)) = saved(dir.path()) else { return };
        assert_eq!(list.files[0].pages.ranges().collect::<Vec<_>>(), [10..20, PAGES - 1..PAGES]);
        let done = restore(&list, bounds(Bytes::mib(1)), &|| false, &mut |_, _| {});
        assert!(done.is_whole() && done.ended_early.is_none(), "{done:?}");
        assert_eq!(done.files[0].before_bytes, Fact::Known(Bytes(0)));
        assert_eq!(cached(&path), list.files[0].pages);
        let again = restore(&list, bounds(Bytes(0)), &|| false, &mut |_, _| {});
        assert!(again.is_whole() && again.read_bytes == Bytes(0), "{again:?}");
    }

    #[test]
    fn no_more_than_the_limit_and_nothing_after_a_stop() {
        let dir = tempfile::tempdir().unwrap();
        let Some((path, list)) = saved(dir.path()) else { return };
        let limit = Bytes(10 * page_size::base().bytes());
        let done = restore(&list, bounds(limit), &|| false, &mut |_, _| {});
        assert_eq!((done.resident(), done.read_bytes), (limit, limit));
        assert!(done.ended_early.unwrap().contains("limit"));
        assert_eq!(cached(&path).ranges().collect::<Vec<_>>(), std::slice::from_ref(&(10..20)));
        let seen = Cell::new(0);
        let stop = restore(&list, bounds(Bytes::mib(1)), &|| true, &mut |_, _| seen.set(1));
        assert!(stop.interrupted && stop.resident() == limit && seen.get() == 0, "{stop:?}");
    }

    #[test]
    fn a_changed_file_is_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let Some((path, mut list)) = saved(dir.path()) else { return };
        list.files[0].inode += 1;
        let done = restore(&list, bounds(Bytes::mib(1)), &|| false, &mut |_, _| {});
        assert!(done.files[0].left_out.as_ref().unwrap().contains("replaced"), "{done:?}");
        assert_eq!(cached(&path), PageRanges::default());
    }
}
