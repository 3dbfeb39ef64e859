//! Runs that failed, as stops of the session.

use crate::service::{AROUND, run_shell};
use crate::stop::SessionStop;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::SuperviseError;

/// A run that kept its limits.
pub(super) fn within_limits(
    launch: &ProgramLaunch,
    finished: FinishedRun,
) -> Result<FinishedRun, SessionStop> {
    if finished.over_memory {
        return Err(SessionStop::TooLarge(launch.memory_limit_bytes.unwrap_or_default()));
    }
    if finished.timed_out {
        return Err(SessionStop::TooLong(launch.timeout_ns.unwrap_or_default()));
    }
    Ok(finished)
}

/// `--cleanup` without a supervisor, which is dead: the changes of `--prepare` must be undone.
pub(super) fn clean_unsupervised(command: Option<&str>) -> Result<(), SessionStop> {
    let Some(command) = command else { return Ok(()) };
    run_shell(command, AROUND, None).map_err(|error| error.into_stop("--cleanup"))
}

pub(super) fn stopped(error: SuperviseError) -> SessionStop {
    match error {
        SuperviseError::Launch(error) => SessionStop::Launch(error),
        SuperviseError::Interrupted => SessionStop::Interrupted,
        other => SessionStop::Broken(other.to_string()),
    }
}
