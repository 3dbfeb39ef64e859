//! The front's side: starts the recorder and the program, stays beside the program, fetches what
//! was recorded.

use super::calls::{self, Followed, Following};
use super::{Request, Response, Wanted, exact, exec_stop};
use crate::child::SignalState;
use crate::launch::{self, Launch, LaunchError, Running, Suspended};
use crate::passthrough;
use crate::perf::faults::{Before, Refusal};
use crate::signals::Caught;
use crate::wait;
use pagewise_kernel::helper::{self, Session};
use pagewise_model::Fact;
use pagewise_model::fault::{Ending, ExactTouch, ExecCounts, Fault, FaultReport, Names};
use pagewise_model::usage::{Ended, Usage};
use std::ffi::OsStr;
use std::io;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

/// A recording that failed.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Faults cannot be recorded here. The program has not run.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The process to attach to has ended.
    #[error("process {0} has ended")]
    Gone(i32),
    /// The recorder could not be started. The program has not run.
    #[error("cannot start the recorder: {0}")]
    Start(io::Error),
    /// The recorder has ended before its time.
    #[error("the recorder ended unexpectedly: {0}")]
    Died(io::Error),
}

/// A recorder of ours. Dropping it ends it.
#[derive(Debug)]
pub struct Recorder {
    socket: Option<UnixStream>,
    child: Child,
}

impl Recorder {
    /// Starts `exe args... FD`, which must call [`super::serve`] with that descriptor.
    ///
    /// # Errors
    /// [`RecordError::Start`].
    pub fn start(exe: impl AsRef<OsStr>, args: &[impl AsRef<OsStr>]) -> Result<Self, RecordError> {
        let mut command = Command::new(exe);
        command.args(args);
        let started = helper::start(command, Session::Own);
        let (socket, child) = started.map_err(RecordError::Start)?;
        Ok(Self { socket: Some(socket), child })
    }

    /// Process id of the recorder.
    pub(super) fn pid(&self) -> i32 {
        // Process ids of Linux are below 2^22.
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    fn socket(&self) -> io::Result<&UnixStream> {
        self.socket.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Has the recorder begin; tells what there was before.
    pub(super) fn begin(&self, request: &Request) -> Result<Before, RecordError> {
        let answer = || {
            let socket = self.socket()?;
            helper::send(socket, request)?;
            receive(socket)
        };
        match answer().map_err(RecordError::Start)? {
            Response::Attached(before) => Ok(before),
            Response::Refused(refusal) => Err(refusal.into()),
            other => Err(RecordError::Start(out_of_place(&other))),
        }
    }

    /// Fetches what the recording came to; each part of the list goes to `take`.
    pub(super) fn conclude(
        &self,
        ending: Ending,
        take: &mut dyn FnMut(&Names, Vec<Fault>),
    ) -> io::Result<FaultReport> {
        let socket = self.socket()?;
        helper::send(socket, &Request::Conclude(Box::new(ending)))?;
        let (report, names) = match receive(socket)? {
            Response::Report { report, names } => (report, names),
            other => return Err(out_of_place(&other)),
        };
        loop {
            match receive(socket)? {
                Response::Faults(faults) => take(&names, faults),
                Response::End => return Ok(*report),
                other => return Err(out_of_place(&other)),
            }
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        drop(self.socket.take());
        // At the end of its socket it goes by itself.
        let _ended = self.child.wait();
    }
}

fn receive(socket: &UnixStream) -> io::Result<Response> {
    helper::receive(socket)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

fn out_of_place(response: &Response) -> io::Error {
    let text = match response {
        Response::Attached(_) => "attached",
        Response::Refused(_) => "refused",
        Response::Report { .. } => "report",
        Response::Faults(_) => "faults",
        Response::End => "end",
    };
    io::Error::new(io::ErrorKind::InvalidData, format!("`{text}` is out of place"))
}

/// A program that was run and recorded.
#[derive(Debug)]
pub struct Recorded {
    /// How the program ended.
    pub ended: Ended,
    /// What its faults came to, or why that is not known.
    pub report: Result<FaultReport, RecordError>,
}

/// Runs the program as `passthrough` does, in our place in the process group, with `recorder`
/// beside it. Each part of the list of faults, where one is wanted, goes to `take`.
///
/// # Errors
/// [`RecordError`] when the program has not run.
pub fn record_through(
    launch: &Launch,
    recorder: &Recorder,
    wanted: Wanted,
    take: &mut dyn FnMut(&Names, Vec<Fault>),
) -> Result<Recorded, RecordError> {
    let before = SignalState::inherited();
    let mut caught = Caught::block(before)?;
    let child = match wanted.exact {
        true => exact::spawn(launch, before)?,
        false => launch::spawn_with(launch, &[], before)?,
    };
    recorder.begin(&Request::Attach { pid: child.pid(), wanted })?;
    let lived = match wanted.exact {
        true => exact::live(child, &mut caught)?,
        false => live(child, &mut caught, wanted)?,
    };
    // From here on a signal is for us: what follows may take as long as the list is.
    drop(caught);
    let Lived { usage, followed, exact } = lived;
    let ended = usage.ended;
    let ending = Ending::of_started(usage, followed.exec, followed.calls);
    let report = recorder.conclude(ending, take).map_err(RecordError::Died);
    Ok(Recorded { ended, report: report.map(|report| FaultReport { exact, ..report }) })
}

/// What is known of a program that has lived.
pub(super) struct Lived {
    pub(super) usage: Usage,
    pub(super) followed: Followed,
    /// How exactly its touches could be seen, where that was asked for.
    pub(super) exact: Option<ExactTouch>,
}

/// Lets `child` go and stays beside it until it has ended.
fn live(child: Suspended, caught: &mut Caught, wanted: Wanted) -> Result<Lived, RecordError> {
    let (running, released) = release(child, wanted)?;
    let wall = passthrough::attend(&running, caught, &mut []);
    let usage = wait::usage(running.pid(), wall, running.io())?;
    Ok(Lived { usage, followed: released.finish(), exact: None })
}

/// A program that was let go, with what was read on the way or is still being read.
enum Released {
    AtExec(Fact<ExecCounts>),
    Following(Following),
}

fn release(child: Suspended, wanted: Wanted) -> Result<(Running, Released), LaunchError> {
    if wanted.calls {
        let (running, following) = calls::release(child)?;
        return Ok((running, Released::Following(following)));
    }
    let (running, exec) = exec_stop::release(child)?;
    Ok((running, Released::AtExec(exec)))
}

impl Released {
    fn finish(self) -> Followed {
        match self {
            Self::AtExec(exec) => Followed::at_exec(exec),
            Self::Following(following) => following.finish(),
        }
    }
}
