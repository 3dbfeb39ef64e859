//! A descriptor that refers to a process (`pidfd_open(2)`) and is safe against pid reuse.
//!
//! `pidfd_getfd` copies a descriptor out of another process and needs the right to trace it. The copy keeps
//! the other end of a pipe open until it is closed here.
//!
//! `process_madvise(2)` (Linux 5.10) needs the right to read the process's memory, and CAP_SYS_NICE even for
//! a process of the same account (mm/madvise.c).

use crate::error::SysError;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Advice on the memory of another process. None of it changes the content of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryAdvice {
    /// Not needed soon (`MADV_COLD`).
    Cold,
    /// Put on huge pages now (`MADV_COLLAPSE`, Linux 6.1).
    Collapse,
}

impl MemoryAdvice {
    const fn number(self) -> i32 {
        match self {
            Self::Cold => libc::MADV_COLD,
            Self::Collapse => crate::region::MADV_COLLAPSE,
        }
    }
}

fn invalid(call: &'static str, subject: String) -> SysError {
    SysError::new(call, subject, rustix::io::Errno::INVAL)
}

/// Opens process `pid`. The descriptor is closed at exec.
pub fn open(pid: i32) -> Result<OwnedFd, SysError> {
    let subject = || format!("process {pid}");
    // A Pid is positive; the kernel would refuse any other number with EINVAL.
    let target = Some(pid).filter(|&p| p > 0).and_then(Pid::from_raw);
    let target = target.ok_or_else(|| invalid("pidfd_open", subject()))?;
    rustix::process::pidfd_open(target, PidfdFlags::empty())
        .map_err(|e| SysError::new("pidfd_open", subject(), e))
}

/// Copies descriptor `fd` of the process behind `pidfd`.
pub fn get_fd(pidfd: impl AsFd, fd: i32) -> Result<OwnedFd, SysError> {
    rustix::process::pidfd_getfd(pidfd, fd, PidfdGetfdFlags::empty())
        .map_err(|e| SysError::new("pidfd_getfd", format!("descriptor {fd}"), e))
}

/// Sends `signal` to the process behind `pidfd`.
pub fn send_signal(pidfd: impl AsFd, signal: i32) -> Result<(), SysError> {
    let subject = || format!("signal {signal}");
    let named = Signal::from_named_raw(signal);
    let named = named.ok_or_else(|| invalid("pidfd_send_signal", subject()))?;
    rustix::process::pidfd_send_signal(pidfd, named)
        .map_err(|e| SysError::new("pidfd_send_signal", subject(), e))
}

/// Gives advice on an address range of the process behind `pidfd`.
///
/// # Errors
/// ESRCH if it has ended, EPERM without CAP_SYS_NICE, EINVAL if the kernel does not know the advice or cannot
/// apply it there, ENOMEM if nothing is mapped or no memory is left, EAGAIN and EBUSY if the memory was in
/// use.
pub fn advise(pidfd: impl AsFd, range: &Range<u64>, advice: MemoryAdvice) -> Result<(), SysError> {
    let subject = || format!("{:#x}-{:#x}", range.start, range.end);
    let too_far = |_| invalid("process_madvise", subject());
    let start = usize::try_from(range.start).map_err(too_far)?;
    let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(too_far)?;
    let part = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: len };
    // SAFETY: the kernel reads `part`, which outlives the call. The range belongs to the other process, where
    // the kernel checks it. Even for this process, neither advice changes the content of memory.
    let advised = unsafe {
        libc::syscall(
            libc::SYS_process_madvise,
            pidfd.as_fd().as_raw_fd(),
            &raw const part,
            1usize,
            advice.number(),
            0u32,
        )
    };
    if advised >= 0 { Ok(()) } else { Err(SysError::last("process_madvise", subject())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size;
    use crate::proc::own_pid;
    use crate::region::{MemoryRegion, RegionPages};
    use pagewise_model::Bytes;

    #[test]
    fn what_is_advised_keeps_its_content() {
        let huge = page_size::huge().bytes();
        let mut region = MemoryRegion::new(Bytes(2 * huge), RegionPages::Huge).unwrap();
        region.as_mut_slice().fill(7);
        let own = open(own_pid()).unwrap();
        let start = region.as_ptr() as u64;
        for advice in [MemoryAdvice::Cold, MemoryAdvice::Collapse] {
            // A kernel without the call, or without a free huge page, is a valid result too.
            if let Err(error) = advise(&own, &(start..start + huge), advice) {
                assert!(error.errno().is_some() && error.call == "process_madvise", "{error}");
            }
            assert!(region.as_slice().iter().all(|byte| *byte == 7));
        }
        let none = advise(&own, &(0..huge), MemoryAdvice::Cold).unwrap_err();
        assert!(matches!(none.errno(), Some(libc::ENOMEM | libc::ENOSYS | libc::EPERM)), "{none}");
    }

    #[test]
    fn refuses_what_is_no_process() {
        for pid in [0, -1, i32::MIN] {
            assert_eq!(open(pid).unwrap_err().errno(), Some(libc::EINVAL));
        }
        assert_eq!(open(i32::MAX).unwrap_err().errno(), Some(libc::ESRCH));
    }
}
