//! Touching fresh memory and giving it back, so that a virtual machine's host has it in place.
//!
//! A host that takes back free memory (free page reporting, whole blocks of 2 MiB) faults it in
//! anew at the next touch, at a price that would be charged to whoever touches first. Huge pages
//! are asked for, because host memory comes and goes in such blocks; where they are refused the
//! same is done page by page. It happens in a process of its own that goes first when memory runs
//! out, so a size too large costs that process and not the supervisor.

use super::Conditioned;
use crate::launch::LaunchError;
use crate::wait;
use pagewise_model::units::{Bytes, Nanos};
use pagewise_model::usage::Ended;
use std::io;
use std::ptr;
use std::time::Instant;

/// Touches and frees `bytes`.
pub(super) fn touch_and_free(bytes: Bytes) -> Result<Conditioned, LaunchError> {
    let subject = || format!("{bytes} of fresh memory");
    let len = usize::try_from(bytes.0)
        .map_err(|_| LaunchError::errno("mmap", subject(), rustix::io::Errno::NOMEM))?;
    let step = usize::try_from(pagewise_kernel::page_size::base().bytes()).unwrap_or(1);
    let start = Instant::now();
    // SAFETY: the child runs `touch` alone, which neither allocates nor locks, and `_exit`s.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => return Err(LaunchError::call("fork", subject(), &io::Error::last_os_error())),
        0 => {
            let status = i32::from(!touch(len, step));
            // SAFETY: ends this forked process without running exit handlers of its parent.
            unsafe { libc::_exit(status) }
        }
        _ => {}
    }
    let used = wait::usage(pid, Nanos(0), None)?;
    match used.ended {
        Ended::Exited(0) => Ok(Conditioned {
            wall_ns: Nanos::from(start.elapsed()),
            sys_ns: used.sys_ns,
            faults: used.minor_faults,
        }),
        _ => Err(LaunchError::errno("mmap", subject(), rustix::io::Errno::NOMEM)),
    }
}

/// Maps `len` bytes and writes one in each page of `step` bytes; exit frees them.
fn touch(len: usize, step: usize) -> bool {
    let _tied =
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    if let Ok(file) = rustix::fs::open(
        c"/proc/self/oom_score_adj",
        rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    ) {
        let _refused = rustix::io::write(&file, b"1000");
    }
    if len == 0 {
        return true;
    }
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new private mapping at an address of the kernel's choice disturbs nothing.
    let at = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, -1, 0) };
    if at == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: advice on the mapping just made; a refusal leaves ordinary pages.
    unsafe { libc::madvise(at, len, libc::MADV_HUGEPAGE) };
    let first = at.cast::<u8>();
    for offset in (0..len).step_by(step.max(1)) {
        // SAFETY: `offset` is below `len`, the size of the mapping that starts at `first`.
        let byte = unsafe { first.add(offset) };
        // SAFETY: the byte is in our own writable mapping, which no reference points into.
        unsafe { byte.write_volatile(1) };
    }
    true
}
