//! Observes a program from its start through perf events: CPU samples with kernel stacks, hardware counts of
//! page walks, and every page fault.
//!
//! The child is blocked before its exec. Events are attached to it with `inherit` (children and threads count
//! too) and `enable_on_exec` (the launcher's own work does not count). They are read when the tree has ended.
//! See perf_event_open(2), kernel/events/core.c.
//!
//! - [`CpuClockSampler`]: a CPU clock tick every [`sampling::PERIOD_NS`] ns of CPU time, no PMU needed.
//! - [`CpuClockProfiler`]: the same with the callers in the program; also of running processes, and of user mode
//!   only, which a `kernel.perf_event_paranoid` of 2 permits for every account.
//! - [`CodeMissCounters`]: instructions and misses of the TLB for code, likewise.
//! - [`WalkCounters`]: cycles and page walk cycles in user mode, if the processor has them.
//! - [`faults::FaultRings`]: beginning and end of each page fault, drained by the recorder process.
//!
//! What is not available becomes `Fact::Missing`, with what would make it available; nothing here ever fails
//! the run.
//!
//! Not seen: processes that outlive the tree's root by the time of [`PerfObservers::finish`]; work of kernel
//! threads. Overhead: see each module.

mod code_misses;
mod drainer;
mod event;
pub mod faults;
mod merge;
mod profile;
mod record;
mod ring;
mod rings;
mod running;
mod sampling;
pub mod side_band;
pub mod spaces;
mod stacks;
mod streams;
pub mod texts;
mod walks;
pub mod words;

pub use code_misses::CodeMissCounters;
pub use profile::{CpuClockProfiler, FindCode, WalkStack, Walker, profile_running};
pub use sampling::CpuClockSampler;
pub use walks::WalkCounters;

use crate::glibc;
use crate::mapped_file::MappedFiles;
use pagewise_model::Fact;
use pagewise_model::code_tlb::CodeMissCounts;
use pagewise_model::look::{CpuSamples, UserSamples, WalkCounts};
use pagewise_model::profile::StackSamples;
use std::collections::HashMap;
use std::ops::Range;

/// Observers attached to one program.
#[derive(Debug)]
pub struct PerfObservers {
    files: MappedFiles,
    samples: Fact<CpuClockSampler>,
    profile: Fact<CpuClockProfiler>,
    user: Fact<CpuClockProfiler>,
    walks: Fact<WalkCounters>,
    code_misses: Fact<CodeMissCounters>,
}

/// Observations of one program.
#[derive(Debug)]
pub struct PerfObservations {
    /// Kernel samples, when they were asked for.
    pub samples: Fact<CpuSamples>,
    /// Samples with whole stacks, when they were asked for.
    pub profile: Fact<StackSamples>,
    /// Samples in user mode, when they were asked for.
    pub user: Fact<UserSamples>,
    /// Page-walk counts, when they were asked for.
    pub walks: Fact<WalkCounts>,
    /// Counts of misses of the TLB for code, with the page walks.
    pub code_misses: Fact<CodeMissCounts>,
}

impl PerfObservers {
    /// Attaches what `observe` requests to `pid`, which must not have executed its program yet. `walker`
    /// walks the stacks of a profile, and its code is opened in `files`.
    #[must_use]
    pub fn attach(
        pid: i32,
        observe: &crate::launch::ObservationOptions,
        files: &MappedFiles,
        walker: Option<Walker>,
    ) -> Self {
        let profile = || CpuClockProfiler::attach(pid, files, walker);
        let user = || CpuClockProfiler::attach_to_user_mode(pid, files);
        Self {
            files: files.clone(),
            samples: if observe.samples { CpuClockSampler::attach(pid) } else { not_asked() },
            profile: if observe.profile { profile() } else { not_asked() },
            user: if observe.user { user() } else { not_asked() },
            walks: if observe.walks { WalkCounters::attach(pid) } else { not_asked() },
            code_misses: if observe.walks { CodeMissCounters::attach(pid) } else { not_asked() },
        }
    }

    /// Reads the results. Call it when the tree has ended.
    #[must_use]
    pub fn finish(self) -> PerfObservations {
        PerfObservations {
            samples: self.samples.and_then(CpuClockSampler::finish),
            profile: self.profile.and_then(CpuClockProfiler::finish),
            user: self
                .user
                .and_then(CpuClockProfiler::finish)
                .map(|all| user_samples(&all, &self.files)),
            walks: self.walks.and_then(WalkCounters::finish),
            code_misses: self.code_misses.and_then(CodeMissCounters::finish),
        }
    }
}

/// Counts how many of these samples are in user mode, and how many of those hit glibc's allocator in one of
/// `files`.
#[must_use]
pub fn user_samples(all: &StackSamples, files: &MappedFiles) -> UserSamples {
    let mut code: HashMap<&str, Option<Range<u64>>> = HashMap::new();
    let mut counted = UserSamples::default();
    for stack in all.stacks.iter().filter(|stack| stack.kernel.is_empty()) {
        counted.all += stack.count;
        let Some(leaf) = stack.user.first() else { continue };
        let range = code.entry(&*leaf.path).or_insert_with(|| {
            let file = files.file(&leaf.path)?;
            glibc::malloc_code(&leaf.path, &file)
        });
        if range.as_ref().is_some_and(|range| range.contains(&leaf.offset_bytes.0)) {
            counted.malloc += stack.count;
        }
    }
    counted
}

fn not_asked<T>() -> Fact<T> {
    Fact::missing("not requested in this run")
}
