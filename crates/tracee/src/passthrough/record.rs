//! A program in our place, every page fault of it recorded.
//!
//! With `exact` it stops where it maps files, and each page is made a fault of its own (`touch`).

use super::attend;
use super::traced::{self, Purpose, Traced};
use crate::child::SignalState;
use crate::launch::{self, Launch, LaunchError, Running, Suspended};
use crate::recorder::calls::{self, Followed, Following};
use crate::recorder::{RecordError, Recorder, exec_stop};
use crate::signals::Caught;
use crate::touch::{self, Touched};
use crate::wait;
use pagewise_model::Fact;
use pagewise_model::fault::{
    Ending, ExactTouch, ExecCounts, Fault, FaultReport, Names, Wanted, WorkingRange,
};
use pagewise_model::plan::{Settings, ThpRestriction};
use pagewise_model::usage::{Ended, Usage};

/// A program that was run and recorded.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub ended: Ended,
    /// This process was asked to end meanwhile (SIGINT, SIGTERM, SIGHUP).
    pub interrupted: bool,
    /// What its faults came to, or why that is not known.
    pub report: Result<FaultReport, RecordError>,
    /// What it read of files, by path, where that was asked for.
    pub reads: Vec<(String, Vec<WorkingRange>)>,
}

/// Runs the program as `passthrough` does, in our place in the process group, with `recorder`
/// beside it. Each part of the list of faults, where one is wanted, goes to `take`. With `reads` and an exact
/// recording, what the program reads of files is recorded too.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn record_through(
    launch: &Launch,
    recorder: &Recorder,
    wanted: Wanted,
    reads: bool,
    take: &mut dyn FnMut(&Names, Vec<Fault>),
) -> Result<Recorded, RecordError> {
    let before = SignalState::inherited();
    let mut caught = Caught::block(before)?;
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
    // From here on a signal is for us: what follows may take as long as the list is.
    drop(caught);
    let Lived { usage, followed, exact, reads } = lived;
    let ended = usage.ended;
    let ending = Ending::of_started(usage, followed.exec, followed.calls);
    let report = recorder.conclude(ending, take).map_err(RecordError::Died);
    let report = report.map(|report| FaultReport { exact, ..report });
    Ok(Recorded { ended, interrupted, report, reads })
}

/// What is known of a program that has lived.
struct Lived {
    usage: Usage,
    followed: Followed,
    /// How exactly its touches could be seen, where that was asked for.
    exact: Option<ExactTouch>,
    reads: Vec<(String, Vec<WorkingRange>)>,
}

/// Lets `child` go and stays beside it until it has ended.
fn live(child: Suspended, caught: &mut Caught, wanted: Wanted) -> Result<Lived, RecordError> {
    let (running, released) = release(child, wanted)?;
    let wall = attend(&running, caught, &mut []);
    let usage = wait::usage(running.pid(), wall, running.io())?;
    Ok(Lived { usage, followed: released.finish(), exact: None, reads: Vec::new() })
}

/// A program that was let go, with what was read on the way or is still being read.
enum Released {
    AtExec(Fact<ExecCounts>),
    Following(Following),
}

fn release(child: Suspended, wanted: Wanted) -> Result<(Running, Released), LaunchError> {
    if wanted.calls {
        let (running, following) = calls::release(child)?;
        return Ok((running, Released::Following(following)));
    }
    let (running, exec) = exec_stop::release(child)?;
    Ok((running, Released::AtExec(exec)))
}

impl Released {
    fn finish(self) -> Followed {
        match self {
            Self::AtExec(exec) => Followed::at_exec(exec),
            Self::Following(following) => following.finish(),
        }
    }
}

const EXACT: Purpose = Purpose { what: "--exact", without: ", or leave out --exact" };

/// Forks a child that stops where it maps files, with `reads` also where it reads, and gets no huge pages: those of a file would be
/// mapped as a whole.
///
/// # Errors
/// When the program cannot be started.
fn spawn(launch: &Launch, signals: SignalState, reads: bool) -> Result<Suspended, RecordError> {
    let settings = Settings { thp: Some(ThpRestriction::Off), ..launch.settings.clone() };
    let launch = Launch { settings, ..launch.clone() };
    traced::spawn(&launch, touch::filter(reads), signals, EXACT)
}

/// Lets `child` go under the eyes of the tracing thread and stays until its whole tree has ended.
///
/// # Errors
/// When it could not be traced or started, or cannot be seen page by page: it has not run then.
fn live_traced(child: Suspended, caught: &mut Caught) -> Result<Lived, RecordError> {
    let pid = child.pid();
    let stay = |running: &_| attend(running, caught, &mut []);
    let Traced { usage, found } =
        traced::live(child, stay, EXACT, |seized, reaped| touch::serve(pid, seized, reaped))?;
    // The reason why it was not let begin comes before the way in which it ended by that.
    match found {
        Some(Touched { refusal: Some(refusal), .. }) => Err(refusal.into()),
        Some(Touched { exact, exec, reads, .. }) => {
            let followed = Followed::at_exec(exec);
            usage.map(|usage| Lived { usage, followed, exact: Some(exact), reads })
        }
        None => usage.and_then(|_| Err(RecordError::Start(traced::ended_early()))),
    }
}
