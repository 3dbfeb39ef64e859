//! One access to each page of borrowed memory, and the calls that fill or change its pages.
//!
//! For private anonymous memory of this process: mapped files and pages of a pool may raise `SIGBUS` and
//! are touched through [`super::mapping`], in a child. Lengths and distances are bytes.

use crate::sample::time;
use pagewise_kernel::region::MemoryRegion;
use rustix::io::Errno;
use rustix::mm::{Advice, MprotectFlags};
use std::hint::black_box;

/// Writes one byte in each `stride` of `part`, upwards.
pub(crate) fn write_pages(part: &mut [u8], stride: usize) {
    for page in part.chunks_mut(stride.max(1)) {
        page[0] = 1;
    }
    black_box(part);
}

/// Has the kernel fill `part`, whole pages, for writing (`MADV_POPULATE_WRITE`, Linux 5.14).
pub(crate) fn populate(part: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: the range is memory that is borrowed alone; filling it changes no content.
    unsafe { rustix::mm::madvise(part.as_mut_ptr().cast(), part.len(), Advice::LinuxPopulateWrite) }
}

/// Takes the right to write from the first `part` bytes of each `unit` of `region`, then gives it back:
/// nanoseconds that all calls of each kind took.
pub(crate) fn take_rights_and_return(
    region: &mut MemoryRegion,
    unit: usize,
    part: usize,
) -> Result<[f64; 2], Errno> {
    let (taken_ns, taken) = time(|| protect(region, unit, part, MprotectFlags::READ));
    let both = MprotectFlags::READ | MprotectFlags::WRITE;
    // Also after a failure, so that the owner of the region may write to all of it.
    let (given_ns, given) = time(|| protect(region, unit, part, both));
    taken.and(given).map(|()| [taken_ns, given_ns])
}

fn protect(
    region: &mut MemoryRegion,
    unit: usize,
    part: usize,
    rights: MprotectFlags,
) -> Result<(), Errno> {
    for piece in region.as_mut_slice().chunks_mut(unit.max(1)) {
        let len = part.min(piece.len());
        // SAFETY: the range lies in memory that is borrowed alone, stays readable, and is writable again
        // before the one caller lets anybody else use it.
        unsafe { rustix::mm::mprotect(piece.as_mut_ptr().cast(), len, rights) }?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::own_usage::thread_faults;
    use pagewise_kernel::page_size;
    use pagewise_kernel::region::RegionPages;
    use pagewise_model::Bytes;

    fn page() -> usize {
        page_size::base().bytes() as usize
    }

    fn region(pages: usize) -> MemoryRegion {
        MemoryRegion::new(Bytes((pages * page()) as u64), RegionPages::Base).expect("memory")
    }

    #[test]
    fn a_page_of_so_many_is_touched() {
        let mut region = region(512);
        let before = thread_faults().expect("usage");
        write_pages(region.as_mut_slice(), 4 * page());
        let faults = thread_faults().expect("usage") - before;
        assert!((128..160).contains(&faults), "{faults}");
        let written = region.as_slice().iter().filter(|byte| **byte == 1).count();
        assert_eq!(written, 128);
    }

    #[test]
    fn what_is_filled_takes_no_fault() {
        let mut region = region(512);
        if let Err(errno) = populate(region.as_mut_slice()) {
            assert_eq!(errno, Errno::INVAL, "before Linux 5.14");
            return;
        }
        let before = thread_faults().expect("usage");
        write_pages(region.as_mut_slice(), page());
        let faults = thread_faults().expect("usage") - before;
        assert!(faults < 16, "{faults}");
        assert_eq!(populate(&mut region.as_mut_slice()[1..]), Err(Errno::INVAL));
    }

    #[test]
    fn rights_come_back() {
        let mut region = region(16);
        let times = take_rights_and_return(&mut region, 4 * page(), page()).expect("rights");
        assert!(times.iter().all(|ns| *ns > 0.0), "{times:?}");
        region.as_mut_slice().fill(7);
        assert!(region.as_slice().iter().all(|byte| *byte == 7));
    }
}
