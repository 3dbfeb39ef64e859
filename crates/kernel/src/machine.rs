//! The facts that identify a machine in a report: kernel, processor, pages, memory, account.
//!
//! They are read once, in less than a millisecond. A fact that cannot be read is missing with its reason. Not
//! seen: later changes (governor, THP mode).

use crate::proc::{cpuinfo, meminfo, read_number, read_text};
use crate::{affinity, cpuid, linker_cache, page_size, pipe, thp};
use pagewise_model::machine::Machine;
use pagewise_model::{Bytes, Fact};

/// This machine, kernel and account.
#[must_use]
pub fn machine() -> Machine {
    let uname = rustix::system::uname();
    let cpu_model = cpuinfo::read().map_or_else(|e| e.to_string(), |c| c.model_name);
    Machine {
        kernel: uname.release().to_string_lossy().into_owned(),
        arch: uname.machine().to_string_lossy().into_owned(),
        cpu_model,
        cpus: affinity::get(0).unwrap_or_default(),
        base_page_bytes: page_size::base(),
        huge_page_bytes: thp::huge_page_size().into(),
        memory_bytes: meminfo::read().map_or(Bytes(0), |m| m.total),
        thp_enabled: thp::enabled().into(),
        thp_defrag: thp::defrag().into(),
        small_folios: thp::small_folios().into(),
        hypervisor: hypervisor(),
        // pipe(7): the default, if the kernel does not report it.
        pipe_max_bytes: pipe::max_size().unwrap_or(Bytes::mib(1)),
        perf_event_paranoid: perf_event_paranoid(),
        uid: rustix::process::geteuid().as_raw(),
        allocator_libraries: linker_cache::allocators(),
    }
}

/// `kernel.perf_event_paranoid`.
#[must_use]
pub fn perf_event_paranoid() -> Fact<i64> {
    read_number("/proc/sys/kernel/perf_event_paranoid").into()
}

/// The hypervisor: from CPUID (x86), otherwise from the device tree.
#[must_use]
pub fn hypervisor() -> Option<String> {
    cpuid::hypervisor().or_else(|| {
        let name = read_text("/proc/device-tree/hypervisor/compatible").ok()?;
        Some(name.trim_end_matches('\0').to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_what_every_machine_has() {
        let machine = machine();
        assert!(!machine.cpus.is_empty());
        assert!(machine.memory_bytes > Bytes::mib(16));
        assert!(!machine.kernel.is_empty() && machine.kernel.contains('.'));
        assert_eq!(machine.arch, std::env::consts::ARCH);
    }
}
