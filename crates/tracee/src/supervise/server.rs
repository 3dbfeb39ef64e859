//! The supervisor's side: serves requests until the front is gone.

use super::condition;
use super::guard::{self, Part};
use super::traced::{self, TakeLook};
use super::wire;
use super::{Request, Response};
use crate::descendants::{self, Except};
use crate::launch_error::{counted, named};
use crate::run::{self, Outcome};
use crate::watcher::MakeWatcher;
use pagewise_kernel::SysError;
use pagewise_kernel::proc::own_pid;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

/// Signals of a terminal or a service manager: the front gets them and decides.
const IGNORED: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Serves the front at the other end of socket `fd`, a descriptor number this process was started
/// with and that nothing else in it uses. Returns when the front is gone and nothing that was
/// started here is left alive. `make` makes the watchers of a run, `look` records a traced run.
/// The process, which must have one thread and no children, becomes two (`guard`); this returns in both.
///
/// # Errors
/// When `fd` is no socket, or this process cannot become a subreaper.
pub fn serve(fd: RawFd, make: MakeWatcher<'_>, look: TakeLook<'_>) -> Result<(), SysError> {
    let socket = adopt(fd)?;
    leave_signals_to_front();
    let part = guard::split()?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|e| SysError::new("prctl(PR_SET_CHILD_SUBREAPER)", "the supervisor", e))?;
    if let Part::Guard(supervisor) = part {
        guard::serve(supervisor, &socket);
        return Ok(());
    }
    let served = talk(&socket, make, look);
    let left = descendants::end_all(&Except::default());
    served.map_err(|e| SysError::new("recv", "the front's socket", e))?;
    if left.alive.is_empty() {
        return Ok(());
    }
    let subject =
        format!("{} that SIGKILL did not end: {}", counted(left.alive.len()), named(&left.alive));
    Err(SysError::new("kill", subject, rustix::io::Errno::TIMEDOUT))
}

/// Ignores what a terminal or a service manager sends.
pub(crate) fn leave_signals_to_front() {
    for signal in IGNORED {
        // SAFETY: SIG_IGN runs no code; programs get their defaults back before `exec`.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// The socket that this process was started with as descriptor `fd`.
pub(crate) fn adopt(fd: RawFd) -> Result<UnixStream, SysError> {
    let subject = || format!("descriptor {fd}");
    // SAFETY: fcntl on any number is harmless; it fails when no such descriptor is open.
    if fd <= 2 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(SysError::new("fcntl(F_SETFD)", subject(), rustix::io::Errno::BADF));
    }
    // SAFETY: the descriptor is open, and by this function's contract nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::net::sockopt::socket_type(&socket)
        .map_err(|e| SysError::new("getsockopt(SO_TYPE)", subject(), e))?;
    Ok(UnixStream::from(socket))
}

fn talk(socket: &UnixStream, make: MakeWatcher<'_>, look: TakeLook<'_>) -> io::Result<()> {
    while let Some(request) = wire::receive::<Request>(socket)? {
        let is_traced = matches!(request, Request::Traced { .. });
        let response = match request {
            Request::Run(launch) => match run::run(&launch, make, Some(socket.as_fd())) {
                Ok(Outcome::Finished(finished)) => Response::Finished(finished),
                // What stopped it is the next message, or the end of the stream.
                Ok(Outcome::Stopped) => Response::Stopped,
                Err(error) => Response::Failed(error),
            },
            Request::Traced { launch, scratch } => traced::run(&launch, scratch, socket, look),
            Request::Condition { bytes } => {
                match condition::touch_and_free(bytes, socket.as_fd()) {
                    Ok(Some(done)) => Response::Conditioned(done),
                    Ok(None) => Response::Stopped,
                    Err(error) => Response::Failed(error),
                }
            }
            Request::Ping => Response::Pong { pid: own_pid() },
            Request::Stop => continue,
        };
        match answer(socket, &response, is_traced) {
            Err(e) if wire::is_end(&e) => return Ok(()),
            other => other?,
        }
    }
    Ok(())
}

/// Sends `response`; in place of one that cannot be sent a short one that says so.
fn answer(socket: &UnixStream, response: &Response, is_traced: bool) -> io::Result<()> {
    match wire::send(socket, response) {
        Err(e) if wire::is_unsendable(&e) => {
            let why = format!("what it would tell is too much: {e}");
            let kind = if is_traced { Response::NotTraced } else { Response::Unsendable };
            wire::send(socket, &kind(why))
        }
        other => other,
    }
}
