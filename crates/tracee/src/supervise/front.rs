//! The front's side: starts the supervisor and asks it for runs.

use super::wire;
use super::{Conditioned, Request, Response, SuperviseError};
use crate::launch::Launch;
use crate::run::{self, Finished};
use crate::tree::{self, Tree};
use crate::wait;
use pagewise_kernel::proc;
use pagewise_model::look::Traced;
use pagewise_model::units::{Bytes, Nanos};
use rustix::event::{PollFd, PollFlags};
use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// How often the interrupt check is asked when no signal interrupts the wait.
const CHECK_EVERY: Nanos = Nanos::millis(250);

/// How long a supervisor that was told to go may take to kill what it started.
const GO_PATIENCE: Duration = Duration::from_secs(12);

/// A supervisor of ours. Dropping it ends it and all it started.
#[derive(Debug)]
pub struct Supervisor {
    socket: Option<UnixStream>,
    child: Child,
    /// Children this process had before: none of the supervisor's.
    others: Vec<i32>,
}

impl Supervisor {
    /// Starts `exe args... FD`, which must call [`super::serve`] with that descriptor. This
    /// process becomes a subreaper, to inherit what a killed supervisor leaves.
    ///
    /// # Errors
    /// [`SuperviseError::Start`] with the reason.
    pub fn start(exe: &Path, args: &[&str]) -> Result<Self, SuperviseError> {
        let failed = |what: &str, e: io::Error| SuperviseError::Start(format!("{what}: {e}"));
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|e| failed("prctl(PR_SET_CHILD_SUBREAPER)", e.into()))?;
        let mut tree = Tree::new(0, []);
        tree.refresh();
        let (ours, child) =
            start_beside(exe, args).map_err(|e| failed(&exe.to_string_lossy(), e))?;
        let others = tree.pids().to_vec();
        let mut supervisor = Self { socket: Some(ours), child, others };
        match supervisor.ask(&Request::Ping, &|| false) {
            Ok(Response::Pong) => Ok(supervisor),
            Ok(other) => Err(SuperviseError::OutOfPlace(format!("{other:?}"))),
            Err(error) => Err(SuperviseError::Start(error.to_string())),
        }
    }

    /// Process id of the supervisor.
    #[must_use]
    pub fn pid(&self) -> i32 {
        // Process ids of Linux are below 2^22.
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Runs `launch` to its end. `interrupted` is asked after each signal and four times a second;
    /// once it says true the program is stopped.
    ///
    /// # Errors
    /// [`SuperviseError`]; nothing of the program is left alive then.
    pub fn run(
        &mut self,
        launch: &Launch,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Finished, SuperviseError> {
        match self.ask(&Request::Run(Box::new(launch.clone())), interrupted)? {
            Response::Finished(finished) => Ok(*finished),
            other => Err(refusal(other)),
        }
    }

    /// Runs `launch` to its end under tracing; what it does inside `scratch` is no effect.
    ///
    /// # Errors
    /// [`SuperviseError::Trace`] when it cannot be traced, [`SuperviseError::UsesInput`] when it may not be
    /// run; nothing of it is left alive then.
    pub fn traced(
        &mut self,
        launch: &Launch,
        scratch: &[PathBuf],
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Traced, SuperviseError> {
        let scratch = scratch.iter().map(|p| p.clone().into_os_string()).collect();
        let request = Request::Traced { launch: Box::new(launch.clone()), scratch };
        match self.ask(&request, interrupted)? {
            Response::Traced(traced) => Ok(*traced),
            Response::NotTraced(why) => Err(SuperviseError::Trace(why)),
            Response::UsesInput { call, effects } => {
                Err(SuperviseError::UsesInput { call, effects })
            }
            other => Err(refusal(other)),
        }
    }

    /// Touches and frees `bytes` of fresh memory.
    ///
    /// # Errors
    /// [`SuperviseError`]; among others when there is not so much memory.
    pub fn condition(
        &mut self,
        bytes: Bytes,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Conditioned, SuperviseError> {
        match self.ask(&Request::Condition { bytes }, interrupted)? {
            Response::Conditioned(done) => Ok(done),
            other => Err(refusal(other)),
        }
    }

    fn ask(
        &mut self,
        request: &Request,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Response, SuperviseError> {
        let Some(socket) = &self.socket else {
            return Err(SuperviseError::Died { how: "earlier".into(), killed: 0, alive: 0 });
        };
        match converse(socket, request, interrupted) {
            Ok(Some((_, true))) => Err(SuperviseError::Interrupted),
            Ok(Some((response, false))) => Ok(response),
            Ok(None) => Err(self.bury()),
            Err(error) if wire::is_end(&error) => Err(self.bury()),
            Err(error) => Err(SuperviseError::OutOfPlace(error.to_string())),
        }
    }

    /// After the supervisor's death: kills what it left to us.
    fn bury(&mut self) -> SuperviseError {
        self.socket = None;
        let how = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let left = tree::kill_own_descendants(&self.spared());
        SuperviseError::Died { how, killed: left.killed, alive: left.alive }
    }

    /// Children of this process that never were the supervisor's.
    fn spared(&self) -> Vec<i32> {
        let helper = |pid: &i32| proc::tree::descendants(*pid).unwrap_or_default();
        let below: Vec<i32> = self.others.iter().flat_map(helper).collect();
        self.others.iter().copied().chain(below).collect()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        if self.socket.take().is_none() {
            return;
        }
        // The closed socket tells it to go.
        let deadline = Instant::now() + GO_PATIENCE;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > deadline {
                wait::kill(self.pid(), libc::SIGKILL);
                let _gone = self.child.wait();
                tree::kill_own_descendants(&self.spared());
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Starts `exe args... FD` in a session of its own, with the other end of the socket as FD.
pub(crate) fn start_beside(
    exe: impl AsRef<OsStr>,
    args: &[impl AsRef<OsStr>],
) -> io::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    let number = theirs.as_raw_fd();
    let mut command = Command::new(exe);
    command.args(args).arg(number.to_string());
    // SAFETY: `detach` makes two system calls and neither allocates nor locks.
    unsafe { command.pre_exec(move || detach(number)) };
    command.spawn().map(|child| (ours, child))
}

/// In the forked supervisor: own session, and the socket survives `exec`.
fn detach(socket: i32) -> io::Result<()> {
    rustix::process::setsid()?;
    // SAFETY: `socket` is open in this process until `exec`; only its flag changes.
    if unsafe { libc::fcntl(socket, libc::F_SETFD, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sends `request` and waits for the answer; says whether it was told to stop meanwhile.
fn converse(
    socket: &UnixStream,
    request: &Request,
    interrupted: &dyn Fn() -> bool,
) -> io::Result<Option<(Response, bool)>> {
    wire::send(socket, request)?;
    let mut stopping = false;
    loop {
        if !stopping && interrupted() {
            wire::send(socket, &Request::Stop)?;
            stopping = true;
        }
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        run::sleep(&mut fds, Some(CHECK_EVERY));
        let [fd] = fds;
        if !fd.revents().is_empty() {
            return Ok(wire::receive::<Response>(socket)?.map(|response| (response, stopping)));
        }
    }
}

/// An answer that is not the wanted one, as an error.
fn refusal(response: Response) -> SuperviseError {
    match response {
        Response::Failed(error) => SuperviseError::Launch(error),
        Response::Stopped => SuperviseError::Interrupted,
        Response::Unsendable(why) => SuperviseError::Unsendable(why),
        other => SuperviseError::OutOfPlace(format!("{other:?}")),
    }
}
