//! Copying everything from one descriptor to another, exactly, in the fastest safe way.
//!
//! Exact means: the sink gets what the source's reader would have got, whatever the writer of the
//! source does meanwhile. So bytes pass through our memory wherever references could show a later
//! change (`route`), and the capacity of the source's pipe stays unchanged, because a writer that
//! passes pages by reference may rely on it. [`CopyJob::live`] and [`CopyJob::grow_source`] give both up for
//! speed.
//!
//! The ways of `route` are tried in order. If a way fails, the next one is used. All of them
//! move both file positions by exactly the bytes they moved, so the next one continues where it stopped,
//! and bytes that are already in a pipe of our own are written out first. `read` and `write` come
//! last, and errors are theirs, so that each has one side. If another way
//! than `read` reports an end, `read` is asked as well, because some files (those of /proc) give their
//! bytes only to it. A terminal is only ever read, because a second request would ask the user twice.
//!
//! Our buffer is [`BUFFER`] bytes, or [`LARGE_BUFFER`] into files and sockets. A pipe of our own, and a
//! sink's pipe after 64 KiB, grow to [`PIPE`], or as near as the user's limits allow,
//! unless the capacity was changed before. [`CopyJob::keep_capacity`] changes neither end.
//! [`CopyJob::past_cache`] leaves the page cache of files as it was (`uncached`).
//! [`CopyJob::lend`] has long inputs copied into pipes once, not twice (`lending`).
//! For spliced pieces in close order it looks a few times before it sleeps (`polling`). It waits for a
//! descriptor with O_NONBLOCK and leaves the flag. Overhead before the first byte: two `fstat`, two
//! `fcntl`, and one `fstatfs` between files; growing a pipe takes one to three calls later.

mod calls;
mod engine;
mod fan;
mod lending;
mod memory;
mod outlet;
mod polling;
mod resumable;
mod route;
mod trail;
mod uncached;

use crate::end::{CopyEnd, DescriptorKind};
use calls::{CopyCalls, KernelCalls};
use engine::CopyEngine;
use outlet::CopyOutlet;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use fan::FanOut;
pub use memory::AlignedBuffer;
pub use resumable::ResumableCopy;
use route::CopyOptions;
pub use route::CopyRoute;
pub use uncached::Uncached;
use uncached::UncachedCalls;

/// Bytes of the buffer between `read` and `write`.
pub const BUFFER: usize = 256 * 1024;

/// The same if the sink is a file or a socket, which take a large piece in one call.
const LARGE_BUFFER: usize = 1024 * 1024;

/// Capacity in bytes that pipes are grown to: the most an ordinary user may ask for by default.
pub const PIPE: usize = 1024 * 1024;

/// The side that an error is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopySide {
    /// The source could not be read.
    Source,
    /// The sink could not be written.
    Sink,
}

/// A copy that ended early. The bytes moved until then are exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyError {
    /// The side it is of.
    pub side: CopySide,
    /// The call, as its man page names it.
    pub call: &'static str,
    /// The kernel's error.
    pub errno: Errno,
    /// Bytes that the sink has taken.
    pub moved: u64,
}

impl std::fmt::Display for CopyError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { side, call, errno, moved } = self;
        let side = match side {
            CopySide::Source => "source",
            CopySide::Sink => "sink",
        };
        write!(f, "`{call}` on the {side} failed after {moved} bytes: {errno}")
    }
}

impl std::error::Error for CopyError {}

impl From<CopyError> for std::io::Error {
    fn from(error: CopyError) -> Self {
        Self::new(Self::from(error.errno).kind(), error)
    }
}

/// The result of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyOutcome {
    /// Bytes moved.
    pub bytes: u64,
    /// The way that moved the last of them.
    pub way: CopyRoute,
}

/// Bytes that have just been moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyStep {
    /// Bytes moved so far, including these.
    pub moved: u64,
    /// The way that moved these.
    pub way: CopyRoute,
    /// Time spent in calls on the source, if [`CopyJob::tell_sides`] requested it.
    pub source: Duration,
    /// Time spent in calls on the sink, likewise.
    pub sink: Duration,
}

