//! `ioctl(2)` with an argument that the kernel reads and writes.

use crate::error::SysError;
use std::ffi::c_void;
use std::os::fd::AsRawFd;

/// Makes a request whose argument consists of integers. Returns the result of the call.
///
/// # Safety
/// `number` must encode the size of `T`, and any bytes that the kernel writes must be valid for `T`.
pub(crate) unsafe fn control<T>(
    call: &'static str,
    subject: impl Into<String>,
    fd: &impl AsRawFd,
    number: u64,
    argument: &mut T,
) -> Result<i32, SysError> {
    let pointer = std::ptr::from_mut(argument).cast::<c_void>();
    // SAFETY: `argument` is borrowed exclusively for the call. By the contract of this function, it has the
    // size and kind that the request reads and writes.
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), number as _, pointer) };
    if done >= 0 { Ok(done) } else { Err(SysError::last(call, subject)) }
}
