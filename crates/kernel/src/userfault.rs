//! userfaultfd(2), in two forms.
//!
//! [`Userfault`] uses asynchronous write protection (Linux 6.7), for one property: a registered mapping gets
//! its pages one by one. In it, the kernel maps no cached pages around a fault (mm/memory.c,
//! `uffd_disable_fault_around`) and no large folio as a whole.
//!
//! Nothing is ever protected, so no fault waits. The descriptor belongs to the memory of the process that
//! created it, in whatever process it is held, and any holder may use it on that memory. When the last copy
//! is closed, the mappings lose the property. A forked child does not have it (mm/userfaultfd.c,
//! `dup_userfaultfd`), nor do mappings that a process creates or moves later.
//!
//! [`MissingPageServer`] lets another thread of the program serve each fault on memory that does not exist yet, as
//! programs do that fetch pages from elsewhere. The faulting thread sleeps until the page is filled in.
//!
//! Needs no privilege: [`FLAGS`] request faults in user mode only, which no setting forbids. Refused (EPERM)
//! for shared mappings of files that are open for reading only. Cost: 1-2 us per mapping.

use crate::error::SysError;
use crate::{ioctl, page_size};
use pagewise_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{FromRawFd, OwnedFd};

/// Flags of the call: closed at exec, user mode only.
pub const FLAGS: i32 = libc::O_CLOEXEC | USER_MODE_ONLY;
const USER_MODE_ONLY: i32 = 1;

// Numbers from linux/userfaultfd.h, _IOWR, the same on every architecture that uses the generic ioctl
// encoding (x86, arm64, riscv).
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_COPY: u64 = 0xc028_aa03;
const API: u64 = 0xaa;
const FEATURE_WP_UNPOPULATED: u64 = 1 << 13;
const FEATURE_WP_ASYNC: u64 = 1 << 15;
const MODE_MISSING: u64 = 1;
const MODE_WP: u64 = 1 << 1;
/// First byte of a message about a fault; below, the offset of its address.
const EVENT_FAULT: u8 = 0x12;
const FAULT_ADDRESS: std::ops::Range<usize> = 16..24;
/// Size of a message.
const MESSAGE: usize = 32;

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

/// `struct uffdio_copy`.
#[repr(C)]
struct CopyArgument {
    to: u64,
    from: u64,
    len: u64,
    mode: u64,
    copied: i64,
}

/// Creates a descriptor for the memory of this process.
fn open(flags: i32) -> Result<OwnedFd, SysError> {
    // SAFETY: creates a descriptor from a number; touches no memory.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, flags) };
    if fd < 0 {
        return Err(SysError::last("userfaultfd", "own memory"));
    }
    // SAFETY: the kernel has just returned this descriptor. It fits an int, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn shake_hands(fd: &OwnedFd, features: u64) -> Result<(), SysError> {
    let mut argument = ApiArgument { api: API, features, ioctls: 0 };
    // SAFETY: the number encodes the size of the argument (checked by a test), three integers.
    let done = unsafe {
        ioctl::control("ioctl UFFDIO_API", "a userfaultfd", fd, UFFDIO_API, &mut argument)
    };
    done.map(drop)
}

fn register(fd: &OwnedFd, start: u64, len: u64, mode: u64) -> Result<(), SysError> {
    let mut argument = RegisterArgument { start, len, mode, ioctls: 0 };
    let subject = format!("{start:#x}, {len} bytes");
    // SAFETY: the number encodes the size of the argument (checked by a test), four integers.
    let done = unsafe {
        let name = "ioctl UFFDIO_REGISTER";
        ioctl::control(name, subject, fd, UFFDIO_REGISTER, &mut argument)
    };
    done.map(drop)
}

/// A descriptor that is ready for registration.
#[derive(Debug)]
pub struct Userfault(OwnedFd);

impl Userfault {
    /// Opens one for the memory of this process.
    ///
    /// # Errors
    /// ENOSYS, EPERM (a seccomp profile), EINVAL before Linux 6.7.
    pub fn open() -> Result<Self, SysError> {
        Self::ready(open(FLAGS)?)
    }

    /// Prepares a descriptor that userfaultfd(2) has just returned, in any process, for [`FLAGS`].
    ///
    /// # Errors
    /// EINVAL before Linux 6.7.
    pub fn ready(fd: OwnedFd) -> Result<Self, SysError> {
        shake_hands(&fd, FEATURE_WP_ASYNC | FEATURE_WP_UNPOPULATED).map(|()| Self(fd))
    }

    /// Registers the mappings from `start` on, in whole pages.
    ///
    /// # Errors
    /// EPERM for a shared mapping of a file that is open for reading only, EBUSY if the memory has another
    /// such descriptor, EINVAL if nothing is mapped.
    pub fn register(&self, start: u64, len: u64) -> Result<(), SysError> {
        register(&self.0, start, len, MODE_WP)
    }
}

/// Serves faults on missing memory with pages full of zeroes. On drop, waiting threads continue by
/// themselves.
#[derive(Debug)]
pub struct MissingPageServer {
    fd: OwnedFd,
    zeroes: Vec<u8>,
}

