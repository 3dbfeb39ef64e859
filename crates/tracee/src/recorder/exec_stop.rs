//! The kernel's counts for a process at the moment when its program is loaded but has not run yet.
//!
//! Faults of the fork, of the arguments and of building the new image are in rusage, but in no user-mode
//! event. The child is seized before its release. It stops once at its exec (PTRACE_EVENT_EXEC comes after
//! the image is built, before its first instruction), is read, and is then released for good. Cost: 20-60 us,
//! once.

use crate::launch::{LaunchError, RunningProgram, SuspendedProgram};
use crate::ptrace::{PtraceStop, request};
use crate::wait;
use pagewise_kernel::error::SysError;
use pagewise_kernel::proc::stat;
use pagewise_model::Fact;
use pagewise_model::fault::ExecCounts;

/// Releases the child, so that it executes its program, and reads the counts on the way.
pub(crate) fn release(
    child: SuspendedProgram,
) -> Result<(RunningProgram, Fact<ExecCounts>), LaunchError> {
    let pid = child.pid();
    if let Err(error) = request::seize(pid, libc::PTRACE_O_TRACEEXEC) {
        return Ok((child.release()?, Fact::Missing(error.to_string())));
    }
    let running = child.release_unconfirmed()?;
    let counts = await_exec(pid);
    match running.exec_error() {
        None => Ok((running, Fact::from(counts))),
        Some(error) => {
            let _gone = wait::reap(pid);
            Err(error)
        }
    }
}

/// The kernel's counts for `pid` so far.
pub(crate) fn counts(pid: i32) -> Result<ExecCounts, SysError> {
    let stat = stat::read(pid)?;
    Ok(ExecCounts { minor_faults: stat.minor_faults, major_faults: stat.major_faults })
}

/// Serves the stops of `pid` until it has executed its program or ended.
fn await_exec(pid: i32) -> Result<ExecCounts, SysError> {
    loop {
        match request::wait_stop(pid)? {
            PtraceStop::Exec => {
                let counts = counts(pid);
                request::detach(pid, 0)?;
                return counts;
            }
            PtraceStop::Signal(signal) => request::cont(pid, signal)?,
            PtraceStop::Group(_) => request::listen(pid)?,
            stop if stop.is_end() => {
                let subject = format!("process {pid}");
                return Err(SysError::new("execve", subject, rustix::io::Errno::SRCH));
            }
            _ => request::cont(pid, 0)?,
        }
    }
}
