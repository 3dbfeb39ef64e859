//! Faults and kernel time of the calling thread, by `getrusage(RUSAGE_THREAD)`.
//!
//! Kernel time is the scheduler's exact run time split by the ticks seen in each mode, so it means
//! something from some tens of milliseconds on. Overhead: one system call.

use pagewise_kernel::SysError;
use pagewise_model::Nanos;
use std::mem::MaybeUninit;

/// What the kernel charged to the calling thread so far.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadUsage {
    /// Minor faults.
    pub(crate) minor_faults: u64,
    /// Time in the kernel.
    pub(crate) sys_ns: Nanos,
}

/// Reads the account of the calling thread.
pub(crate) fn read_thread_usage() -> Result<ThreadUsage, SysError> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live, writable rusage of this frame.
    let rc = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    if rc != 0 {
        return Err(SysError::last("getrusage", "the calling thread"));
    }
    // SAFETY: rusage is integers only, zeroed above and then filled by the kernel.
    let usage = unsafe { usage.assume_init() };
    let micros = usage.ru_stime.tv_sec * 1_000_000 + usage.ru_stime.tv_usec;
    Ok(ThreadUsage {
        minor_faults: u64::try_from(usage.ru_minflt).unwrap_or(0),
        sys_ns: Nanos(u64::try_from(micros).unwrap_or(0) * 1_000),
    })
}
