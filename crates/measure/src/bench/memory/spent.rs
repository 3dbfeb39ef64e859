//! What a piece of work took: time on the wall clock, CPU time and minor faults of the calling thread.
//!
//! CPU time and faults are read outside the wall time (two system calls before and two after, about 1 us
//! together). Nothing here allocates, so it serves children made by fork as well.

use crate::error::PriceError;
use crate::kernels::usage::thread_faults;
use pagewise_kernel::{SysError, clock};
use pagewise_model::bench::memory::Sample;
use pagewise_model::{Bytes, Fact, Nanos, PageSize};
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

/// That this thread's own figures are not to be had.
pub(super) fn unmetered(errno: Errno) -> PriceError {
    SysError::new("getrusage", "this thread", errno).into()
}

/// The parts of one sample.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Taken {
    pub(super) setup: Spent,
    pub(super) touch: Spent,
    pub(super) teardown: Spent,
    /// What was mapped before the touches.
    pub(super) resident: Fact<Bytes>,
    /// The size of the pages.
    pub(super) page: Fact<PageSize>,
}

impl Taken {
    /// As it is saved: of this repeat, at this place of the order, with the size of its pages.
    pub(super) fn sample(self, repeat: u32, place: u32) -> (Sample, Fact<PageSize>) {
        let sample = Sample {
            repeat,
            place,
            setup_ns: self.setup.wall,
            touch_ns: self.touch.wall,
            teardown_ns: self.teardown.wall,
            cpu_ns: self.setup.cpu + self.touch.cpu + self.teardown.cpu,
            setup_faults: self.setup.faults,
            touch_faults: self.touch.faults,
            resident_bytes: self.resident,
        };
        (sample, self.page)
    }
}
