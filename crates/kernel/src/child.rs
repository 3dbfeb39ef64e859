//! Tiny children, in which a probe may change itself for good or which it may trace.
//!
//! A child made by `fork(2)` from a process with threads may only make system calls: the closures
//! here allocate nothing and take no lock. It dies with its parent.

use crate::error::SysError;

/// The errno (0 for success) that `probe` returns in a child of its own.
pub(crate) fn errno_in_child(probe: impl FnOnce() -> i32) -> Result<i32, SysError> {
    let Some(pid) = fork()? else { leave(probe()) };
    reap(pid)
}

/// A child that waits until this value is dropped.
#[derive(Debug)]
pub(crate) struct Sleeper {
    pid: i32,
}

impl Sleeper {
    pub(crate) fn start() -> Result<Self, SysError> {
        match fork()? {
            Some(pid) => Ok(Self { pid }),
            None => loop {
                // SAFETY: waits for a signal; touches no memory.
                unsafe { libc::pause() };
            },
        }
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for, so its pid cannot belong to another process.
        let killed = unsafe { libc::kill(self.pid, libc::SIGKILL) };
        if killed == 0 {
            let ended = reap(self.pid);
            debug_assert!(ended.is_ok(), "a killed child is reaped: {ended:?}");
        }
    }
}

/// `Some(pid)` in the parent, `None` in the child.
pub(crate) fn fork() -> Result<Option<i32>, SysError> {
    // SAFETY: the child makes system calls only, until `leave` or its death by signal.
    match unsafe { libc::fork() } {
        -1 => Err(SysError::last("fork", "this process")),
        0 => {
            // SAFETY: sets a signal number for this process; touches no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            Ok(None)
        }
        pid => Ok(Some(pid)),
    }
}

pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: ends the child at once, without running anything that the parent's copy registered.
    unsafe { libc::_exit(status) }
}

pub(crate) fn reap(pid: i32) -> Result<i32, SysError> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is ours and outlives the call; `pid` is our own child.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
        if ended == pid && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            break;
        }
        let error = SysError::last("waitpid", format!("process {pid}"));
        if ended < 0 && error.errno() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // Killed by SIGSYS: a filter that ends the process instead of refusing the call.
    Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { libc::EPERM })
}

/// The errno of the last call, for returning from a child.
pub(crate) fn errno() -> i32 {
    // SAFETY: the address of this thread's errno is always valid.
    let address = unsafe { libc::__errno_location() };
    // SAFETY: it is aligned, initialized and written by this thread only.
    unsafe { address.read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_comes_back() {
        assert_eq!(errno_in_child(|| 0).unwrap(), 0);
        assert_eq!(errno_in_child(|| libc::ENOSYS).unwrap(), libc::ENOSYS);
    }

    #[test]
    fn a_sleeper_is_gone_when_dropped() {
        let sleeper = Sleeper::start().unwrap();
        let pid = sleeper.pid();
        assert!(crate::proc::stat::read(pid).is_ok());
        drop(sleeper);
        assert!(crate::proc::stat::read(pid).unwrap_err().is_gone());
    }
}
