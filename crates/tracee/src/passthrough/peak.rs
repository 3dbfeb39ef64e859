//! Runs a program and accounts for its memory at its peak: in this process group, or as a run of an
//! experiment.

use super::attend;
use super::traced::{self, TracePurpose, TracedProgram};
use crate::child::SignalState;
use crate::launch::{ProgramLaunch, RunningProgram};
use crate::memory_peak::{self, Take};
use crate::recorder::{FaultRecording, RecordError};
use crate::signals::SignalReceiver;
use crate::wait;
use pagewise_model::Fact;
use pagewise_model::fault::MemorySites;
use pagewise_model::memory_account::PeakWatch;
use pagewise_model::units::Nanos;
use pagewise_model::usage::ProgramUsage;
use rustix::event::{PollFd, PollFlags};

const PURPOSE: TracePurpose =
    TracePurpose { what: "the account of its peak", without: ", or use -p PID" };

/// A program that has ended.
#[derive(Debug)]
pub struct PeakRun {
    pub usage: ProgramUsage,
    pub watched: PeakWatch,
    /// The code that touched the pages of the last account, if `launch.recorder` names a recorder.
    pub sites: Fact<MemorySites>,
}

/// Runs the program as `passthrough` does, in this process group. `take` takes accounts of its memory at its
/// peaks. `made_maps`: interpreters were asked for maps of their code.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn peak_through(
    launch: &ProgramLaunch,
    made_maps: bool,
    take: &mut Take<'_>,
) -> Result<PeakRun, RecordError> {
    let before = SignalState::inherited();
    let mut caught = SignalReceiver::block(before)?;
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
pub fn peak_of(launch: &ProgramLaunch, take: &mut Take<'_>) -> Result<PeakRun, RecordError> {
    peak(launch, false, SignalState::clean(), |running, _| until_end(running), take)
}

fn peak(
    launch: &ProgramLaunch,
    made_maps: bool,
    signals: SignalState,
    stay: impl FnOnce(&RunningProgram, Option<i32>) -> Nanos,
    take: &mut Take<'_>,
) -> Result<PeakRun, RecordError> {
    let child = traced::spawn(launch, memory_peak::filter(), signals, PURPOSE)?;
    let pid = child.pid();
    let mut recording = FaultRecording::of_sites(&launch.recorder, pid, made_maps);
    let recorder = recording.pid();
    let stay = |running: &_| stay(running, recorder);
    let TracedProgram { usage, found } = traced::live(child, stay, PURPOSE, |seized, reaped| {
        memory_peak::serve(pid, seized, reaped, &mut recording, take)
    })?;
    let usage = usage?;
    let watched = found.ok_or_else(|| RecordError::Start(traced::ended_early()))?;
    Ok(PeakRun { usage, watched, sites: recording.memory_sites() })
}

/// Waits for the program itself to end; returns its wall time.
fn until_end(running: &RunningProgram) -> Nanos {
    let mut fds = [PollFd::from_borrowed_fd(running.pidfd(), PollFlags::IN)];
    while fds.iter().all(|fd| fd.revents().is_empty()) {
        wait::sleep(&mut fds, None);
    }
    running.started().elapsed().into()
}
