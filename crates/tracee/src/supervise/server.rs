//! The supervisor's side: serves requests until the front is gone.

use super::condition;
use super::guard::{self, SplitRole};
use super::traced::{self, TraceFunctions};
use super::{SupervisorRequest, SupervisorResponse};
use crate::descendants::{self, ExceptedChildren};
use crate::launch_error::{counted, named};
use crate::run::{self, RunOutcome};
use crate::watcher::MakeWatcher;
use pagewise_kernel::SysError;
use pagewise_kernel::helper;
use pagewise_kernel::proc::own_pid;
use std::io;
use std::os::fd::{AsFd, RawFd};

pub(super) type Line = helper::HelperChannel<SupervisorResponse, SupervisorRequest>;

/// Serves the front at the other end of socket `fd`. This process was started with that descriptor number,
/// and nothing else in it uses it. Returns when the front is gone and nothing that was started here is left
/// alive. `make` creates the watchers of a run, `looks` records traced runs. The process must have one thread
/// and no children. It becomes two (`guard`), and this function returns in both.
///
/// # Errors
/// When `fd` is not a socket, or this process cannot become a subreaper.
pub fn serve(fd: RawFd, make: MakeWatcher<'_>, looks: TraceFunctions<'_>) -> Result<(), SysError> {
    let line = Line::adopt(fd)?;
    helper::leave_signals_to_starter();
    let part = guard::split()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| SysError::new("prctl(PR_SET_CHILD_SUBREAPER)", "the supervisor", e))?;
    if let SplitRole::Guard(supervisor) = part {
        guard::serve(supervisor, &line);
        return Ok(());
    }
    let served = talk(&line, make, looks);
    let left = descendants::end_all(&ExceptedChildren::default());
    helper::ended(served)?;
    if left.alive.is_empty() {
        return Ok(());
    }
    let subject =
        format!("{} that SIGKILL did not end: {}", counted(left.alive.len()), named(&left.alive));
    Err(SysError::new("kill", subject, rustix::io::Errno::TIMEDOUT))
}

fn talk(line: &Line, make: MakeWatcher<'_>, looks: TraceFunctions<'_>) -> io::Result<()> {
    while let Some(request) = line.receive()? {
        let is_traced =
            matches!(request, SupervisorRequest::Traced { .. } | SupervisorRequest::Account(_));
        let response = match request {
            SupervisorRequest::Run(launch) => match run::run(&launch, make, Some(line.as_fd())) {
                Ok(RunOutcome::Finished(finished)) => SupervisorResponse::Finished(finished),
                // The next message, or the end of the stream, says why it was stopped.
                Ok(RunOutcome::Stopped) => SupervisorResponse::Stopped,
                Err(error) => SupervisorResponse::Failed(error),
            },
            SupervisorRequest::Traced { launch, scratch } => {
                traced::look(&launch, scratch, line.as_fd(), looks.trace)
            }
            SupervisorRequest::Account(launch) => {
                traced::account(&launch, line.as_fd(), looks.account)
            }
            SupervisorRequest::Condition { bytes } => {
                match condition::touch_and_free(bytes, line.as_fd()) {
                    Ok(Some(done)) => SupervisorResponse::Conditioned(done),
                    Ok(None) => SupervisorResponse::Stopped,
                    Err(error) => SupervisorResponse::Failed(error),
                }
            }
            SupervisorRequest::Ping => SupervisorResponse::Pong { pid: own_pid() },
            SupervisorRequest::Stop => continue,
        };
        answer(line, &response, is_traced)?;
        if is_traced {
            drop(response);
            give_back();
        }
    }
    Ok(())
}

/// Returns freed memory to the kernel. A program's peak is at least what this process holds when it forks,
/// and a look at a large program can leave tens of megabytes.
fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: `malloc_trim` locks the allocator and only touches freed memory.
    unsafe {
        libc::malloc_trim(0)
    };
}

/// Sends `response`. If it cannot be sent, sends a short one that says so.
fn answer(line: &Line, response: &SupervisorResponse, is_traced: bool) -> io::Result<()> {
    match line.send(response) {
        Err(e) if helper::is_unsendable(&e) => {
            let why = format!("its answer is too long: {e}");
            let kind = if is_traced {
                SupervisorResponse::NotTraced
            } else {
                SupervisorResponse::Unsendable
            };
            line.send(&kind(why))
        }
        other => other,
    }
}
