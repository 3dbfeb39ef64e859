//! What the ladder and its processes tell each other: one JSON document a message, over a pair of
//! sockets that keeps messages apart (`SOCK_SEQPACKET`). Some 20 us a message, none while the clock
//! runs.

use pagewise_kernel::SysError;
use pagewise_model::ladder::{Consumption, EndUsage, Rung};
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const SUBJECT: &str = "a process of the ladder";
/// Longest message, by far.
const LONGEST: usize = 64 << 10;

/// What a process is there for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Role {
    /// It puts bytes into the pipe.
    Producer,
    /// It takes them out.
    Consumer,
    /// It empties the socket that a consumer forwards to.
    Drain,
}

impl Role {
    /// As it is named in errors.
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::Consumer => "consumer",
            Self::Drain => "process behind the socket",
        }
    }
}

/// What a process is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Task {
    /// As what.
    pub(super) role: Role,
    /// The technique.
    pub(super) rung: Rung,
    /// What becomes of the bytes.
    pub(super) consumption: Consumption,
    /// Bytes to move.
    pub(super) bytes: Bytes,
    /// Where to run; anywhere if empty.
    pub(super) cpus: Vec<u32>,
}

/// What a process has done.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Done {
    /// What it moved and used.
    pub(super) usage: EndUsage,
    /// Bytes that came while the clock ran, and that time (consumer).
    pub(super) timed_bytes: Bytes,
    pub(super) wall_ns: Nanos,
    /// Whether the sequence was whole, where it was looked at (consumer).
    pub(super) verified: Option<bool>,
    /// Page size of the buffer (producer).
    pub(super) page_bytes: Fact<PageSize>,
}

/// A message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum Word {
    /// To a process: what to do.
    Task(Box<Task>),
    /// From a process: everything is at hand; a producer names the period of what it sends.
    Ready { period: Option<u64> },
    /// To a process: begin.
    Go { period: Option<u64> },
    /// From a process: it is done.
    Done(Box<Done>),
    /// From a process: it cannot, and why.
    Refused(String),
}

/// One end of the line between the ladder and a process.
#[derive(Debug)]
pub(super) struct Line(OwnedFd);

impl Line {
    /// Both ends.
    pub(super) fn pair() -> Result<(Self, OwnedFd), SysError> {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
        let (ours, theirs) = pair.map_err(|e| SysError::new("socketpair", SUBJECT, e))?;
        Ok((Self(ours), theirs))
    }

    /// The end that a process was given.
    pub(super) fn of(fd: OwnedFd) -> Self {
        Self(fd)
    }

    /// Says `word`.
    pub(super) fn say(&self, word: &Word) -> Result<(), SysError> {
        let text = serde_json::to_vec(word).map_err(|e| broken("send", e))?;
        // Without the signal that a socket without a reader raises.
        let sent = rustix::net::send(&self.0, &text, SendFlags::NOSIGNAL);
        sent.map(drop).map_err(|e| SysError::new("send", SUBJECT, e))
    }

    /// The next word; none when the other side has ended. Waits for it.
    pub(super) fn hear(&self) -> Result<Option<Word>, SysError> {
        self.receive(RecvFlags::empty())
    }

    /// The next word, if it is there already.
    pub(super) fn hear_now(&self) -> Option<Word> {
        self.receive(RecvFlags::DONTWAIT).ok().flatten()
    }

    fn receive(&self, flags: RecvFlags) -> Result<Option<Word>, SysError> {
        let mut text = vec![0; LONGEST];
        let got = retry_on_intr(|| rustix::net::recv(&self.0, &mut text[..], flags));
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

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn broken(call: &'static str, error: serde_json::Error) -> SysError {
    SysError::new(call, SUBJECT, io::Error::other(error))
}
