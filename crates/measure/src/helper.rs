//! Processes of our own that measure: how one is started, spoken with, waited for and ended.
//!
//! They are this program again with a word that makes it serve. What is said is one JSON document a
//! message, over a pair of sockets that keeps messages apart (`SOCK_SEQPACKET`): some 20 us a message,
//! none while a clock runs. Starting one costs some 3 ms. A process whose starter dies is ended by the
//! kernel (`PR_SET_PDEATHSIG`); one whose [`Helper`] is dropped is killed and reaped.

use crate::error::PriceError;
use pagewise_kernel::{SysError, clock};
use pagewise_model::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

const SUBJECT: &str = "a measuring process";
/// Longest message, by far.
const LONGEST: usize = 64 << 10;
/// Longest sleep between two looks at whether the caller wants no more.
const LOOK: Nanos = Nanos::millis(250);

/// The program that serves, and the words that make it do so.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// Its file.
    pub exe: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

/// One end of a line on which words are said.
#[derive(Debug)]
pub(crate) struct Line<W> {
    fd: OwnedFd,
    words: PhantomData<fn() -> W>,
}

impl<W: Serialize + DeserializeOwned> Line<W> {
    fn of(fd: OwnedFd) -> Self {
        Self { fd, words: PhantomData }
    }

    /// The end that this process was given as its standard input.
    pub(crate) fn given() -> Result<Self, SysError> {
        duplicate(io::stdin()).map(Self::of)
    }

    /// Says `word`.
    pub(crate) fn say(&self, word: &W) -> Result<(), SysError> {
        let text = serde_json::to_vec(word).map_err(|e| broken("send", e))?;
        // Without the signal that a socket without a reader raises.
        let sent = rustix::net::send(&self.fd, &text, SendFlags::NOSIGNAL);
        sent.map(drop).map_err(|e| SysError::new("send", SUBJECT, e))
    }

    /// The next word; none when the other side has ended. Waits for it.
    pub(crate) fn hear(&self) -> Result<Option<W>, SysError> {
        self.receive(RecvFlags::empty())
    }

    /// The next word, if it is there already.
    pub(crate) fn hear_now(&self) -> Option<W> {
        self.receive(RecvFlags::DONTWAIT).ok().flatten()
    }

    fn receive(&self, flags: RecvFlags) -> Result<Option<W>, SysError> {
        let mut text = vec![0; LONGEST];
        let got = retry_on_intr(|| rustix::net::recv(&self.fd, &mut text[..], flags));
        match got {
            Ok((0, _)) | Err(Errno::CONNRESET) => Ok(None),
            Ok((len, _)) => {
                let word = text.get(..len).unwrap_or_default();
                serde_json::from_slice(word).map(Some).map_err(|e| broken("recv", e))
            }
            Err(e) => Err(SysError::new("recv", SUBJECT, e)),
        }
    }
}

impl<W> AsFd for Line<W> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn broken(call: &'static str, error: serde_json::Error) -> SysError {
    SysError::new(call, SUBJECT, io::Error::other(error))
}

/// A standard stream of this process, as a descriptor of its own.
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
pub(crate) struct Helper<W> {
    pub(crate) line: Line<W>,
    child: Child,
}

impl<W: Serialize + DeserializeOwned> Helper<W> {
    /// Starts one with these descriptors as its standard output and standard error.
    pub(crate) fn start(
        launcher: &Launcher,
        output: OwnedFd,
        error: Option<OwnedFd>,
    ) -> Result<Self, SysError> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
        let (ours, theirs) = pair.map_err(|e| SysError::new("socketpair", SUBJECT, e))?;
        let mut command = Command::new(&launcher.exe);
        command.args(&launcher.args).stdin(Stdio::from(theirs)).stdout(Stdio::from(output));
        command.stderr(error.map_or(Stdio::null(), Stdio::from));
        let child = command
            .spawn()
            .map_err(|e| SysError::new("spawn", launcher.exe.display().to_string(), e))?;
        Ok(Self { line: Line::of(ours), child })
    }
}

impl<W> Helper<W> {
    /// Waits for its end, which its closed line has told; the signal that ended it, if one did.
    pub(crate) fn ended_by(&mut self) -> Option<i32> {
        self.child.wait().ok().and_then(|status| status.signal())
    }
}

impl<W> Drop for Helper<W> {
    fn drop(&mut self) {
        // It fails only where the process has been reaped; then there is nothing to do.
        let _killed = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// How long to wait for processes.
#[derive(Clone, Copy)]
pub(crate) struct Patience<'a> {
    deadline: Nanos,
    within: Nanos,
    /// What it means that they are late.
    late: &'static str,
    stop: &'a dyn Fn() -> bool,
}

impl<'a> Patience<'a> {
    /// From now on, until the caller wants no more.
    pub(crate) fn begin(within: Nanos, late: &'static str, stop: &'a dyn Fn() -> bool) -> Self {
        Self { deadline: clock::now() + within, within, late, stop }
    }
}

/// Waits until there is something to be heard on one of `lines`, or its process has ended; its index.
pub(crate) fn wait_any<W>(lines: &[&Line<W>], patience: Patience<'_>) -> Result<usize, PriceError> {
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
