//! A file as memory: mapped shared, copied from or used in place, or written to by one owner.
//!
//! No reference into the mapping is ever given out. Other processes may write the file meanwhile, so words
//! are read by volatile accesses, and blocks are copied by address. A touch raises `SIGBUS` if its page
//! cannot be read back or the file has become shorter, so callers run in a separate process. Every range is
//! checked against the mapping first.

use super::vectors::{self, CopyInstruction};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MsyncFlags, ProtFlags};
use std::ffi::c_void;
use std::hint::black_box;
use std::os::fd::BorrowedFd;

/// Bytes of a word.
pub(crate) const WORD: usize = size_of::<u64>();
/// Number of separate sums, so that additions do not wait for each other.
const LANES: usize = 4;

/// A mapped file; dropped, it is unmapped.
#[derive(Debug)]
pub(crate) struct MappedFileView {
    start: *mut c_void,
    len: usize,
}

// SAFETY: the mapping is this value's own, read only, and nothing in it depends on the thread.
unsafe impl Send for MappedFileView {}
// SAFETY: through `&MappedFileView` memory is only read, by accesses that allow for other writers.
unsafe impl Sync for MappedFileView {}

impl MappedFileView {
    /// The first `len` bytes of a file. With `populate` the call maps all of them.
    pub(crate) fn map(file: BorrowedFd<'_>, len: usize, populate: bool) -> Result<Self, Errno> {
        let more = if populate { MapFlags::POPULATE } else { MapFlags::empty() };
        Self::with(file, len, (ProtFlags::READ, more))
    }

    fn with(
        file: BorrowedFd<'_>,
        len: usize,
        (rights, more): (ProtFlags, MapFlags),
    ) -> Result<Self, Errno> {
        let (none, flags) = (std::ptr::null_mut(), MapFlags::SHARED | more);
        // SAFETY: no address is asked for, so the kernel picks a free range and replaces nothing.
        unsafe { rustix::mm::mmap(none, len, rights, flags, file, 0) }
            .map(|start| Self { start, len })
    }

    /// Gives the kernel advice on the part of these `len` bytes from `offset` on that lies in the mapping.
    pub(crate) fn advise(&self, offset: usize, len: usize, advice: Advice) -> Result<(), Errno> {
        let offset = offset.min(self.len);
        let start = self.start.cast::<u8>().wrapping_add(offset).cast();
        // SAFETY: the range is within this mapping, and none of the callers' advice discards anything.
        unsafe { rustix::mm::madvise(start, len.min(self.len - offset), advice) }
    }

    /// The address of `len` bytes from `offset` on, if all of them are in the mapping.
    fn place(&self, offset: usize, len: usize) -> Option<*const u8> {
        let fits = offset.checked_add(len).is_some_and(|end| end <= self.len);
        fits.then(|| self.start.cast::<u8>().wrapping_add(offset).cast_const())
    }

    /// Fills `to` from `offset` on. Returns false if not all bytes are in the mapping.
    pub(crate) fn copy_out(&self, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.place(offset, to.len()) else { return false };
        // SAFETY: `place` found the whole source within the mapping; `to` is borrowed alone, so they do
        // not overlap. Bytes that another process changes meanwhile are some bytes all the same; where
        // the file has no page for them the kernel ends this process.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        black_box(to);
        true
    }

    /// The same by one kind of instruction. Also returns false if the processor lacks it, or if the length of
    /// `to` is no multiple of its loop's step.
    pub(crate) fn copy_by(&self, how: CopyInstruction, offset: usize, to: &mut [u8]) -> bool {
        let Some(from) = self.place(offset, to.len()) else { return false };
        if !how.is_there() || !to.len().is_multiple_of(vectors::TURN) {
            return false;
        }
        // SAFETY: as in `copy_out`; the instruction is there by the check above.
        unsafe { vectors::copy(how, from, to.as_mut_ptr(), to.len()) };
        true
    }

