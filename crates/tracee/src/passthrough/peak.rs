//! Runs a program and accounts for its memory at its peak: in this process group, or as a run of an
//! experiment.

use super::attend;
use super::traced::{self, Purpose, Traced};
use crate::child::SignalState;
use crate::launch::{Launch, Running};
use crate::memory_peak::{self, Take};
use crate::recorder::{RecordError, Recording};
use crate::signals::Caught;
use crate::wait;
use pagewise_model::Fact;
use pagewise_model::fault::MemorySites;
use pagewise_model::memory_account::Watched;
use pagewise_model::units::Nanos;
use pagewise_model::usage::Usage;
use rustix::event::{PollFd, PollFlags};

const PURPOSE: Purpose = Purpose { what: "the account of its peak", without: ", or use -p PID" };

/// A program that has ended.
#[derive(Debug)]
pub struct AtPeak {
    pub usage: Usage,
    pub watched: Watched,
    /// The code that touched the pages of the last account, if `launch.recorder` names a recorder.
    pub sites: Fact<MemorySites>,
}

/// Runs the program as `passthrough` does, in this process group. `take` takes accounts of its memory at its
/// peaks. `made_maps`: interpreters were asked for maps of their code.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn peak_through(
    launch: &Launch,
    made_maps: bool,
    take: &mut Take<'_>,
) -> Result<AtPeak, RecordError> {
    let before = SignalState::inherited();
    let mut caught = Caught::block(before)?;
    let stay = |running: &_, recorder| {
        caught.spare(recorder);
        attend(running, &mut caught, &mut [])
    };
    peak(launch, made_maps, before, stay, take)
}

/// Like [`peak_through`], for a run of an experiment: it gets no signals, and the supervisor keeps its
/// limits.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn peak_of(launch: &Launch, take: &mut Take<'_>) -> Result<AtPeak, RecordError> {
    peak(launch, false, SignalState::clean(), |running, _| until_end(running), take)
}

fn peak(
    launch: &Launch,
    made_maps: bool,
    signals: SignalState,
    stay: impl FnOnce(&Running, Option<i32>) -> Nanos,
    take: &mut Take<'_>,
) -> Result<AtPeak, RecordError> {
    let child = traced::spawn(launch, memory_peak::filter(), signals, PURPOSE)?;
    let pid = child.pid();
    let mut recording = Recording::of_sites(&launch.recorder, pid, made_maps);
    let recorder = recording.pid();
    let stay = |running: &_| stay(running, recorder);
    let Traced { usage, found } = traced::live(child, stay, PURPOSE, |seized, reaped| {
        memory_peak::serve(pid, seized, reaped, &mut recording, take)
    })?;
    let usage = usage?;
    let watched = found.ok_or_else(|| RecordError::Start(traced::ended_early()))?;
    Ok(AtPeak { usage, watched, sites: recording.memory_sites() })
}

/// Waits for the program itself to end; returns its wall time.
fn until_end(running: &Running) -> Nanos {
    let mut fds = [PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN)];
    while fds.iter().all(|fd| fd.revents().is_empty()) {
        wait::sleep(&mut fds, None);
    }
    running.started().elapsed().into()
}
