//! Whether a page is in the page cache, for files of which `mincore(2)` says nothing: a read of one byte that
//! must not wait (`preadv2(2)`, RWF_NOWAIT).
//!
//! If the page is missing, the kernel starts to read it, and a fast device may deliver it within the call. So
//! the answer also takes into account how much this thread requested from devices meanwhile (`getrusage(2)`).
//!
//! Some cached pages are marked: a read of one starts read-ahead of the pages behind, even with
//! `POSIX_FADV_RANDOM` (mm/filemap.c, `filemap_get_pages`). So the last page is probed first.
//!
//! Not seen: a page that the device delivers within the call, if the descriptor has no `POSIX_FADV_RANDOM` (a
//! missing page then looks like a marked one) or the kernel does not account for it (file systems without a
//! device, no `CONFIG_TASK_IO_ACCOUNTING`). Cost: 1 us.

use crate::own_usage;
use crate::page_size;
use pagewise_model::Bytes;
use rustix::io::{IoSliceMut, ReadWriteFlags};
use std::os::fd::AsFd;

/// Whether the page at `offset` was in the page cache. If not, the kernel may start to read it.
#[must_use]
pub fn is_cached(file: &impl AsFd, offset: u64) -> bool {
    is_cached_before(file, offset, ReadWriteFlags::NOWAIT)
}

/// [`is_cached`] for each of these ascending offsets, probed from the last to the first.
#[must_use]
pub fn are_cached(file: &impl AsFd, offsets: impl DoubleEndedIterator<Item = u64>) -> Vec<bool> {
    let mut cached: Vec<bool> = offsets.rev().map(|offset| is_cached(file, offset)).collect();
    cached.reverse();
    cached
}

fn is_cached_before(file: &impl AsFd, offset: u64, flags: ReadWriteFlags) -> bool {
    let requested = || own_usage::thread().map_or(Bytes(0), |usage| usage.requested_from_devices);
    let before = requested();
    let mut byte = [0];
    let read = rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, flags);
    let requested = requested().0.saturating_sub(before.0);
    // More than the page itself: it was there and marked.
    let is_delivered = (1..=page_size::base().bytes()).contains(&requested);
    read.is_ok_and(|bytes| bytes > 0) && !is_delivered
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::cached_file::PageCacheFile;

    #[test]
    fn what_the_device_delivers_within_the_call_was_not_cached() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let page = page_size::base().bytes();
        std::fs::write(&path, vec![7; 64 * page as usize]).unwrap();
        let file = PageCacheFile::open(&path).unwrap();
        file.file().sync_all().unwrap();
        file.drop_cached().unwrap();
        file.read_nothing_ahead().unwrap();
        let before = own_usage::thread().unwrap().requested_from_devices;
        // These reads wait, so the device always delivers within the call.
        let waiting =
            |number: u64| is_cached_before(file.file(), number * page, ReadWriteFlags::empty());
        let answers: Vec<bool> = (0..64).map(waiting).collect();
        if own_usage::thread().unwrap().requested_from_devices == before {
            return println!("SKIP what_the_device_delivers: reading is not accounted for here");
        }
        assert_eq!(answers, [false; 64]);
        assert!((0..64).all(|number| is_cached(file.file(), number * page)));
    }
}
