//! Every page fault of a program, by its beginning and its end, without privilege.
//!
//! The software event `page-faults` fires when the fault handler is entered, `minor-faults` and
//! `major-faults` when it is done (arch/x86/mm/fault.c; mm/memory.c, `mm_account_fault`). All three
//! with a period of 1, inherited by threads and children, write into one ring per CPU, and records
//! of the first carry new mappings, execs, forks and exits along. A beginning is 96 bytes (with the
//! three registers that tell operands apart), an end 56. In user mode `perf_event_paranoid` of 2
//! suffices; faults that the kernel takes for the program need 1 or CAP_PERFMON.
//!
//! Rings are locked memory: [`RING_BYTES`] each where RLIMIT_MEMLOCK and `perf_event_mlock_kb`
//! give that much, at 1 us a fault room for 15 ms at the least. A full ring loses records, and the
//! kernel counts them.
//!
//! Not seen: faults without registers of a thread (populating, pinning, the arguments of `exec`);
//! those of processes that outlive the recording. Overhead: 1-1.5 us a fault, of which the share of
//! the beginning (about half) lies inside the latency.

mod merge;
mod record;

use super::event;
use super::ring::Ring;
use merge::Merge;
use pagewise_kernel::perf::{self, bindings as b, perf_event_attr};
use pagewise_kernel::{SysError, clock};
use pagewise_model::fault::event::Event;
use record::{Kind, Layout};
use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Wanted size of a ring.
const RING_BYTES: usize = 4 << 20;
/// What a ring should not be below: 256 pages of 4 KiB.
const LEAST_RING_BYTES: usize = 1 << 20;

/// Why faults cannot be recorded, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{why}")]
pub struct Refusal {
    /// The reason.
    pub why: String,
    /// What unlocks it.
    pub help: String,
}

/// The rings of one program.
#[derive(Debug)]
pub struct FaultRings {
    rings: Vec<Ring>,
    /// Events that write into the rings of others.
    _redirected: Vec<OwnedFd>,
    kinds: HashMap<u64, Kind>,
    layout: Layout,
    sees_kernel: bool,
    merge: Merge,
}

impl FaultRings {
    /// Opens the rings for `pid`, which must not have executed its program yet. What the kernel
    /// does not know (page sizes before Linux 5.11) or does not allow (kernel mode) is left out.
    ///
    /// # Errors
    /// [`Refusal`] where not even faults in user mode can be recorded.
    pub fn open(pid: i32) -> Result<Self, Refusal> {
        let mut last = None;
        for sees_kernel in [true, false] {
            for layout in [Layout::FULL, Layout::NO_PAGE_SIZE, Layout::LEAN] {
                match Self::open_as(pid, layout, sees_kernel) {
                    Ok(rings) => return Ok(rings),
                    Err(error) if error.errno() == Some(libc::EINVAL) => last = Some(error),
                    Err(error) => {
                        last = Some(error);
                        break;
                    }
                }
            }
        }
        let none = || SysError::malformed("perf_event_open", "page faults");
        Err(refusal(&last.unwrap_or_else(none)))
    }

    fn open_as(pid: i32, layout: Layout, sees_kernel: bool) -> Result<Self, SysError> {
        let cpus = event::online_cpus();
        let ring_bytes = ring_bytes(cpus.len());
        let mut all = Self {
            rings: Vec::new(),
            _redirected: Vec::new(),
            kinds: HashMap::new(),
            layout,
            sees_kernel,
            merge: Merge::default(),
        };
        for cpu in cpus {
            match all.add_cpu(pid, cpu, ring_bytes) {
                // A CPU that has gone offline meanwhile.
                Err(error) if error.errno() == Some(libc::ENODEV) => {}
                other => other?,
            }
        }
        Ok(all)
    }

    fn add_cpu(&mut self, pid: i32, cpu: u32, ring_bytes: usize) -> Result<(), SysError> {
        let begin = attributes(Kind::Begin, self.layout, self.sees_kernel);
        let ring = Ring::open(&begin, pid, cpu, ring_bytes)?;
        self.kinds.insert(perf::id(ring.event())?, Kind::Begin);
        for kind in [Kind::Minor, Kind::Major] {
            let attr = attributes(kind, self.layout, self.sees_kernel);
            let end = perf::open(&attr, pid, i32::try_from(cpu).unwrap_or(i32::MAX), None, 0)?;
            perf::redirect(end.as_fd(), ring.event())?;
            self.kinds.insert(perf::id(end.as_fd())?, kind);
            self._redirected.push(end);
        }
        self.rings.push(ring);
        Ok(())
    }