impl MissingPageServer {
    /// Opens one for the memory of this process.
    ///
    /// # Errors
    /// ENOSYS, EPERM (a seccomp profile), EINVAL before Linux 5.11.
    pub fn open() -> Result<Self, SysError> {
        let fd = open(FLAGS | libc::O_NONBLOCK)?;
        shake_hands(&fd, 0)?;
        let page = usize::try_from(page_size::base().bytes()).unwrap_or(0);
        Ok(Self { fd, zeroes: vec![0; page] })
    }

    /// Registers private anonymous memory from `start` on, in whole pages.
    ///
    /// # Errors
    /// EBUSY if the memory has another such descriptor, EINVAL if nothing is mapped.
    pub fn register(&self, start: u64, len: u64) -> Result<(), SysError> {
        register(&self.fd, start, len, MODE_MISSING)
    }

    /// Waits for a fault, at most `patience`, and fills in its page. Returns whether a page was filled in.
    ///
    /// # Errors
    /// When the descriptor cannot be read or the page cannot be filled in.
    pub fn answer(&self, patience: Nanos) -> Result<bool, SysError> {
        const SUBJECT: &str = "a userfaultfd";
        let fail = |call| move |e: Errno| SysError::new(call, SUBJECT, e);
        let mut ready = [PollFd::new(&self.fd, PollFlags::IN)];
        let wait = Timespec {
            tv_sec: (patience.0 / 1_000_000_000).cast_signed(),
            tv_nsec: (patience.0 % 1_000_000_000).cast_signed(),
        };
        match poll(&mut ready, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(false),
            waited => waited.map_err(fail("poll"))?,
        };
        let mut message = [0; MESSAGE];
        match rustix::io::read(&self.fd, &mut message) {
            Ok(MESSAGE) if message[0] == EVENT_FAULT => {
                let address = message[FAULT_ADDRESS].try_into().map(u64::from_ne_bytes);
                self.fill(address.unwrap_or_default())
            }
            Ok(_) | Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(e) => Err(fail("read")(e)),
        }
    }

    /// Writes zeroes where the memory has no page yet; it reads as zeroes anyway.
    fn fill(&self, address: u64) -> Result<bool, SysError> {
        let len = self.zeroes.len() as u64;
        let mut argument = CopyArgument {
            to: address / len.max(1) * len,
            from: self.zeroes.as_ptr() as u64,
            len,
            mode: 0,
            copied: 0,
        };
        // SAFETY: the number encodes the size of the argument (checked by a test), five integers. The source
        // is `len` live bytes. The kernel only fills a page that is missing in registered private memory,
        // which reads as zeroes before and after.
        let done = unsafe {
            ioctl::control(
                "ioctl UFFDIO_COPY",
                "a missing page",
                &self.fd,
                UFFDIO_COPY,
                &mut argument,
            )
        };
        match done {
            // Filled in meanwhile: a fault that a signal interrupted is reported twice.
            Err(e) if e.errno() == Some(libc::EEXIST) => Ok(false),
            done => done.map(|_| true),
        }
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::region::{MemoryRegion, RegionPages};
    use pagewise_model::Bytes;

    #[test]
    fn ioctl_numbers_encode_the_sizes() {
        let size = |number: u64| (number >> 16 & 0x3fff) as usize;
        assert_eq!(size(UFFDIO_API), size_of::<ApiArgument>());
        assert_eq!(size(UFFDIO_REGISTER), size_of::<RegisterArgument>());
        assert_eq!(size(UFFDIO_COPY), size_of::<CopyArgument>());
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
        let page = page_size::base().bytes();
        let region = MemoryRegion::new(Bytes(page), RegionPages::Any).unwrap();
        own.register(region.as_ptr() as u64, page).unwrap();
        assert_eq!(own.register(page, page).unwrap_err().errno(), Some(libc::EINVAL));
    }

    #[test]
    fn faults_are_answered_by_another_thread() {
        let missing = match MissingPageServer::open() {
            Ok(missing) => missing,
            Err(error) => {
                println!("SKIP faults_are_answered_by_another_thread: {error}");
                return;
            }
        };
        let page = page_size::base().bytes();
        let mut region = MemoryRegion::new(Bytes(4 * page), RegionPages::Base).unwrap();
        missing.register(region.as_ptr() as u64, 4 * page).unwrap();
        assert!(!missing.answer(Nanos(0)).unwrap(), "nothing is touched yet");
        std::thread::scope(|scope| {
            let touching = scope.spawn(|| region.touch(Bytes(page)));
            let mut filled = 0;
            while filled < 4 {
                filled += u32::from(missing.answer(Nanos::secs(1)).unwrap());
            }
            assert_eq!(touching.join().unwrap(), 4);
        });
        assert!(!missing.answer(Nanos(0)).unwrap());
    }

    #[test]
    fn who_waits_goes_on_when_nobody_answers_any_more() {
        let Ok(missing) = MissingPageServer::open() else {
            println!("SKIP who_waits_goes_on: no userfaultfd");
            return;
        };
        let mut region = MemoryRegion::new(Bytes(1), RegionPages::Base).unwrap();
        missing.register(region.as_ptr() as u64, region.size().0).unwrap();
        std::thread::scope(|scope| {
            let touching = scope.spawn(|| region.touch(Bytes(1 << 12)));
            drop(missing);
            assert!(touching.join().unwrap() > 0);
        });
    }
}
