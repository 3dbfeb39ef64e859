//! What a piece of work took: time on the wall clock, CPU time and minor faults of the calling thread.
//!
//! CPU time and faults are read outside the wall time (two system calls before and two after, about 1 us
//! together). Nothing here allocates, so it serves children made by fork as well.

use crate::kernels::usage::thread_faults;
use pagewise_kernel::clock;
use pagewise_model::Nanos;
use rustix::io::Errno;

/// Time and faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spent {
    /// When it began, on the monotonic clock.
    pub(super) begin: Nanos,
    pub(super) wall: Nanos,
    pub(super) cpu: Nanos,
    pub(super) faults: u64,
}

impl Spent {
    /// When it ended, if it was one piece of work.
    pub(super) fn end(&self) -> Nanos {
        self.begin + self.wall
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.wall += other.wall;
        self.cpu += other.cpu;
        self.faults += other.faults;
    }
}

/// What `work` took, with its result.
pub(super) fn spend<T>(work: impl FnOnce() -> T) -> Result<(Spent, T), Errno> {
    let faults = thread_faults()?;
    let cpu = clock::thread_cpu();
    let begin = clock::now();
    let result = work();
    let end = clock::now();
    let spent = Spent {
        begin,
        wall: Nanos(end.0.saturating_sub(begin.0)),
        cpu: Nanos(clock::thread_cpu().0.saturating_sub(cpu.0)),
        faults: thread_faults()?.saturating_sub(faults),
    };
    Ok((spent, result))
}
