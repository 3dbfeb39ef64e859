//! The front's side: starts the helper and requests changes.

use super::server::{LiveRequest, LiveResponse};
use super::{LiveChange, LiveRemainder, LiveResult, LiveUndo};
use pagewise_kernel::helper::{self, HelperSession};
use pagewise_kernel::proc::image::TaskIdentity;
use pagewise_model::Nanos;
use std::ffi::OsStr;
use std::io;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How long to try an undo if the helper is gone; below, how long to wait for the helper's end.
const RESCUE: Nanos = Nanos::secs(10);
const GO_PATIENCE: Duration = Duration::from_secs(15);

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The service has nothing to change, or must not be changed now.
    #[error("{0}")]
    Refused(String),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The helper has ended. Its changes are undone, or named.
    #[error("the process that switches remedies ended unexpectedly ({why}){left}")]
    Died { why: String, left: String },
}

type Line = helper::HelperChannel<LiveRequest, LiveResponse>;

/// The helper, and the data to undo its changes.
#[derive(Debug)]
pub struct LiveSwitch {
    /// `None` once the helper has ended or is to end.
    line: Option<Line>,
    child: Child,
    undo: Option<LiveUndo>,
}

impl LiveSwitch {
    /// Starts `exe args... FD`, which must call [`super::serve`] with that descriptor.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(exe: impl AsRef<OsStr>, args: &[impl AsRef<OsStr>]) -> io::Result<Self> {
        let mut command = Command::new(exe);
        command.args(args);
        let (line, child) = Line::start(command, HelperSession::Own)?;
        Ok(Self { line: Some(line), child, undo: None })
    }

    /// Changes process `root` and its descendants. Whatever the result, call [`Self::off`] next.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn on(
        &mut self,
        root: TaskIdentity,
        change: &LiveChange,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<LiveResult, SwitchError> {
        let request = LiveRequest::Plan { root, change: change.clone() };
        match self.ask(&request, interrupted)? {
            LiveResponse::Planned(Ok(mut undo)) => {
                undo.hold();
                self.undo = Some(undo);
            }
            LiveResponse::Planned(Err(why)) => return Err(SwitchError::Refused(why)),
            other => return Err(self.died(&io::Error::other(format!("it says {other:?}")))),
        }
        match self.ask(&LiveRequest::On, interrupted)? {
            LiveResponse::On(_) if interrupted() => Err(SwitchError::Interrupted),
            LiveResponse::On(applied) if applied.changed > 0 => Ok(applied),
            LiveResponse::On(applied) => {
                let why = applied.why.unwrap_or_else(|| "nothing was left to change".to_owned());
                Err(SwitchError::Refused(why))
            }
            other => Err(self.died(&io::Error::other(format!("it says {other:?}")))),
        }
    }

    /// Undoes the change of [`Self::on`]. Returns what could not be undone so far.
    ///
    /// # Errors
    /// [`SwitchError::Died`].
    pub fn off(&mut self) -> Result<LiveRemainder, SwitchError> {
        if self.undo.is_none() {
            return Ok(LiveRemainder::default());
        }
        match self.ask(&LiveRequest::Off, &|| false)? {
            LiveResponse::Off(left) => {
                if left.is_nothing() {
                    self.undo = None;
                }
                Ok(left)
            }
            other => Err(self.died(&io::Error::other(format!("it says {other:?}")))),
        }
    }

    fn ask(
        &mut self,
        request: &LiveRequest,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<LiveResponse, SwitchError> {
        let answer = match &self.line {
            Some(line) => line.ask(request, &LiveRequest::Stop, interrupted),
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        match answer {
            Ok(Some((response, _))) => Ok(response),
            Ok(None) => Err(self.died(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.died(&error)),
        }
    }

    /// Handles a helper that does not answer any more: undoes its changes from here.
    fn died(&mut self, error: &io::Error) -> SwitchError {
        self.line = None;
        let left = self.undo.take().map_or_else(LiveRemainder::default, |undo| undo.within(RESCUE));
        let left = match left.is_nothing() {
            true => String::new(),
            false => format!("; still changed: {left}"),
        };
        SwitchError::Died { why: error.to_string(), left }
    }
}

impl Drop for LiveSwitch {
    fn drop(&mut self) {
        // When its connection closes, the helper undoes what is left, and exits. It may have to wait for a
        // child of the service that shares its memory; this process does not wait for that.
        self.line = None;
        let since = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && since.elapsed() < GO_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
