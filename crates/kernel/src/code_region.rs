//! Memory whose bytes are executed. It is written first; then one call (`mprotect(2)`) makes it executable
//! and read-only, so it is never writable and executable at once.
//!
//! Huge pages are preserved: the whole region changes at once (mm/huge_memory.c, `change_huge_pmd`). A kernel
//! may refuse to execute memory that has been written (SELinux `execmem`, `PR_SET_MDWE`); then the call
//! fails. Not done: synchronizing instruction caches with memory. x86 does that by itself; other
//! architectures leave it to the program. Overhead: one call, some microseconds per GiB on huge pages, 10 ns
//! per base page.

use crate::error::SysError;
use crate::region::MemoryRegion;
use rustix::mm::MprotectFlags;

/// A region that is readable and executable, but not writable.
#[derive(Debug)]
pub struct CodeRegion(MemoryRegion);

impl CodeRegion {
    /// Makes a written region executable and read-only.
    ///
    /// # Errors
    /// EACCES if memory that was written may not be executed.
    pub fn close(region: MemoryRegion) -> Result<Self, SysError> {
        let rights = MprotectFlags::READ | MprotectFlags::EXEC;
        let (start, len) = (region.as_ptr().cast_mut().cast(), region.as_slice().len());
        // SAFETY: the range is all of a region that was handed over, so no reference exists through which it
        // could be written. It stays readable, which is all that `MemoryRegion` needs for `&`.
        unsafe { rustix::mm::mprotect(start, len, rights) }
            .map(|()| Self(region))
            .map_err(|e| SysError::new("mprotect", "memory that is to be executed", e))
    }

    /// The memory, for reading it and examining its pages.
    #[must_use]
    pub const fn region(&self) -> &MemoryRegion {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{maps, own_pid};
    use crate::region::RegionPages;
    use pagewise_model::Bytes;

    #[test]
    fn what_is_executable_is_not_writable() {
        let mut region = MemoryRegion::new(Bytes::kib(64), RegionPages::Base).unwrap();
        region.as_mut_slice().fill(0xc3);
        let start = region.as_ptr() as u64;
        let code = CodeRegion::close(region).unwrap();
        let all = maps::read(own_pid()).unwrap();
        let own = all.into_iter().find(|mapping| mapping.start == start).unwrap();
        assert!(own.perms.read && own.perms.exec && !own.perms.write, "{own:?}");
        assert!(code.region().as_slice().iter().all(|byte| *byte == 0xc3));
        assert_eq!(code.region().residency().unwrap().rss, code.region().size());
    }
}
