//! A descriptor that stands for a process (`pidfd_open(2)`): cannot be confused by pid reuse.
//!
//! `pidfd_getfd` copies a descriptor out of another process and needs the right to trace it; the
//! copy keeps the other end of a pipe open until it is closed here.

use crate::error::SysError;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal};
use std::os::fd::{AsFd, OwnedFd};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_no_process() {
        for pid in [0, -1, i32::MIN] {
            assert_eq!(open(pid).unwrap_err().errno(), Some(libc::EINVAL));
        }
        assert_eq!(open(i32::MAX).unwrap_err().errno(), Some(libc::ESRCH));
    }
}
