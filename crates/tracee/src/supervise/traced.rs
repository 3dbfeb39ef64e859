//! Traced runs below the supervisor (the look, the account of memory). They must stop when the front says so
//! or is gone, and respect its limits of time and memory.
//!
//! Tracing serves stops and cannot listen. So a thread listens, and kills the tree when a message arrives or
//! a limit is broken. It only kills: the tracer waits for the ended processes. A look that broke a limit is
//! discarded, but the reason names what the program had done by then. A look that ended at its checkpoint
//! counts.

use super::{AccountedRun, SuperviseError, SupervisorResponse};
use crate::descendants::{self, ExceptedChildren};
use crate::launch::ProgramLaunch;
use crate::limits::{BrokenLimit, LimitMonitor};
use crate::tree::ProcessTree;
use crate::wait;
use pagewise_model::look::{SideEffect, TracedLook, sentence};
use pagewise_model::units::Nanos;
use pagewise_model::usage::ProgramEnd;
use rustix::event::{PollFd, PollFlags};
use std::ffi::OsString;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Runs a program to its end, or up to its checkpoint, under tracing. None of its processes is left behind. Fails with [`SuperviseError::ProgramLaunch`] or [`SuperviseError::Trace`].
pub type TakeLook<'a> =
    &'a dyn Fn(&ProgramLaunch, LookOptions) -> Result<TracedLook, SuperviseError>;

/// What a traced look is told, and tells meanwhile.
#[derive(Debug, Clone, Default)]
pub struct LookOptions {
    /// Directories whose changes do not count as effects.
    pub scratch: Vec<PathBuf>,
    /// To be set as soon as the program has had an effect or has opened a file for writing.
    pub has_effects: Arc<AtomicBool>,
}

/// Runs a program to its end and accounts for its memory. Fails like [`TakeLook`].
pub type TakeAccount<'a> = &'a dyn Fn(&ProgramLaunch) -> Result<AccountedRun, SuperviseError>;

/// The functions that record traced runs.
#[derive(Clone, Copy)]
pub struct TraceFunctions<'a> {
    pub trace: TakeLook<'a>,
    pub account: TakeAccount<'a>,
}

impl std::fmt::Debug for TraceFunctions<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TraceFunctions").finish_non_exhaustive()
    }
}

/// Pause between two rounds of killing.
const KILL_EVERY: Nanos = Nanos::millis(2);

/// The traced look at `launch`.
pub(super) fn look(
    launch: &ProgramLaunch,
    scratch: Vec<OsString>,
    socket: BorrowedFd<'_>,
    look: TakeLook<'_>,
) -> SupervisorResponse {
    let scratch: Vec<PathBuf> = scratch.into_iter().map(PathBuf::from).collect();
    let has_effects = Arc::default();
    let options = LookOptions { scratch, has_effects: Arc::clone(&has_effects) };
    match attended(launch, socket, has_effects, |launch| look(launch, options)) {
        Ok((Some(BrokenLimit::Checkpoint(work)), Ok(traced))) => {
            let checkpoint_bytes = Some(work.bytes());
            let ended = ProgramEnd::Checkpoint;
            SupervisorResponse::Traced(Box::new(TracedLook { checkpoint_bytes, ended, ..traced }))
        }
        Ok((Some(limit), result)) => {
            let effects = result.map(|traced| traced.effects).unwrap_or_default();
            SupervisorResponse::NotTraced(format!("{limit}{}", had_done(&effects)))
        }
        Ok((None, Ok(traced))) => SupervisorResponse::Traced(Box::new(traced)),
        Ok((None, Err(error))) => failed(error),
        Err(response) => response,
    }
}

/// The account of the memory of `launch`.
pub(super) fn account(
    launch: &ProgramLaunch,
    socket: BorrowedFd<'_>,
    account: TakeAccount<'_>,
) -> SupervisorResponse {
    match attended(launch, socket, Arc::default(), account) {
        Ok((Some(limit), _)) => SupervisorResponse::NotTraced(limit.to_string()),
        Ok((None, Ok(accounted))) => SupervisorResponse::Accounted(Box::new(accounted)),
        Ok((None, Err(error))) => failed(error),
        Err(response) => response,
    }
}

fn failed(error: SuperviseError) -> SupervisorResponse {
    match error {
        SuperviseError::Launch(error) => SupervisorResponse::Failed(error),
        SuperviseError::UsesInput { call, effects } => {
            SupervisorResponse::UsesInput { call, effects }
        }
        other => SupervisorResponse::NotTraced(other.to_string()),
    }
}

/// Result of a run, and the limit that it broke, if any.
type Attended<T> = (Option<BrokenLimit>, Result<T, SuperviseError>);

/// Runs `launch` by `work` under tracing until it ends, breaks a limit or reaches its checkpoint, or `socket`
/// becomes readable.
fn attended<T>(
    launch: &ProgramLaunch,
    socket: BorrowedFd<'_>,
    has_effects: Arc<AtomicBool>,
    work: impl FnOnce(&ProgramLaunch) -> Result<T, SuperviseError>,
) -> Result<Attended<T>, SupervisorResponse> {
    let (done, tell) = pagewise_kernel::pipe::pipe()
        .map_err(|error| SupervisorResponse::NotTraced(error.to_string()))?;
    // This function keeps the limits, so that the tracer may sleep between two stops.
    let untimed = ProgramLaunch { timeout_ns: None, checkpoint: None, ..launch.clone() };
    let (result, why) = std::thread::scope(|scope| {
        let listener = scope.spawn(|| listen(socket, &done, LimitMonitor::of(launch, has_effects)));
        let result = work(&untimed);
        drop(tell);
        (result, listener.join().unwrap_or(None))
    });
    if let Err(error) = descendants::end_all(&ExceptedChildren::default()).check(launch.shown()) {
        return Err(SupervisorResponse::Failed(error));
    }
    match why {
        Some(KillReason::Told) => Err(SupervisorResponse::Stopped),
        Some(KillReason::Limit(limit)) => Ok((Some(limit), result)),
        None => Ok((None, result)),
    }
}

/// The first few effects, as the end of a sentence.
fn had_done(effects: &[SideEffect]) -> String {
    if effects.is_empty() { String::new() } else { format!("; it had {}", sentence(effects)) }
}

/// Why the tree was killed.
#[derive(Debug, Clone, Copy)]
enum KillReason {
    /// The front requested it or is gone.
    Told,
    /// A limit was broken.
    Limit(BrokenLimit),
}

/// Waits until tracing is done; kills the tree once `socket` is readable or a limit is broken.
fn listen(socket: BorrowedFd<'_>, done: &OwnedFd, mut limits: LimitMonitor) -> Option<KillReason> {
    let start = Instant::now();
    let mut tree = ProcessTree::new(0, []);
    let why = loop {
        let timeout =
            limits.due().map(|due| Nanos(due.0.saturating_sub(Nanos::from(start.elapsed()).0)));
        let mut fds =
            [PollFd::new(done, PollFlags::IN), PollFd::from_borrowed_fd(socket, PollFlags::IN)];
        wait::sleep(&mut fds, timeout);
        let [ended, told] = fds.map(|fd| !fd.revents().is_empty());
        if ended {
            return None;
        }
        if told {
            break KillReason::Told;
        }
        if limits.look(&mut tree, start.elapsed().into())
            && let Some(limit) = limits.broken()
        {
            break KillReason::Limit(limit);
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
