//! Private anonymous memory on chosen pages: base pages only, huge pages, or reserved ones.
//!
//! The region is between two inaccessible guards, so the kernel never merges its mapping with a neighbour.
//! What `smaps` reports for it concerns it alone, and an access past the end faults. Huge regions start at a
//! huge-page boundary. "Huge" is advice that the kernel may ignore under fragmentation;
//! [`MemoryRegion::huge_bytes`] reports the result. Pages of the reserved pool (`hugetlb`) are taken, or refused,
//! when the region is created.
//!
//! Overhead: one mmap, one mprotect, one madvise, about 5 us, plus the faults at the first touch.

use crate::error::SysError;
use crate::page_size;
use crate::proc::smaps;
use pagewise_model::{Bytes, PageSize};
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::NonNull;

/// Puts memory on huge pages now (Linux 6.1). `libc` defines it only for glibc.
pub(crate) const MADV_COLLAPSE: libc::c_int = 25;

/// The pages wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RegionPages {
    /// The default of the machine.
    #[default]
    Any,
    /// Base pages only (`MADV_NOHUGEPAGE`).
    Base,
    /// Huge pages if the kernel has them (`MADV_HUGEPAGE`, aligned).
    Huge,
    /// Huge pages from the reserved pool (`MAP_HUGETLB`, `vm.nr_hugepages`).
    HugeTlb,
}

/// An owned mapping, unmapped on drop.
#[derive(Debug)]
pub struct MemoryRegion {
    start: NonNull<u8>,
    len: usize,
    outer_start: *mut c_void,
    outer_len: usize,
}

// SAFETY: a Region is the only owner of its memory, and nothing in it depends on the thread that created it.
unsafe impl Send for MemoryRegion {}
// SAFETY: `&MemoryRegion` only permits reading the memory; writing requires `&mut MemoryRegion`.
unsafe impl Sync for MemoryRegion {}

impl MemoryRegion {
    /// `size` (rounded up to base pages, or for [`RegionPages::Huge`] to huge pages) of zeroed memory,
    /// not yet touched.
    pub fn new(size: Bytes, pages: RegionPages) -> Result<Self, SysError> {
        let unit = match pages {
            RegionPages::HugeTlb => return Self::from_pool(size, page_size::huge()),
            RegionPages::Huge => page_size::huge(),
            RegionPages::Any | RegionPages::Base => page_size::base(),
        };
        let mut region = Self::reserve(size, unit)?;
        region.open_up()?;
        match pages {
            RegionPages::Any | RegionPages::HugeTlb => {}
            // EINVAL: a kernel without huge pages only has base pages.
            RegionPages::Base => match region.advise(Advice::LinuxNoHugepage) {
                Err(e) if e.errno() != Some(libc::EINVAL) => return Err(e),
                _ => {}
            },
            RegionPages::Huge => region.advise(Advice::LinuxHugepage)?,
        }
        Ok(region)
    }

    /// `size` (rounded up) of zeroed memory on pages from the reserved pool of this page size.
    pub fn from_pool(size: Bytes, page: PageSize) -> Result<Self, SysError> {
        let region = Self::reserve(size, page)?;
        region.take_from_pool(page)?;
        Ok(region)
    }

    /// `size` (rounded up to base pages) of zeroed memory that the mapping call has already filled
    /// (`MAP_POPULATE`), on the pages that the machine's setting gives. The kernel silently skips what it
    /// cannot fill; [`MemoryRegion::residency`] shows that.
    pub fn populated(size: Bytes) -> Result<Self, SysError> {
        let region = Self::reserve(size, page_size::base())?;
        region.put(MapFlags::POPULATE, "mmap MAP_POPULATE")?;
        Ok(region)
    }

