//! Plain mappings for timing mmap, touches and munmap.
//!
//! `pagewise_kernel::region::MemoryRegion` is for memory that is used; its guards and advice cost extra calls. Here
//! one mapping is one mmap(2) and one munmap(2). Bytes are read and written with volatile accesses, so that a
//! touch cannot be optimised away, and no reference into the memory is ever given out. A touch of a mapped
//! file raises `SIGBUS` if its page cannot be read back. So loops over files run in a child
//! (`pagewise_kernel::worker`), and the functions they call do not allocate.

use pagewise_kernel::{SysError, page_size};
use pagewise_model::PageSize;
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use std::ffi::{CStr, c_void};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A mapping of this process, unmapped when dropped.
#[derive(Debug)]
pub(crate) struct PlainMapping {
    start: *mut c_void,
    len: usize,
}

impl PlainMapping {
    /// Private anonymous memory, untouched.
    pub(crate) fn anonymous(len: usize) -> Result<Self, SysError> {
        Self::private_with(len, MapFlags::empty())
            .map_err(|e| SysError::new("mmap", format!("{len} bytes of memory"), e))
    }

    /// The same with more flags (not `FIXED`).
    pub(super) fn private_with(len: usize, flags: MapFlags) -> Result<Self, Errno> {
        let (rights, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | flags);
        // SAFETY: no address is asked for, so the kernel picks a free range and replaces nothing.
        unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, rights, flags) }
            .map(|start| Self { start, len })
    }

    /// `len` bytes of a nameless file, private and writable: a written page is copied.
    pub(crate) fn private_file(fd: BorrowedFd<'_>, len: usize) -> Result<Self, Errno> {
        Self::file(fd, len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
    }

    /// The same, shared with all who map it.
    pub(crate) fn shared_file(fd: impl AsFd, len: usize) -> Result<Self, Errno> {
        Self::file(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED)
    }

    /// The same, filled by the call as far as the kernel can (`MAP_POPULATE`).
    pub(crate) fn populated_file(fd: impl AsFd, len: usize) -> Result<Self, Errno> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        Self::file(fd.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE, flags)
    }

    /// Whether a file can be mapped to be read and executed.
    pub(crate) fn can_execute(fd: impl AsFd, len: usize) -> Result<(), Errno> {
        Self::file(fd.as_fd(), len, ProtFlags::READ | ProtFlags::EXEC, MapFlags::SHARED).map(drop)
    }

    fn file(
        fd: BorrowedFd<'_>,
        len: usize,
        rights: ProtFlags,
        flags: MapFlags,
    ) -> Result<Self, Errno> {
        // SAFETY: no address is asked for, so the kernel picks a free range and replaces nothing.
        unsafe { rustix::mm::mmap(std::ptr::null_mut(), len, rights, flags, fd, 0) }
            .map(|start| Self { start, len })
    }

    /// The segment `id` of System V shared memory, `len` bytes (munmap(2) detaches it as shmdt(2) does).
    pub(super) fn segment(id: i32, len: usize) -> Result<Self, Errno> {
        // SAFETY: no address is asked for, so the kernel picks a free range and replaces nothing.
        let start = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        if start.addr() == usize::MAX { Err(last_errno()) } else { Ok(Self { start, len }) }
    }

    /// Keeps huge pages away; a kernel that has none refuses, and nothing is lost.
    pub(crate) fn keep_base_pages(&self) -> Result<(), SysError> {
        match self.advise(Advice::LinuxNoHugepage) {
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(e) => Err(SysError::new("madvise", "MADV_NOHUGEPAGE", e)),
        }
    }

    /// Maps every page for reading now.
    pub(crate) fn populate_read(&self) {
        if self.fill_for_reading().is_err() {
            self.read_pages();
        }
    }

    /// The same by `MADV_POPULATE_READ` (Linux 5.14) or not at all.
    pub(crate) fn fill_for_reading(&self) -> Result<(), Errno> {
        self.advise(Advice::LinuxPopulateRead)
    }

    /// Advises that all of it will be needed (`POSIX_MADV_WILLNEED`).
    pub(crate) fn will_need(&self) -> Result<(), Errno> {
        self.advise(Advice::WillNeed)
    }

    /// Where it begins.
    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is this mapping's own, and the callers' advice discards no contents.
        unsafe { rustix::mm::madvise(self.start, self.len, advice) }
    }

    /// Writes one byte in each base page, upwards.
    pub(crate) fn write_pages(&self) {
        for offset in (0..self.len).step_by(page_bytes()) {
            let at = self.start.cast::<u8>().wrapping_add(offset);
            // SAFETY: offset < len, and every kind of mapping is writable; where a file has no page
            // for it, the kernel ends this process instead of the write.
            unsafe { at.write_volatile(1) };
        }
    }

    /// In how many steps the first byte is what [`PlainMapping::write_pages`] writes.
    pub(crate) fn count_written(&self, step: usize) -> u64 {
        let is_written = |offset: &usize| {
            let at = self.start.cast::<u8>().wrapping_add(*offset);
            // SAFETY: offset < len, and every kind of mapping is readable; where a file has no page for
            // it, the kernel ends this process instead of the read.
            unsafe { at.read_volatile() == 1 }
        };
        (0..self.len).step_by(step.max(1)).filter(is_written).count() as u64
    }

    /// Reads one byte in each base page, upwards.
    pub(crate) fn read_pages(&self) {
        self.read_at((0..self.len).step_by(page_bytes()));
    }

    /// Reads one byte in each `window` of base pages, neighbours far apart in time.
    pub(crate) fn read_windows(&self, window: usize) {
        let step = page_bytes() * window.max(1);
        let count = self.len.div_ceil(step);
        self.read_at((0..count).map(|nth| nth * stride(count) % count * step));
    }

    /// Reads one byte at each of these offsets, all below the length.
    fn read_at(&self, offsets: impl Iterator<Item = usize>) {
        for offset in offsets {
            debug_assert!(offset < self.len, "inside the mapping");
            let at = self.start.cast::<u8>().wrapping_add(offset);
            // SAFETY: both callers stay below len, and every kind of mapping is readable; where a
            // file has no page for it, the kernel ends this process instead of the read.
            unsafe { at.read_volatile() };
        }
    }
}

