//! Page faults of a program timed individually, compared with those of a probe.
//!
//! Recording makes each fault longer by a constant. A probe measures how much: a small program that only
//! touches new pages. It runs right after the program and in the same way: once to have the host back its
//! memory, once unrecorded, once recorded.

use pagewise_judge::faults::{self, FaultProbe};
use pagewise_model::Fact;
use pagewise_model::fault::FaultReport;
use pagewise_model::look::TimedFaults;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::run::FinishedRun;
use std::ffi::OsString;

/// Commands of this product's own program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingCommands {
    /// Starts a recorder (`ProgramLaunch::recorder`).
    pub recorder: Vec<OsString>,
    /// Touches fresh pages.
    pub probe: Vec<OsString>,
}

impl RecordingCommands {
    /// The times of the faults in `recorded`; `in_shown_run` is that of [`TimedFaults`]. `run` runs its
    /// argument to its end.
    ///
    /// # Errors
    /// Those of `run`.
    pub fn beside_probe<E>(
        &self,
        recorded: Fact<FaultReport>,
        in_shown_run: bool,
        run: &mut dyn FnMut(&ProgramLaunch) -> Result<FinishedRun, E>,
    ) -> Result<Fact<TimedFaults>, E> {
        let program = match recorded {
            Fact::Known(report) => report,
            Fact::Missing(why) => return Ok(Fact::Missing(why)),
        };
        let plain = ProgramLaunch::experiment(self.probe.clone());
        let timed = ProgramLaunch { recorder: self.recorder.clone(), ..plain.clone() };
        run(&plain)?;
        let plain = run(&plain)?.usage;
        if !plain.ended.success() {
            return Ok(Fact::Missing(format!("the probe beside it failed: {}", plain.ended)));
        }
        Ok(match run(&timed)?.faults {
            Fact::Known(recorded) => {
                let probe = FaultProbe { recorded: &recorded, plain: &plain };
                faults::timed(&program, &probe, in_shown_run)
            }
            Fact::Missing(why) => Fact::Missing(why),
        })
    }
}
