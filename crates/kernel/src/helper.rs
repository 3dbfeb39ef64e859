//! Processes of our own: how one is started, and how the two sides speak.
//!
//! A helper is our program again, with one end of a socket pair whose number is its last argument. The
//! helper inherits no other descriptor beyond the standard ones. One message is its length in four bytes,
//! little-endian, then JSON. A side that has ended shows as the end of the stream.
//!
//! What ends a helper whose starter was killed is its own: a measuring one asks the kernel for it
//! (`end_with_starter` of `measure`); the supervisor and the recorder of `tracee` go at the end of the stream.
//!
//! Overhead: some 3 ms for a start, some 20 us for a short message.

use crate::error::SysError;
use crate::start;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Longest message; samples of a run are at most some 400 KiB, a look at thousands of processes may
/// be longer.
const LONGEST: u32 = 64 << 20;

/// Signals of a terminal or a service manager.
const OF_TERMINAL: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Where a helper runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Session {
    /// In a session of its own (setsid(2)): it gets no signal of our terminal.
    Own,
    Ours,
}

/// Starts `command FD`, where FD is the number of the other end of the socket.
///
/// # Errors
/// When there is no socket, or the program cannot be started.
pub fn start(mut command: Command, session: Session) -> io::Result<(UnixStream, Child)> {
    let (ours, theirs) = UnixStream::pair()?;
    let theirs = OwnedFd::from(theirs);
    let number = theirs.as_raw_fd();
    command.arg(number.to_string());
    // SAFETY: `hand_over` makes a few system calls and neither allocates nor locks.
    unsafe { command.pre_exec(move || hand_over(number, session)) };
    command.spawn().map(|child| (ours, child))
}

/// In the forked helper: enters the session, lets the socket survive `exec`, and closes again what was
/// closed at our start, so that the helper knows it for the programs that it starts.
fn hand_over(socket: RawFd, session: Session) -> io::Result<()> {
    if session == Session::Own {
        rustix::process::setsid()?;
    }
    // SAFETY: `socket` is open in this process until `exec`; only its flag changes.
    if unsafe { libc::fcntl(socket, libc::F_SETFD, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    (0..3).for_each(start::close_again);
    Ok(())
}

/// In a helper: the socket that it was started with as descriptor `fd`, which nothing else in it uses.
///
/// # Errors
/// When `fd` is no socket.
pub fn adopt(fd: RawFd) -> Result<UnixStream, SysError> {
    let subject = || format!("descriptor {fd}");
    // SAFETY: fcntl on any number is harmless; it fails when no such descriptor is open.
    if fd <= 2 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(SysError::new("fcntl(F_SETFD)", subject(), rustix::io::Errno::BADF));
    }
    // SAFETY: the descriptor is open, and by this function's contract nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    rustix::net::sockopt::socket_type(&socket)
        .map_err(|e| SysError::new("getsockopt(SO_TYPE)", subject(), e))?;
    Ok(UnixStream::from(socket))
}

/// In a helper: ignores what a terminal or a service manager sends. Its starter gets it and decides.
pub fn leave_signals_to_starter() {
    for signal in OF_TERMINAL {
        // SAFETY: SIG_IGN runs no code; programs get their defaults back before `exec`.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// True for the error of [`send`] that sent nothing: the message is too long or no JSON.
#[must_use]
pub fn is_unsendable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

/// Writes one message.
///
/// # Errors
/// When it is unsendable, or the stream fails.
pub fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    let unsendable = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let text = serde_json::to_vec(message).map_err(|e| unsendable(e.to_string()))?;
    let len = u32::try_from(text.len()).ok().filter(|len| *len <= LONGEST);
    let too_long = || format!("{} bytes exceed the message limit of {LONGEST}", text.len());
    let len = len.ok_or_else(|| unsendable(too_long()))?;
    let mut frame = len.to_le_bytes().to_vec();
    frame.extend(text);
    to.write_all(&frame)
}

/// Reads one message; `None` at the end of the stream.
///
/// # Errors
/// When the stream fails, or the message has another form.
pub fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<Option<T>> {
    let mut len = [0; 4];
    match from.read_exact(&mut len) {
        Err(e) if is_end(&e) => return Ok(None),
        other => other?,
    }
    let len = u32::from_le_bytes(len);
    if len > LONGEST {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "message too long"));
    }
    let mut text = Vec::new();
    from.take(u64::from(len)).read_to_end(&mut text)?;
    if text.len() as u64 != u64::from(len) {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(&text)?))
}

/// True for the ways in which a peer's death shows.
#[must_use]
pub fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_one_by_one() {
        let mut bytes = Vec::new();
        send(&mut bytes, &"one").unwrap();
        send(&mut bytes, &"two").unwrap();
        let mut from = bytes.as_slice();
        assert_eq!(receive::<String>(&mut from).unwrap().as_deref(), Some("one"));
        assert_eq!(receive::<String>(&mut from).unwrap().as_deref(), Some("two"));
        assert_eq!(receive::<String>(&mut from).unwrap(), None);
    }

    #[test]
    fn a_cut_message_is_the_end_and_a_wrong_one_an_error() {
        assert_eq!(receive::<String>(&[9, 0, 0, 0, b'"'][..]).unwrap(), None);
        assert_eq!(receive::<String>(&[9][..]).unwrap(), None);
        assert!(receive::<String>(&[255, 255, 255, 255][..]).is_err());
        assert!(receive::<String>(&[1, 0, 0, 0, b'{'][..]).is_err());
    }
}
