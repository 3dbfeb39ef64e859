//! The helper's side: makes changes, and undoes them whatever happens to the requester.

use super::{Applied, Change, Left, Undo};
use pagewise_kernel::proc::image::Birth;
use pagewise_kernel::{SysError, helper, title};
use pagewise_model::Nanos;
use rustix::event::Timespec;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::RawFd;

/// Name of the helper in process lists: commands that kill processes by the name of pagewise do not match it.
const NAME: &std::ffi::CStr = c"live-undo";
/// How long to try an undo on request; below, how long when the requester is gone.
const ASKED: Nanos = Nanos::secs(10);
const LATER: Nanos = Nanos::secs(600);
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A request of the front.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    /// Report what a change would do, so that it can also be undone without the helper.
    Plan { root: Birth, change: Change },
    /// Make the change.
    On,
    /// Undo the change.
    Off,
    /// Stop the current step.
    Stop,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Response {
    Planned(Result<Undo, String>),
    On(Applied),
    Off(Left),
}

/// Serves the front at the other end of socket `fd`. This process was started with that descriptor number,
/// and nothing else in it uses it. Returns when the front is gone and no change is left, or a change could
/// not be undone in ten minutes.
///
/// # Errors
/// When `fd` is not a socket, or a change is left.
pub fn serve(fd: RawFd) -> Result<(), SysError> {
    let line = Line::adopt(fd)?;
    helper::leave_signals_to_starter();
    title::set(NAME);
    let mut changed = None;
    let talked = talk(&line, &mut changed);
    let left = changed.map_or_else(Left::default, |undo| undo.within(LATER));
    if !left.is_nothing() {
        return Err(SysError::new("undo", left.to_string(), rustix::io::Errno::TIMEDOUT));
    }
    helper::ended(talked)
}

type Line = helper::Line<Response, Request>;

/// `changed` holds the change from before the first step until nothing of it is left.
fn talk(line: &Line, changed: &mut Option<Undo>) -> io::Result<()> {
    let mut planned = None;
    while let Some(request) = line.receive()? {
        let response = match request {
            Request::Plan { root, change } => {
                let plan = Undo::plan(root, &change);
                planned = plan.clone().ok();
                Response::Planned(plan)
            }
            Request::On => {
                *changed = planned.take();
                let change = |undo: &Undo| undo.change(&|| line.has_spoken(NOW));
                Response::On(changed.as_ref().map(change).unwrap_or_default())
            }
            Request::Off => {
                let left = changed.as_ref().map_or_else(Left::default, |undo| undo.within(ASKED));
                if left.is_nothing() {
                    *changed = None;
                }
                Response::Off(left)
            }
            Request::Stop => continue,
        };
        line.send(&response)?;
    }
    Ok(())
}
