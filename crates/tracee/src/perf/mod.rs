//! Observes a program from birth through perf events: CPU samples with kernel stacks, hardware
//! counts of page walks, and every page fault.
//!
//! The child is blocked before its exec. Events are attached to it with `inherit` (children and
//! threads count too) and `enable_on_exec` (the launcher's own work does not), and read when the
//! tree has ended. See perf_event_open(2), kernel/events/core.c.
//!
//! - [`Sampling`]: a CPU clock tick every [`sampling::PERIOD_NS`] ns of CPU time, no PMU needed.
//! - [`WalkCounters`]: cycles and page walk cycles in user mode, where the processor has them.
//! - [`faults::FaultRings`]: beginning and end of each page fault, drained by the recorder process.
//!
//! What cannot be had is `Fact::Missing` with what would unlock it; nothing here ever fails the run.
//! Not seen: processes that outlive the tree's root by the time of [`Observers::finish`], and work
//! of kernel threads. Overhead: each module's text.

mod event;
pub mod faults;
mod header;
mod record;
mod ring;
mod sampling;
mod stacks;
mod walks;

pub use sampling::Sampling;
pub use walks::WalkCounters;

use pagewise_model::Fact;
use pagewise_model::look::{Samples, WalkCounts};

/// What is attached to one program.
#[derive(Debug)]
pub struct Observers {
    samples: Fact<Sampling>,
    walks: Fact<WalkCounters>,
}

impl Observers {
    /// Attaches what `observe` asks for to `pid`, which must not have executed its program yet.
    #[must_use]
    pub fn attach(pid: i32, observe: &crate::launch::Observe) -> Self {
        let not_asked = || "not asked for in this run".to_owned();
        Self {
            samples: if observe.samples {
                Sampling::attach(pid)
            } else {
                Fact::Missing(not_asked())
            },
            walks: if observe.walks {
                WalkCounters::attach(pid)
            } else {
                Fact::Missing(not_asked())
            },
        }
    }

    /// Reads everything; to be called when the tree has ended.
    #[must_use]
    pub fn finish(self) -> (Fact<Samples>, Fact<WalkCounts>) {
        let samples = match self.samples {
            Fact::Known(sampling) => sampling.finish(),
            Fact::Missing(reason) => Fact::Missing(reason),
        };
        let walks = match self.walks {
            Fact::Known(counters) => counters.finish(),
            Fact::Missing(reason) => Fact::Missing(reason),
        };
        (samples, walks)
    }
}
