//! The traced look below the supervisor, which must stop when the front says so or is gone, and
//! keep its limits of time and memory.
//!
//! Tracing serves stops and cannot listen; a thread does, and kills the tree when something
//! arrives or a limit is broken. It only kills: waiting for the ended ones is the tracer's. A look
//! that broke a limit is no look, but the reason names what the program had done by then.

use super::{Response, SuperviseError};
use crate::descendants::{self, Except};
use crate::launch::Launch;
use crate::limits::{Limit, Limits};
use crate::tree::Tree;
use crate::wait;
use pagewise_model::look::{SideEffect, Traced, sentence};
use pagewise_model::units::Nanos;
use rustix::event::{PollFd, PollFlags};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Instant;

/// Runs a program to its end under tracing; what it does inside the directories is no effect. No
/// process of it is left behind. Fails with [`SuperviseError::Launch`] or [`SuperviseError::Trace`].
pub type TakeLook<'a> = &'a dyn Fn(&Launch, &[PathBuf]) -> Result<Traced, SuperviseError>;

/// Pause between two rounds of killing.
const KILL_EVERY: Nanos = Nanos::millis(2);

/// Runs `launch` under tracing until it ends, breaks a limit or `socket` has something to say.
pub(super) fn run(
    launch: &Launch,
    scratch: Vec<OsString>,
    socket: &UnixStream,
    look: TakeLook<'_>,
) -> Response {
    let scratch: Vec<PathBuf> = scratch.into_iter().map(PathBuf::from).collect();
    let (done, tell) = match pagewise_kernel::pipe::pipe() {
        Ok(ends) => ends,
        Err(error) => return Response::NotTraced(error.to_string()),
    };
    // The time is kept here, so that the tracer may sleep between two stops.
    let untimed = Launch { timeout_ns: None, ..launch.clone() };
    let (result, why) = std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(socket, &done, Limits::of(launch)));
        let result = look(&untimed, &scratch);
        drop(tell);
        (result, listener.join().unwrap_or(None))
    });
    if let Err(error) = descendants::end_all(&Except::default()).check(launch.shown()) {
        return Response::Failed(error);
    }
    match (why, result) {
        (Some(Why::Told), _) => Response::Stopped,
        (Some(Why::Limit(limit)), result) => {
            let effects = result.map(|traced| traced.effects).unwrap_or_default();
            Response::NotTraced(format!("{limit}{}", had_done(&effects)))
        }
        (None, Ok(traced)) => Response::Traced(Box::new(traced)),
        (None, Err(SuperviseError::Launch(error))) => Response::Failed(error),
        (None, Err(SuperviseError::UsesInput { call, effects })) => {
            Response::UsesInput { call, effects }
        }
        (None, Err(other)) => Response::NotTraced(other.to_string()),
    }
}

/// The first effects, as the end of a sentence.
fn had_done(effects: &[SideEffect]) -> String {
    if effects.is_empty() { String::new() } else { format!("; it had {}", sentence(effects)) }
}

/// Why the tree was killed.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// The front said so or is gone.
    Told,
    /// A limit was broken.
    Limit(Limit),
}

/// Waits until tracing is done; kills the tree once `socket` is readable or a limit is broken.
fn listen(socket: &UnixStream, done: &OwnedFd, mut limits: Limits) -> Option<Why> {
    let start = Instant::now();
    let mut tree = Tree::new(0, []);
    let why = loop {
        let timeout =
            limits.due().map(|due| Nanos(due.0.saturating_sub(Nanos::from(start.elapsed()).0)));
        let mut fds = [PollFd::new(done, PollFlags::IN), PollFd::new(socket, PollFlags::IN)];
        wait::sleep(&mut fds, timeout);
        let [ended, told] = fds.map(|fd| !fd.revents().is_empty());
        if ended {
            return None;
        }
        if told {
            break Why::Told;
        }
        if limits.look(&mut tree, start.elapsed().into())
            && let Some(limit) = limits.broken()
        {
            break Why::Limit(limit);
        }
    };
    loop {
        descendants::kill_beside_a_reaper();
        let mut fds = [PollFd::new(done, PollFlags::IN)];
        wait::sleep(&mut fds, Some(KILL_EVERY));
        if fds.iter().any(|fd| !fd.revents().is_empty()) {
            return Some(why);
        }
    }
}
