//! What of the supervising process the real world uses; tests have another.

use pagewise_model::Bytes;
use pagewise_model::look::Traced;
use pagewise_tracee::launch::Launch;
use pagewise_tracee::run::Finished;
use pagewise_tracee::supervise::{Accounted, SuperviseError, Supervisor};
use std::path::PathBuf;

/// What runs programs: the supervising process. Asked often whether to stop.
pub(super) trait Runs {
    /// Lets a program start; [`Self::end`] waits for its end.
    fn begin(&mut self, launch: &Launch) -> Result<(), SuperviseError>;
    fn end(&mut self, interrupted: &dyn Fn() -> bool) -> Result<Finished, SuperviseError>;
    fn run(
        &mut self,
        launch: &Launch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Finished, SuperviseError> {
        self.begin(launch)?;
        self.end(interrupted)
    }
    fn traced(
        &mut self,
        launch: &Launch,
        scratch: &[PathBuf],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Traced, SuperviseError>;
    fn accounted(
        &mut self,
        launch: &Launch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Accounted, SuperviseError>;
    fn condition(
        &mut self,
        bytes: Bytes,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<(), SuperviseError>;
}

impl Runs for Supervisor {
    fn begin(&mut self, launch: &Launch) -> Result<(), SuperviseError> {
        Self::begin(self, launch)
    }

    fn end(&mut self, interrupted: &dyn Fn() -> bool) -> Result<Finished, SuperviseError> {
        Self::end(self, interrupted)
    }

    fn traced(
        &mut self,
        launch: &Launch,
        scratch: &[PathBuf],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Traced, SuperviseError> {
        Self::traced(self, launch, scratch, interrupted)
    }

    fn accounted(
        &mut self,
        launch: &Launch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Accounted, SuperviseError> {
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
