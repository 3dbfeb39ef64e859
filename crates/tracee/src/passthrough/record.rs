//! Runs a program as `passthrough` does, and records all its page faults.
//!
//! With `exact`, the program stops where it maps files, and each page is made a separate fault (`touch`).

use super::attend;
use super::traced::{self, TracePurpose, TracedProgram};
use crate::child::SignalState;
use crate::launch::{self, LaunchError, ProgramLaunch, RunningProgram, SuspendedProgram};
use crate::recorder::calls::{self, FollowOutcome, FollowedProgram};
use crate::recorder::{FaultRecorder, RecordError, exec_stop};
use crate::signals::SignalReceiver;
use crate::touch::{self, TouchOutcome};
use crate::wait;
use pagewise_model::Fact;
use pagewise_model::fault::{
    ExactTouch, ExecCounts, FaultNames, FaultRecordingOptions, FaultReport, PageFault,
    RecordingEnd, WorkingSetRange,
};
use pagewise_model::plan::{ArmSettings, ThpRestriction};
use pagewise_model::usage::{ProgramEnd, ProgramUsage};

/// A program that was run and recorded.
#[derive(Debug)]
pub struct FaultRun {
    /// How the program ended.
    pub ended: ProgramEnd,
    /// This process received SIGINT, SIGTERM or SIGHUP meanwhile.
    pub interrupted: bool,
    /// Summary of its faults, or why it is missing.
    pub report: Result<FaultReport, RecordError>,
    /// Parts of files that it read, by path, if requested.
    pub reads: Vec<(String, Vec<WorkingSetRange>)>,
}

/// Runs the program as `passthrough` does, in this process group, with `recorder` beside it. Each part of the
/// fault list, if requested, goes to `take`. With `reads` and an exact recording, reads of files are recorded
/// too.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn record_through(
    launch: &ProgramLaunch,
    recorder: &FaultRecorder,
    wanted: FaultRecordingOptions,
    reads: bool,
    take: &mut dyn FnMut(&FaultNames, Vec<PageFault>),
) -> Result<FaultRun, RecordError> {
    let before = SignalState::inherited();
    let mut caught = SignalReceiver::block(before)?;
    let child = match wanted.exact {
        true => spawn(launch, before, reads)?,
        false => launch::spawn_with(launch, &[], before)?,
    };
    caught.spare(Some(recorder.pid()));
    recorder.attach(child.pid(), wanted)?;
    let lived = match wanted.exact {
        true => live_traced(child, &mut caught)?,
        false => live(child, &mut caught, wanted)?,
    };
    let interrupted = caught.asked_to_end();
    // From here on signals end this process: the rest may take long if the list is long.
    drop(caught);
    let EndedProgram { usage, followed, exact, reads } = lived;
    let ended = usage.ended;
    let ending = RecordingEnd::of_started(usage, followed.exec, followed.calls);
    let report = recorder.conclude(ending, take).map_err(RecordError::Died);
    let report = report.map(|report| FaultReport { exact, ..report });
    Ok(FaultRun { ended, interrupted, report, reads })
}

/// Data about a program that has ended.
struct EndedProgram {
    usage: ProgramUsage,
    followed: FollowOutcome,
    /// How exactly its touches could be seen; `None` unless requested.
    exact: Option<ExactTouch>,
    reads: Vec<(String, Vec<WorkingSetRange>)>,
}

/// Releases `child` and waits beside it until it has ended.
fn live(
    child: SuspendedProgram,
    caught: &mut SignalReceiver,
    wanted: FaultRecordingOptions,
) -> Result<EndedProgram, RecordError> {
    let (running, released) = release(child, wanted)?;
    let wall = attend(&running, caught, &mut []);
    let usage = wait::usage(running.pid(), wall, running.io())?;
    Ok(EndedProgram { usage, followed: released.finish(), exact: None, reads: Vec::new() })
}

/// A released program, with counts read on the way or still being read.
enum ReleasedProgram {
    AtExec(Fact<ExecCounts>),
    Following(FollowedProgram),
}

fn release(
    child: SuspendedProgram,
    wanted: FaultRecordingOptions,
) -> Result<(RunningProgram, ReleasedProgram), LaunchError> {
    if wanted.calls {
        let (running, following) = calls::release(child)?;
        return Ok((running, ReleasedProgram::Following(following)));
    }
    let (running, exec) = exec_stop::release(child)?;
    Ok((running, ReleasedProgram::AtExec(exec)))
}

impl ReleasedProgram {
    fn finish(self) -> FollowOutcome {
        match self {
            Self::AtExec(exec) => FollowOutcome::at_exec(exec),
            Self::Following(following) => following.finish(),
        }
    }
}

const EXACT: TracePurpose = TracePurpose { what: "--exact", without: ", or leave out --exact" };

/// Forks a child that stops where it maps files, and with `reads` also where it reads. It gets no huge pages:
/// those of a file would be mapped as a whole.
///
/// # Errors
/// When the program cannot be started.
fn spawn(
    launch: &ProgramLaunch,
    signals: SignalState,
    reads: bool,
) -> Result<SuspendedProgram, RecordError> {
    let settings = ArmSettings { thp: Some(ThpRestriction::Off), ..launch.settings.clone() };
    let launch = ProgramLaunch { settings, ..launch.clone() };
    traced::spawn(&launch, touch::filter(reads), signals, EXACT)
}

/// Releases `child` under the tracing thread and waits until its whole tree has ended.
///
/// # Errors
/// When it could not be traced or started, or cannot be observed page by page. Then it has not run.
fn live_traced(
    child: SuspendedProgram,
    caught: &mut SignalReceiver,
) -> Result<EndedProgram, RecordError> {
    let pid = child.pid();
    let stay = |running: &_| attend(running, caught, &mut []);
    let TracedProgram { usage, found } =
        traced::live(child, stay, EXACT, |seized, reaped| touch::serve(pid, seized, reaped))?;
    // The reason for the refusal takes precedence over the way in which the program then ended.
    match found {
        Some(TouchOutcome { refusal: Some(refusal), .. }) => Err(refusal.into()),
        Some(TouchOutcome { exact, exec, reads, .. }) => {
            let followed = FollowOutcome::at_exec(exec);
            usage.map(|usage| EndedProgram { usage, followed, exact: Some(exact), reads })
        }
        None => usage.and_then(|_| Err(RecordError::Start(traced::ended_early()))),
    }
}
