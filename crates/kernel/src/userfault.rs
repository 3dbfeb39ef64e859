//! userfaultfd(2) with asynchronous write protection (Linux 6.7), for one property of it: a mapping
//! that is registered is given its pages one by one. The kernel maps no cached pages around a fault
//! there (mm/memory.c, `uffd_disable_fault_around`) and no large folio as a whole.
//!
//! Nothing is ever protected, so no fault waits for anybody. The descriptor belongs to the memory of
//! the process that made it, whoever holds it, and may be used on that memory by any holder. When
//! the last copy is closed its mappings are as they were; a forked child does not have the property
//! (mm/userfaultfd.c, `dup_userfaultfd`), neither has what a process maps or moves later.
//!
//! Needs no right: [`FLAGS`] ask for faults in user mode only, which no setting forbids. Refused
//! (EPERM) for shared mappings of files that are open for reading alone. Cost: 1-2 us a mapping.

use crate::error::SysError;
use crate::ioctl;
use std::os::fd::{FromRawFd, OwnedFd};

/// What the call is made with: closed at exec, user mode only.
pub const FLAGS: i32 = libc::O_CLOEXEC | USER_MODE_ONLY;
const USER_MODE_ONLY: i32 = 1;

// Numbers of linux/userfaultfd.h, _IOWR, the same on every architecture that uses the generic
// ioctl encoding (x86, arm64, riscv).
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const API: u64 = 0xaa;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const MODE_WP: u64 = 1 << 1;

/// `struct uffdio_api`.
#[repr(C)]
struct ApiArgument {
    api: u64,
    features: u64,
    ioctls: u64,
}

/// `struct uffdio_register`.
#[repr(C)]
struct RegisterArgument {
    start: u64,
    len: u64,
    mode: u64,
    ioctls: u64,
}

/// A descriptor that is ready to be registered with.
#[derive(Debug)]
pub struct Userfault(OwnedFd);

impl Userfault {
    /// One for the memory of this process.
    ///
    /// # Errors
    /// ENOSYS, EPERM (a seccomp profile), EINVAL before Linux 6.7.
    pub fn open() -> Result<Self, SysError> {
        // SAFETY: makes a descriptor from a number; touches no memory.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, FLAGS) };
        if fd < 0 {
            return Err(SysError::last("userfaultfd", "own memory"));
        }
        // SAFETY: the kernel has just returned this descriptor, which fits an int and nobody else
        // owns.
        Self::ready(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Makes a descriptor ready that userfaultfd(2) has just given to some process with [`FLAGS`].
    ///
    /// # Errors
    /// EINVAL before Linux 6.7.
    pub fn ready(fd: OwnedFd) -> Result<Self, SysError> {
        let features = FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED;
        let mut argument = ApiArgument { api: API, features, ioctls: 0 };
        // SAFETY: the number encodes the size of the argument (checked by a test), three integers.
        let done = unsafe {
            ioctl::control("ioctl UFFDIO_API", "a userfaultfd", &fd, UFFDIO_API, &mut argument)
        };
        done.map(|_| Self(fd))
    }

    /// Registers the mappings from `start` on, whole pages.
    ///
    /// # Errors
    /// EPERM for a shared mapping of a file that is open for reading alone, EBUSY where the memory
    /// has another such descriptor, EINVAL where nothing is mapped.
    pub fn register(&self, start: u64, len: u64) -> Result<(), SysError> {
        let mut argument = RegisterArgument { start, len, mode: MODE_WP, ioctls: 0 };
        let subject = format!("{start:#x}, {len} bytes");
        // SAFETY: the number encodes the size of the argument (checked by a test), four integers.
        let done = unsafe {
            let name = "ioctl UFFDIO_REGISTER";
            ioctl::control(name, subject, &self.0, UFFDIO_REGISTER, &mut argument)
        };
        done.map(drop)
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::region::{Pages, Region};
    use pagewise_model::Bytes;

    #[test]
    fn ioctl_numbers_encode_the_sizes() {
        let size = |number: u64| (number >> 16 & 0x3fff) as usize;
        assert_eq!(size(UFFDIO_API), size_of::<ApiArgument>());
        assert_eq!(size(UFFDIO_REGISTER), size_of::<RegisterArgument>());
    }

    #[test]
    fn own_memory_is_registered_and_memory_that_is_not_there_is_not() {
        let own = match Userfault::open() {
            Ok(own) => own,
            Err(error) => {
                println!("SKIP own_memory_is_registered: {error}");
                return;
            }
        };
        let page = crate::page_size::base().bytes();
        let region = Region::new(Bytes(page), Pages::Any).unwrap();
        own.register(region.as_ptr() as u64, page).unwrap();
        assert_eq!(own.register(page, page).unwrap_err().errno(), Some(libc::EINVAL));
    }
}
