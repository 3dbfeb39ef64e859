//! `/sys/kernel/debug/gup_test`: the kernel's own benchmark of `get_user_pages_fast` (mm/gup_test.c, Linux
//! 5.11). It needs a kernel built with `CONFIG_GUP_TEST`, root, and a mounted debugfs.
//!
//! The kernel holds the pages of a range, some number per call, then releases all of them, and reports both
//! times in whole microseconds. Over a range of 2 MiB that is accurate to some percent. Not seen: the work of
//! a kernel caller around it, and the price of a system call.

use crate::error::SysError;
use crate::ioctl;
use crate::region::MemoryRegion;
use pagewise_model::{Bytes, Nanos, PageSize};
use std::fs::File;

const PATH: &str = "/sys/kernel/debug/gup_test";
/// `GUP_FAST_BENCHMARK`, _IOWR, the same on every architecture that uses the generic ioctl encoding.
const GUP_FAST_BENCHMARK: u64 = 0xc050_6701;

/// `struct gup_test`.
#[repr(C)]
#[derive(Default)]
struct GupTestArgument {
    get_usec: u64,
    put_usec: u64,
    address: u64,
    size: u64,
    pages_of_a_call: u32,
    gup_flags: u32,
    test_flags: u32,
    which_pages: [u32; 8],
}

/// The benchmark.
#[derive(Debug)]
pub struct GupTest(File);

/// Times of one run over a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GupTestTimes {
    /// Looking the pages up and holding them.
    pub get: Nanos,
    /// Releasing them.
    pub put: Nanos,
}

impl GupTest {
    /// Opens it.
    ///
    /// # Errors
    /// ENOENT without the option or debugfs, EACCES for accounts other than root.
    pub fn open() -> Result<Self, SysError> {
        let file = File::options().read(true).write(true).open(PATH);
        file.map(Self).map_err(|e| SysError::new("open", PATH, e))
    }

    /// Holds all of `region`, `piece` bytes per call, and releases it.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn hold(
        &self,
        region: &MemoryRegion,
        piece: Bytes,
        base: PageSize,
    ) -> Result<GupTestTimes, SysError> {
        let mut argument = GupTestArgument {
            address: region.as_ptr() as u64,
            size: region.size().0,
            pages_of_a_call: u32::try_from(piece.pages(base)).unwrap_or(u32::MAX),
            ..GupTestArgument::default()
        };
        // SAFETY: the number encodes the size of the argument (checked by a test), only integers; the
        // kernel reads the page table of the range, which `region` keeps mapped, and changes no memory.
        unsafe {
            ioctl::control(
                "ioctl GUP_FAST_BENCHMARK",
                PATH,
                &self.0,
                GUP_FAST_BENCHMARK,
                &mut argument,
            )
        }?;
        let time = |usec: u64| Nanos(usec.saturating_mul(1000));
        Ok(GupTestTimes { get: time(argument.get_usec), put: time(argument.put_usec) })
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::page_size;
    use crate::region::RegionPages;

    #[test]
    fn the_number_encodes_the_size() {
        assert_eq!((GUP_FAST_BENCHMARK >> 16 & 0x3fff) as usize, size_of::<GupTestArgument>());
    }

    #[test]
    fn pages_are_held_where_the_kernel_has_the_benchmark() {
        let test = match GupTest::open() {
            Ok(test) => test,
            Err(error) => return println!("SKIP pages_are_held: {error}"),
        };
        let mut region = MemoryRegion::new(Bytes::mib(2), RegionPages::Base).unwrap();
        region.populate().unwrap();
        let held = test.hold(&region, Bytes::kib(64), page_size::base()).unwrap();
        assert!(held.get > Nanos(0), "{held:?}");
    }
}
