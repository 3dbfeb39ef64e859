//! The front's side: starts the helper and has it switch.

use super::server::{Request, Response};
use super::{Applied, Change, Left, Undo};
use pagewise_kernel::helper::{self, Session};
use pagewise_kernel::proc::image::Birth;
use pagewise_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How often a wait asks whether it is to end.
const ASK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How long undoing is tried when the helper is gone, and how long the helper's end is waited for.
const RESCUE: Nanos = Nanos::secs(10);
const GO_PATIENCE: Duration = Duration::from_secs(15);

/// A change that was not made.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The service has nothing to change, or may not be changed now.
    #[error("{0}")]
    Refused(String),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// The helper is gone. What it had changed is undone, or named.
    #[error("the process that switches remedies ended unexpectedly ({why}){left}")]
    Died { why: String, left: String },
}

/// The helper, and the way back from what it has changed.
#[derive(Debug)]
pub struct Switch {
    socket: Option<UnixStream>,
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
        let (socket, child) = helper::start(command, Session::Own)?;
        Ok(Self { socket: Some(socket), child, undo: None })
    }

    /// Makes a change to process `root` and those below it. Whatever comes of it, [`Self::off`] is next.
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

    /// Undoes what [`Self::on`] did; what could not be undone by now.
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
        let answer = self.socket.as_ref().map(|socket| {
            helper::send(socket, request)?;
            let mut has_stopped = false;
            while !has_answered(socket) {
                if interrupted() && !has_stopped {
                    helper::send(socket, &Request::Stop)?;
                    has_stopped = true;
                }
            }
            helper::receive(socket)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
        });
        let answer = answer.unwrap_or_else(|| Err(io::ErrorKind::NotConnected.into()));
        answer.map_err(|error: io::Error| self.died(&error))
    }

    /// The helper does not answer any more: what it changed is undone from here.
    fn died(&mut self, error: &io::Error) -> SwitchError {
        self.socket = None;
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
        // At the end of its socket the helper undoes what is left, and goes. It may have to wait for a child of
        // the service that shares its memory: it does so without us.
        self.socket = None;
        let since = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && since.elapsed() < GO_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits a while for an answer.
fn has_answered(socket: &UnixStream) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    // An interrupted wait leaves the question open.
    rustix::event::poll(&mut fds, Some(&ASK_EVERY)).is_ok_and(|ready| ready > 0)
}
