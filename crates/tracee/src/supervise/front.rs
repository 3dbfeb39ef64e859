//! The front's side: starts the supervisor and asks it for runs.

use super::{
    AccountedRun, ConditioningCost, SuperviseError, SupervisorRequest, SupervisorResponse,
};
use crate::launch::{LaunchError, ProgramLaunch};
use crate::run::FinishedRun;
use pagewise_kernel::helper::{self, HelperSession};
use pagewise_model::look::TracedLook;
use pagewise_model::units::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

/// How long supervisor and guard may take to end what was started, once asked to go.
const GO_PATIENCE: Duration = Duration::from_secs(22);

type Line = helper::HelperChannel<SupervisorRequest, SupervisorResponse>;

/// A supervisor and its guard. Dropping this ends them and everything they started.
#[derive(Debug)]
pub struct RunSupervisor {
    /// `None` once both have ended or are to end.
    line: Option<Line>,
    /// The guard.
    child: Child,
    pid: i32,
}

impl RunSupervisor {
    /// Starts `exe args... FD`, which must call [`super::serve`] with that descriptor.
    ///
    /// # Errors
    /// [`SuperviseError::Start`] with the reason.
    pub fn start(exe: &Path, args: &[&str]) -> Result<Self, SuperviseError> {
        let failed = |what: &str, e: io::Error| SuperviseError::Start(format!("{what}: {e}"));
        let mut command = Command::new(exe);
        command.args(args);
        let (ours, child) = Line::start(command, HelperSession::Own)
            .map_err(|e| failed(&exe.to_string_lossy(), e))?;
        let mut supervisor = Self { line: Some(ours), child, pid: 0 };
        match supervisor.ask(&SupervisorRequest::Ping, &|| false) {
            Ok(SupervisorResponse::Pong { pid }) => {
                supervisor.pid = pid;
                Ok(supervisor)
            }
            Ok(other) => Err(SuperviseError::OutOfPlace(format!("{other:?}"))),
            Err(error) => Err(SuperviseError::Start(error.to_string())),
        }
    }

    /// Process id of the supervisor.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Runs `launch` to its end. `interrupted` is called after each signal and four times a second. Once it
    /// returns true, the program is stopped.
    ///
    /// # Errors
    /// [`SuperviseError`]; then no process of the program is left alive.
    pub fn run(
        &mut self,
        launch: &ProgramLaunch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<FinishedRun, SuperviseError> {
        self.begin(launch)?;
        self.end(interrupted)
    }

    /// Starts `launch`. [`Self::end`] must follow.
    ///
    /// # Errors
    /// As [`Self::run`], when the request cannot be sent.
    pub fn begin(&mut self, launch: &ProgramLaunch) -> Result<(), SuperviseError> {
        self.line()?
            .begin(&SupervisorRequest::Run(Box::new(launch.clone())))
            .map_err(|error| SuperviseError::OutOfPlace(error.to_string()))
    }

    /// Waits for the end of what [`Self::begin`] started, as [`Self::run`] does.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn end(&mut self, interrupted: &dyn Fn() -> bool) -> Result<FinishedRun, SuperviseError> {
        match self.answer(interrupted)? {
            SupervisorResponse::Finished(finished) => Ok(*finished),
            other => Err(refusal(other)),
        }
    }