/// A copy to be made: [`copy()`] with choices.
///
/// # Examples
///
/// ```
/// use std::io::{Read, Seek, Write};
/// let mut from = tempfile::tempfile()?;
/// from.write_all(b"0123456789")?;
/// from.rewind()?;
/// let (mut reader, writer) = std::io::pipe()?;
/// let copied = pagewise_lanes::CopyJob::new(&from, &writer).limit(4).run()?;
/// drop(writer);
/// let mut text = String::new();
/// reader.read_to_string(&mut text)?;
/// assert_eq!((copied.bytes, text.as_str()), (4, "0123"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct CopyJob<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
    wanted: CopyOptions,
    limit: Option<u64>,
    grows_source: bool,
    grows_sink: bool,
    leaves_cache: bool,
    /// Bytes after which pages are lent to the sink's pipe.
    lend_after: Option<u64>,
    stop: Option<&'a AtomicBool>,
}

impl<'a> CopyJob<'a> {
    /// A copy from `from` to `to` until the end of the source.
    pub fn new(from: &'a impl AsFd, to: &'a impl AsFd) -> Self {
        Self::between(from.as_fd(), to.as_fd())
    }

    /// The same for borrowed descriptors.
    #[must_use]
    pub fn between(from: BorrowedFd<'a>, to: BorrowedFd<'a>) -> Self {
        Self {
            from,
            to,
            wanted: CopyOptions { live: false, sides: false },
            limit: None,
            grows_source: false,
            grows_sink: true,
            leaves_cache: false,
            lend_after: None,
            stop: None,
        }
    }

    /// Passes pages of a file or pipe on by reference, without copying them.
    ///
    /// **Dangerous if they can change.** Until the reader takes them, the bytes in the sink are
    /// the file's own pages: a later write, truncation or punched hole changes what the reader gets.
    /// So does a writer that passed pages to the source's pipe (`vmsplice(2)`) and overwrites them
    /// once they have left that pipe.
    #[must_use]
    pub fn live(mut self) -> Self {
        self.wanted.live = true;
        self
    }

    /// Also grows the pipe of the source.
    ///
    /// **Dangerous if its writer passes pages by reference**: a writer that has read the capacity before
    /// overwrites them while they are still in the pipe.
    #[must_use]
    pub fn grow_source(mut self) -> Self {
        self.grows_source = true;
        self
    }

