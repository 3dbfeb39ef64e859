//! `perf_event_open(2)`: attributes, opening, and counters read by `read(2)`.
//!
//! Rings and samples of other processes are in `tracee`. A counter shares the hardware with others. The
//! kernel reports how long it was enabled and how long it ran, and [`CounterReading::scaled`] extrapolates the
//! count. Software events always run. Opening costs about 5 us, a read 1 us.

use crate::error::SysError;
use crate::proc::cpuinfo;
use pagewise_model::Nanos;
use perf_event_open_sys as sys;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

pub use perf_event_open_sys::bindings;
pub use perf_event_open_sys::bindings::perf_event_attr;

/// An attribute for event `config` of type `kind`, counting user mode only, off until enabled.
#[must_use]
pub fn attr(kind: u32, config: u64) -> perf_event_attr {
    let mut attr = perf_event_attr {
        type_: kind,
        size: size_of::<perf_event_attr>() as u32,
        config,
        read_format: u64::from(
            bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..perf_event_attr::default()
    };
    attr.set_disabled(1);
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr
}

/// An attribute for a software event (`PERF_COUNT_SW_*`).
#[must_use]
pub fn software(config: u32) -> perf_event_attr {
    attr(bindings::PERF_TYPE_SOFTWARE, u64::from(config))
}

/// An attribute for a hardware event (`PERF_COUNT_HW_*`).
#[must_use]
pub fn hardware(config: u32) -> perf_event_attr {
    attr(bindings::PERF_TYPE_HARDWARE, u64::from(config))
}

/// Opens an event on `pid` (0: the caller, -1: all) and `cpu` (-1: any), closed at exec.
pub fn open(
    attr: &perf_event_attr,
    pid: i32,
    cpu: i32,
    group_fd: Option<BorrowedFd<'_>>,
    flags: u64,
) -> Result<OwnedFd, SysError> {
    // The kernel writes its own size to the attribute when it refuses with E2BIG.
    let mut attr = *attr;
    let group = group_fd.map_or(-1, |fd| fd.as_raw_fd());
    let flags = flags | u64::from(bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: `attr` is a local, complete perf_event_attr whose size its constructor has set. The event
    // changes no memory of this process.
    let fd = unsafe { sys::perf_event_open(&raw mut attr, pid, cpu, group, flags) };
    if fd < 0 {
        let (kind, config) = (attr.type_, attr.config);
        let subject = format!("event {kind}:{config:#x} of process {pid}, cpu {cpu}");
        return Err(SysError::last("perf_event_open", subject));
    }
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// [`open`], for an event that also counts its records without room in a ring (Linux 6.0; [`lost_records`]).
pub fn open_counting_lost(attr: &perf_event_attr, pid: i32, cpu: i32) -> Result<OwnedFd, SysError> {
    let read_format = attr.read_format | u64::from(bindings::PERF_FORMAT_LOST);
    match open(&perf_event_attr { read_format, ..*attr }, pid, cpu, None, 0) {
        Err(error) if error.errno() == Some(libc::EINVAL) => open(attr, pid, cpu, None, 0),
        opened => opened,
    }
}

/// Records of `event` and of its inherited copies that found no room in a ring. 0 if the kernel does not count
/// them.
#[must_use]
pub fn lost_records(event: BorrowedFd<'_>) -> u64 {
    // After the count and the two times of [`attr`].
    let mut bytes = [0u8; 32];
    match rustix::io::read(event, &mut bytes) {
        Ok(32) => u64::from_ne_bytes(*bytes.last_chunk().unwrap_or(&[0; 8])),
        _ => 0,
    }
}

/// Why a hardware event is not available, in words.
#[must_use]
pub fn hardware_refusal(error: &SysError) -> String {
    let in_guest = cpuinfo::read().is_ok_and(|cpu| cpu.has("hypervisor"));
    match error.errno() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) if in_guest => {
            "no hardware counters in this virtual machine".to_owned()
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => {
            "no such hardware counters on this machine".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => "hardware counters are refused to this account; \
            `sysctl kernel.perf_event_paranoid=2` or CAP_PERFMON allows them"
            .to_owned(),
        _ => format!("hardware counters: {error}"),
    }
}

/// Redirects the records of `event` to the ring of `target`, which has the same task and CPU.
pub fn redirect(event: BorrowedFd<'_>, target: BorrowedFd<'_>) -> Result<(), SysError> {
    // SAFETY: both are open perf events, and the argument is a number, not a pointer.
    let done = unsafe { sys::ioctls::SET_OUTPUT(event.as_raw_fd(), target.as_raw_fd()) };
    if done == 0 { Ok(()) } else { Err(SysError::last("PERF_EVENT_IOC_SET_OUTPUT", "perf event")) }
}

/// The number that names `event` and its inherited copies in records.
pub fn id(event: BorrowedFd<'_>) -> Result<u64, SysError> {
    let mut id = 0;
    // SAFETY: `event` is an open perf event, and the kernel writes one u64 into the live local.
    let done = unsafe { sys::ioctls::ID(event.as_raw_fd(), &raw mut id) };
    if done == 0 { Ok(id) } else { Err(SysError::last("PERF_EVENT_IOC_ID", "perf event")) }
}

/// A count, with the times that show how much of the run it covers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CounterReading {
    /// Events counted.
    pub value: u64,
    /// Time in which the event was enabled.
    pub enabled: Nanos,
    /// Time in which it was on the hardware.
    pub running: Nanos,
}

impl CounterReading {
    /// The count extrapolated to the whole enabled time; `None` if it was enabled but never on the hardware.
    #[must_use]
    pub fn scaled(self) -> Option<f64> {
        match (self.enabled.0, self.running.0) {
            (0, _) => Some(self.value as f64),
            (_, 0) => None,
            (enabled, running) => Some(self.value as f64 * (enabled as f64 / running as f64)),
        }
    }
}

/// An open event that counts.
#[derive(Debug)]
pub struct PerfCounter {
    fd: OwnedFd,
}

impl PerfCounter {
    /// Opens a counter. `attr` must come from [`attr`], whose read format this type expects.
    pub fn open(attr: &perf_event_attr, pid: i32, cpu: i32) -> Result<Self, SysError> {
        open(attr, pid, cpu, None, 0).map(|fd| Self { fd })
    }

    /// Starts counting.
    pub fn enable(&self) -> Result<(), SysError> {
        self.control("PERF_EVENT_IOC_ENABLE", sys::ioctls::ENABLE)
    }

    /// Stops counting.
    pub fn disable(&self) -> Result<(), SysError> {
        self.control("PERF_EVENT_IOC_DISABLE", sys::ioctls::DISABLE)
    }

    fn control(
        &self,
        call: &'static str,
        ioctl: unsafe fn(i32, u32) -> i32,
    ) -> Result<(), SysError> {
        // SAFETY: `fd` is an open perf event, and both requests take a number, not a pointer.
        let done = unsafe { ioctl(self.fd.as_raw_fd(), 0) };
        if done == 0 { Ok(()) } else { Err(SysError::last(call, "perf event")) }
    }

    /// The count now.
    pub fn read(&self) -> Result<CounterReading, SysError> {
        let mut bytes = [0u8; 24];
        let len = rustix::io::read(&self.fd, &mut bytes)
            .map_err(|e| SysError::new("read", "perf event", e))?;
        // A pinned event that could not be put on the hardware reads as end of file.
        parse(&bytes[..len]).ok_or_else(|| SysError::malformed("read", "perf event"))
    }
}

fn parse(bytes: &[u8]) -> Option<CounterReading> {
    let word = |i: usize| bytes.get(8 * i..8 * i + 8)?.try_into().ok().map(u64::from_ne_bytes);
    Some(CounterReading { value: word(0)?, enabled: Nanos(word(1)?), running: Nanos(word(2)?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaling() {
        let reading = |value, enabled, running| CounterReading {
            value,
            enabled: Nanos(enabled),
            running: Nanos(running),
        };
        assert_eq!(reading(10, 100, 50).scaled(), Some(20.0));
        assert_eq!(reading(10, 100, 100).scaled(), Some(10.0));
        assert_eq!(reading(0, 0, 0).scaled(), Some(0.0));
        assert_eq!(reading(0, 100, 0).scaled(), None);
    }

    #[test]
    fn short_reads_are_refused() {
        assert_eq!(parse(&[0; 23]), None);
        assert_eq!(parse(&[]), None);
        assert!(parse(&[0; 24]).is_some());
    }

    #[test]
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    fn counts_own_faults() {
        use crate::region::{MemoryRegion, RegionPages};
        let counter = match PerfCounter::open(&software(bindings::PERF_COUNT_SW_PAGE_FAULTS), 0, -1)
        {
            Ok(counter) => counter,
            Err(error) => {
                eprintln!("SKIP counts_own_faults: {error}");
                return;
            }
        };
        let mut region =
            MemoryRegion::new(pagewise_model::Bytes::mib(1), RegionPages::Base).unwrap();
        counter.enable().unwrap();
        let pages = region.touch(pagewise_model::Bytes(crate::page_size::base().bytes()));
        counter.disable().unwrap();
        let counted = counter.read().unwrap();
        assert!(counted.value >= pages && counted.value < pages + 64, "{counted:?} for {pages}");
    }
}
