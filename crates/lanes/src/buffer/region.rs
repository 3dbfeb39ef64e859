//! Owned memory that is mapped, never heap: anonymous and private, or a file's.
//!
//! A region lies between two inaccessible guards, so that its mapping is never merged with a
//! neighbour's. It starts at a huge page boundary if huge pages are wanted. Forked children do not
//! inherit it while it can be written (`madvise(2)`, MADV_DONTFORK), because a page shared
//! after fork can change under a holder of a reference to it. Lengths are bytes, rounded up to
//! whole pages.
//!
//! Huge pages are requested by MADV_HUGEPAGE before memory is touched and by MADV_COLLAPSE (Linux
//! 6.1) afterwards, which needs no privilege and works whatever the setting in
//! `/sys/kernel/mm/transparent_hugepage`. Both may be refused; [`super::proof`] shows the result.
//! Overhead: two mmap and two madvise, about 5 us, plus the faults of the first touch.

#![allow(unsafe_code, reason = "memory that the kernel maps; one operation a block")]

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use rustix::pipe::{IoSliceRaw, SpliceFlags};
use std::ffi::c_void;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// Puts memory on huge pages now (Linux 6.1). `libc` names it for glibc only.
const MADV_COLLAPSE: libc::c_int = 25;

/// The pages that memory should lie on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BufferPages {
    /// The base pages of the machine (4, 16 or 64 KiB).
    Base,
    /// Huge pages (2 MiB where base pages have 4 KiB), if the kernel has some to give.
    Huge,
}

impl BufferPages {
    /// Bytes of one page. If the machine's huge pages are larger than 32 MiB, base pages are used instead.
    pub(crate) fn size(self) -> usize {
        let base = rustix::param::page_size();
        // One middle-level table entry: a table is a page full of entries of 8 bytes.
        let huge = base / 8 * base;
        if self == Self::Huge && huge <= 32 << 20 { huge } else { base }
    }

    /// The pages for frozen content of `len` bytes: less would only waste a huge page.
    pub(super) fn for_len(len: usize) -> Self {
        if len >= Self::Huge.size() / 16 { Self::Huge } else { Self::Base }
    }
}

/// An owned mapping; dropped, it is unmapped. Its bytes change only through `&mut BufferRegion`.
#[derive(Debug)]
pub(crate) struct BufferRegion {
    start: NonNull<u8>,
    len: usize,
    outer: *mut c_void,
    outer_len: usize,
    pages: BufferPages,
}

// SAFETY: a Region is the only owner of its memory, and nothing in it depends on the thread that made it.
unsafe impl Send for BufferRegion {}
// SAFETY: through `&BufferRegion` the memory can only be read; writing takes `&mut BufferRegion`.
unsafe impl Sync for BufferRegion {}

impl BufferRegion {
    /// Zeroed private memory, at least `len` bytes, not yet touched.
    pub(crate) fn anonymous(len: usize, pages: BufferPages) -> Result<Self, Errno> {
        let mut region = Self::reserve(len, pages)?;
        region.renew()?;
        Ok(region)
    }

    /// The beginning of a file, shared and writable.
    ///
    /// # Safety
    ///
    /// Only this region may change or shorten the file while the region lives.
    pub(crate) unsafe fn of_file(
        file: BorrowedFd<'_>,
        len: usize,
        pages: BufferPages,
    ) -> Result<Self, Errno> {
        let region = Self::reserve(len, pages)?;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        region.map_file(file, rights, MapFlags::SHARED)?;
        region.advise(Advice::LinuxDontFork)?;
        Ok(region)
    }

    /// The beginning of a file, read only.
    ///
    /// # Safety
    ///
    /// The file must not change or shrink while the region lives.
    pub(crate) unsafe fn view(
        file: BorrowedFd<'_>,
        len: usize,
        pages: BufferPages,
    ) -> Result<Self, Errno> {
        let region = Self::reserve(len, pages)?;
        // Private: before Linux 6.7 a write-sealed memfd refuses every shared mapping.
        region.map_file(file, ProtFlags::READ, MapFlags::PRIVATE)?;
        Ok(region)
    }

