//! Ending the waits of an end from elsewhere: another thread closes it, or a signal handler cancels.
//!
//! A thread that sleeps in `read(2)` is woken only by the pipe or by a signal. So an end with a [`PipeStop`]
//! sleeps in `poll(2)` on its descriptor and on an eventfd (`eventfd(2)`), and makes non-blocking calls.
//! After fork(2) both processes have the same eventfd, so it only wakes. Whether to stop is stored in memory,
//! which they do not share. Overhead: one descriptor, and a poll for each sleep, after which each write wakes
//! the pipe's readers (`poll_usage` in fs/pipe.c). A descriptor other than a pipe can still sleep in a call
//! if poll was wrong.

use super::waiter::Ready;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, socket_timeout};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Ends the waits of the ends that were made with it ([`super::Writer::stopped_by`]); clones are the same.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::pipe::{PipeOptions, PipeStop};
/// use std::io::Read;
/// let (from, _to) = std::io::pipe()?;
/// let stop = PipeStop::new()?;
/// let mut reader = PipeOptions::new().reader(from)?.stopped_by(&stop);
/// let waiting = std::thread::spawn(move || reader.read(&mut [0]));
/// stop.stop();
/// let error = waiting.join().unwrap().unwrap_err();
/// assert_eq!(error.raw_os_error(), Some(libc::ECANCELED));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct PipeStop(Arc<PipeStopState>);

#[derive(Debug)]
struct PipeStopState {
    wake: OwnedFd,
    is_stopped: AtomicBool,
}

impl PipeStop {
    /// A new, unused one.
    ///
    /// # Errors
    ///
    /// EMFILE, ENFILE, ENOMEM.
    pub fn new() -> std::io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = rustix::event::eventfd(0, flags)?;
        Ok(Self(Arc::new(PipeStopState { wake, is_stopped: AtomicBool::new(false) })))
    }

    /// Ends the wait that is going on, and every later one, with ECANCELED.
    pub fn stop(&self) {
        self.0.is_stopped.store(true, SeqCst);
        // If it is full, a wake-up is already pending.
        let _woken = rustix::io::write(&self.0.wake, &1_u64.to_ne_bytes());
    }

    /// Whether it was used.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(SeqCst)
    }

    /// Sleeps until a descriptor is ready: EINTR after a signal, ECANCELED once it is stopped, EAGAIN after the
    /// timeout of a socket.
    pub(super) fn wait(&self, (fd, events): Ready<'_>) -> Result<(), Errno> {
        let wake = self.0.wake.as_fd();
        let mut both =
            [PollFd::from_borrowed_fd(fd, events), PollFd::from_borrowed_fd(wake, PollFlags::IN)];
        let ready = rustix::event::poll(&mut both, timeout(fd, events).as_ref())?;
        if !both[1].revents().is_empty() {
            // Another process may have woken us: the next poll must not return for that.
            let _emptied = rustix::io::read(wake, &mut [0; 8]);
        }
        match ready {
            _ if self.is_stopped() => Err(Errno::CANCELED),
            0 => Err(Errno::AGAIN),
            _ => Ok(()),
        }
    }
}

/// The timeout of a socket (SO_RCVTIMEO, SO_SNDTIMEO). `None`, without limit, for anything else.
fn timeout(fd: BorrowedFd<'_>, events: PollFlags) -> Option<Timespec> {
    let side = if events.contains(PollFlags::IN) { Timeout::Recv } else { Timeout::Send };
    Timespec::try_from(socket_timeout(fd, side).ok()??).ok()
}

#[cfg(test)]
mod tests {
    use super::super::{PipeOptions, WaitMode};
    use super::*;
    use crate::buffer::Frozen;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    const CANCELED: Option<i32> = Some(libc::ECANCELED);

    fn options() -> impl Iterator<Item = PipeOptions> {
        [WaitMode::Adaptive, WaitMode::Block, WaitMode::Busy]
            .map(|wait| PipeOptions::new().wait(wait))
            .into_iter()
    }

    #[test]
    fn each_wait_of_a_reader_ends() {
        for options in options() {
            let (from, _to) = std::io::pipe().unwrap();
            let stop = PipeStop::new().unwrap();
            let mut reader = options.reader(from).unwrap().stopped_by(&stop);
            let waiting = std::thread::spawn(move || {
                let skipped = ended(|| reader.skip(9));
                (skipped.raw_os_error(), reader.read(&mut [0]).unwrap_err().raw_os_error())
            });
            std::thread::sleep(Duration::from_millis(30));
            stop.stop();
            assert_eq!(waiting.join().unwrap(), (CANCELED, CANCELED));
        }
    }

    #[test]
    fn each_wait_of_a_writer_ends() {
        let frozen = Frozen::new(&[7; 8 << 20]).unwrap();
        for options in options() {
            for by_reference in [true, false] {
                let (_from, to) = std::io::pipe().unwrap();
                let stop = PipeStop::new().unwrap();
                let mut writer = options.writer(to).unwrap().stopped_by(&stop);
                let frozen = frozen.clone();
                let waiting = std::thread::spawn(move || match by_reference {
                    true => ended(|| {
                        writer.send(&frozen, 0..frozen.len()).map_err(|error| error.errno.into())
                    }),
                    false => ended(|| writer.write_all(frozen.as_bytes())),
                });
                std::thread::sleep(Duration::from_millis(30));
                stop.stop();
                assert_eq!(waiting.join().unwrap().raw_os_error(), CANCELED);
            }
        }
    }

    /// The error that is no signal.
    fn ended<T>(mut call: impl FnMut() -> std::io::Result<T>) -> std::io::Error {
        loop {
            match call() {
                Ok(_) => panic!("it did not wait"),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return error,
            }
        }
    }

    #[test]
    fn what_another_process_wakes_waits_on() {
        let (from, mut to) = std::io::pipe().unwrap();
        let stop = PipeStop::new().unwrap();
        rustix::io::write(&stop.0.wake, &1_u64.to_ne_bytes()).unwrap();
        let mut reader =
            PipeOptions::new().wait(WaitMode::Block).reader(from).unwrap().stopped_by(&stop);
        let waiting = std::thread::spawn(move || reader.read(&mut [0; 4]).unwrap());
        // It empties the wake, and sleeps again.
        let is_awake = || {
            let mut wake = [PollFd::new(&stop.0.wake, PollFlags::IN)];
            rustix::event::poll(&mut wake, Some(&Timespec::default())) == Ok(1)
        };
        while is_awake() {
            std::thread::yield_now();
        }
        to.write_all(b"data").unwrap();
        assert_eq!(waiting.join().unwrap(), 4);
    }

    #[test]
    fn the_timeout_of_a_socket_is_kept() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let stop = PipeStop::new().unwrap();
        let mut reader = PipeOptions::new().reader(socket).unwrap().stopped_by(&stop);
        let error = reader.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
}
