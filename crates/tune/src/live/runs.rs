//! What of the supervising process the real world uses; tests have another.

use pagewise_model::Bytes;
use pagewise_model::look::Traced;
use pagewise_tracee::launch::Launch;
use pagewise_tracee::run::Finished;
use pagewise_tracee::supervise::{Accounted, SuperviseError, Supervisor};
use std::path::PathBuf;

/// What runs programs: the supervising process. Asked often whether to stop.
pub(super) trait Runs {
    fn run(
        &mut self,
        launch: &Launch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Finished, SuperviseError>;
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
    fn run(
        &mut self,
        launch: &Launch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Finished, SuperviseError> {
        Self::run(self, launch, interrupted)
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
