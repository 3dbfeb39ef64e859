//! Runs a program as `passthrough` does, while a thread of this process traces its whole tree. Only the
//! tracing thread may serve its stops; both threads wait for the whole tree.

use crate::child::SignalState;
use crate::launch::{self, LaunchError, PreExec, ProgramLaunch, RunningProgram, SuspendedProgram};
use crate::perf::faults::RecordingRefusal;
use crate::recorder::RecordError;
use crate::signals::QuietStops;
use crate::wait;
use libc::sock_filter;
use pagewise_kernel::error::SysError;
use pagewise_model::units::Nanos;
use pagewise_model::usage::ProgramUsage;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, ScopedJoinHandle};

/// Purpose of the tracing, for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct TracePurpose {
    /// The feature that needs tracing.
    pub(super) what: &'static str,
    /// How to do without it: the end of a sentence, or nothing.
    pub(super) without: &'static str,
}

/// A program that has ended.
#[derive(Debug)]
pub(super) struct TracedProgram<T> {
    /// Its resource usage, or why it was not started.
    pub(super) usage: Result<ProgramUsage, RecordError>,
    /// Result of the tracing thread.
    pub(super) found: Option<T>,
}

/// Forks a child that stops where `filter` says.
///
/// # Errors
/// When the program cannot be started.
pub(super) fn spawn(
    launch: &ProgramLaunch,
    filter: Vec<sock_filter>,
    signals: SignalState,
    purpose: TracePurpose,
) -> Result<SuspendedProgram, RecordError> {
    launch::spawn_with(launch, &[PreExec::SeccompFilter(filter)], signals)
        .map_err(|error| explain(error, purpose))
}

/// Releases `child` while another thread runs `trace`. `stay` waits for the end of the child. Returns when
/// its whole tree has ended.
///
/// # Errors
/// When the tracing thread failed.
pub(super) fn live<T: Send>(
    child: SuspendedProgram,
    stay: impl FnOnce(&RunningProgram) -> Nanos,
    purpose: TracePurpose,
    trace: impl FnOnce(&Sender<Result<(), SysError>>, &Receiver<()>) -> Result<Option<T>, SysError>
    + Send,
) -> Result<TracedProgram<T>, RecordError> {
    let (seized, is_seized) = mpsc::channel();
    let (reaped, is_reaped) = mpsc::channel();
    let _quiet = QuietStops::begin();
    thread::scope(|scope| {
        let tracer = scope.spawn(move || trace(&seized, &is_reaped));
        let usage = attend_traced(child, stay, &is_seized, purpose);
        drop(reaped);
        Ok(TracedProgram { usage, found: join(tracer)? })
    })
}

/// Waits for the program itself and reaps it.
fn attend_traced(
    child: SuspendedProgram,
    stay: impl FnOnce(&RunningProgram) -> Nanos,
    is_seized: &Receiver<Result<(), SysError>>,
    purpose: TracePurpose,
) -> Result<ProgramUsage, RecordError> {
    match is_seized.recv() {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Err(untraceable(&error, purpose).into()),
        Err(_gone) => return Err(RecordError::Start(ended_early())),
    }
    let running = child.release_unconfirmed()?;
    if let Some(error) = running.exec_error() {
        let _gone = wait::reap(running.pid());
        return Err(explain(error, purpose));
    }
    let wall = stay(&running);
    Ok(wait::usage(running.pid(), wall, running.io())?)
}

fn join<T>(
    tracer: ScopedJoinHandle<'_, Result<Option<T>, SysError>>,
) -> Result<Option<T>, RecordError> {
    let ended = tracer.join().unwrap_or(Ok(None));
    ended.map_err(|error| RecordError::Died(std::io::Error::other(error.to_string())))
}

/// The tracing thread has ended without a result.
pub(super) fn ended_early() -> std::io::Error {
    std::io::Error::other("the tracing thread has ended")
}

fn untraceable(error: &SysError, purpose: TracePurpose) -> RecordingRefusal {
    let TracePurpose { what, without } = purpose;
    RecordingRefusal {
        why: format!("the program cannot be traced, which {what} needs: {error}"),
        help: format!(
            "set kernel.yama.ptrace_scope below 3, in a container allow ptrace in the seccomp profile{without}"
        ),
    }
}

/// Explains a refused seccomp filter; returns any other failure unchanged.
fn explain(error: LaunchError, purpose: TracePurpose) -> RecordError {
    match error {
        LaunchError::Call { ref call, .. } if call == "seccomp" => RecordingRefusal {
            why: format!("cannot stop the program when it maps files: {error}"),
            help: format!("in a container allow seccomp in the seccomp profile{}", purpose.without),
        }
        .into(),
        other => RecordError::Launch(other),
    }
}
