//! A descriptor that stands for a process (`pidfd_open(2)`): cannot be confused by pid reuse.
//!
//! `pidfd_getfd` copies a descriptor out of another process and needs the right to trace it; the
//! copy keeps the other end of a pipe open until it is closed here.
//!
//! `process_madvise(2)` (Linux 5.10) needs the right to read the process's memory and CAP_SYS_NICE, also for
//! a process of the same account (mm/madvise.c).

use crate::error::SysError;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// What may be advised of the memory of another process; none of it changes what the memory holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// It will not be used soon (`MADV_COLD`).
    Cold,
    /// It is to be on huge pages now (`MADV_COLLAPSE`, Linux 6.1).
    Collapse,
}

impl Advice {
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
    // A Pid is positive; the kernel would answer EINVAL to any other.
    let target = Some(pid).filter(|&p| p > 0).and_then(Pid::from_raw);
    let target = target.ok_or_else(|| invalid("pidfd_open", subject()))?;
    rustix::process::pidfd_open(target, PidfdFlags::empty())
        .map_err(|e| SysError::new("pidfd_open", subject(), e))
}

/// A copy of descriptor `fd` of the process behind `pidfd`.
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

/// Advises on a range of addresses of the process behind `pidfd`.
///
/// # Errors
/// ESRCH when it has ended, EPERM without CAP_SYS_NICE, EINVAL for what the kernel does not know or cannot
/// do there, ENOMEM where nothing is mapped or no memory is left, EAGAIN and EBUSY where it was in use.
pub fn advise(pidfd: impl AsFd, range: &Range<u64>, advice: Advice) -> Result<(), SysError> {
    let subject = || format!("{:#x}-{:#x}", range.start, range.end);
    let too_far = |_| invalid("process_madvise", subject());
    let start = usize::try_from(range.start).map_err(too_far)?;
    let len = usize::try_from(range.end.saturating_sub(range.start)).map_err(too_far)?;
    let part = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: len };
    // SAFETY: the kernel reads `part`, which outlives the call. The range is of the other process, which the
    // kernel checks there; even of our own, neither advice changes what any memory holds.
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
    use crate::region::{Pages, Region};
    use pagewise_model::Bytes;

    #[test]
    fn what_is_advised_keeps_its_content() {
        let huge = page_size::huge().bytes();
        let mut region = Region::new(Bytes(2 * huge), Pages::Huge).unwrap();
        region.as_mut_slice().fill(7);
        let own = open(own_pid()).unwrap();
        let start = region.as_ptr() as u64;
        for advice in [Advice::Cold, Advice::Collapse] {
            // That a kernel does not have it, or no huge page, is an answer too.
            if let Err(error) = advise(&own, &(start..start + huge), advice) {
                assert!(error.errno().is_some() && error.call == "process_madvise", "{error}");
            }
            assert!(region.as_slice().iter().all(|byte| *byte == 7));
        }
        let none = advise(&own, &(0..huge), Advice::Cold).unwrap_err();
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
