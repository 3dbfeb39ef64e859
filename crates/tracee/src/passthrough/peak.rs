//! A program in our place, its memory accounted for where it is largest.

use super::traced::{self, Purpose, Traced};
use crate::child::SignalState;
use crate::launch::Launch;
use crate::memory_peak::{self, Take};
use crate::recorder::RecordError;
use crate::signals::Caught;
use pagewise_model::memory_account::Watched;
use pagewise_model::usage::Usage;

const PURPOSE: Purpose = Purpose { what: "the account of its peak", without: ", or use -p PID" };

/// Runs the program as `passthrough` does, in our place in the process group, and has `take` take accounts of its
/// memory at its peaks.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn peak_through(launch: &Launch, take: &mut Take<'_>) -> Result<(Usage, Watched), RecordError> {
    let before = SignalState::inherited();
    let mut caught = Caught::block(before)?;
    let child = traced::spawn(launch, memory_peak::filter(), before, PURPOSE)?;
    let pid = child.pid();
    let Traced { usage, found } = traced::live(child, &mut caught, PURPOSE, |seized, reaped| {
        memory_peak::serve(pid, seized, reaped, take)
    })?;
    let usage = usage?;
    let watched = found.ok_or_else(|| RecordError::Start(traced::ended_early()))?;
    Ok((usage, watched))
}
