//! Closing a descriptor and hearing what its file system says then (`close(2)`).
//!
//! Some file systems report only at the close that data could not be stored: NFS, quotas and FUSE
//! (FLUSH). `std` and rustix drop that answer. The descriptor is gone whatever the answer is.

use rustix::io::Errno;
use std::os::fd::{IntoRawFd, OwnedFd};

/// Closes a descriptor.
///
/// # Errors
/// EIO, ENOSPC or EDQUOT where data that was written before could not be stored; EINTR where nobody
/// knows.
pub fn close(descriptor: impl Into<OwnedFd>) -> Result<(), Errno> {
    let raw = descriptor.into().into_raw_fd();
    // SAFETY: the number came out of its owner just now, so nobody else uses or closes it.
    let answer = unsafe { libc::close(raw) };
    outcome(answer)
}

/// Closes standard output. Call it last: the next descriptor that is opened gets its number.
///
/// # Errors
/// As [`close()`]; EBADF where it was closed already.
pub fn close_standard_output() -> Result<(), Errno> {
    // SAFETY: no owner in this process closes descriptor 1, and std's handle, which borrows it for
    // ever, makes no call once its buffer is empty; a call made in error fails with EBADF.
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
