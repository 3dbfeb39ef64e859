//! A third process, which outlives front and supervisor when both are killed at once.
//!
//! The guard is the supervisor's parent and a subreaper: it inherits what a killed supervisor leaves. It
//! sleeps until the supervisor has ended, ends what is left, reports to the front if that still exists, and
//! exits. It has a different process name, so that a command that kills processes by the name of pagewise or
//! of the supervisor does not hit it. If only the guard is killed, the supervisor continues.
//!
//! Not covered: all three, or supervisor and guard, killed before one of them can act. The program's first
//! process then still dies with the supervisor; processes that it had started live on.

use super::SupervisorResponse;
use super::server::Line;
use crate::descendants::{self, ExceptedChildren};
use crate::wait;
use pagewise_kernel::{SysError, title};
use pagewise_model::usage::ProgramEnd;

/// Name of the guard in process lists.
const NAME: &std::ffi::CStr = c"experiment-end";

/// Which of the two processes continues after [`split`].
pub(super) enum SplitRole {
    Supervisor,
    /// The guard of the supervisor with this process id.
    Guard(i32),
}

/// Splits this process in two. It must have one thread.
pub(super) fn split() -> Result<SplitRole, SysError> {
    // SAFETY: the process has one thread, so the child cannot find a lock held by another.
    match unsafe { libc::fork() } {
        -1 => Err(SysError::last("fork", "the supervisor")),
        0 => Ok(SplitRole::Supervisor),
        pid => Ok(SplitRole::Guard(pid)),
    }
}

/// Runs the guard: waits for the end of the supervisor and ends what it left.
pub(super) fn serve(supervisor: i32, line: &Line) {
    title::set(NAME);
    let how = wait::reap(supervisor).map(|(status, _)| wait::ended(status));
    let left = descendants::end_all(&ExceptedChildren::default());
    if !matches!(how, Ok(ProgramEnd::Exited(_))) {
        let how = how.map_or_else(|error| error.to_string(), |ended| ended.to_string());
        let told = SupervisorResponse::Orphaned { how, killed: left.killed, alive: left.alive };
        // A front that is gone needs no answer.
        let _gone = line.send(&told);
    }
}
