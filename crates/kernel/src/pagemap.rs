//! `/proc/PID/pagemap`: the page table of a process, one word for each base page
//! (`Documentation/admin-guide/mm/pagemap.rst`). Its ioctl `PAGEMAP_SCAN` (Linux 6.7) also reports whether an
//! entry above the lowest level maps a page, and whether it is the zero page.
//!
//! It requires the right to trace the process (`PTRACE_MODE_READ`), not root. Without CAP_SYS_ADMIN, frame
//! numbers and swap locations are hidden (0). Nothing is stopped: each call reports the moment of its walk.
//! Kernel addresses have no words. Cost: 2-5 us per call and some nanoseconds per page.

use crate::error::SysError;
use crate::ioctl;
use crate::page_size;
use crate::proc::{own_pid, pid_path, read_words};
use crate::region::{MemoryRegion, RegionPages};
use pagewise_model::Bytes;
use pagewise_model::address::{PagemapEntry, ScannedRange, VirtualAddress};
use std::fs::File;

/// Number from linux/fs.h, _IOWR, the same on every architecture that uses the generic ioctl encoding (x86,
/// arm64, riscv).
const PAGEMAP_SCAN: u64 = 0xc060_6610;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_SWAPPED: u64 = 1 << 4;
const PAGE_IS_ZERO: u64 = 1 << 5;
const PAGE_IS_HUGE: u64 = 1 << 6;
/// Since Linux 6.15.
const PAGE_IS_GUARD: u64 = 1 << 8;

/// Maximum number of ranges per call.
const RANGES: usize = 64;

/// `struct pm_scan_arg`.
#[repr(C)]
#[derive(Default)]
struct ScanArgument {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// Selects pages by category: all of the first, any of the second, none of the third.
struct CategoryFilter {
    all: u64,
    any: u64,
    none: u64,
}

/// `struct page_region`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct PageRange {
    start: u64,
    end: u64,
    categories: u64,
}

/// The page table of a process.
#[derive(Debug)]
pub struct Pagemap {
    file: File,
    path: String,
}