impl Drop for PlainMapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's own, and no reference into it was ever given out.
        let unmapped = unsafe { rustix::mm::munmap(self.start, self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an owned mapping");
    }
}

/// A step modulo `count` that visits every place: coprime to `count`, and near the golden section, so that
/// neighbours are visited far apart.
fn stride(count: usize) -> usize {
    let divisor = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let section = count * 5 / 8;
    (section..count).find(|&step| divisor(step, count) == 1).unwrap_or(1)
}

/// The base page as a step of offsets.
fn page_bytes() -> usize {
    usize::try_from(page_size::base().bytes()).unwrap_or(usize::MAX)
}

/// The errno of the last call.
pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

// Pages of the reserved pool, in all ways to get them, as plain mappings. If the pool is exhausted, the
// mapping call fails. A cgroup limit may instead raise `SIGBUS` at a touch. So these are touched in children,
// and the functions they call do not allocate.

/// linux/shm.h.
const SHM_HUGETLB: i32 = 0o4000;
/// The size of a page stands in the flags from this bit on, the same for all calls
/// (asm-generic/hugetlb_encode.h).
const SIZE_SHIFT: u32 = libc::MAP_HUGE_SHIFT as u32;

/// Private memory by `MAP_HUGETLB`.
pub(crate) fn pooled(len: usize, page: PageSize) -> Result<PlainMapping, Errno> {
    let size = MapFlags::from_bits_retain(page.bytes().ilog2() << SIZE_SHIFT);
    PlainMapping::private_with(len, MapFlags::HUGETLB | size)
}

/// A file in memory, `MFD_HUGETLB`.
pub(crate) fn pooled_memory_file(len: usize, page: PageSize) -> Result<PlainMapping, Errno> {
    let size = MemfdFlags::from_bits_retain(page.bytes().ilog2() << SIZE_SHIFT);
    let flags = MemfdFlags::HUGETLB | MemfdFlags::CLOEXEC | size;
    let file = rustix::fs::memfd_create(c"pagewise-pool", flags)?;
    ftruncate(&file, len as u64)?;
    PlainMapping::shared_file(&file, len)
}

/// A nameless file of `len` bytes in a directory of a hugetlbfs.
pub(crate) fn pooled_file_in(directory: &CStr, len: usize) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&file, len as u64)?;
    Ok(file)
}

/// A segment of System V shared memory, `SHM_HUGETLB`. It is marked for removal immediately, so that it
/// disappears with its mapping.
pub(crate) fn pooled_segment(len: usize, page: PageSize) -> Result<PlainMapping, Errno> {
    let size = (page.bytes().ilog2() << SIZE_SHIFT).cast_signed();
    let flags = libc::IPC_CREAT | SHM_HUGETLB | size | 0o600;
    // SAFETY: makes a segment from numbers; touches no memory.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, len, flags) };
    if id < 0 {
        return Err(last_errno());
    }
    let attached = PlainMapping::segment(id, len);
    // SAFETY: marks our own segment; IPC_RMID takes no buffer.
    let removed = unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    if removed < 0 { Err(last_errno()) } else { attached }
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
mod tests {
    use super::*;
    use pagewise_kernel::own_usage::thread_faults;
    use pagewise_kernel::page_size;

    #[test]
    fn each_touched_page_is_one_fault() {
        let map = PlainMapping::anonymous(256 * page_bytes()).expect("memory");
        map.keep_base_pages().expect("advice");
        let before = thread_faults().expect("usage");
        map.write_pages();
        let faults = thread_faults().expect("usage") - before;
        assert!((256..300).contains(&faults), "{faults}");
        // A fork by another thread shares the pages, and each is then written by one more fault: once.
        let write_again = |_| {
            let before = thread_faults().expect("usage");
            map.write_pages();
            thread_faults().expect("usage") - before
        };
        let again = (0..3).map(write_again).min();
        assert!(again < Some(10), "{again:?}");
    }

    #[test]
    fn nothing_cannot_be_mapped() {
        assert_eq!(PlainMapping::anonymous(0).unwrap_err().errno(), Some(libc::EINVAL));
    }

    #[test]
    fn every_way_leads_to_the_pool_or_says_why_not() {
        let page = page_size::huge();
        let len = page.bytes() as usize;
        for (name, way) in [
            ("map", pooled(len, page)),
            ("memfd", pooled_memory_file(len, page)),
            ("shm", pooled_segment(len, page)),
        ] {
            match way {
                Ok(mapping) => assert_eq!(mapping.address() % page.bytes(), 0, "{name}"),
                Err(errno) => eprintln!("SKIP every_way_leads_to_the_pool: {name}: {errno}"),
            }
        }
        assert!(pooled_file_in(c"/no/such/directory", len).is_err());
    }
}
