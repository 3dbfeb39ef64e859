//! Tiny children, for probes that change their own process for good, or as targets to trace.
//!
//! A child forked from a process with threads may only make system calls: the closures here neither allocate
//! nor lock. It dies with its parent.

use crate::error::SysError;

/// Runs `probe` in a child and returns its errno (0 for success).
pub(crate) fn errno_in_child(probe: impl FnOnce() -> i32) -> Result<i32, SysError> {
    let Some(pid) = fork()? else { leave(probe()) };
    reap(pid)
}

/// A child that waits until this value is dropped.
#[derive(Debug)]
pub(crate) struct SleepingChild {
    pid: i32,
}

impl SleepingChild {
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

impl Drop for SleepingChild {
    fn drop(&mut self) {
        // SAFETY: this is an unreaped child of this process, so its pid cannot belong to another one.
        let killed = unsafe { libc::kill(self.pid, libc::SIGKILL) };
        if killed == 0 {
            let ended = reap(self.pid);
            debug_assert!(ended.is_ok(), "a killed child is reaped: {ended:?}");
        }
    }
}

/// Forks: `Some(pid)` in the parent, `None` in the child.
pub(crate) fn fork() -> Result<Option<i32>, SysError> {
    // SAFETY: the child makes system calls only, until `leave` or its death by signal.
    match unsafe { libc::fork() } {
        -1 => Err(SysError::last("fork", "this process")),
        0 => {
            // SAFETY: sets the parent-death signal of this process; touches no memory.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            Ok(None)
        }
        pid => Ok(Some(pid)),
    }
}

pub(crate) fn leave(status: i32) -> ! {
    // SAFETY: ends the child at once, without running any exit handlers of the parent.
    unsafe { libc::_exit(status) }
}

pub(crate) fn reap(pid: i32) -> Result<i32, SysError> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a local that outlives the call; `pid` is a child of this process.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
        if ended == pid && (libc::WIFEXITED(status) || libc::WIFSIGNALED(status)) {
            break;
        }
        let error = SysError::last("waitpid", format!("process {pid}"));
        if ended < 0 && error.errno() != Some(libc::EINTR) {
            return Err(error);
        }
    }
    // Killed by SIGSYS: a filter kills the process instead of refusing the call.
    Ok(if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { libc::EPERM })
}

/// The errno of the last call, as the result of a child.
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
        let sleeper = SleepingChild::start().unwrap();
        let pid = sleeper.pid();
        assert!(crate::proc::stat::read(pid).is_ok());
        drop(sleeper);
        assert!(crate::proc::stat::read(pid).unwrap_err().is_gone());
    }
}
