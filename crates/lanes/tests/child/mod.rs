//! A forked child that runs part of a test.

#![allow(unsafe_code, unreachable_pub, reason = "fork and waitpid; shared by several tests")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A child inherits the pipes of all tests of its process and keeps them open. So tests that fork, and tests
/// that wait for a pipe to close, run one at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` in a child, which exits with 0 if `body` returns true.
pub fn fork(body: impl FnOnce() -> bool) -> libc::pid_t {
    // SAFETY: the child runs `body` and ends itself. What it uses (memory, descriptors) works in
    // a child of a process with threads: the C library resets its allocator at fork.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let is_well = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(i32::from(!is_well)) };
    }
    pid
}

/// The exit status of a child.
pub fn wait(pid: libc::pid_t) -> i32 {
    let mut status = 0;
    // SAFETY: `status` is valid for writes, and the child is ours.
    let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!(waited, pid, "waitpid");
    status
}
