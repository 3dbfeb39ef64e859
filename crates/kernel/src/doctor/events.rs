//! Probes: perf events, tracepoints, kernel symbols. Each opens one event on this process and closes it
//! again.

use super::answer::{answer_if, answer_of, capability};
use crate::error::SysError;
use crate::kallsyms;
use crate::perf::{self, bindings, perf_event_attr};
use crate::proc::read_number;
use pagewise_model::capability::{Capability, CapabilityAnswer};

const GROUP: &str = "perf events";
const PARANOID: &str = "sysctl kernel.perf_event_paranoid=1, or setcap cap_perfmon+ep on pagewise";

pub(super) fn probe() -> Vec<Capability> {
    vec![
        software(),
        kernel_samples(),
        hardware(),
        tracepoints(),
        capability(
            GROUP,
            "kernel symbols",
            "names of the kernel functions that used the time",
            symbols_answer(kallsyms::are_shown()),
            Some("sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1, or CAP_SYSLOG"),
        ),
    ]
}

fn try_open(attr: &perf_event_attr) -> Result<(), SysError> {
    perf::open(attr, 0, -1, None, 0).map(drop)
}

fn software() -> Capability {
    capability(
        GROUP,
        "software events",
        "counts of page faults and context switches, and each fault with its address",
        answer_of(&try_open(&perf::software(bindings::PERF_COUNT_SW_PAGE_FAULTS))),
        Some("sysctl kernel.perf_event_paranoid=2; in a container: allow perf_event_open"),
    )
}

fn kernel_samples() -> Capability {
    let mut attr = perf::software(bindings::PERF_COUNT_SW_CPU_CLOCK);
    attr.set_exclude_kernel(0);
    capability(
        GROUP,
        "kernel samples",
        "where kernel time goes: zeroing, copying, faults, reclaim",
        answer_of(&try_open(&attr)),
        Some(PARANOID),
    )
}

fn hardware() -> Capability {
    capability(
        GROUP,
        "hardware counters",
        "cycles of page walks, so that address translation is measured instead of bounded",
        hardware_answer(&try_open(&perf::hardware(bindings::PERF_COUNT_HW_CPU_CYCLES))),
        Some("in a virtual machine: a virtual PMU from the host (QEMU: -cpu host,pmu=on)"),
    )
}

fn hardware_answer(result: &Result<(), SysError>) -> CapabilityAnswer {
    match result {
        Err(e) if matches!(e.errno(), Some(libc::ENOENT | libc::EOPNOTSUPP)) => {
            CapabilityAnswer::No(
                "the processor offers no counters here (usual in a virtual machine)".into(),
            )
        }
        other => answer_of(other),
    }
}

fn tracepoints() -> Capability {
    let id = tracepoint_id("sched/sched_switch");
    let opened = id.and_then(|id| try_open(&perf::attr(bindings::PERF_TYPE_TRACEPOINT, id)));
    capability(
        GROUP,
        "tracepoints",
        "exact counts of wake-ups, allocations and reclaim",
        answer_of(&opened),
        Some("mount -t tracefs nodev /sys/kernel/tracing, and as root or with CAP_PERFMON"),
    )
}

/// Number of a tracepoint, from tracefs at either of its usual places.
fn tracepoint_id(name: &str) -> Result<u64, SysError> {
    let first = format!("/sys/kernel/tracing/events/{name}/id");
    let read = |path: &str| read_number(path).map(i64::unsigned_abs);
    read(&first).or_else(|error| {
        read(&format!("/sys/kernel/debug/tracing/events/{name}/id")).map_err(|_| error)
    })
}

fn symbols_answer(readable: Result<bool, SysError>) -> CapabilityAnswer {
    match readable {
        Ok(readable) => answer_if(readable, "the addresses are hidden from this account"),
        Err(_) => answer_of(&readable),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn answers_of_the_counters() {
        let refused = |errno: Errno| hardware_answer(&Err(SysError::new("x", "y", errno)));
        assert!(
            matches!(refused(Errno::NOENT), CapabilityAnswer::No(why) if why.contains("virtual"))
        );
        assert!(matches!(refused(Errno::NOSYS), CapabilityAnswer::No(_)));
        assert!(matches!(refused(Errno::IO), CapabilityAnswer::Unknown(_)));
        assert_eq!(hardware_answer(&Ok(())), CapabilityAnswer::Yes);
    }

    #[test]
    fn hidden_symbols_are_a_no() {
        assert!(matches!(symbols_answer(Ok(false)), CapabilityAnswer::No(_)));
        assert_eq!(symbols_answer(Ok(true)), CapabilityAnswer::Yes);
    }
}
