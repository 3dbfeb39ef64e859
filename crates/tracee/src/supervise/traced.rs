//! The traced look below the supervisor, which must stop when the front says so or is gone.
//!
//! Tracing serves stops and cannot listen; a thread does, and kills the tree when something
//! arrives. It only kills: waiting for the ended ones is the tracer's.

use super::{Response, SuperviseError};
use crate::launch::Launch;
use crate::run;
use crate::tree::{self, Tree};
use crate::wait;
use pagewise_model::look::Traced;
use pagewise_model::units::Nanos;
use rustix::event::{PollFd, PollFlags};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// Runs a program to its end under tracing; what it does inside the directories is no effect. No
/// process of it is left behind. Fails with [`SuperviseError::Launch`] or [`SuperviseError::Trace`].
pub type TakeLook<'a> = &'a dyn Fn(&Launch, &[PathBuf]) -> Result<Traced, SuperviseError>;

/// Pause between two rounds of killing.
const KILL_EVERY: Nanos = Nanos::millis(2);

/// Runs `launch` under tracing until it ends or `socket` has something to say.
pub(super) fn run(
    launch: &Launch,
    scratch: Vec<OsString>,
    socket: &UnixStream,
    look: TakeLook<'_>,
) -> Response {
    let scratch: Vec<PathBuf> = scratch.into_iter().map(PathBuf::from).collect();
    let (done, tell) = match rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) {
        Ok(ends) => ends,
        Err(error) => return Response::NotTraced(format!("pipe2: {error}")),
    };
    let (result, stopped) = std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(socket, &done));
        let result = look(launch, &scratch);
        drop(tell);
        (result, listener.join().unwrap_or(false))
    });
    tree::kill_own_descendants(&[]);
    match result {
        _ if stopped => Response::Stopped,
        Ok(traced) => Response::Traced(Box::new(traced)),
        Err(SuperviseError::Launch(error)) => Response::Failed(error),
        Err(other) => Response::NotTraced(other.to_string()),
    }
}

/// Waits until tracing is done; once `socket` is readable kills the tree. True when it did.
fn listen(socket: &UnixStream, done: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(done, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
    while fds.iter().all(|fd| fd.revents().is_empty()) {
        run::sleep(&mut fds, None);
    }
    let [ended, _] = fds;
    if !ended.revents().is_empty() {
        return false;
    }
    let mut tree = Tree::new(0, []);
    loop {
        tree.refresh();
        tree.pids().iter().filter(|pid| **pid > 0).for_each(|pid| wait::kill(*pid, libc::SIGKILL));
        let mut fds = [PollFd::new(done, PollFlags::IN)];
        run::sleep(&mut fds, Some(KILL_EVERY));
        if fds.iter().any(|fd| !fd.revents().is_empty()) {
            return true;
        }
    }
}
