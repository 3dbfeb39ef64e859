//! Minor faults of the calling thread, by `getrusage(RUSAGE_THREAD)`. Overhead: one system call.

use rustix::io::Errno;
use std::mem::MaybeUninit;

/// Minor faults of the calling thread so far.
pub(crate) fn thread_faults() -> Result<u64, Errno> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live, writable rusage of this frame.
    let rc = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if rc != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    // SAFETY: rusage is integers only, zeroed above and then filled by the kernel.
    let usage = unsafe { usage.assume_init() };
    Ok(u64::try_from(usage.ru_minflt).unwrap_or(0))
}
