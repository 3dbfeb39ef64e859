//! The memory of one process: its userfaultfd, created by the process and held here, and which of its files
//! are registered with it.

use crate::borrowed_x86_64::{self, BorrowedThread};
use crate::inject::InjectedCall;
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::{maps, status};
use pagewise_kernel::userfault::{self, Userfault};
use pagewise_kernel::{page_size, pidfd};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Why fault-around stays on in a program.
#[derive(Debug)]
pub(super) enum UserfaultRefusal {
    /// It shares its memory with a process that was handled already.
    Shared,
    /// It is not possible, for this reason.
    Left(String),
    /// It has ended.
    Gone,
}

/// Number of mappings that were registered, and that could not be.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RegistrationCounts {
    pub(super) mappings: u64,
    pub(super) left: u64,
}

/// The memory of a process whose files are mapped page by page.
#[derive(Debug)]
pub(super) struct UserfaultSpace {
    userfault: Userfault,
    /// Mappings of files by first address, with their end. Some may no longer exist.
    files: BTreeMap<u64, u64>,
}

impl UserfaultSpace {
    /// Takes a descriptor from process `pid`, whose only thread is stopped, and registers its file mappings.
    /// `filters` is the number of seccomp filters that it has from pagewise and from before.
    pub(super) fn take(
        pid: i32,
        filters: Option<u32>,
    ) -> Result<(Self, RegistrationCounts), UserfaultRefusal> {
        if status::read(pid).map_err(gone)?.seccomp_filters != filters {
            return Err(UserfaultRefusal::Left(
                "it runs under a seccomp filter of its own".to_owned(),
            ));
        }
        let maps = maps::read(pid).map_err(gone)?;
        let fd = descriptor(pid, borrowed_x86_64::site(pid, &maps))?;
        let userfault = Userfault::ready(fd).map_err(|e| UserfaultRefusal::Left(e.to_string()))?;
        let mut space = Self { userfault, files: BTreeMap::new() };
        let mut covered = RegistrationCounts::default();
        for mapping in maps.iter().filter(|mapping| mapping.is_file()) {
            match space.cover(mapping.start, mapping.size().0) {
                Ok(()) => covered.mappings += 1,
                Err(error) if error.errno() == Some(libc::EBUSY) => {
                    return Err(UserfaultRefusal::Shared);
                }
                Err(_) => covered.left += 1,
            }
        }
        Ok((space, covered))
    }

    /// Registers a new mapping of a file.
    pub(super) fn cover(&mut self, start: u64, len: u64) -> Result<(), SysError> {
        let len = len.next_multiple_of(page_size::base().bytes());
        self.userfault.register(start, len)?;
        self.files.insert(start, start.saturating_add(len));
        Ok(())
    }

    /// Whether `address` is in a mapping of a file.
    pub(super) fn holds(&self, address: u64) -> bool {
        let below = self.files.range(..=address).next_back();
        below.is_some_and(|(_, end)| address < *end)
    }
}

/// Makes the process create the descriptor, copies it here, and closes it in the process.
fn descriptor(pid: i32, site: Option<u64>) -> Result<OwnedFd, UserfaultRefusal> {
    let foreign = || UserfaultRefusal::Left("it runs 32-bit code".to_owned());
    let borrowed = BorrowedThread::new(pid, site.ok_or_else(foreign)?).map_err(gone)?;
    let thread = borrowed.ok_or_else(foreign)?;
    let make = InjectedCall {
        name: "userfaultfd",
        number: libc::SYS_userfaultfd,
        args: [userfault::FLAGS as u64, 0, 0, 0],
    };
    let number = thread.call(make).map_err(gone)?;
    let fd = i32::try_from(number).ok().filter(|fd| *fd >= 0).ok_or_else(|| {
        let errno = i32::try_from(-number).unwrap_or(libc::EINVAL);
        let source = std::io::Error::from_raw_os_error(errno);
        UserfaultRefusal::Left(SysError::new("userfaultfd", "its memory", source).to_string())
    })?;
    let copy = pidfd::open(pid).and_then(|process| pidfd::get_fd(process, fd));
    let close = InjectedCall { name: "close", number: libc::SYS_close, args: [fd as u64, 0, 0, 0] };
    thread.call(close).map_err(gone)?;
    copy.map_err(|error| UserfaultRefusal::Left(error.to_string()))
}

/// A request on a stopped thread fails only because the thread has been killed.
fn gone(_error: SysError) -> UserfaultRefusal {
    UserfaultRefusal::Gone
}
