//! Runs a program as `passthrough` does, and records the first call of each of its functions.

use super::attend;
use super::traced::{self, Purpose, Traced};
use crate::child::SignalState;
use crate::first_calls::{self, FindStarts, FirstCalls};
use crate::launch::Launch;
use crate::recorder::RecordError;
use crate::signals::Caught;
use pagewise_model::usage::Ended;

const PURPOSE: Purpose = Purpose { what: "recording first calls", without: "" };

/// A program that was run and recorded.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub ended: Ended,
    /// The functions that it called.
    pub calls: FirstCalls,
}

/// Runs the program as `passthrough` does, in this process group, and records the first calls of the
/// functions that `starts` finds.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn first_calls_through(
    launch: &Launch,
    starts: &mut FindStarts<'_>,
) -> Result<Recorded, RecordError> {
    let before = SignalState::inherited();
    let mut caught = Caught::block(before)?;
    let child = traced::spawn(launch, first_calls::filter(), before, PURPOSE)?;
    let pid = child.pid();
    let stay = |running: &_| attend(running, &mut caught, &mut []);
    let Traced { usage, found } = traced::live(child, stay, PURPOSE, |seized, reaped| {
        first_calls::serve(pid, seized, reaped, starts)
    })?;
    let ended = usage?.ended;
    let calls = found.ok_or_else(|| RecordError::Start(traced::ended_early()))?;
    Ok(Recorded { ended, calls })
}