impl Pagemap {
    /// Opens that of process `pid`.
    ///
    /// # Errors
    /// ENOENT if there is no such process, EACCES or EPERM if this account may not read it.
    pub fn open(pid: i32) -> Result<Self, SysError> {
        let path = pid_path(pid, "pagemap");
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(error) => Err(SysError::new("open", path, error)),
        }
    }

    /// The entries of `count` base pages from that of `address` on. Fewer at the end of the user address
    /// space; none for kernel addresses.
    ///
    /// # Errors
    /// When the process has ended.
    pub fn read(&self, address: u64, count: usize) -> Result<Vec<PagemapEntry>, SysError> {
        let first = address / page_size::base().bytes();
        let words = read_words(&self.file, &self.path, first, count)?;
        Ok(words.into_iter().map(PagemapEntry).collect())
    }

    /// Whether the address space that this was opened on still exists: its process has neither ended nor
    /// executed another program. `address` must belong to it.
    #[must_use]
    pub fn is_there(&self, address: u64) -> bool {
        self.read(address, 1).is_ok_and(|entries| !entries.is_empty())
    }

    /// Ranges of present pages from `start` to `end` that are mapped by an entry above the lowest level or
    /// are the zero page. Both bounds are multiples of the base page.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn scan(&self, start: u64, end: u64) -> Result<Vec<ScannedRange>, SysError> {
        let any = PAGE_IS_HUGE | PAGE_IS_ZERO;
        self.all(start, end, &CategoryFilter { all: PAGE_IS_PRESENT, any, none: 0 })
    }

    /// Ranges of existing pages from `start` to `end`, in memory or swapped out. Both bounds are multiples of
    /// the base page. Untouched memory costs next to nothing, however large. Guard pages
    /// (`MADV_GUARD_INSTALL`) do not count, but before Linux 6.15 they look swapped out.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn populated(&self, start: u64, end: u64) -> Result<Vec<ScannedRange>, SysError> {
        let wanted =
            CategoryFilter { all: 0, any: PAGE_IS_PRESENT | PAGE_IS_SWAPPED, none: PAGE_IS_GUARD };
        match self.all(start, end, &wanted) {
            Err(error) if error.errno() == Some(libc::EINVAL) => {
                self.all(start, end, &CategoryFilter { none: 0, ..wanted })
            }
            found => found,
        }
    }

    /// Ranges of pages from `start` to `end` that count as resident: those in memory, except the zero page.
    /// Both bounds are multiples of the base page.
    ///
    /// # Errors
    /// ENOTTY before Linux 6.7.
    pub fn resident(&self, start: u64, end: u64) -> Result<Vec<ScannedRange>, SysError> {
        self.all(start, end, &CategoryFilter { all: PAGE_IS_PRESENT, any: 0, none: PAGE_IS_ZERO })
    }

    fn all(
        &self,
        start: u64,
        end: u64,
        wanted: &CategoryFilter,
    ) -> Result<Vec<ScannedRange>, SysError> {
        let mut found = Vec::new();
        let mut from = start;
        while from < end {
            let mut ranges = [PageRange::default(); RANGES];
            let (count, reached) = self.some(from, end, wanted, &mut ranges)?;
            found.extend(ranges.iter().take(count).map(|range| ScannedRange {
                start: VirtualAddress(range.start),
                end: VirtualAddress(range.end),
                is_huge: range.categories & PAGE_IS_HUGE != 0,
                is_zero: range.categories & PAGE_IS_ZERO != 0,
            }));
            if reached <= from {
                break;
            }
            from = reached;
        }
        Ok(found)
    }

    /// Fills `ranges` from address `from` on. Returns the number of ranges and the address that the scan
    /// reached.
    fn some(
        &self,
        from: u64,
        end: u64,
        wanted: &CategoryFilter,
        ranges: &mut [PageRange; RANGES],
    ) -> Result<(usize, u64), SysError> {
        let mut argument = ScanArgument {
            size: size_of::<ScanArgument>() as u64,
            start: from,
            end,
            vec: ranges.as_mut_ptr().expose_provenance() as u64,
            vec_len: RANGES as u64,
            category_inverted: wanted.none,
            category_mask: wanted.all | wanted.none,
            category_anyof_mask: wanted.any,
            return_mask: PAGE_IS_HUGE | PAGE_IS_ZERO,
            ..ScanArgument::default()
        };
        // SAFETY: the number encodes the size of the argument (checked by a test), which holds integers only.
        // Besides it, the kernel writes at most `vec_len` ranges of three integers to `ranges`, which has
        // that many and is borrowed exclusively. Nothing else changes, since `flags` requests nothing.
        let count = unsafe {
            let name = "ioctl PAGEMAP_SCAN";
            ioctl::control(name, self.path.as_str(), &self.file, PAGEMAP_SCAN, &mut argument)
        }
        .map_err(|error| error.lacking_before("Linux 6.7"))?;
        Ok((usize::try_from(count).unwrap_or(0), argument.walk_end))
    }
}

/// Whether this kernel keeps soft-dirty bits (`CONFIG_MEM_SOFT_DIRTY`): a page that was just written has one.
///
/// # Errors
/// When no page can be allocated or examined.
pub fn keeps_soft_dirty() -> Result<bool, SysError> {
    Ok(own_page()?.is_soft_dirty())
}

/// Whether this account can see frame numbers.
///
/// # Errors
/// When no page can be allocated or examined.
pub(crate) fn shows_frames() -> Result<bool, SysError> {
    Ok(own_page()?.frame().is_some())
}

