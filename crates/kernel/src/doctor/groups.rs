//! Probe: whether this account may create cgroups below its own (memory limits and pressure per experiment).

use super::answer::{answer_from, capability};
use crate::limits;
use pagewise_model::capability::{Capability, CapabilityAnswer};
use rustix::fs::Access;

/// Whether this process's cgroup (v2) is delegated to this account. Nothing is created: the kernel checks the
/// permissions of the directory.
pub(super) fn delegation() -> Capability {
    let answer = match limits::own_group() {
        None => CapabilityAnswer::No("no cgroup v2 hierarchy is mounted".into()),
        Some(dir) => match rustix::fs::access(&dir, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => CapabilityAnswer::Yes,
            Err(e) => answer_from(e.raw_os_error()),
        },
    };
    capability(
        "limits",
        "cgroup delegation",
        "a memory limit and pressure figures for each experiment",
        answer,
        Some("systemd-run --user --scope -p Delegate=yes pagewise ..."),
    )
}