    fn reserve(size: Bytes, unit: PageSize) -> Result<Self, SysError> {
        let subject = || format!("{size} of memory");
        let too_large = || SysError::new("mmap", subject(), rustix::io::Errno::NOMEM);
        let (unit, guard) = (unit.bytes(), page_size::base().bytes());
        let len = size.0.max(1).checked_next_multiple_of(unit).ok_or_else(too_large)?;
        let outer_len = len.checked_add(unit + 2 * guard).ok_or_else(too_large)?;
        let outer_len = usize::try_from(outer_len).map_err(|_| too_large())?;
        // SAFETY: a fresh mapping at an address chosen by the kernel, which touches no existing memory.
        let outer_start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                outer_len,
                ProtFlags::empty(),
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }
        .map_err(|e| SysError::new("mmap", subject(), e))?;
        let first = (outer_start as u64 + guard).next_multiple_of(unit) - outer_start as u64;
        // outer_len fits usize, and `first` is smaller.
        let start = outer_start.cast::<u8>().wrapping_add(first as usize);
        let Some(start) = NonNull::new(start) else { return Err(too_large()) };
        Ok(Self { start, len: len as usize, outer_start, outer_len })
    }

    fn open_up(&self) -> Result<(), SysError> {
        let rights = MprotectFlags::READ | MprotectFlags::WRITE;
        // SAFETY: the range is in the mapping that `self` owns, and nothing refers to it yet.
        unsafe { rustix::mm::mprotect(self.start.as_ptr().cast(), self.len, rights) }
            .map_err(|e| SysError::new("mprotect", format!("{} of memory", self.size()), e))
    }

    /// Puts pages of size `unit` from the reserved pool between the guards.
    fn take_from_pool(&self, unit: PageSize) -> Result<(), SysError> {
        let size = MapFlags::from_bits_retain(unit.bytes().ilog2() << libc::MAP_HUGE_SHIFT);
        self.put(MapFlags::HUGETLB | size, "mmap MAP_HUGETLB")
    }

    /// Puts a private mapping between the guards, created with these flags. `call` names the call in errors.
    fn put(&self, flags: MapFlags, call: &'static str) -> Result<(), SysError> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | flags;
        // SAFETY: the replaced part is in the mapping that `self` owns, and nothing refers to it yet.
        unsafe { rustix::mm::mmap_anonymous(self.start.as_ptr().cast(), self.len, rights, flags) }
            .map(drop)
            .map_err(|e| SysError::new(call, format!("{} of memory", self.size()), e))
    }

    /// Locks the region in memory (`mlock(2)`, within `RLIMIT_MEMLOCK`), which also populates it.
    pub fn lock(&mut self) -> Result<(), SysError> {
        // SAFETY: the range is memory that `self` owns; locking changes no content.
        unsafe { rustix::mm::mlock(self.start.as_ptr().cast(), self.len) }
            .map_err(|e| SysError::new("mlock", format!("{} of memory", self.size()), e))
    }

    /// Address of the first byte.
    #[must_use]
    pub const fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Address of the first byte, for writing.
    #[must_use]
    pub const fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }

    #[must_use]
    pub const fn size(&self) -> Bytes {
        Bytes(self.len as u64)
    }

    /// The memory as bytes. Reading an untouched page maps the zero page.
    #[must_use]
    pub const fn as_slice(&self) -> &[u8] {
        // SAFETY: `start` and `len` describe memory that `self` owns, mapped readable and zeroed by the
        // kernel. It is private and anonymous, so nothing else writes it while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    /// The memory as bytes, for writing.
    #[must_use]
    pub const fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_slice`, mapped writable, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Writes one byte every `stride` bytes; returns the number of writes.
    pub fn touch(&mut self, stride: Bytes) -> u64 {
        let stride = usize::try_from(stride.0.max(1)).unwrap_or(usize::MAX);
        let mut count = 0;
        for offset in (0..self.len).step_by(stride) {
            // SAFETY: `offset` is below `len`, so the address lies in the memory that `self` owns.
            let address = unsafe { self.start.as_ptr().add(offset) };
            // SAFETY: the address is valid for writes; volatile, so that the write is not dropped.
            unsafe { address.write_volatile(1) };
            count += 1;
        }
        count
    }

    /// Makes every page present and writable: `MADV_POPULATE_WRITE` (Linux 5.14), else by touching.
    pub fn populate(&mut self) -> Result<(), SysError> {
        match self.advise(Advice::LinuxPopulateWrite) {
            Err(e) if matches!(e.errno(), Some(libc::EINVAL | libc::ENOSYS | libc::EPERM)) => {
                self.touch(Bytes(page_size::base().bytes()));
                Ok(())
            }
            other => other,
        }
    }

    /// `madvise` over the whole region.
    pub fn advise(&mut self, advice: Advice) -> Result<(), SysError> {
        // SAFETY: the range is memory that `self` owns and has borrowed exclusively. Memory dropped by the
        // advice reads as zeroes afterwards, which is valid for bytes.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.len, advice) }
            .map_err(|e| SysError::new("madvise", format!("{advice:?} of {}", self.size()), e))
    }

    /// `madvise` over a part of the region, by offsets that are multiples of the base page.
    pub fn advise_range(&mut self, range: Range<usize>, advice: Advice) -> Result<(), SysError> {
        let fail = |e| SysError::new("madvise", format!("{advice:?} of {range:?}"), e);
        let within = self.as_mut_slice().get_mut(range.clone());
        let part = within.ok_or_else(|| fail(rustix::io::Errno::INVAL))?;
        // SAFETY: the range is in memory that `self` owns and has borrowed exclusively. Memory dropped by the
        // advice reads as zeroes afterwards, which is valid for bytes.
        unsafe { rustix::mm::madvise(part.as_mut_ptr().cast(), part.len(), advice) }.map_err(fail)
    }

    /// Puts resident memory on huge pages now (`MADV_COLLAPSE`, Linux 6.1).
    pub fn collapse(&mut self) -> Result<(), SysError> {
        // SAFETY: the range is memory that `self` owns and has borrowed exclusively; its content stays.
        let done = unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, MADV_COLLAPSE) };
        if done == 0 { Ok(()) } else { Err(SysError::last("madvise MADV_COLLAPSE", "a region")) }
    }

    /// Releases all pages; the next touch faults them in again.
    pub fn discard(&mut self) -> Result<(), SysError> {
        self.advise(Advice::LinuxDontNeed)
    }

    /// How many bytes of the region are mapped by huge pages, according to `smaps`.
    pub fn huge_bytes(&self) -> Result<Bytes, SysError> {
        self.residency().map(|r| r.anon_huge + r.pool)
    }

    /// How much is resident, and on which pages.
    pub fn residency(&self) -> Result<smaps::MappingResidency, SysError> {
        Ok(smaps::total(&self.entries()?))
    }

    /// The size of the pages that hold all resident memory, according to `smaps`. `None` if nothing is
    /// resident, or pages of several sizes are in use.
    pub fn proven_page(&self) -> Result<Option<PageSize>, SysError> {
        let entries = self.entries()?;
        let total = smaps::total(&entries);
        let made_for = entries.first().and_then(|entry| entry.page);
        Ok(match (total.rss, total.anon_huge, total.pool) {
            (Bytes(0), Bytes(0), Bytes(1..)) => made_for,
            (Bytes(1..), Bytes(0), Bytes(0)) => made_for.filter(|page| *page == page_size::base()),
            (rss, huge, Bytes(0)) if rss == huge && rss > Bytes(0) => Some(page_size::huge()),
            _ => None,
        })
    }

    /// The entries of `smaps` between the guards.
    fn entries(&self) -> Result<Vec<smaps::SmapsEntry>, SysError> {
        let start = self.start.as_ptr() as u64;
        smaps::own(start..start + self.len as u64)
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // SAFETY: `reserve` created the mapping with this address and length. Only `self` owns it, and no
        // borrow of it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.outer_start, self.outer_len) };
        debug_assert!(unmapped.is_ok(), "munmap of an owned mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_pages_are_never_huge() {
        let mut region = MemoryRegion::new(Bytes::mib(4), RegionPages::Base).unwrap();
        let page = Bytes(page_size::base().bytes());
        assert_eq!(region.touch(page), region.size().pages(page_size::base()));
        let residency = region.residency().unwrap();
        assert_eq!(residency.rss, region.size());
        assert_eq!(residency.anon_huge, Bytes(0));
        assert_eq!(region.proven_page().unwrap(), Some(page_size::base()));
        assert_eq!(region.as_slice()[0], 1);
        region.discard().unwrap();
        assert_eq!(region.residency().unwrap().rss, Bytes(0));
        assert_eq!(region.proven_page().unwrap(), None, "nothing is resident");
        assert_eq!(region.as_slice()[0], 0);
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn huge_regions_are_aligned_and_proven() {
        let huge = page_size::huge().bytes();
        if huge > Bytes::mib(64).0 || crate::thp::enabled().is_ok_and(|word| word == "never") {
            eprintln!("SKIP huge_regions_are_aligned_and_proven: no transparent huge pages");
            return;
        }
        let mut region = MemoryRegion::new(Bytes(huge + 1), RegionPages::Huge).unwrap();
        assert_eq!(region.size(), Bytes(2 * huge));
        assert_eq!(region.as_ptr() as u64 % huge, 0);
        assert_eq!(region.huge_bytes().unwrap(), Bytes(0));
        region.touch(Bytes(huge));
        let residency = region.residency().unwrap();
        assert!(residency.anon_huge <= residency.rss && residency.rss <= region.size());
        if residency.anon_huge == Bytes(0) {
            eprintln!("SKIP huge_regions_are_aligned_and_proven: no huge page was free");
            return;
        }
        assert_eq!(region.huge_bytes().unwrap().0 % huge, 0);
        if residency.anon_huge == residency.rss {
            assert_eq!(region.proven_page().unwrap(), Some(page_size::huge()));
        }
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn pages_of_the_pool_are_proven_or_refused() {
        match MemoryRegion::new(Bytes(1), RegionPages::HugeTlb) {
            Ok(mut region) => {
                region.touch(Bytes(1 << 12));
                assert_eq!(region.huge_bytes().unwrap(), region.size());
                assert_eq!(region.residency().unwrap().rss, Bytes(0), "the pool is not in Rss");
                assert_eq!(region.proven_page().unwrap(), Some(page_size::huge()));
            }
            Err(error) => {
                assert_eq!(error.call, "mmap MAP_HUGETLB");
                eprintln!("SKIP pages_of_the_pool_are_proven_or_refused: {error}");
            }
        }
    }

    #[test]
    fn locked_is_resident() {
        let mut region = MemoryRegion::new(Bytes(1), RegionPages::Base).unwrap();
        region.lock().unwrap();
        assert_eq!(region.residency().unwrap().rss, region.size());
    }

    #[test]
    fn populated_is_resident() {
        let mut region = MemoryRegion::new(Bytes(1), RegionPages::Any).unwrap();
        region.populate().unwrap();
        assert_eq!(region.residency().unwrap().rss, region.size());
        region.as_mut_slice().fill(7);
        assert!(region.as_slice().iter().all(|&b| b == 7));
    }

    #[test]
    fn what_the_mapping_call_filled_is_resident() {
        let region = MemoryRegion::populated(Bytes::mib(1)).unwrap();
        assert_eq!(region.residency().unwrap().rss, region.size());
        assert!(region.as_slice().iter().all(|&b| b == 0));
    }

    #[test]
    fn a_part_is_advised_and_nothing_beyond() {
        let page = page_size::base().bytes() as usize;
        let mut region = MemoryRegion::new(Bytes(4 * page as u64), RegionPages::Base).unwrap();
        region.advise_range(page..3 * page, Advice::LinuxPopulateWrite).unwrap();
        assert_eq!(region.residency().unwrap().rss, Bytes(2 * page as u64));
        for range in [3 * page..5 * page, 1..page] {
            let refused = region.advise_range(range, Advice::LinuxNoHugepage).unwrap_err();
            assert_eq!(refused.errno(), Some(libc::EINVAL));
        }
    }

    #[test]
    fn what_cannot_be_had_is_an_error() {
        for size in [Bytes(u64::MAX), Bytes(u64::MAX - Bytes::gib(1).0), Bytes(1 << 62)] {
            let error = MemoryRegion::new(size, RegionPages::Base).unwrap_err();
            assert_eq!(error.errno(), Some(libc::ENOMEM));
        }
    }
}
