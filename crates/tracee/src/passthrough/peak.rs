//! A program whose memory is accounted for where it is largest: in our place, or as a run of an experiment.

use super::attend;
use super::traced::{self, Purpose, Traced};
use crate::child::SignalState;
use crate::launch::{Launch, Running};
use crate::memory_peak::{self, Take};
use crate::recorder::RecordError;
use crate::signals::Caught;
use crate::wait;
use pagewise_model::memory_account::Watched;
use pagewise_model::units::Nanos;
use pagewise_model::usage::Usage;
use rustix::event::{PollFd, PollFlags};

const PURPOSE: Purpose = Purpose { what: "the account of its peak", without: ", or use -p PID" };

/// Runs the program as `passthrough` does, in our place in the process group, and has `take` take accounts of its
/// memory at its peaks.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn peak_through(launch: &Launch, take: &mut Take<'_>) -> Result<(Usage, Watched), RecordError> {
    let before = SignalState::inherited();
    let mut caught = Caught::block(before)?;
    peak(launch, before, |running| attend(running, &mut caught, &mut []), take)
}

/// The same of a run of an experiment: nobody sends signals to it, and its limits are the supervisor's.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn peak_of(launch: &Launch, take: &mut Take<'_>) -> Result<(Usage, Watched), RecordError> {
    peak(launch, SignalState::clean(), until_end, take)
}

fn peak(
    launch: &Launch,
    signals: SignalState,
    stay: impl FnOnce(&Running) -> Nanos,
    take: &mut Take<'_>,
) -> Result<(Usage, Watched), RecordError> {
    let child = traced::spawn(launch, memory_peak::filter(), signals, PURPOSE)?;
    let pid = child.pid();
    let Traced { usage, found } = traced::live(child, stay, PURPOSE, |seized, reaped| {
        memory_peak::serve(pid, seized, reaped, take)
    })?;
    let usage = usage?;
    let watched = found.ok_or_else(|| RecordError::Start(traced::ended_early()))?;
    Ok((usage, watched))
}

/// Waits for the end of the program itself.
fn until_end(running: &Running) -> Nanos {
    let mut fds = [PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN)];
    while fds.iter().all(|fd| fd.revents().is_empty()) {
        wait::sleep(&mut fds, None);
    }
    running.started().elapsed().into()
}