/// The entry of a page of this process that has just been written.
fn own_page() -> Result<PagemapEntry, SysError> {
    let mut region = MemoryRegion::new(Bytes(1), RegionPages::Any)?;
    region.touch(region.size());
    let map = Pagemap::open(own_pid())?;
    let entry = map.read(region.as_ptr() as u64, 1)?.first().copied();
    entry.ok_or_else(|| SysError::malformed("read", map.path))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use rustix::mm::Advice;

    #[test]
    fn the_number_encodes_the_size() {
        assert_eq!((PAGEMAP_SCAN >> 16 & 0x3fff) as usize, size_of::<ScanArgument>());
        assert_eq!(size_of::<PageRange>(), 3 * size_of::<u64>());
    }

    /// A region of three base pages, and the page table of this process.
    fn three_pages() -> (MemoryRegion, Pagemap, u64) {
        let page = page_size::base().bytes();
        let region = MemoryRegion::new(Bytes(3 * page), RegionPages::Base).unwrap();
        (region, Pagemap::open(own_pid()).unwrap(), page)
    }

    #[test]
    fn touched_pages_are_present_and_others_are_not() {
        let (mut region, map, _) = three_pages();
        region.as_mut_slice()[0] = 1;
        let start = region.as_ptr() as u64;
        let entries = map.read(start + 1, 3).unwrap();
        assert_eq!(entries.len(), 3);
        assert!(entries[0].is_present() && entries[0].is_exclusive());
        assert!(!entries[0].is_of_file_or_shared() && !entries[1].is_present());
        assert_eq!(entries[0].frame().is_some(), shows_frames().unwrap());
        assert!(map.read(u64::MAX, 2).unwrap().is_empty(), "the kernel's");
    }

    #[test]
    fn the_zero_page_is_found_by_reading() {
        let (region, map, page) = three_pages();
        assert_eq!(region.as_slice()[region.as_slice().len() / 2], 0);
        let start = region.as_ptr() as u64;
        let found = match map.scan(start, start + 3 * page) {
            Ok(found) => found,
            Err(error) => return println!("SKIP the_zero_page_is_found_by_reading: {error}"),
        };
        let [zero] = found[..] else { panic!("{found:?}") };
        assert!(zero.is_zero && !zero.is_huge);
        assert!(map.resident(start, start + 3 * page).unwrap().is_empty());
        assert_eq!((zero.start.0, zero.end.0), (start + page, start + 2 * page));
    }

    #[test]
    fn ranges_beyond_one_call_are_all_found() {
        let page = page_size::base().bytes();
        let count = 3 * RANGES as u64;
        let region = MemoryRegion::new(Bytes(2 * count * page), RegionPages::Base).unwrap();
        let bytes = region.as_slice();
        // Every other page: no two of them are in one range.
        let step = usize::try_from(2 * page).unwrap();
        assert_eq!(bytes.iter().step_by(step).map(|byte| u64::from(*byte)).sum::<u64>(), 0);
        let start = bytes.as_ptr() as u64;
        match Pagemap::open(own_pid()).unwrap().scan(start, start + 2 * count * page) {
            Ok(found) => assert_eq!(found.len() as u64, count),
            Err(error) => println!("SKIP ranges_beyond_one_call_are_all_found: {error}"),
        }
    }

    #[test]
    fn huge_pages_are_found_where_they_are() {
        let huge = page_size::huge().bytes();
        if huge > Bytes::mib(64).0 {
            return println!("SKIP huge_pages_are_found_where_they_are: a page of {huge} bytes");
        }
        let mut region = MemoryRegion::new(Bytes(huge), RegionPages::Huge).unwrap();
        region.touch(Bytes(huge));
        if region.huge_bytes().unwrap() != Bytes(huge) {
            return println!("SKIP huge_pages_are_found_where_they_are: none was given");
        }
        let start = region.as_ptr() as u64;
        let map = Pagemap::open(own_pid()).unwrap();
        let found = match map.scan(start, start + huge) {
            Ok(found) => found,
            Err(error) => return println!("SKIP huge_pages_are_found_where_they_are: {error}"),
        };
        assert!(found.iter().all(|range| range.is_huge && !range.is_zero), "{found:?}");
        assert_eq!(found.iter().map(|range| range.end.0 - range.start.0).sum::<u64>(), huge);
        region.advise(Advice::LinuxDontNeed).unwrap();
        assert!(map.scan(start, start + huge).unwrap().is_empty());
    }

    #[test]
    fn what_was_touched_is_populated() {
        let page = page_size::base().bytes();
        let mut region = MemoryRegion::new(Bytes(64 * page), RegionPages::Base).unwrap();
        let step = usize::try_from(page).unwrap();
        for nth in [2, 3, 4, 9] {
            region.as_mut_slice()[nth * step] = 1;
        }
        let start = region.as_ptr() as u64;
        let map = Pagemap::open(own_pid()).unwrap();
        let found = match map.populated(start, start + 64 * page) {
            Ok(found) => found,
            Err(error) => return println!("SKIP what_was_touched_is_populated: {error}"),
        };
        let pages =
            |range: &ScannedRange| ((range.start.0 - start) / page, (range.end.0 - start) / page);
        assert_eq!(found.iter().map(pages).collect::<Vec<_>>(), [(2, 5), (9, 10)]);
        assert!(found.iter().all(|range| !range.is_huge && !range.is_zero), "{found:?}");
        assert_eq!(map.resident(start, start + 64 * page).unwrap(), found);
    }

    #[test]
    fn nobody_has_no_page_table() {
        assert!(Pagemap::open(i32::MAX).unwrap_err().is_gone());
    }
}
