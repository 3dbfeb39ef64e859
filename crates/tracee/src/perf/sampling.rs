//! Samples of the CPU clock over a tree, with kernel stacks.
//!
//! A high-resolution timer per CPU (PERF_COUNT_SW_CPU_CLOCK) fires after each [`PERIOD_NS`] of CPU time of
//! the tree and records where it was. The period does not divide the scheduler's tick, so the two do not run
//! in step; 0.2 s of CPU time gives 400 samples. An inherited event can have a ring only if it is bound to a
//! CPU, so there is one per CPU, which a thread empties (`drainer`). A ring of full size (`ring`) holds a
//! quarter of a second of the deepest kernel stacks, and more than a second of usual ones. A smaller ring
//! holds less, and lost samples are counted.
//!
//! Kernel frames need `kernel.perf_event_paranoid` at 1 or below, or CAP_PERFMON, and readable symbols. User
//! samples alone would say no more than getrusage, so without those rights there is no sampling at all.
//!
//! Not seen: code with interrupts off (charged to the place where they are enabled again); the first period
//! of each process and thread, so shorter-lived ones are not sampled. Overhead: about 2-4 us per sample,
//! 0.5-1% of CPU time.

use super::drainer::{RingCollector, RingDrainer};
use super::ring::PerfRing;
use super::stacks::KernelStackCounts;
use super::{event, record};
use pagewise_kernel::SysError;
use pagewise_kernel::perf::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_IP, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use pagewise_kernel::perf::perf_event_attr;
use pagewise_model::look::CpuSamples;
use pagewise_model::{Fact, Nanos};

/// CPU time between samples: a prime near half a millisecond.
pub(super) const PERIOD_NS: u64 = 499_979;
/// Wanted size of a ring: as much as `kernel.perf_event_mlock_kb` gives any account.
pub(super) const RING_BYTES: usize = 512 << 10;
/// Sampling in progress.
#[derive(Debug)]
pub struct CpuClockSampler(RingDrainer<SampleCollector>);

impl CpuClockSampler {
    /// Starts sampling `pid` from its exec on, or says why not.
    pub fn attach(pid: i32) -> Fact<Self> {
        Self::start(&attributes(), pid, None)
    }

    /// Starts sampling the children that this process starts from now on, without this process itself; or
    /// says why not.
    ///
    /// Exec cannot enable these events: it does so for one program. When the CPU switches between a process
    /// and its child, the kernel swaps their equal sets of events (`perf_event_context_sched_out`). The exec of
    /// the child then clears the flag in this process's set, and later children are never sampled.
    pub fn attach_to_children() -> Fact<Self> {
        let mut attr = attributes();
        attr.set_enable_on_exec(0);
        attr.set_disabled(0);
        let own = std::process::id();
        Self::start(&attr, own.cast_signed(), Some(own))
    }

    fn start(attr: &perf_event_attr, pid: i32, left_out: Option<u32>) -> Fact<Self> {
        match PerfRing::open_each(attr, pid, &event::online_cpus(), RING_BYTES) {
            Ok(rings) => {
                let stacks = KernelStackCounts::default();
                RingDrainer::start(SampleCollector { rings, left_out, stacks }).map(Self)
            }
            Err(error) => Fact::Missing(refusal(&error)),
        }
    }

    /// Stops sampling and sorts the samples.
    pub fn finish(self) -> Fact<CpuSamples> {
        self.0.finish(|sampled, symbols| sampled.stacks.resolve(symbols, Nanos(PERIOD_NS)))
    }
}

/// The rings, one for each CPU, and the samples read from them.
#[derive(Debug)]
struct SampleCollector {
    rings: Vec<PerfRing>,
    /// The process whose samples do not count.
    left_out: Option<u32>,
    stacks: KernelStackCounts,
}

impl RingCollector for SampleCollector {
    fn collect(&mut self, last: bool) {
        for ring in &mut self.rings {
            self.stacks.add(record::parse(ring.drain(), self.left_out).0);
        }
        if last {
            self.stacks.found_lost(self.rings.iter().map(PerfRing::lost).sum());
        }
    }
}

fn attributes() -> perf_event_attr {
    let mut attr = event::attributes(PERF_TYPE_SOFTWARE, u64::from(PERF_COUNT_SW_CPU_CLOCK));
    attr.__bindgen_anon_1.sample_period = PERIOD_NS;
    attr.sample_type =
        u64::from(PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN);
    attr.set_exclude_kernel(0);
    attr.set_exclude_callchain_user(1);
    attr
}

pub(super) fn refusal(error: &SysError) -> String {
    match error.errno() {
        Some(libc::EACCES | libc::EPERM) => "kernel samples are refused to this account; \
            `sysctl kernel.perf_event_paranoid=1` or CAP_PERFMON allows them"
            .to_owned(),
        Some(libc::ENOSYS) => "this kernel or container has no perf_event_open".to_owned(),
        _ => format!("samples of the CPU clock: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_unlocks_it() {
        let with = |errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            refusal(&SysError::new("perf_event_open", "event", source))
        };
        assert!(with(libc::EACCES).contains("kernel.perf_event_paranoid=1"));
        assert!(with(libc::ENOSYS).contains("container"));
        assert!(with(libc::EMFILE).contains("CPU clock"));
    }
}
