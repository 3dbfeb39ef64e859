//! Pages of the reserved pool by all ways that lead to it, as plain mappings. A pool that has run out is
//! an error of the mapping call; a limit of a cgroup may be `SIGBUS` at a touch, so these are touched in
//! children, and what they call allocates nothing.

use super::mapping::{Mapping, last_errno};
use pagewise_model::PageSize;
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate};
use rustix::io::Errno;
use rustix::mm::MapFlags;
use std::ffi::CStr;
use std::os::fd::OwnedFd;

/// linux/shm.h.
const SHM_HUGETLB: i32 = 0o4000;
/// The size of a page stands in the flags from this bit on, the same for all calls
/// (asm-generic/hugetlb_encode.h).
const SIZE_SHIFT: u32 = libc::MAP_HUGE_SHIFT as u32;

/// Private memory by `MAP_HUGETLB`.
pub(crate) fn map(len: usize, page: PageSize) -> Result<Mapping, Errno> {
    let size = MapFlags::from_bits_retain(page.bytes().ilog2() << SIZE_SHIFT);
    Mapping::private_with(len, MapFlags::HUGETLB | size)
}

/// A file in memory, `MFD_HUGETLB`.
pub(crate) fn memory_file(len: usize, page: PageSize) -> Result<Mapping, Errno> {
    let size = MemfdFlags::from_bits_retain(page.bytes().ilog2() << SIZE_SHIFT);
    let flags = MemfdFlags::HUGETLB | MemfdFlags::CLOEXEC | size;
    let file = rustix::fs::memfd_create(c"pagewise-pool", flags)?;
    ftruncate(&file, len as u64)?;
    Mapping::shared_file(&file, len)
}

/// A nameless file of `len` bytes in a directory of a hugetlbfs.
pub(crate) fn file_in(directory: &CStr, len: usize) -> Result<OwnedFd, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR)?;
    ftruncate(&file, len as u64)?;
    Ok(file)
}

/// A segment of System V shared memory, `SHM_HUGETLB`. It is marked for removal at once, so that it is gone
/// with its mapping.
pub(crate) fn segment(len: usize, page: PageSize) -> Result<Mapping, Errno> {
    let size = (page.bytes().ilog2() << SIZE_SHIFT).cast_signed();
    let flags = libc::IPC_CREAT | SHM_HUGETLB | size | 0o600;
    // SAFETY: makes a segment from numbers; touches no memory.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, len, flags) };
    if id < 0 {
        return Err(last_errno());
    }
    let attached = Mapping::segment(id, len);
    // SAFETY: marks our own segment; IPC_RMID takes no buffer.
    let removed = unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    if removed < 0 { Err(last_errno()) } else { attached }
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a skipped test says so")]
mod tests {
    use super::*;
    use pagewise_kernel::page_size;

    #[test]
    fn every_way_leads_to_the_pool_or_says_why_not() {
        let page = page_size::huge();
        let len = page.bytes() as usize;
        for (name, way) in [
            ("map", map(len, page)),
            ("memfd", memory_file(len, page)),
            ("shm", segment(len, page)),
        ] {
            match way {
                Ok(mapping) => assert_eq!(mapping.address() % page.bytes(), 0, "{name}"),
                Err(errno) => eprintln!("SKIP every_way_leads_to_the_pool: {name}: {errno}"),
            }
        }
        assert!(file_in(c"/no/such/directory", len).is_err());
    }
}
