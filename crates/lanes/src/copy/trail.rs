//! The trail of a file that is read or written past the page cache without the kernel's help. It knows what
//! lies behind the position and which of that was cached before, and drops the rest.

use super::calls::CopyCalls;
use crate::probe::cached;
use rustix::fs::Advice;
use rustix::io::Errno;
use std::num::NonZeroU64;
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// The cache is checked this far ahead of the position: further than the kernel reads ahead.
const AHEAD: u64 = 32 << 20;
/// Pages are dropped after every this many bytes read.
const READ_STEP: u64 = 1 << 20;
/// Pages are dropped after every this many bytes written.
const WRITE_STEP: u64 = 8 << 20;
/// A folio that reaches beyond the end of a range is not dropped with it, so each range begins this much earlier:
/// more than a folio has.
const FOLIO: u64 = 4 << 20;

/// The part of a file behind its position.
#[derive(Debug)]
pub(super) struct CacheTrail {
    /// Nothing before it is ours.
    start: u64,
    /// The file's length at the start: beyond it nothing was cached.
    length: u64,
    /// Ranges that were cached before, up to where was looked.
    kept: Vec<Range<u64>>,
    looked_to: u64,
    /// All before it is dropped.
    dropped_to: u64,
    /// Writing of all before it has begun.
    begun_to: u64,
}

impl CacheTrail {
    pub(super) fn begin(fd: BorrowedFd<'_>, is_appending: bool) -> Result<Self, Errno> {
        let length = u64::try_from(rustix::fs::fstat(fd)?.st_size).unwrap_or(0);
        let start = page_start(if is_appending { length } else { position(fd)? });
        let kept = Vec::new();
        Ok(Self { start, length, kept, looked_to: start, dropped_to: start, begun_to: start })
    }

    /// Records what is cached before the next call reads or writes anything.
    pub(super) fn look_ahead(&mut self, fd: BorrowedFd<'_>) {
        let Ok(position) = position(fd) else { return };
        let far = position.max(self.start).saturating_add(AHEAD);
        while self.looked_to < self.length.min(far) {
            let end = self.length.min(self.looked_to + AHEAD);
            match cached::cached_pages(fd, self.looked_to..end) {
                Ok(pages) => {
                    let starts = (self.looked_to..).step_by(page_len() as usize);
                    for (at, _) in starts.zip(pages).filter(|(_, is_cached)| *is_cached) {
                        self.keep(at..at + page_len());
                    }
                }
                // If the state is unknown, the pages are kept.
                Err(_) => self.keep(self.looked_to..end),
            }
            self.looked_to = end;
        }
    }

    fn keep(&mut self, range: Range<u64>) {
        match self.kept.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => self.kept.push(range),
        }
    }

    pub(super) fn passed_by_reading(&mut self, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let end = page_start(position(fd)?);
        if end >= self.dropped_to + READ_STEP {
            self.drop_to(fd, end);
        }
        Ok(())
    }

    pub(super) fn passed_by_writing(
        &mut self,
        calls: &impl CopyCalls,
        fd: BorrowedFd<'_>,
    ) -> Result<(), Errno> {
        let end = page_start(position(fd)?);
        if end >= self.begun_to + WRITE_STEP {
            self.bring_out(calls, fd, end)?;
            self.drop_to(fd, self.begun_to);
            self.begun_to = end;
        }
        Ok(())
    }

    /// Drops the remainder. If the file was written, it is first written back to the disk.
    pub(super) fn finish(
        &mut self,
        calls: &impl CopyCalls,
        fd: BorrowedFd<'_>,
        was_written: bool,
    ) -> Result<(), Errno> {
        let end = position(fd)?.next_multiple_of(page_len());
        if was_written {
            self.bring_out(calls, fd, end)?;
            self.begun_to = end;
            self.bring_out(calls, fd, end)?;
        }
        self.drop_to(fd, end);
        Ok(())
    }

    /// Begins to write back the part before `end`, and waits for the part that was begun the last time.
    fn bring_out(&self, calls: &impl CopyCalls, fd: BorrowedFd<'_>, end: u64) -> Result<(), Errno> {
        let parts = [(self.begun_to..end, false), (self.dropped_to..self.begun_to, true)];
        for (part, waits) in parts.into_iter().filter(|(part, _)| !part.is_empty()) {
            // A program that only closes the file would not see these errors any more. The others come from a
            // file system without the call.
            if let Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) =
                calls.write_out(fd, part, waits)
            {
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Drops all before `end` that was not cached at the start.
    fn drop_to(&mut self, fd: BorrowedFd<'_>, end: u64) {
        let from = self.dropped_to.saturating_sub(FOLIO).max(self.start);
        let mut at = from;
        for kept in self.kept.iter().filter(|kept| kept.end > from && kept.start < end) {
            drop_range(fd, at..kept.start);
            at = kept.end;
        }
        drop_range(fd, at..end);
        self.dropped_to = self.dropped_to.max(end);
        self.kept.retain(|kept| kept.end + FOLIO > end);
    }
}

/// A cache that stays fuller than necessary is no error of a copy.
fn drop_range(fd: BorrowedFd<'_>, range: Range<u64>) {
    if let Some(len) = range.end.checked_sub(range.start).and_then(NonZeroU64::new) {
        let _refused = rustix::fs::fadvise(fd, range.start, Some(len), Advice::DontNeed);
    }
}

pub(super) fn position(fd: BorrowedFd<'_>) -> Result<u64, Errno> {
    rustix::fs::seek(fd, rustix::fs::SeekFrom::Current(0))
}

pub(super) fn page_len() -> u64 {
    rustix::param::page_size() as u64
}

fn page_start(at: u64) -> u64 {
    at - at % page_len()
}
