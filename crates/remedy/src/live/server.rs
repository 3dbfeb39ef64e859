//! The helper's side: makes changes, and undoes them whatever happens to the requester.

use super::{LiveChange, LiveRemainder, LiveResult, LiveUndo};
use pagewise_kernel::proc::image::TaskIdentity;
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
pub(super) enum LiveRequest {
    /// Report what a change would do, so that it can also be undone without the helper.
    Plan { root: TaskIdentity, change: LiveChange },
    /// Make the change.
    On,
    /// Undo the change.
    Off,
    /// Stop the current step.
    Stop,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum LiveResponse {
    Planned(Result<LiveUndo, String>),
    On(LiveResult),
    Off(LiveRemainder),
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
    let left = changed.map_or_else(LiveRemainder::default, |undo| undo.within(LATER));
    if !left.is_nothing() {
        return Err(SysError::new("undo", left.to_string(), rustix::io::Errno::TIMEDOUT));
    }
    helper::ended(talked)
}

type Line = helper::HelperChannel<LiveResponse, LiveRequest>;

/// `changed` holds the change from before the first step until nothing of it is left.
fn talk(line: &Line, changed: &mut Option<LiveUndo>) -> io::Result<()> {
    let mut planned = None;
    while let Some(request) = line.receive()? {
        let response = match request {
            LiveRequest::Plan { root, change } => {
                let plan = LiveUndo::plan(root, &change);
                planned = plan.clone().ok();
                LiveResponse::Planned(plan)
            }
            LiveRequest::On => {
                *changed = planned.take();
                let change = |undo: &LiveUndo| undo.change(&|| line.has_spoken(NOW));
                LiveResponse::On(changed.as_ref().map(change).unwrap_or_default())
            }
            LiveRequest::Off => {
                let left =
                    changed.as_ref().map_or_else(LiveRemainder::default, |undo| undo.within(ASKED));
                if left.is_nothing() {
                    *changed = None;
                }
                LiveResponse::Off(left)
            }
            LiveRequest::Stop => continue,
        };
        line.send(&response)?;
    }
    Ok(())
}