    /// Whether faults that the kernel takes for the program are recorded too.
    #[must_use]
    pub const fn sees_kernel(&self) -> bool {
        self.sees_kernel
    }

    /// Descriptors that become readable when a ring is a quarter full.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().map(Ring::event)
    }

    /// Empties the rings. Gives the events in the order of their time, all but the newest, which
    /// another CPU may still add to.
    pub fn drain(&mut self) -> Vec<Event> {
        let before = clock::now();
        self.collect();
        self.merge.release(before)
    }

    /// Empties the rings a last time and gives all that is left.
    pub fn finish(&mut self) -> Vec<Event> {
        self.collect();
        self.merge.release_all()
    }

    fn collect(&mut self) {
        for ring in &mut self.rings {
            let bytes = ring.drain();
            record::parse(&bytes, self.layout, &self.kinds, &mut |event| self.merge.add(event));
        }
    }
}

/// Size of each of `rings` rings: what locked memory allows, within bounds; the kernel has the
/// last word.
fn ring_bytes(rings: usize) -> usize {
    let unlimited = RING_BYTES.saturating_mul(rings);
    let limit = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    let limit = limit.map_or(unlimited, |bytes| usize::try_from(bytes).unwrap_or(unlimited));
    let share = (limit / rings.max(1)).clamp(LEAST_RING_BYTES, RING_BYTES);
    1 << share.ilog2()
}

fn attributes(kind: Kind, layout: Layout, sees_kernel: bool) -> perf_event_attr {
    let config = match kind {
        Kind::Begin => b::PERF_COUNT_SW_PAGE_FAULTS,
        Kind::Minor => b::PERF_COUNT_SW_PAGE_FAULTS_MIN,
        Kind::Major => b::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
    };
    let mut attr = event::attributes(b::PERF_TYPE_SOFTWARE, u64::from(config));
    attr.__bindgen_anon_1.sample_period = 1;
    attr.sample_type = u64::from(layout.sample_type(kind));
    attr.set_exclude_kernel(u64::from(!sees_kernel));
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_sample_id_all(1);
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = (LEAST_RING_BYTES / 4) as u32;
    if matches!(kind, Kind::Begin) {
        attr.sample_regs_user = layout.registers();
        attr.set_mmap(1);
        attr.set_mmap2(1);
        attr.set_mmap_data(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_task(1);
    }
    attr
}

fn refusal(error: &SysError) -> Refusal {
    let paranoid = || {
        let level = pagewise_kernel::machine::perf_event_paranoid();
        level.known().map_or(String::new(), |level| format!(" (it is {level})"))
    };
    let (why, help) = match error.errno() {
        Some(libc::EACCES | libc::EPERM) => (
            format!("perf events are refused to this account{}", paranoid()),
            "sysctl kernel.perf_event_paranoid=2, or CAP_PERFMON; in a container its seccomp \
             profile must allow perf_event_open",
        ),
        Some(libc::ENOSYS) => (
            "this kernel or container has no perf_event_open".to_owned(),
            "a kernel with CONFIG_PERF_EVENTS, or a seccomp profile that allows perf_event_open",
        ),
        Some(libc::EMFILE) => (
            "three events per CPU are more descriptors than this process may have".to_owned(),
            "ulimit -n with at least three times the number of CPUs",
        ),
        _ => (format!("page faults cannot be recorded: {error}"), "pagewise doctor"),
    };
    Refusal { why, help: help.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_what_unlocks_it() {
        let with = |errno| {
            let source = std::io::Error::from_raw_os_error(errno);
            refusal(&SysError::new("perf_event_open", "event", source)).help
        };
        assert!(with(libc::EPERM).contains("kernel.perf_event_paranoid=2"));
        assert!(with(libc::ENOSYS).contains("seccomp"));
        assert!(with(libc::EMFILE).contains("ulimit"));
        assert!(with(libc::EIO).contains("doctor"));
    }

    #[test]
    fn rings_are_a_power_of_two_within_bounds() {
        for cpus in [1, 2, 3, 64, 4096] {
            let bytes = ring_bytes(cpus);
            assert!(bytes.is_power_of_two(), "{bytes}");
            assert!((LEAST_RING_BYTES..=RING_BYTES).contains(&bytes), "{bytes}");
        }
    }
}
