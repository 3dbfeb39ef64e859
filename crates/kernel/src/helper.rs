//! Helper processes: how to start one, and the [`HelperChannel`] between the two sides.
//!
//! A helper is this program again, started with one end of a socket pair, whose number is its last argument.
//! It inherits no other descriptor except the standard ones. A message is its length in four bytes,
//! little-endian, followed by JSON. The end of one side shows as end of stream.
//!
//! A helper whose starter was killed must end by its own means. A measuring helper asks the kernel to end it
//! (`end_with_starter` of `measure`). The supervisor and the recorder of `tracee` exit at the end of the
//! stream.
//!
//! Overhead: some 3 ms for a start, some 20 us for a short message.

use crate::error::SysError;
use crate::start;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;

/// Longest message; samples of a run are at most some 400 KiB, a look at thousands of processes may
/// be longer.
const LONGEST: u32 = 64 << 20;

/// How often [`HelperChannel::ask`] checks for an interrupt if no signal ends its wait.
const CHECK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 250_000_000 };

/// Signals of a terminal or a service manager.
const OF_TERMINAL: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Session that a helper runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HelperSession {
    /// A new session (setsid(2)): it gets no signals from this terminal.
    Own,
    Ours,
}

/// Runs in the forked helper. Enters the session, keeps the socket open over `exec`, and closes again the
/// standard descriptors that were closed when this process started. So the helper can pass that state on to
/// programs.
fn hand_over(socket: RawFd, session: HelperSession) -> io::Result<()> {
    if session == HelperSession::Own {
        rustix::process::setsid()?;
    }
    // SAFETY: `socket` is open in this process until `exec`; only its flag changes.
    if unsafe { libc::fcntl(socket, libc::F_SETFD, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    (0..3).for_each(start::close_again);
    Ok(())
}

/// One end of the connection between a helper and its starter, typed by the messages that it sends and gets.
#[derive(Debug)]
pub struct HelperChannel<Out, In> {
    socket: UnixStream,
    messages: PhantomData<fn(Out) -> In>,
}

impl<Out: Serialize, In: DeserializeOwned> HelperChannel<Out, In> {
    /// Starts `command FD`, where FD is the number of the other end.
    ///
    /// # Errors
    /// When no socket can be created, or the program cannot be started.
    pub fn start(mut command: Command, session: HelperSession) -> io::Result<(Self, Child)> {
        let (ours, theirs) = UnixStream::pair()?;
        let theirs = OwnedFd::from(theirs);
        let number = theirs.as_raw_fd();
        command.arg(number.to_string());
        // SAFETY: `hand_over` makes a few system calls and neither allocates nor locks.
        unsafe { command.pre_exec(move || hand_over(number, session)) };
        command.spawn().map(|child| (Self { socket: ours, messages: PhantomData }, child))
    }

    /// In a helper: adopts descriptor `fd`, the end that it was started with. Nothing else in the helper uses
    /// it.
    ///
    /// # Errors
    /// When `fd` is not a socket.
    pub fn adopt(fd: RawFd) -> Result<Self, SysError> {
        let subject = || format!("descriptor {fd}");
        // SAFETY: fcntl on any number is harmless; it fails when no such descriptor is open.
        if fd <= 2 || unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(SysError::new("fcntl(F_SETFD)", subject(), Errno::BADF));
        }
        // SAFETY: the descriptor is open, and by the contract of this function nothing else owns it.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        rustix::net::sockopt::socket_type(&socket)
            .map_err(|e| SysError::new("getsockopt(SO_TYPE)", subject(), e))?;
        Ok(Self { socket: UnixStream::from(socket), messages: PhantomData })
    }

    /// Sends one message.
    ///
    /// # Errors
    /// When the message cannot be encoded or is too long, or the stream fails.
    pub fn send(&self, message: &Out) -> io::Result<()> {
        send(&self.socket, message)
    }

    /// Waits for the next message; `None` if the other side has ended.
    ///
    /// # Errors
    /// When the stream fails, or the message is malformed.
    pub fn receive(&self) -> io::Result<Option<In>> {
        match receive(&self.socket) {
            Err(error) if is_end(&error) => Ok(None),
            other => other,
        }
    }

    /// The next message. The other side must not end before it.
    ///
    /// # Errors
    /// As [`Self::receive`], and at the end of the stream.
    pub fn answer(&self) -> io::Result<In> {
        self.receive()?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Sends `request` and waits for the answer ([`Self::wait`]).
    ///
    /// # Errors
    /// As [`Self::send`] and [`Self::receive`].
    pub fn ask(
        &self,
        request: &Out,
        stop: &Out,
        interrupted: &dyn Fn() -> bool,
    ) -> io::Result<Option<(In, bool)>> {
        self.begin(request)?;
        self.wait(stop, interrupted)
    }

    /// Sends `request`. If the other side has ended, its last message is the answer.
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn begin(&self, request: &Out) -> io::Result<()> {
        match self.send(request) {
            Err(error) if !is_end(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Waits for the answer; `None` if the other side has ended. `interrupted` is called after each signal
    /// and four times a second. Once it returns true, `stop` is sent. The result says whether it was sent.
    ///
    /// # Errors
    /// As [`Self::send`] and [`Self::receive`].
    pub fn wait(
        &self,
        stop: &Out,
        interrupted: &dyn Fn() -> bool,
    ) -> io::Result<Option<(In, bool)>> {
        let mut is_stopping = false;
        loop {
            if !is_stopping && interrupted() {
                self.send(stop)?;
                is_stopping = true;
            }
            if self.has_spoken(CHECK_EVERY) {
                return Ok(self.receive()?.map(|answer| (answer, is_stopping)));
            }
        }
    }
}

impl<Out, In> HelperChannel<Out, In> {
    /// Whether the other side has sent something or has ended. Waits up to `within`, or until a signal.
    #[must_use]
    pub fn has_spoken(&self, within: Timespec) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        rustix::event::poll(&mut fds, Some(&within)).is_ok_and(|ready| ready > 0)
    }

    /// Closes the connection for sending, and waits up to `within` for the other side to end.
    ///
    /// # Errors
    /// When it has not ended by then.
    pub fn hang_up(self, within: Duration) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Write)?;
        self.socket.set_read_timeout(Some(within))?;
        io::copy(&mut &self.socket, &mut io::sink()).map(drop)
    }
}

impl<Out, In> AsFd for HelperChannel<Out, In> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Converts the end of a helper's conversation to its result. A starter that has ended is not an error.
///
/// # Errors
/// Any other error.
pub fn ended(talked: io::Result<()>) -> Result<(), SysError> {
    match talked {
        Err(error) if !is_end(&error) => Err(SysError::new("recv", "the starter's socket", error)),
        _ => Ok(()),
    }
}

/// In a helper: ignores signals of a terminal or a service manager. Its starter gets them and decides.
pub fn leave_signals_to_starter() {
    for signal in OF_TERMINAL {
        // SAFETY: SIG_IGN runs no code; programs get their defaults back before `exec`.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// True for an error of [`HelperChannel::send`] where nothing was sent: the message is too long or cannot be encoded.
#[must_use]
pub fn is_unsendable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::InvalidInput
}

fn send<T: Serialize>(mut to: impl Write, message: &T) -> io::Result<()> {
    let unsendable = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let text = serde_json::to_vec(message).map_err(|e| unsendable(e.to_string()))?;
    let len = u32::try_from(text.len()).ok().filter(|len| *len <= LONGEST);
    let too_long = || format!("{} bytes exceed the message limit of {LONGEST}", text.len());
    let len = len.ok_or_else(|| unsendable(too_long()))?;
    let mut frame = len.to_le_bytes().to_vec();
    frame.extend(text);
    to.write_all(&frame)
}

fn receive<T: DeserializeOwned>(mut from: impl Read) -> io::Result<Option<T>> {
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

/// True for the errors that the end of the other side causes.
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
