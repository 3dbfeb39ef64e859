//! Pipes: creation, capacity and the limits on it (`pipe(7)`, fs/pipe.c).
//!
//! Capacity is bytes, a power of two of base pages. Growing above `pipe-max-size` needs
//! CAP_SYS_RESOURCE. When a user's pipes hold more than `pipe-user-pages-soft` pages, growth is
//! refused with EPERM and new pipes of that user get two pages. Shrinking below the content is
//! EBUSY. Resizing costs 10-20 us and loses no data.

use crate::error::SysError;
use crate::proc::read_number;
use pagewise_model::Bytes;
use rustix::pipe::PipeFlags;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// A pipe as (reading end, writing end), both closed at exec.
pub fn pipe() -> Result<(OwnedFd, OwnedFd), SysError> {
    pipe_with_flags(PipeFlags::CLOEXEC)
}

/// A pipe with these flags as (reading end, writing end).
pub fn pipe_with_flags(flags: PipeFlags) -> Result<(OwnedFd, OwnedFd), SysError> {
    rustix::pipe::pipe_with(flags).map_err(|e| SysError::new("pipe2", format!("{flags:?}"), e))
}

/// The capacity of the pipe behind `fd`.
pub fn capacity(fd: impl AsFd) -> Result<Bytes, SysError> {
    let fd = fd.as_fd();
    rustix::pipe::fcntl_getpipe_size(fd).map(|n| Bytes(n as u64)).map_err(|e| {
        SysError::new("fcntl F_GETPIPE_SZ", format!("descriptor {}", fd.as_raw_fd()), e)
    })
}

/// Sets the capacity, which the kernel rounds up. Returns the new capacity.
pub fn set_capacity(fd: impl AsFd, wanted: Bytes) -> Result<Bytes, SysError> {
    let fd = fd.as_fd();
    let subject = || format!("descriptor {} to {wanted}", fd.as_raw_fd());
    let size = usize::try_from(wanted.0)
        .map_err(|_| SysError::new("fcntl F_SETPIPE_SZ", subject(), rustix::io::Errno::INVAL))?;
    rustix::pipe::fcntl_setpipe_size(fd, size)
        .map(|n| Bytes(n as u64))
        .map_err(|e| SysError::new("fcntl F_SETPIPE_SZ", subject(), e))
}

/// The capacity of a new pipe, for a user below the limit.
#[must_use]
pub fn default_capacity() -> Bytes {
    pagewise_model::machine::default_pipe(crate::page_size::base())
}

/// `fs.pipe-max-size`: the largest capacity an ordinary user may set.
pub fn max_size() -> Result<Bytes, SysError> {
    let path = "/proc/sys/fs/pipe-max-size";
    let bytes = u64::try_from(read_number(path)?);
    bytes.map(Bytes).map_err(|_| SysError::malformed("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_and_rounds_up() {
        let (reader, writer) = pipe().unwrap();
        // Two pages if this user is above the limit.
        assert!(capacity(&reader).unwrap() <= default_capacity());
        let page = crate::page_size::base().bytes();
        let now = set_capacity(&writer, Bytes(page + 1)).unwrap();
        assert_eq!(now, Bytes(2 * page));
        assert_eq!(capacity(&reader).unwrap(), now);
        assert!(max_size().unwrap() >= now);
    }

    #[test]
    fn what_is_no_pipe_says_so() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = capacity(&file).unwrap_err();
        assert_eq!(error.call, "fcntl F_GETPIPE_SZ");
        assert_eq!(error.errno(), Some(libc::EBADF));
    }
}
