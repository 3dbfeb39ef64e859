//! Runs a program as `passthrough` does, and records the first call of each of its functions.

use super::attend;
use super::traced::{self, TracePurpose, TracedProgram};
use crate::child::SignalState;
use crate::first_calls::{self, FindStarts, FirstCalls};
use crate::launch::ProgramLaunch;
use crate::recorder::RecordError;
use crate::signals::SignalReceiver;
use pagewise_model::usage::ProgramEnd;

const PURPOSE: TracePurpose = TracePurpose { what: "recording first calls", without: "" };

/// A program that was run and recorded.
#[derive(Debug)]
pub struct FirstCallRun {
    /// How the program ended.
    pub ended: ProgramEnd,
    /// The functions that it called.
    pub calls: FirstCalls,
}

/// Runs the program as `passthrough` does, in this process group, and records the first calls of the
/// functions that `starts` finds.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn first_calls_through(
    launch: &ProgramLaunch,
    starts: &mut FindStarts<'_>,
) -> Result<FirstCallRun, RecordError> {
    let before = SignalState::inherited();
    let mut caught = SignalReceiver::block(before)?;
    let child = traced::spawn(launch, first_calls::filter(), before, PURPOSE)?;
    let pid = child.pid();
    let stay = |running: &_| attend(running, &mut caught, &mut []);
    let TracedProgram { usage, found } = traced::live(child, stay, PURPOSE, |seized, reaped| {
        first_calls::serve(pid, seized, reaped, starts)
    })?;
    let ended = usage?.ended;
    let calls = found.ok_or_else(|| RecordError::Start(traced::ended_early()))?;
    Ok(FirstCallRun { ended, calls })
}
