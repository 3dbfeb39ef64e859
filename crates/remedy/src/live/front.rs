//! The front's side: starts the helper and requests changes.

use super::server::{Request, Response};
use super::{Applied, Change, Left, Undo};
use pagewise_kernel::helper::{self, Session};
use pagewise_kernel::proc::image::Birth;
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

type Line = helper::Line<Request, Response>;

/// The helper, and the data to undo its changes.
#[derive(Debug)]
pub struct Switch {
    /// `None` once the helper has ended or is to end.
    line: Option<Line>,
    child: Child,
    undo: Option<Undo>,
}

impl Switch {
    /// Starts `exe args... FD`, which must call [`super::serve`] with that descriptor.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(exe: impl AsRef<OsStr>, args: &[impl AsRef<OsStr>]) -> io::Result<Self> {
        let mut command = Command::new(exe);
        command.args(args);
        let (line, child) = Line::start(command, Session::Own)?;
        Ok(Self { line: Some(line), child, undo: None })
    }

    /// Changes process `root` and its descendants. Whatever the result, call [`Self::off`] next.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn on(
        &mut self,
        root: Birth,
        change: &Change,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Applied, SwitchError> {
        let request = Request::Plan { root, change: change.clone() };
        match self.ask(&request, interrupted)? {
            Response::Planned(Ok(mut undo)) => {
                undo.hold();
                self.undo = Some(undo);
            }
            Response::Planned(Err(why)) => return Err(SwitchError::Refused(why)),
            other => return Err(self.died(&io::Error::other(format!("it says {other:?}")))),
        }
        match self.ask(&Request::On, interrupted)? {
            Response::On(_) if interrupted() => Err(SwitchError::Interrupted),
            Response::On(applied) if applied.changed > 0 => Ok(applied),
            Response::On(applied) => {
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
    pub fn off(&mut self) -> Result<Left, SwitchError> {
        if self.undo.is_none() {
            return Ok(Left::default());
        }
        match self.ask(&Request::Off, &|| false)? {
            Response::Off(left) => {
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
        request: &Request,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Response, SwitchError> {
        let answer = match &self.line {
            Some(line) => line.ask(request, &Request::Stop, interrupted),
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
        let left = self.undo.take().map_or_else(Left::default, |undo| undo.within(RESCUE));
        let left = match left.is_nothing() {
            true => String::new(),
            false => format!("; still changed: {left}"),
        };
        SwitchError::Died { why: error.to_string(), left }
    }
}

impl Drop for Switch {
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
