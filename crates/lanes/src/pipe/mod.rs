//! The two ends of a pipe, as fast as is safe: [`Writer`] and [`Reader`].
//!
//! What makes pipes slow is less the copying than the waiting: a pipe of 64 KiB is full after some
//! 20 us, and then one side sleeps and the other must wake it, which between two processors costs
//! longer than the copy. So a writer grows its pipe as far as the user's limits allow
//! ([`PipeOptions::capacity`]), and both ends wait by [`WaitMode::Adaptive`]: it spins while the peer is about to
//! act and sleeps while it is not. A reader never changes the capacity: its writer may lend pages
//! and write them over by the capacity that it has seen. Data that does not change goes by reference
//! ([`Writer::send`]), data that is given away too ([`Writer::give`]); everything else is copied.
//!
//! Any descriptor will do. What is no pipe gets ordinary calls, which sleep. Units are bytes. The
//! flags of a descriptor are left as they are: one with O_NONBLOCK is waited for by `poll(2)`.
//! Signals are reported as std does (`ErrorKind::Interrupted` from single calls, repeated by
//! `write_all` and the like), and so is a reader that is gone (`ErrorKind::BrokenPipe`). Making an end
//! costs two `fstat` and `fcntl` calls, and one to three for the capacity of the pipe.
//!
//! A [`PipeStop`] ends the waits of an end from another thread. An end with one also reports signals where the others
//! go on: [`Writer::send`], [`Writer::give`] and [`Reader::skip`] then end with EINTR.
//!
//! An end does not see its peer: whether that copies, forwards or keeps what it gets, and on which
//! processor it runs, is only guessed from waits.
//!
//! # Examples
//!
//! ```
//! use std::io::{Read, Write};
//! let (mut reader, mut writer) = pagewise_lanes::pipe::pair()?;
//! let producer = std::thread::spawn(move || {
//!     let bytes = vec![7; 100_000];
//!     (0..100).try_for_each(|_| writer.write_all(&bytes))
//! });
//! let mut all = Vec::new();
//! reader.read_to_end(&mut all)?;
//! producer.join().unwrap()?;
//! assert_eq!(all.len(), 10_000_000);
//! # Ok::<(), std::io::Error>(())
//! ```

mod attempt;
pub(crate) mod capacity;
mod patience;
mod reader;
mod refer;
mod stop;
mod waiter;
mod writer;

use crate::copy::PIPE;
use crate::end::{CopyEnd, DescriptorKind};
use attempt::NonblockingAccess;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

pub use reader::Reader;
pub use stop::PipeStop;
pub use waiter::{BlockingMode, PeerWaiter, Ready};
pub use writer::Writer;

/// How an end waits for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitMode {
    /// Sleeps in its calls, as `read(2)` and `write(2)` do.
    Block,
    /// Spins while waits have been short lately, for 200 us at most, and sleeps otherwise.
    #[default]
    Adaptive,
    /// Never sleeps if the kernel can return immediately (all pipes). Occupies a whole processor, and starves
    /// the other end if both share one.
    Busy,
}

/// The waits of one end. A writer waits for room, so its peer is the slower side; a reader waits for data,
/// likewise. [`WaitMode::Block`] leaves waiting to the kernel, so nothing is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WaitCounts {
    /// Waits that ended while spinning.
    pub spins: u64,
    /// Waits that ended in a sleep; while spinning rests, calls that took longer than 5 us.
    pub sleeps: u64,
    /// Time spun, rewarded or in vain.
    pub spun: Duration,
    /// Time of the calls that slept, after a spin from its end on.
    pub slept: Duration,
}

/// How ends are made.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::pipe::{PipeOptions, WaitMode};
/// let (reader, writer) = PipeOptions::new().wait(WaitMode::Block).capacity(256 * 1024).pair()?;
/// assert!(writer.capacity() <= 256 * 1024);
/// assert_eq!(reader.capacity(), writer.capacity());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct PipeOptions {
    wait: WaitMode,
    capacity: usize,
}

impl Default for PipeOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl PipeOptions {
    /// Adaptive waits and a pipe of 1 MiB.
    #[must_use]
    pub fn new() -> Self {
        Self { wait: WaitMode::default(), capacity: PIPE }
    }

    /// How to wait for the other end.
    #[must_use]
    pub fn wait(mut self, wait: WaitMode) -> Self {
        self.wait = wait;
        self
    }

    /// Makes a writer grow its pipe to `bytes`, or as near to that as the user's limits allow. No pipe is
    /// made smaller, and 0 leaves every pipe unchanged.
    #[must_use]
    pub fn capacity(mut self, bytes: usize) -> Self {
        self.capacity = bytes;
        self
    }

    /// An end that writes to `fd`.
    ///
    /// # Errors
    ///
    /// What `fstat(2)` says of the descriptor.
    pub fn writer(self, fd: impl Into<OwnedFd>) -> io::Result<Writer> {
        self.end(fd.into(), self.capacity).map(Writer::over)
    }

    /// An end that reads from `fd`; a pipe keeps its capacity.
    ///
    /// # Errors
    ///
    /// What `fstat(2)` says of the descriptor.
    pub fn reader(self, fd: impl Into<OwnedFd>) -> io::Result<Reader> {
        self.end(fd.into(), 0).map(Reader::over)
    }

    /// Both ends of a new pipe; they are not inherited by programs that are started.
    ///
    /// # Errors
    ///
    /// EMFILE, ENFILE.
    pub fn pair(self) -> io::Result<(Reader, Writer)> {
        let (reader, writer) = io::pipe()?;
        // The writer grows it, and the reader learns the result.
        let writer = self.writer(writer)?;
        Ok((self.reader(reader)?, writer))
    }

    fn end(self, fd: OwnedFd, least: usize) -> io::Result<PipeBase> {
        let end = CopyEnd::of(&fd)?;
        let is_pipe = end.kind == DescriptorKind::Pipe;
        let capacity = if is_pipe { capacity::grow(&fd, least) } else { 0 };
        let attempt = if is_pipe { NonblockingAccess::Flag } else { NonblockingAccess::Never };
        Ok(PipeBase { fd, end, capacity, attempt, waiter: PeerWaiter::new(self.wait) })
    }
}

/// Both ends of a new pipe, with [`PipeOptions::new`].
///
/// # Errors
///
/// As [`PipeOptions::pair`].
pub fn pair() -> io::Result<(Reader, Writer)> {
    PipeOptions::new().pair()
}

/// What both ends have.
#[derive(Debug)]
struct PipeBase {
    fd: OwnedFd,
    end: CopyEnd,
    capacity: usize,
    attempt: NonblockingAccess,
    waiter: PeerWaiter,
}

impl PipeBase {
    /// Lets `stop` end its waits. Has no effect on a regular file: its calls do not depend on another
    /// program.
    fn stopped_by(&mut self, stop: &PipeStop) {
        if self.end.kind != DescriptorKind::Regular {
            self.waiter.stopped_by(stop);
        }
    }
}

/// A private descriptor for the same file as a standard stream.
fn duplicate(stream: impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}
