//! What of the supervising process the real world uses; tests have another.

use pagewise_model::Bytes;
use pagewise_model::look::TracedLook;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::run::FinishedRun;
use pagewise_tracee::supervise::{AccountedRun, RunSupervisor, SuperviseError};
use std::path::PathBuf;

/// What runs programs: the supervising process. Asked often whether to stop.
pub(super) trait ProgramRunner {
    /// Lets a program start; [`Self::end`] waits for its end.
    fn begin(&mut self, launch: &ProgramLaunch) -> Result<(), SuperviseError>;
    fn end(&mut self, interrupted: &dyn Fn() -> bool) -> Result<FinishedRun, SuperviseError>;
    fn run(
        &mut self,
        launch: &ProgramLaunch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<FinishedRun, SuperviseError> {
        self.begin(launch)?;
        self.end(interrupted)
    }
    fn traced(
        &mut self,
        launch: &ProgramLaunch,
        scratch: &[PathBuf],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TracedLook, SuperviseError>;
    fn accounted(
        &mut self,
        launch: &ProgramLaunch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<AccountedRun, SuperviseError>;
    fn condition(
        &mut self,
        bytes: Bytes,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), SuperviseError>;
}

impl ProgramRunner for RunSupervisor {
    fn begin(&mut self, launch: &ProgramLaunch) -> Result<(), SuperviseError> {
        Self::begin(self, launch)
    }

    fn end(&mut self, interrupted: &dyn Fn() -> bool) -> Result<FinishedRun, SuperviseError> {
        Self::end(self, interrupted)
    }

    fn traced(
        &mut self,
        launch: &ProgramLaunch,
        scratch: &[PathBuf],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TracedLook, SuperviseError> {
        Self::traced(self, launch, scratch, interrupted)
    }

    fn accounted(
        &mut self,
        launch: &ProgramLaunch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<AccountedRun, SuperviseError> {
        Self::accounted(self, launch, interrupted)
    }

    fn condition(
        &mut self,
        bytes: Bytes,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), SuperviseError> {
        Self::condition(self, bytes, interrupted).map(|_cost| ())
    }
}
