//! One experiment at a time on a machine: a lock that the kernel releases when its holder dies.
//!
//! The lock is a listening unix socket with an abstract name (`unix(7)`): no file, nothing to
//! clean up. Whoever finds the name taken connects to it and asks the kernel for the listener's
//! pid, which it has none of for a holder outside of our pid namespace. Abstract names belong to the
//! network namespace, so containers with their own do not see each other's experiments. The socket closes at exec; a child forked without exec keeps it.

use crate::error::SysError;
use crate::proc::stat;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::fd::{AsRawFd, OwnedFd};

const NAME: &[u8] = b"pagewise-experiment";

/// Refused experiments that are told the holder's pid: each leaves an unanswered connection in the
/// queue; beyond that many the holder stays unnamed.
const QUESTIONS: i32 = 1024;

/// Why the lock could not be had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another experiment runs.
    #[error("another experiment runs on this machine{}", holder_text(*.pid, .command.as_deref()))]
    Held {
        /// The process that holds the lock, where the kernel names it.
        pid: Option<i32>,
        /// Its name.
        command: Option<String>,
    },
    /// A call failed.
    #[error(transparent)]
    Sys(#[from] SysError),
}

fn holder_text(pid: Option<i32>, command: Option<&str>) -> String {
    match (pid, command) {
        (Some(pid), Some(command)) => format!(" (pid {pid}, {})", command.escape_debug()),
        (Some(pid), None) => format!(" (pid {pid})"),
        _ => String::new(),
    }
}

/// The lock, held while this value lives.
#[derive(Debug)]
pub struct ExperimentLock {
    _listener: OwnedFd,
}

impl ExperimentLock {
    /// Takes the lock, without waiting.
    pub fn acquire() -> Result<Self, LockError> {
        Self::acquire_named(NAME)
    }

    /// Takes the lock of another name: for tests, which must not disturb an experiment.
    pub fn acquire_named(name: &[u8]) -> Result<Self, LockError> {
        let subject = String::from_utf8_lossy(name).into_owned();
        let fail = |call| {
            let subject = subject.clone();
            move |e: Errno| SysError::new(call, subject, e)
        };
        let address = SocketAddrUnix::new_abstract_name(name).map_err(fail("bind"))?;
        let socket = open_socket().map_err(fail("socket"))?;
        match rustix::net::bind(&socket, &address) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => return Err(held(&address)),
            Err(e) => return Err(fail("bind")(e).into()),
        }
        rustix::net::listen(&socket, QUESTIONS).map_err(fail("listen"))?;
        Ok(Self { _listener: socket })
    }
}

fn open_socket() -> Result<OwnedFd, Errno> {
    // Non-blocking: a full queue of a stopped holder must not stop us.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
}

fn held(address: &SocketAddrUnix) -> LockError {
    let pid = listener_pid(address);
    let command = pid.and_then(|pid| stat::read(pid).ok()).map(|s| s.comm);
    LockError::Held { pid, command }
}

fn listener_pid(address: &SocketAddrUnix) -> Option<i32> {
    let socket = open_socket().ok()?;
    rustix::net::connect(&socket, address).ok()?;
    peer_pid(&socket)
}

/// The other end's pid; `None` also where it has none in our pid namespace, which the kernel shows
/// as 0 (and which rustix would read into a number that cannot be 0).
fn peer_pid(socket: &OwnedFd) -> Option<i32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the size of `peer`; both are ours, alive and
    // not otherwise referenced during the call.
    let got = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut len,
        )
    };
    (got == 0 && peer.pid > 0).then_some(peer.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_holder() {
        let held = |pid, command: Option<&str>| {
            LockError::Held { pid, command: command.map(str::to_owned) }.to_string()
        };
        let start = "another experiment runs on this machine";
        assert_eq!(held(None, None), start);
        assert_eq!(held(Some(7), None), format!("{start} (pid 7)"));
        assert_eq!(held(Some(7), Some("a\x1b")), format!("{start} (pid 7, a\\u{{1b}})"));
    }
}
