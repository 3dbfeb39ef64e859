//! Helper processes that measure: how one is started, communicated with, awaited and ended.
//!
//! `pagewise_kernel::helper` describes starting and communication. No message is sent while a clock runs. If
//! the starter of a process dies, the kernel ends the process (`PR_SET_PDEATHSIG`). Dropping a [`BenchProcess`]
//! kills and reaps its process.

use crate::error::PriceError;
use pagewise_kernel::helper::{self, HelperSession};
use pagewise_kernel::{SysError, clock};
use pagewise_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const SUBJECT: &str = "a measuring process";
/// Longest sleep between two looks at whether the caller wants no more.
const LOOK: Nanos = Nanos::millis(250);

/// The program that serves, and the words that make it do so.
#[derive(Debug, Clone)]
pub struct HelperLauncher {
    pub exe: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// A message between a bench and a process that measures for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum BenchMessage<T, D> {
    /// To the process: what to do.
    Task(Box<T>),
    /// From the helper: everything is ready. A producer gives the period of its stream.
    Ready { period: Option<u64> },
    /// To it: begin.
    Go { period: Option<u64> },
    /// From it: it is done.
    Done(Box<D>),
    /// From it: it cannot, and why.
    Refused(String),
}

/// One end of the line between them.
#[derive(Debug)]
pub(crate) struct BenchLine<W>(helper::HelperChannel<W, W>);

impl<W: Serialize + DeserializeOwned> BenchLine<W> {
    /// Says `word`.
    pub(crate) fn say(&self, word: &W) -> Result<(), SysError> {
        self.0.send(word).map_err(|e| SysError::new("send", SUBJECT, e))
    }

    /// Waits for the next word. `None` if the other side has ended.
    pub(crate) fn hear(&self) -> Result<Option<W>, SysError> {
        self.0.receive().map_err(|e| SysError::new("recv", SUBJECT, e))
    }

    /// The next word, if it has already arrived.
    pub(crate) fn hear_now(&self) -> Option<W> {
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        if self.0.has_spoken(at_once) { self.hear().ok().flatten() } else { None }
    }
}

/// Runs in a process that measures: receives the task at the other end of socket `fd`, lets `work` do it and
/// reports the result. Reports nothing if `work` says that the bench has ended.
pub(crate) fn serve<T, D, E: Display>(
    fd: RawFd,
    work: impl FnOnce(&BenchLine<BenchMessage<T, D>>, &T) -> Result<Option<D>, E>,
) -> Result<(), SysError>
where
    BenchMessage<T, D>: Serialize + DeserializeOwned,
{
    let line = helper::HelperChannel::adopt(fd).map(BenchLine)?;
    let Some(BenchMessage::Task(task)) = line.hear()? else {
        return Err(SysError::new("recv", "a task", io::Error::other("not started by a bench")));
    };
    match work(&line, &task) {
        Ok(Some(done)) => line.say(&BenchMessage::Done(Box::new(done))),
        Ok(None) => Ok(()),
        Err(error) => line.say(&BenchMessage::Refused(error.to_string())),
    }
}

impl<W> AsFd for BenchLine<W> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A standard stream of this process, as a separate descriptor.
pub(crate) fn duplicate(stream: impl AsFd) -> Result<OwnedFd, SysError> {
    stream.as_fd().try_clone_to_owned().map_err(|e| SysError::new("fcntl F_DUPFD", "a stream", e))
}

/// Lets the kernel end this process when its starter dies.
pub(crate) fn end_with_starter() -> Result<(), SysError> {
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| SysError::new("prctl PR_SET_PDEATHSIG", SUBJECT, e))
}

/// A measuring process with the line to it; killed and reaped when dropped.
#[derive(Debug)]
pub(crate) struct BenchProcess<W> {
    pub(crate) line: BenchLine<W>,
    child: Child,
}

impl<W: Serialize + DeserializeOwned> BenchProcess<W> {
    /// Starts one with these descriptors as its standard output and standard error.
    pub(crate) fn start(
        launcher: &HelperLauncher,
        output: OwnedFd,
        error: Option<OwnedFd>,
    ) -> Result<Self, SysError> {
        let mut command = Command::new(&launcher.exe);
        command.args(&launcher.args).stdin(Stdio::null()).stdout(Stdio::from(output));
        command.stderr(error.map_or(Stdio::null(), Stdio::from));
        let (line, child) = helper::HelperChannel::start(command, HelperSession::Ours)
            .map_err(|e| SysError::new("spawn", launcher.exe.display().to_string(), e))?;
        Ok(Self { line: BenchLine(line), child })
    }
}

impl<W> BenchProcess<W> {
    /// Waits for its end, which its closed line has shown; the signal that ended it, if one did.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        self.child.wait().ok().and_then(|status| status.signal())
    }
}

impl<W> Drop for BenchProcess<W> {
    fn drop(&mut self) {
        // Fails only if the process has already been reaped; then there is nothing to do.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// How long to wait for processes.
#[derive(Clone, Copy)]
pub(crate) struct BenchDeadline<'a> {
    deadline: Nanos,
    within: Nanos,
    /// The message if they are late.
    late: &'static str,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> BenchDeadline<'a> {
    /// From now on, until the caller wants no more.
    pub(crate) fn begin(within: Nanos, late: &'static str, stop: &'a dyn Fn() -> bool) -> Self {
        Self { deadline: clock::now() + within, within, late, stop }
    }
}

/// Waits until there is something to be heard on one of `lines`, or its process has ended; its index.
pub(crate) fn wait_any<W>(
    lines: &[&BenchLine<W>],
    patience: BenchDeadline<'_>,
) -> Result<usize, PriceError> {
    loop {
        if (patience.stop)() {
            return Err(PriceError::Interrupted);
        }
        let left = Nanos(patience.deadline.0.saturating_sub(clock::now().0));
        if left == Nanos(0) {
            let (within, late) = (patience.within, patience.late);
            return Err(PriceError::Unavailable(format!("stopped after {within}: {late}")));
        }
        let mut ready: Vec<PollFd<'_>> =
            lines.iter().map(|line| PollFd::new(*line, PollFlags::IN)).collect();
        let most = Nanos(left.0.min(LOOK.0)).duration();
        let most = Timespec::try_from(most).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        match poll(&mut ready, Some(&most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(SysError::new("poll", SUBJECT, e).into()),
        }
        if let Some(index) = ready.iter().position(|fd| !fd.revents().is_empty()) {
            return Ok(index);
        }
    }
}
