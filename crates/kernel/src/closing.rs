//! Closes a descriptor and returns the error of its file system (`close(2)`).
//!
//! NFS, quotas and FUSE (FLUSH) may report only at the close that data could not be stored. `std` and rustix
//! drop that error. The descriptor is closed in any case.

use rustix::io::Errno;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Closes a descriptor.
///
/// # Errors
/// EIO, ENOSPC or EDQUOT if data written before could not be stored; EINTR if the outcome is unknown.
pub fn close(descriptor: impl Into<OwnedFd>) -> Result<(), Errno> {
    let raw = descriptor.into().into_raw_fd();
    // SAFETY: its owner has just given up the number, so nothing else uses or closes it.
    let answer = unsafe { libc::close(raw) };
    outcome(answer)
}

/// Closes standard output. Call it last: the next descriptor that is opened gets its number.
///
/// # Errors
/// As [`close()`]; EBADF if it was closed already.
pub fn close_standard_output() -> Result<(), Errno> {
    // SAFETY: no owner in this process closes descriptor 1. std's handle borrows it for ever, but makes no
    // call once its buffer is empty; a later call by mistake fails with EBADF.
    let answer = unsafe { libc::close(libc::STDOUT_FILENO) };
    outcome(answer)
}

fn outcome(answer: libc::c_int) -> Result<(), Errno> {
    if answer == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_has_ended() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        assert_eq!(close(writer), Ok(()));
        let mut all = Vec::new();
        assert_eq!(std::io::Read::read_to_end(&mut reader, &mut all).unwrap(), 0);
    }
}
