//! What all events attached to a program have in common, and what refusals mean.
//!
//! `EACCES` and `EPERM`: the account may not use this event (with kernel frames: `kernel.perf_event_paranoid`
//! above 1 without CAP_PERFMON). `ENOENT`, `ENODEV` and `EOPNOTSUPP`: the machine has no such event.
//! `EINVAL`: it does not know the encoding.

use pagewise_kernel::perf::{self, attr, bindings, perf_event_attr};
use pagewise_kernel::proc::status::parse_list;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Event `config` of type `kind` in user mode: off until exec, inherited by threads and children.
pub(super) fn attributes(kind: u32, config: u64) -> perf_event_attr {
    let mut attr = attr(kind, config);
    attr.set_enable_on_exec(1);
    attr.set_inherit(1);
    attr
}

/// Like [`attributes`], with records that can be identified and ordered by time. Enabled at exec, or at once.
pub(super) fn followed(kind: u32, config: u64, on_exec: bool) -> perf_event_attr {
    let mut attr = attributes(kind, config);
    if !on_exec {
        attr.set_enable_on_exec(0);
        attr.set_disabled(0);
    }
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_sample_id_all(1);
    attr
}

/// Makes `attr` also report code mappings, names, execs, forks and exits.
pub(super) fn tell_of_processes(attr: &mut perf_event_attr) {
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
}

/// RBX, RBP, RSP and RIP, in the order of a sample (arch/x86/include/uapi/asm/perf_regs.h).
const REGISTERS: u64 = 1 << 1 | 1 << 6 | 1 << 7 | 1 << 8;

/// Makes the samples of `attr` end with the registers that a stack walk needs, and with the innermost `bytes`
/// of the stack. x86-64 only.
pub(super) fn copy_stacks(attr: &mut perf_event_attr, bytes: u32) {
    attr.sample_type |=
        u64::from(bindings::PERF_SAMPLE_REGS_USER | bindings::PERF_SAMPLE_STACK_USER);
    attr.sample_regs_user = REGISTERS;
    attr.sample_stack_user = bytes;
}

/// Numbers of the online CPUs (`/sys/devices/system/cpu/online`); CPU 0 if that cannot be read.
pub(super) fn online_cpus() -> Vec<u32> {
    let cpus = parse_list(&std::fs::read("/sys/devices/system/cpu/online").unwrap_or_default());
    if cpus.is_empty() { vec![0] } else { cpus }
}

/// An event of this process that never counts. Other events write into its ring, so the ring survives their
/// threads. Readable when a quarter of `least_bytes`, its minimum size, is full.
pub(super) fn ring(least_bytes: usize) -> perf_event_attr {
    let mut attr = perf::software(bindings::PERF_COUNT_SW_DUMMY);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = u32::try_from(least_bytes / 4).unwrap_or(u32::MAX);
    attr
}

/// Raises the descriptor limit to its maximum: each thread needs several descriptors per CPU.
pub(super) fn allow_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, ..limit };
    // If that fails, the kernel refuses the events that do not fit, and that is reported.
    let _kept = setrlimit(Resource::Nofile, most);
}
