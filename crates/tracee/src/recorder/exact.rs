//! The life of a program of which every page that it touches is to be a fault: traced by a thread of
//! the front to the end of its tree (`touch`), beside the one that stays with the program itself.

use super::calls::Followed;
use super::front::{Lived, RecordError};
use crate::child::SignalState;
use crate::launch::{self, Launch, LaunchError, PreExec, Suspended};
use crate::passthrough;
use crate::perf::faults::Refusal;
use crate::signals::Caught;
use crate::touch::{self, Touched};
use crate::wait;
use pagewise_kernel::error::SysError;
use pagewise_model::plan::{Settings, ThpRestriction};
use pagewise_model::usage::Usage;
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, ScopedJoinHandle};

/// Forks a child that stops where it maps files, and gets no huge pages: those of a file would be
/// mapped as a whole.
///
/// # Errors
/// When the program cannot be started.
pub(super) fn spawn(launch: &Launch, signals: SignalState) -> Result<Suspended, LaunchError> {
    let settings = Settings { thp: Some(ThpRestriction::Off), ..launch.settings.clone() };
    let launch = Launch { settings, ..launch.clone() };
    launch::spawn_with(&launch, &[PreExec::SeccompFilter(touch::filter())], signals)
}

/// Lets `child` go under the eyes of the tracing thread and stays until its whole tree has ended.
///
/// # Errors
/// When it could not be traced or started, or cannot be seen page by page: it has not run then.
pub(super) fn live(child: Suspended, caught: &mut Caught) -> Result<Lived, RecordError> {
    let pid = child.pid();
    let (seized, is_seized) = mpsc::channel();
    let (reaped, is_reaped) = mpsc::channel();
    thread::scope(|scope| {
        let tracer = scope.spawn(move || touch::serve(pid, &seized, &is_reaped));
        let usage = attend(child, caught, &is_seized);
        drop(reaped);
        let touched = join(tracer)?;
        conclude(usage, touched)
    })
}

/// Stays beside the program itself and removes it when it has ended.
fn attend(
    child: Suspended,
    caught: &mut Caught,
    is_seized: &Receiver<Result<(), SysError>>,
) -> Result<Usage, RecordError> {
    match is_seized.recv() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(untraceable(&error).into()),
        Err(_gone) => return Err(RecordError::Start(ended_early())),
    }
    let running = child.release_unconfirmed()?;
    if let Some(error) = running.exec_error() {
        let _gone = wait::reap(running.pid());
        return Err(explain(error));
    }
    let wall = passthrough::attend(&running, caught, &mut []);
    Ok(wait::usage(running.pid(), wall, running.io())?)
}

fn join(
    tracer: ScopedJoinHandle<'_, Result<Option<Touched>, SysError>>,
) -> Result<Option<Touched>, RecordError> {
    let ended = tracer.join().unwrap_or(Ok(None));
    ended.map_err(|error| RecordError::Died(std::io::Error::other(error.to_string())))
}

fn conclude(
    usage: Result<Usage, RecordError>,
    touched: Option<Touched>,
) -> Result<Lived, RecordError> {
    // The reason why it was not let begin comes before the way in which it ended by that.
    match touched {
        Some(Touched { refusal: Some(refusal), .. }) => Err(refusal.into()),
        Some(Touched { exact, exec, .. }) => {
            let followed = Followed::at_exec(exec);
            usage.map(|usage| Lived { usage, followed, exact: Some(exact) })
        }
        None => usage.and_then(|_| Err(RecordError::Start(ended_early()))),
    }
}

fn ended_early() -> std::io::Error {
    std::io::Error::other("the tracing thread has ended")
}

fn untraceable(error: &SysError) -> Refusal {
    Refusal {
        why: format!("the program cannot be traced, which --exact needs: {error}"),
        help: "kernel.yama.ptrace_scope below 3, in a container a seccomp profile that allows \
               ptrace; without --exact nothing is traced"
            .to_owned(),
    }
}

/// What a refused seccomp filter means; any other failure is itself.
fn explain(error: LaunchError) -> RecordError {
    match error {
        LaunchError::Call { ref call, .. } if call == "seccomp" => Refusal {
            why: format!("the program cannot be stopped where it maps files: {error}"),
            help: "a container whose seccomp profile allows seccomp; or leave out --exact"
                .to_owned(),
        }
        .into(),
        other => RecordError::Launch(other),
    }
}