    /// The word at `offset`. `None` outside the mapping.
    pub(crate) fn word(&self, offset: usize) -> Option<u64> {
        let at = self.place(offset, WORD)?.cast::<u64>();
        at.is_aligned().then(|| {
            // SAFETY: `place` found the word within the mapping, and it is aligned; where the file has
            // no page for it the kernel ends this process.
            unsafe { at.read_volatile() }
        })
    }

    /// The sum of all words of `len` bytes from `offset` on, both multiples of a word. `None` outside the
    /// mapping.
    pub(crate) fn sum(&self, offset: usize, len: usize) -> Option<u64> {
        let start = self.place(offset, len)?.cast::<u64>();
        if !start.is_aligned() {
            return None;
        }
        let words = len / WORD;
        let read = |nth: usize| {
            // SAFETY: callers below stay under `words`, all of which `place` found within the mapping;
            // aligned by the check above. Where the file has no page the kernel ends this process.
            unsafe { start.wrapping_add(nth).read_volatile() }
        };
        let mut sums = [0_u64; LANES];
        let whole = words / LANES * LANES;
        for first in (0..whole).step_by(LANES) {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(read(first + lane));
            }
        }
        let rest = (whole..words).fold(0, |sum: u64, nth| sum.wrapping_add(read(nth)));
        Some(sums.into_iter().fold(rest, u64::wrapping_add))
    }
}

/// A mapped file that is written to, by who has it alone.
#[derive(Debug)]
pub(crate) struct WritableFileView(MappedFileView);

impl WritableFileView {
    /// The first `len` bytes of a file that is open for reading and writing.
    pub(crate) fn map(file: BorrowedFd<'_>, len: usize) -> Result<Self, Errno> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        MappedFileView::with(file, len, (rights, MapFlags::empty())).map(Self)
    }

    /// Copies `from` to `offset`. Returns false if not all of it lies in the mapping.
    pub(crate) fn copy_in(&mut self, offset: usize, from: &[u8]) -> bool {
        let Some(to) = self.0.place(offset, from.len()) else { return false };
        // SAFETY: `place` found the whole range within the mapping, which is writable and borrowed alone; `from`
        // lies elsewhere. Where the file has no page for it the kernel ends this process.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.cast_mut(), from.len()) };
        true
    }

    /// Waits until the device has all of it (`msync(2)` with MS_SYNC).
    pub(crate) fn sync(&self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping's own; the call changes no memory.
        unsafe { rustix::mm::msync(self.0.start, self.0.len, MsyncFlags::SYNC) }
    }
}

impl Drop for MappedFileView {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and no reference into it was ever given out.
        let unmapped = unsafe { rustix::mm::munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an owned mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;

    fn view(words: u64) -> MappedFileView {
        let mut file = tempfile::tempfile().expect("a file");
        for word in 0..words {
            file.write_all(&word.to_ne_bytes()).expect("written");
        }
        MappedFileView::map(file.as_fd(), words as usize * WORD, false).expect("mapped")
    }

    #[test]
    fn words_sums_and_copies_are_those_of_the_file() {
        let view = view(1000);
        assert_eq!((view.word(0), view.word(8 * 999)), (Some(0), Some(999)));
        assert_eq!(view.sum(0, 8000), Some(999 * 1000 / 2));
        assert_eq!(view.sum(8 * 10, 8 * 7), Some((10..17).sum()));
        let mut to = [0; 16];
        assert!(view.copy_out(8 * 5, &mut to));
        assert_eq!(to[..8], 5_u64.to_ne_bytes());
        assert_eq!(to[8..], 6_u64.to_ne_bytes());
    }

    #[test]
    fn what_is_outside_is_refused() {
        let view = view(16);
        assert_eq!((view.word(16 * WORD), view.word(usize::MAX), view.word(1)), (None, None, None));
        assert_eq!((view.sum(8, 16 * WORD), view.sum(3, 8)), (None, None));
        assert!(!view.copy_out(120, &mut [0; 9]));
        assert_eq!(view.advise(0, usize::MAX, Advice::Sequential), Ok(()));
    }
}