    /// Moves at most `bytes`; nothing beyond them is taken from the source.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// Ends, as at a limit, after the step in which `stop` has become true.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    /// let zero = std::fs::File::open("/dev/zero")?;
    /// let null = std::fs::File::options().write(true).open("/dev/null")?;
    /// let stop = AtomicBool::new(false);
    /// let copy = pagewise_lanes::CopyJob::new(&zero, &null).until(&stop);
    /// let copied = copy.run_watched(|step| stop.store(step.moved > 1_000_000, Relaxed))?;
    /// assert!(copied.bytes > 1_000_000);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn until(mut self, stop: &'a AtomicBool) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Copies a long input into a pipe once, not twice: pages of our own are filled, lent to the pipe, and used again
    /// when no reader holds them. As exact as without it.
    ///
    /// For small processes: each 8 MiB, the kernel copies the page tables of the whole process, whose next writes then
    /// take a page fault for each page. The process must not have pinned memory (O_DIRECT, io_uring).
    ///
    /// # Examples
    ///
    /// ```
    /// let from = std::fs::File::open("/proc/self/exe")?;
    /// let (reader, writer) = std::io::pipe()?;
    /// let counts = std::thread::spawn(move || std::io::copy(&mut &reader, &mut std::io::sink()));
    /// let copied = pagewise_lanes::CopyJob::new(&from, &writer).lend().run()?;
    /// drop(writer);
    /// assert_eq!(counts.join().unwrap()?, copied.bytes);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn lend(mut self) -> Self {
        self.lend_after = Some(lending::AFTER);
        self
    }

    /// Leaves nothing of the regular files at both ends in the page cache that was not there before, as far
    /// as the kernel allows. Then nothing is passed on by reference, whatever else is requested.
    ///
    /// # Examples
    ///
    /// ```
    /// let from = std::fs::File::open("/proc/self/exe")?;
    /// let to = tempfile::tempfile()?;
    /// let copied = pagewise_lanes::CopyJob::new(&from, &to).past_cache().run()?;
    /// assert_eq!(copied.bytes, to.metadata()?.len());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn past_cache(mut self) -> Self {
        self.leaves_cache = true;
        self
    }

    /// Does not change the capacity of the pipes at both ends.
    #[must_use]
    pub fn keep_capacity(mut self) -> Self {
        (self.grows_source, self.grows_sink) = (false, false);
        self
    }

    /// Reports in each [`CopyStep`] the time spent waiting for and moving on either side. Moves only by
    /// ways that can measure it: through a pipe of our own, or by read and write.
    #[must_use]
    pub fn tell_sides(mut self) -> Self {
        self.wanted.sides = true;
        self
    }

    /// Copies.
    ///
    /// # Errors
    ///
    /// The first error of a side that no other way avoids, with the bytes moved so far.
    /// EPIPE comes with SIGPIPE unless the caller ignores it.
    pub fn run(self) -> Result<CopyOutcome, CopyError> {
        self.run_watched(|_| {})
    }

    /// Copies and calls `progress` after each call that moved some bytes.
    ///
    /// # Errors
    ///
    /// As [`CopyJob::run`].
    pub fn run_watched(self, progress: impl FnMut(CopyStep)) -> Result<CopyOutcome, CopyError> {
        self.run_on(&KernelCalls, progress)
    }

    fn run_on(
        self,
        calls: &impl CopyCalls,
        progress: impl FnMut(CopyStep),
    ) -> Result<CopyOutcome, CopyError> {
        if !self.leaves_cache {
            return self.run_ways(calls, progress);
        }
        let past = UncachedCalls::new(calls, [self.from, self.to]);
        let done = self.run_ways(&past, progress);
        let moved = done.map_or_else(|error| error.moved, |copied| copied.bytes);
        let first = past.finish(moved).into_iter().next();
        done.and_then(|copied| first.map_or(Ok(copied), |(_, error)| Err(error)))
    }

    fn run_ways(
        self,
        calls: &impl CopyCalls,
        progress: impl FnMut(CopyStep),
    ) -> Result<CopyOutcome, CopyError> {
        self.engine(calls, progress)?.run()
    }

    fn engine<'c, C: CopyCalls, P: FnMut(CopyStep)>(
        &self,
        calls: &'c C,
        progress: P,
    ) -> Result<CopyEngine<'c, C, P>, CopyError>
    where
        'a: 'c,
    {
        let reported = |side, errno| CopyError { side, call: "fstat", errno, moved: 0 };
        let from = CopyEnd::of(self.from).map_err(|e| reported(CopySide::Source, e))?;
        let to = CopyEnd::of(self.to).map_err(|e| reported(CopySide::Sink, e))?;
        if self.grows_source && from.kind == DescriptorKind::Pipe {
            grow(calls, self.from);
        }
        let grows = self.grows_sink && to.kind == DescriptorKind::Pipe;
        let outlet = CopyOutlet { calls, to: self.to, moved: 0, grows, interrupts: false };
        let ways = route::ways(from, to, self.wanted, || calls.has_own_ranges(self.to));
        let mut engine = CopyEngine::new((self.from, from), outlet, ways, progress);
        engine.buffer = buffer(to.kind);
        if self.leaves_cache {
            // A folio that reaches over the end of a piece is read from the disk twice.
            (engine.buffer, engine.first) = (LARGE_BUFFER, LARGE_BUFFER);
        }
        engine.lend_after =
            self.lend_after.filter(|_| to.kind == DescriptorKind::Pipe && !self.leaves_cache);
        engine.limit = self.limit;
        engine.stop = self.stop;
        engine.is_timed = self.wanted.sides;
        Ok(engine)
    }
}

/// Bytes of the buffer in front of a sink.
const fn buffer(to: DescriptorKind) -> usize {
    match to {
        DescriptorKind::Regular | DescriptorKind::Socket => LARGE_BUFFER,
        DescriptorKind::Pipe
        | DescriptorKind::Terminal
        | DescriptorKind::Null
        | DescriptorKind::Device
        | DescriptorKind::Other => BUFFER,
    }
}

/// Grows a pipe to [`PIPE`], or as near as allowed. Returns its resulting capacity, or 0. A pipe that stays
/// small, or does not show its capacity, is only slower.
fn grow(calls: &impl CopyCalls, pipe: BorrowedFd<'_>) -> usize {
    calls.grow(pipe, PIPE).unwrap_or(0)
}

/// Copies everything from `from` to `to`.
///
/// # Errors
///
/// As [`CopyJob::run`].
///
/// # Examples
///
/// ```
/// use std::io::{Read, Seek, Write};
/// let (reader, mut writer) = std::io::pipe()?;
/// writer.write_all(b"through a pipe into a file")?;
/// drop(writer);
/// let mut file = tempfile::tempfile()?;
/// assert_eq!(pagewise_lanes::copy(&reader, &file)?.bytes, 26);
/// file.rewind()?;
/// assert_eq!(std::io::read_to_string(&file)?, "through a pipe into a file");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn copy(from: &impl AsFd, to: &impl AsFd) -> Result<CopyOutcome, CopyError> {
    CopyJob::new(from, to).run()
}

#[cfg(test)]
mod faults;
