//! Memory whose bytes are executed: written first, then closed to writing and opened to execution by one
//! call (`mprotect(2)`), so that it is never both.
//!
//! Huge pages stay what they are: the whole region changes at once (mm/huge_memory.c, `change_huge_pmd`).
//! A kernel may refuse to execute what has been written (SELinux `execmem`, `PR_SET_MDWE`), which is an
//! error of that call. Not done: keeping the caches of instructions in step with memory, which x86 does by
//! itself and other architectures leave to the program. Overhead: one call, some microseconds for each GiB
//! on huge pages, 10 ns for each base page.

use crate::error::SysError;
use crate::region::Region;
use rustix::mm::MprotectFlags;

/// A region that can be read and executed, and by nobody written.
#[derive(Debug)]
pub struct CodeRegion(Region);

impl CodeRegion {
    /// Closes what has been written.
    ///
    /// # Errors
    /// EACCES where memory that was written may not be executed.
    pub fn close(region: Region) -> Result<Self, SysError> {
        let rights = MprotectFlags::READ | MprotectFlags::EXEC;
        let (start, len) = (region.as_ptr().cast_mut().cast(), region.as_slice().len());
        // SAFETY: the range is all of a region that was handed over, so nobody holds a reference through
        // which it could be written; reading stays allowed, which is all that `Region` does by `&`.
        unsafe { rustix::mm::mprotect(start, len, rights) }
            .map(|()| Self(region))
            .map_err(|e| SysError::new("mprotect", "memory that is to be executed", e))
    }

    /// The memory, to read it and to look at its pages.
    #[must_use]
    pub const fn region(&self) -> &Region {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::{maps, own_pid};
    use crate::region::Pages;
    use pagewise_model::Bytes;

    #[test]
    fn what_is_executable_is_not_writable() {
        let mut region = Region::new(Bytes::kib(64), Pages::Base).unwrap();
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
