//! Samples of the CPU clock over a tree, with kernel stacks.
//!
//! A high-resolution timer per CPU (PERF_COUNT_SW_CPU_CLOCK) fires each [`PERIOD_NS`] of CPU time of
//! the tree and notes where it was. The period is no divisor of the scheduler's tick, so the two do
//! not run in step; 0.2 s of CPU time gives 400 samples. An inherited event can have a ring only
//! when it is bound to a CPU, so there is one per CPU, drained every [`DRAIN_EVERY`] by a thread.
//! A ring of full size (`ring`) holds a quarter of a second of the deepest kernel stacks and more
//! than one of usual ones; one that had to be smaller holds less, and what did not fit is counted.
//!
//! Kernel frames need `kernel.perf_event_paranoid` at 1 or below, or CAP_PERFMON, and readable
//! symbols. User samples alone would say nothing that getrusage does not, so without those rights
//! there is no sampling at all. Not seen: code with interrupts off (billed to where they come on
//! again); processes that live for less than a period on a CPU are rarely hit.
//! Overhead: about 2-4 us a sample, 0.5-1% of CPU time.

use super::ring::Ring;
use super::stacks::Stacks;
use super::{event, record};
use pagewise_kernel::SysError;
use pagewise_kernel::kallsyms::KernelSymbols;
use pagewise_kernel::perf::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_IP, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use pagewise_kernel::perf::perf_event_attr;
use pagewise_model::look::Samples;
use pagewise_model::{Fact, Nanos};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// CPU time between samples: a prime near half a millisecond.
pub(super) const PERIOD_NS: u64 = 499_979;
/// Wanted size of a ring: as much as `kernel.perf_event_mlock_kb` gives anybody.
pub(super) const RING_BYTES: usize = 512 << 10;
/// How often the rings are emptied.
pub(super) const DRAIN_EVERY: Duration = Duration::from_millis(100);

/// Sampling under way.
#[derive(Debug)]
pub struct Sampling {
    symbols: KernelSymbols,
    stop: mpsc::Sender<()>,
    drainer: JoinHandle<Stacks>,
}

impl Sampling {
    /// Starts sampling `pid` from its exec on, or says why not.
    pub fn attach(pid: i32) -> Fact<Self> {
        let rings = match open_rings(pid) {
            Ok(rings) => rings,
            Err(error) => return Fact::Missing(refusal(&error)),
        };
        let symbols = match KernelSymbols::read() {
            Ok(symbols) => symbols,
            Err(error) => return Fact::Missing(error.to_string()),
        };
        let (stop, stopped) = mpsc::channel();
        let spawned = thread::Builder::new()
            .name("perf-drain".to_owned())
            .spawn(move || drain_until(rings, &stopped));
        match spawned {
            Ok(drainer) => Fact::Known(Self { symbols, stop, drainer }),
            Err(error) => Fact::Missing(format!("start a thread for samples: {error}")),
        }
    }

    /// Stops and sorts what was seen.
    pub fn finish(self) -> Fact<Samples> {
        drop(self.stop);
        match self.drainer.join() {
            Ok(stacks) => Fact::Known(stacks.resolve(&self.symbols, Nanos(PERIOD_NS))),
            Err(_) => Fact::missing("the thread that collects samples died"),
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

/// One ring per online CPU; a CPU that has gone offline meanwhile is left out.
fn open_rings(pid: i32) -> Result<Vec<Ring>, SysError> {
    let mut rings = Vec::new();
    for cpu in event::online_cpus() {
        match Ring::open(&attributes(), pid, cpu, RING_BYTES) {
            Ok(ring) => rings.push(ring),
            Err(error) if error.errno() == Some(libc::ENODEV) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(rings)
}

/// Runs until the other end of `stopped` is dropped, then empties the rings a last time.
fn drain_until(mut rings: Vec<Ring>, stopped: &mpsc::Receiver<()>) -> Stacks {
    let mut stacks = Stacks::default();
    loop {
        let last = stopped.recv_timeout(DRAIN_EVERY) != Err(RecvTimeoutError::Timeout);
        for ring in &mut rings {
            stacks.add(record::parse(ring.drain()).0);
        }
        if last {
            return stacks;
        }
    }
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
