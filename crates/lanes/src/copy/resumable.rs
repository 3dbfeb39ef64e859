//! A copy that a signal interrupts, and that continues where it stopped: for callers whose signal handlers do
//! not run inside a system call, such as interpreters.
//!
//! Bytes that were taken from the source but not yet written to the sink stay in memory, or in our own pipe,
//! until the next run writes them. A call that moves bytes all the time gets no EINTR, so a run also ends
//! after the caller's number of bytes. Overhead: making the buffer again in each run.

use super::calls::KernelCalls;
use super::engine::CopyEngine;
use super::{CopyError, CopyJob, CopyOutcome, CopySide, CopyStep};
use rustix::io::Errno;

/// A copy in progress.
///
/// # Examples
///
/// ```
/// use pagewise_lanes::{CopyJob, CopySide};
/// let from = std::fs::File::open("/proc/self/exe")?;
/// let to = tempfile::tempfile()?;
/// let mut copy = CopyJob::new(&from, &to).resumable()?;
/// let copied = loop {
///     match copy.run(1 << 26) {
///         Err(error) if error.is_interrupted() => {} // Look for signals here.
///         ended => break ended?,
///     }
/// };
/// assert_eq!(copied.bytes, to.metadata()?.len());
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct ResumableCopy<'a> {
    engine: CopyEngine<'a, KernelCalls, fn(CopyStep)>,
}

impl std::fmt::Debug for ResumableCopy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let moved = self.engine.outlet.moved;
        f.debug_struct("ResumableCopy").field("moved", &moved).finish_non_exhaustive()
    }
}

impl<'a> CopyJob<'a> {
    /// A copy that a signal interrupts. [`CopyJob::past_cache`] and [`CopyJob::lend`] have no effect on it.
    ///
    /// # Errors
    ///
    /// What `fstat(2)` says of the descriptors.
    pub fn resumable(mut self) -> Result<ResumableCopy<'a>, CopyError> {
        self.leaves_cache = false;
        self.lend_after = None;
        let mut engine = self.engine(&KernelCalls, (|_| {}) as fn(CopyStep))?;
        engine.outlet.interrupts = true;
        Ok(ResumableCopy { engine })
    }
}

impl ResumableCopy<'_> {
    /// Copies until the end; the result counts all runs. After EINTR, call it again to go on.
    ///
    /// # Errors
    ///
    /// As [`CopyJob::run`]; and EINTR after a signal and after `most` bytes.
    pub fn run(&mut self, most: u64) -> Result<CopyOutcome, CopyError> {
        let CopyEngine { outlet, pause, limit, .. } = &mut self.engine;
        *pause = outlet.moved.saturating_add(most);
        let (at, limit) = (*pause, limit.unwrap_or(u64::MAX));
        let done = self.engine.run()?;
        if done.bytes < at || done.bytes >= limit {
            return Ok(done);
        }
        Err(CopyError {
            side: CopySide::Source,
            call: "read",
            errno: Errno::INTR,
            moved: done.bytes,
        })
    }

    /// Whether bytes were taken from the source that the sink has not got yet; they are lost if no
    /// other run follows.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.engine.holds()
    }
}

impl CopyError {
    /// Whether a signal has interrupted a [`ResumableCopy`].
    #[must_use]
    pub fn is_interrupted(&self) -> bool {
        self.errno == Errno::INTR
    }
}
