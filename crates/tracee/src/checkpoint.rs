//! Checkpoints of long programs: a run is stopped at a point that other runs reach by the same work.
//!
//! The work of a program is the number of bytes that its processes have read and written by calls (`rchar` and
//! `wchar` of /proc/PID/io, which include reaped children). A checkpoint is found in a first run, once the
//! program is known to take long. It is not used for a program that has changed anything outside: the kill could
//! leave a change half made.
//!
//! Not seen: work without calls, such as arithmetic, splice or mapped files. A program that does only that has
//! no checkpoint.

use crate::tree::ProcessTree;
use pagewise_kernel::own_usage::ProcessUsage;
use pagewise_kernel::proc::io;
use pagewise_model::units::{Bytes, Nanos};
use pagewise_model::usage::{ProgramEnd, ProgramUsage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Samples in the time after which a checkpoint is looked for.
const SAMPLES: u64 = 20;
/// Of this many samples in a row, each must show more work than the one before it, by [`LEAST_STEP`].
const STEADY: u32 = 3;
/// What an arm reads more at its start, such as a preloaded library, must not move its checkpoint: 4 KiB are then
/// 0.1% of the time.
const LEAST_STEP: Bytes = Bytes::kib(200);
/// The shortest time between two samples.
const LEAST_PAUSE: Nanos = Nanos::millis(2);
/// A sample near a checkpoint is late by at most the time so far divided by this.
const PRECISION: u64 = 500;

/// Where a run ends early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunCheckpoint {
    /// At the first point after this time at which the work shows how far the program is.
    After(Nanos),
    /// As soon as this many bytes were read and written.
    At(Bytes),
}

/// Bytes that a tree has read and written by calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TreeWork {
    pub(crate) read: Bytes,
    pub(crate) written: Bytes,
}

impl TreeWork {
    pub(crate) fn bytes(self) -> Bytes {
        self.read + self.written
    }

    /// The work of these processes. Those that cannot be read count nothing.
    fn of(pids: &[i32]) -> Self {
        let all = pids.iter().filter_map(|pid| io::read(*pid).ok());
        all.fold(Self::default(), |sum, one| Self {
            read: sum.read + one.read_chars,
            written: sum.written + one.write_chars,
        })
    }
}

/// Watches a run for its checkpoint.
#[derive(Debug)]
pub(crate) struct CheckpointWatch {
    checkpoint: RunCheckpoint,
    /// Set when the program has changed something outside.
    has_effects: Arc<AtomicBool>,
    due: Nanos,
    last: Bytes,
    /// Samples in a row that showed enough more work.
    steady: u32,
}

impl CheckpointWatch {
    pub(crate) fn new(checkpoint: RunCheckpoint, has_effects: Arc<AtomicBool>) -> Self {
        Self { checkpoint, has_effects, due: LEAST_PAUSE, last: Bytes(0), steady: 0 }
    }

    /// When to look again.
    pub(crate) fn due(&self) -> Option<Nanos> {
        (!self.has_effects.load(Ordering::Relaxed)).then_some(self.due)
    }

    /// The work done, if the run is at its checkpoint `now`.
    pub(crate) fn look(&mut self, tree: &mut ProcessTree, now: Nanos) -> Option<TreeWork> {
        if self.due().is_none_or(|due| now < due) {
            return None;
        }
        tree.refresh();
        let work = TreeWork::of(tree.pids());
        self.is_reached(work.bytes(), now).then_some(work)
    }

    /// Takes in a sample: whether it is the checkpoint.
    fn is_reached(&mut self, work: Bytes, now: Nanos) -> bool {
        self.steady = if work >= self.last + LEAST_STEP { self.steady + 1 } else { 0 };
        self.last = work;
        let pause = match self.checkpoint {
            RunCheckpoint::After(time) => Nanos(time.0 / SAMPLES),
            RunCheckpoint::At(_) => Nanos(now.0 / PRECISION),
        };
        self.due = now + pause.max(LEAST_PAUSE);
        match self.checkpoint {
            RunCheckpoint::After(time) => now >= time && self.steady >= STEADY,
            RunCheckpoint::At(bytes) => work >= bytes,
        }
    }
}

/// The usage of an ended run as that up to its checkpoint: of one that `reached` it with this work and was
/// killed, or ended by itself right behind it. Nothing waited for its processes, so what this process has
/// `reaped`, before and after, counts.
pub(crate) fn at_checkpoint(
    usage: ProgramUsage,
    checkpoint: Option<RunCheckpoint>,
    reached: Option<TreeWork>,
    reaped: Option<(ProcessUsage, ProcessUsage)>,
) -> ProgramUsage {
    let at_end = || {
        let (read, written) = usage.read_bytes.zip(usage.written_bytes)?;
        let work = TreeWork { read, written };
        let RunCheckpoint::At(bytes) = checkpoint? else { return None };
        (usage.ended.success() && work.bytes() >= bytes).then_some(work)
    };
    let Some(work) = reached.or_else(at_end) else { return usage };
    let stopped = ProgramUsage {
        read_bytes: Some(work.read),
        written_bytes: Some(work.written),
        ended: ProgramEnd::Checkpoint,
        ..usage
    };
    let Some((before, after)) = reaped else { return stopped };
    ProgramUsage {
        user_ns: Nanos(after.user.0.saturating_sub(before.user.0)),
        sys_ns: Nanos(after.sys.0.saturating_sub(before.sys.0)),
        minor_faults: after.minor_faults.saturating_sub(before.minor_faults),
        major_faults: after.major_faults.saturating_sub(before.major_faults),
        ..stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(checkpoint: RunCheckpoint) -> CheckpointWatch {
        CheckpointWatch::new(checkpoint, Arc::default())
    }

    /// The second at which samples of this work reach the checkpoint.
    fn reached(checkpoint: RunCheckpoint, work: impl Fn(u64) -> u64) -> Option<u64> {
        let mut watch = watch(checkpoint);
        (1..100).find(|second| watch.is_reached(Bytes(work(*second)), Nanos::secs(*second)))
    }

    #[test]
    fn a_checkpoint_is_where_the_work_goes_on() {
        let after = RunCheckpoint::After(Nanos::secs(20));
        let mib = |count| Bytes::mib(count).0;
        assert_eq!(reached(after, mib), Some(20));
        assert_eq!(reached(after, |_| mib(7)), None, "it only computes");
        assert_eq!(reached(after, |second| second), None, "a preloaded library counts for more");
        let pause = |second: u64| mib(if (10..30).contains(&second) { 10 } else { second });
        assert_eq!(reached(after, pause), Some(32), "three samples of progress after a pause");
        assert_eq!(reached(RunCheckpoint::At(Bytes::mib(21)), mib), Some(21));
    }

    #[test]
    fn a_program_that_changed_something_is_not_stopped() {
        let mut watch = watch(RunCheckpoint::At(Bytes(0)));
        let mut tree = ProcessTree::new(pagewise_kernel::proc::own_pid(), []);
        watch.has_effects.store(true, Ordering::Relaxed);
        assert_eq!((watch.due(), watch.look(&mut tree, Nanos::secs(1))), (None, None));
        watch.has_effects.store(false, Ordering::Relaxed);
        assert!(watch.look(&mut tree, Nanos::secs(1)).is_some());
    }
}