    /// Address space without access for `len` bytes, aligned, and a guard on either side.
    fn reserve(len: usize, pages: BufferPages) -> Result<Self, Errno> {
        let (unit, guard) = (pages.size(), BufferPages::Base.size());
        let len = len.max(1).checked_next_multiple_of(unit).ok_or(Errno::NOMEM)?;
        let outer_len = len.checked_add(unit + 2 * guard).ok_or(Errno::NOMEM)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice, which touches no memory
        // that exists.
        let outer = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), outer_len, ProtFlags::empty(), flags)
        }?;
        let first = (outer as usize + guard).next_multiple_of(unit) - outer as usize;
        let start = outer.cast::<u8>().wrapping_add(first);
        let start = NonNull::new(start).ok_or(Errno::NOMEM)?;
        Ok(Self { start, len, outer, outer_len, pages })
    }

    fn map_file(
        &self,
        file: BorrowedFd<'_>,
        rights: ProtFlags,
        flags: MapFlags,
    ) -> Result<(), Errno> {
        let (start, flags) = (self.start.as_ptr().cast(), flags | MapFlags::FIXED);
        // SAFETY: replaces a part of the reservation that `self` owns and that nothing refers to.
        unsafe { rustix::mm::mmap(start, self.len, rights, flags, file, 0) }.map(drop)
    }

    /// Replaces all pages by fresh zeroed ones; holders of references keep the old ones unchanged.
    /// For anonymous regions.
    pub(crate) fn renew(&mut self) -> Result<(), Errno> {
        let flags = MapFlags::PRIVATE | MapFlags::FIXED;
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let start = self.start.as_ptr().cast();
        // SAFETY: replaces memory that `self` owns and has borrowed exclusively; zeroes are valid bytes.
        unsafe { rustix::mm::mmap_anonymous(start, self.len, rights, flags) }?;
        self.advise(Advice::LinuxDontFork)?;
        // Only a wish: a kernel without huge pages says EINVAL.
        let _wish = self.advise(match self.pages {
            BufferPages::Base => Advice::LinuxNoHugepage,
            BufferPages::Huge => Advice::LinuxHugepage,
        });
        Ok(())
    }

    /// As [`BufferRegion::renew`], by the cheaper MADV_DONTNEED, which locked memory refuses.
    pub(crate) fn drop_pages(&mut self) -> Result<(), Errno> {
        self.advise(Advice::LinuxDontNeed).or_else(|_| self.renew())
    }

    /// Puts the content on other pages, at another address; holders of references keep the old
    /// ones unchanged. For anonymous regions.
    pub(crate) fn move_content(&mut self) -> Result<(), Errno> {
        let mut fresh = Self::anonymous(self.len, self.pages)?;
        fresh.as_mut_bytes().copy_from_slice(self.as_bytes());
        *self = fresh;
        Ok(())
    }

    /// Whether forked children also get the memory. Initially they do not.
    pub(crate) fn inherit(&self, does: bool) -> Result<(), Errno> {
        self.advise(if does { Advice::LinuxDoFork } else { Advice::LinuxDontFork })
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is memory that `self` owns. Of the advices given here only DONTNEED
        // changes bytes, and the one function that gives it has `self` borrowed alone.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.len, advice) }
    }

    /// Makes the huge pages that are wanted before anything is written, each from its first base page,
    /// which the kernel needs to find there (`collapse_file` in mm/khugepaged.c).
    pub(super) fn make_huge(&mut self) {
        if self.pages == BufferPages::Huge {
            let first = self.as_mut_bytes().iter_mut().step_by(BufferPages::Huge.size());
            first.for_each(|byte| *byte = std::hint::black_box(0));
            self.collapse();
        }
    }

    /// Puts resident pages on huge pages, if they are wanted and the kernel allows it.
    pub(crate) fn collapse(&mut self) {
        const TRIES: u32 = 3; // EAGAIN: a page was busy, on a list of another CPU for instance
        if self.pages == BufferPages::Base {
            return;
        }
        for _ in 0..TRIES {
            if self.try_collapse() != Err(Errno::AGAIN) {
                break;
            }
        }
    }

    fn try_collapse(&self) -> Result<(), Errno> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is memory that `self` owns; its content stays.
        match unsafe { libc::madvise(start, self.len, MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(last_error()),
        }
    }

    /// Takes the right to write away for good; children may then share the memory.
    pub(crate) fn forbid_writing(&mut self) -> Result<(), Errno> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is memory that `self` owns and has borrowed exclusively.
        unsafe { rustix::mm::mprotect(start, self.len, MprotectFlags::READ) }?;
        self.inherit(true)
    }

    /// Address of the first byte.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Bytes mapped.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The pages wanted.
    pub(crate) fn pages(&self) -> BufferPages {
        self.pages
    }

    /// The bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: `start` and `len` describe memory that `self` owns, mapped readable; it changes
        // only through `&mut self`, for files by the contract of their constructors.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The bytes, for writing: not after [`BufferRegion::forbid_writing`] and not of a view, where a
    /// write faults.
    pub(crate) fn as_mut_bytes(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_bytes`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// `vmsplice(2)`: passes references to the pages of `bytes` to a pipe. Returns how many bytes they cover.
    /// Never uses SPLICE_F_GIFT.
    ///
    /// # Safety
    ///
    /// `to` must not be the reading end of a pipe, unless the memory is read only. Holders of the references
    /// see every later change of the bytes. The caller ensures that there are no changes, or that the holders
    /// expect them.
    pub(crate) unsafe fn vmsplice(
        &self,
        to: BorrowedFd<'_>,
        bytes: Range<usize>,
        flags: SpliceFlags,
    ) -> Result<usize, Errno> {
        let bytes = [IoSliceRaw::from_slice(&self.as_bytes()[bytes])];
        // SAFETY: the memory is mapped and readable, and only read, as `to` is no reading end by
        // the contract of this function; what its pages show later is the caller's part of it.
        unsafe { rustix::pipe::vmsplice(to, &bytes, flags) }
    }
}

/// The error of the last call of the C library.
pub(super) fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Drop for BufferRegion {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `reserve` with this address and length, is owned by
        // `self` alone, and no borrow of it outlives `self`. Pages that a pipe holds live on.
        let unmapped = unsafe { rustix::mm::munmap(self.outer, self.outer_len) };
        debug_assert!(unmapped.is_ok(), "munmap of an owned mapping");
    }
}
