//! What all events attached to a program have in common, and what their refusals mean.
//!
//! `EACCES` and `EPERM` mean that the account may not have this event (with kernel frames:
//! `kernel.perf_event_paranoid` above 1 without CAP_PERFMON); `ENOENT`, `ENODEV` and `EOPNOTSUPP`
//! that the machine has no such event; `EINVAL` that it does not know the encoding.

use pagewise_kernel::perf::{attr, perf_event_attr};
use pagewise_kernel::proc::status::parse_list;

/// Event `config` of type `kind` in user mode: off until exec, inherited by threads and children.
pub(super) fn attributes(kind: u32, config: u64) -> perf_event_attr {
    let mut attr = attr(kind, config);
    attr.set_enable_on_exec(1);
    attr.set_inherit(1);
    attr
}

/// Numbers of the online CPUs (`/sys/devices/system/cpu/online`); CPU 0 where that is unreadable.
pub(super) fn online_cpus() -> Vec<u32> {
    let cpus = parse_list(&std::fs::read("/sys/devices/system/cpu/online").unwrap_or_default());
    if cpus.is_empty() { vec![0] } else { cpus }
}