    /// Runs `launch` to its end under tracing. Its effects inside `scratch` do not count.
    ///
    /// # Errors
    /// [`SuperviseError::Trace`] when it cannot be traced, [`SuperviseError::UsesInput`] when it may not be
    /// run. Then none of its processes is left alive.
    pub fn traced(
        &mut self,
        launch: &ProgramLaunch,
        scratch: &[PathBuf],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<TracedLook, SuperviseError> {
        let scratch = scratch.iter().map(|p| p.clone().into_os_string()).collect();
        let request = SupervisorRequest::Traced { launch: Box::new(launch.clone()), scratch };
        match self.ask(&request, interrupted)? {
            SupervisorResponse::Traced(traced) => Ok(*traced),
            SupervisorResponse::NotTraced(why) => Err(SuperviseError::Trace(why)),
            SupervisorResponse::UsesInput { call, effects } => {
                Err(SuperviseError::UsesInput { call, effects })
            }
            other => Err(refusal(other)),
        }
    }

    /// Runs `launch` to its end and accounts for its memory at its peak.
    ///
    /// # Errors
    /// [`SuperviseError::Trace`] when it cannot be traced. Then none of its processes is left alive.
    pub fn accounted(
        &mut self,
        launch: &ProgramLaunch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<AccountedRun, SuperviseError> {
        match self.ask(&SupervisorRequest::Account(Box::new(launch.clone())), interrupted)? {
            SupervisorResponse::Accounted(accounted) => Ok(*accounted),
            SupervisorResponse::NotTraced(why) => Err(SuperviseError::Trace(why)),
            other => Err(refusal(other)),
        }
    }

    /// Touches and frees `bytes` of fresh memory.
    ///
    /// # Errors
    /// [`SuperviseError`]; for example when there is less memory than that.
    pub fn condition(
        &mut self,
        bytes: Bytes,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<ConditioningCost, SuperviseError> {
        match self.ask(&SupervisorRequest::Condition { bytes }, interrupted)? {
            SupervisorResponse::Conditioned(done) => Ok(done),
            other => Err(refusal(other)),
        }
    }

    fn ask(
        &mut self,
        request: &SupervisorRequest,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<SupervisorResponse, SuperviseError> {
        let begun = self.line()?.begin(request);
        begun.map_err(|error| SuperviseError::OutOfPlace(error.to_string()))?;
        self.answer(interrupted)
    }

    fn line(&self) -> Result<&Line, SuperviseError> {
        self.line.as_ref().ok_or_else(|| SuperviseError::Lost { how: "earlier".into() })
    }

    fn answer(
        &mut self,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<SupervisorResponse, SuperviseError> {
        match self.line()?.wait(&SupervisorRequest::Stop, interrupted) {
            Ok(Some((SupervisorResponse::Orphaned { how, killed, alive }, _))) => {
                self.bury();
                Err(SuperviseError::Died { how, killed, alive })
            }
            // Remaining processes are a more important result than the user's request to stop.
            Ok(Some((
                SupervisorResponse::Failed(error @ LaunchError::Unkillable { .. }),
                true,
            ))) => Err(SuperviseError::Launch(error)),
            Ok(Some((_, true))) => Err(SuperviseError::Interrupted),
            Ok(Some((response, false))) => Ok(response),
            Ok(None) => Err(SuperviseError::Lost { how: self.bury() }),
            Err(error) if helper::is_end(&error) => Err(SuperviseError::Lost { how: self.bury() }),
            Err(error) => Err(SuperviseError::OutOfPlace(error.to_string())),
        }
    }

    /// Ends the connection after the guard's last message. Returns how the guard ended.
    fn bury(&mut self) -> String {
        self.line = None;
        self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string())
    }
}

impl Drop for RunSupervisor {
    fn drop(&mut self) {
        let Some(line) = self.line.take() else { return };
        // Closing this side tells the supervisor to go. The other side closes when both have ended.
        match line.hang_up(GO_PATIENCE) {
            Ok(()) => drop(self.child.wait()),
            // They continue to end processes that hang; this process does not wait for that.
            Err(_) => drop(self.child.try_wait()),
        }
    }
}

/// Converts an unexpected answer to an error.
fn refusal(response: SupervisorResponse) -> SuperviseError {
    match response {
        SupervisorResponse::Failed(error) => SuperviseError::Launch(error),
        SupervisorResponse::Stopped => SuperviseError::Interrupted,
        SupervisorResponse::Unsendable(why) => SuperviseError::Unsendable(why),
        other => SuperviseError::OutOfPlace(format!("{other:?}")),
    }
}
