//! A third process, which outlives front and supervisor when both are killed at once.
//!
//! The guard is the supervisor's parent and a subreaper: what a killed supervisor leaves comes to it.
//! It sleeps until the supervisor has ended, ends what is left, tells the front where there is one,
//! and goes. It has a name of its own, so that a command that kills processes by the name
//! of pagewise or of the supervisor does not meet it. When the guard alone is killed, the supervisor
//! works on.
//!
//! Not covered: all three, or supervisor and guard, killed before one of them can act. The program's
//! first process then still dies with the supervisor; what it had started lives on.

use super::Response;
use super::server::Line;
use crate::descendants::{self, Except};
use crate::wait;
use pagewise_kernel::{SysError, title};
use pagewise_model::usage::Ended;

/// How the guard is listed.
const NAME: &std::ffi::CStr = c"experiment-end";

/// Who goes on after [`split`].
pub(super) enum Part {
    Supervisor,
    /// The guard of the supervisor with this process id.
    Guard(i32),
}

/// Makes two of this process, which must have one thread.
pub(super) fn split() -> Result<Part, SysError> {
    // SAFETY: the process has one thread, so the child finds no lock held that nobody would free.
    match unsafe { libc::fork() } {
        -1 => Err(SysError::last("fork", "the supervisor")),
        0 => Ok(Part::Supervisor),
        pid => Ok(Part::Guard(pid)),
    }
}

/// The guard's life: waits for the end of the supervisor and ends what it left.
pub(super) fn serve(supervisor: i32, line: &Line) {
    title::set(NAME);
    let how = wait::reap(supervisor).map(|(status, _)| wait::ended(status));
    let left = descendants::end_all(&Except::default());
    if !matches!(how, Ok(Ended::Exited(_))) {
        let how = how.map_or_else(|error| error.to_string(), |ended| ended.to_string());
        let told = Response::Orphaned { how, killed: left.killed, alive: left.alive };
        // A front that is gone needs no answer.
        let _gone = line.send(&told);
    }
}
