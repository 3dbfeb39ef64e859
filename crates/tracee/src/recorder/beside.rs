//! The recorder beside a run that is made for other figures as well (`run`, `passthrough`).
//!
//! What cannot be recorded never fails the run: it is missing, with its reason. The recorder is a
//! helper and not of the program's tree: limits do not count it, and what is killed at the end
//! leaves it out. Stacks and calls are not recorded, code is not named, and the program is not stopped
//! at its exec.

use super::calls::Followed;
use super::{RecordError, Recorder, Request, Wanted};
use pagewise_model::Fact;
use pagewise_model::fault::{Ending, FaultReport, Stacks};
use pagewise_model::usage::Usage;
use std::ffi::OsString;

/// Sums with times, and no more.
const WANTED: Wanted = Wanted {
    list: false,
    latency: true,
    calls: false,
    stacks: Stacks::None,
    names: false,
    debug_files: false,
    exact: false,
};

/// A recording under way, or why there is none. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Recording(Fact<Recorder>);

impl Recording {
    /// Starts a recorder by `command` and has it record process `pid`, which must not have executed
    /// its program yet.
    pub(crate) fn beside(command: &[OsString], pid: i32) -> Self {
        let Some((exe, args)) = command.split_first() else {
            return Self(Fact::missing("not asked for in this run"));
        };
        let start = || -> Result<Recorder, RecordError> {
            let recorder = Recorder::start(exe, args)?;
            recorder.begin(&Request::Attach { pid, wanted: WANTED })?;
            Ok(recorder)
        };
        Self(Fact::from(start()))
    }

    /// Process id of the recorder.
    pub(crate) fn pid(&self) -> Option<i32> {
        self.0.known().map(Recorder::pid)
    }

    /// What was recorded of the program, which has ended and used so much.
    pub(crate) fn conclude(self, usage: &Usage) -> Fact<FaultReport> {
        let recorder = match self.0 {
            Fact::Known(recorder) => recorder,
            Fact::Missing(why) => return Fact::Missing(why),
        };
        let followed = Followed::at_exec(Fact::missing("not read beside another run"));
        let ending = Ending::of_started(usage.clone(), followed.exec, followed.calls);
        Fact::from(recorder.conclude(ending, &mut |_, _| {}).map_err(RecordError::Died))
    }
}
