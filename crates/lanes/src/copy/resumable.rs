//! A copy that a signal interrupts, and that continues where it stopped: for callers whose signal handlers do
//! not run inside a system call, such as interpreters.
//!
//! Bytes that were taken from the source but not yet written to the sink stay in memory, or in our own pipe,
//! until the next run writes them. A call that moves bytes all the time gets no EINTR, so a run also ends
//! after the caller's number of bytes. Overhead: making the buffer again in each run.

use super::calls::Kernel;
use super::engine::Engine;
use super::{Copied, Copy, CopyError, Side, Step};
use rustix::io::Errno;

/// A copy in progress.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::{Copy, Side};
/// let from = std::fs::File::open("/proc/self/exe")?;
/// let to = tempfile::tempfile()?;
/// let mut copy = Copy::new(&from, &to).resumable()?;
/// let copied = loop {
///     match copy.run(1 << 26) {
///         Err(error) if error.is_interrupted() => {} // Look for signals here.
///         ended => break ended?,
///     }
/// };
/// assert_eq!(copied.bytes, to.metadata()?.len());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct Resumable<'a> {
    engine: Engine<'a, Kernel, fn(Step)>,
}

impl std::fmt::Debug for Resumable<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let moved = self.engine.outlet.moved;
        f.debug_struct("Resumable").field("moved", &moved).finish_non_exhaustive()
    }
}

impl<'a> Copy<'a> {
    /// A copy that a signal interrupts. [`Copy::past_cache`] and [`Copy::lend`] have no effect on it.
    ///
    /// # Errors
    ///
    /// What `fstat(2)` says of the descriptors.
    pub fn resumable(mut self) -> Result<Resumable<'a>, CopyError> {
        self.leaves_cache = false;
        self.lend_after = None;
        let mut engine = self.engine(&Kernel, (|_| {}) as fn(Step))?;
        engine.outlet.interrupts = true;
        Ok(Resumable { engine })
    }
}

impl Resumable<'_> {
    /// Copies until the end; the result counts all runs. After EINTR, call it again to go on.
    ///
    /// # Errors
    ///
    /// As [`Copy::run`]; and EINTR after a signal and after `most` bytes.
    pub fn run(&mut self, most: u64) -> Result<Copied, CopyError> {
        let Engine { outlet, pause, limit, .. } = &mut self.engine;
        *pause = outlet.moved.saturating_add(most);
        let (at, limit) = (*pause, limit.unwrap_or(u64::MAX));
        let done = self.engine.run()?;
        if done.bytes < at || done.bytes >= limit {
            return Ok(done);
        }
        Err(CopyError { side: Side::Source, call: "read", errno: Errno::INTR, moved: done.bytes })
    }

    /// Whether bytes were taken from the source that the sink has not got yet; they are lost if no
    /// other run follows.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.engine.holds()
    }
}

impl CopyError {
    /// Whether a signal has interrupted a [`Resumable`] copy.
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.errno == Errno::INTR
    }
}
