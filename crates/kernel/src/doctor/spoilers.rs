//! What disturbs measurements on this machine, each with advice.
//!
//! The judgements are pure functions of the data that was read; [`collect`] reads it. Threshold: a spoiler is
//! named if it can change a result by about one percent.

use super::{crowd, host};
use crate::error::SysError;
use crate::proc::pressure::{self, PressureResource, ResourcePressure};
use crate::proc::{meminfo, read_number, read_text, system_stat};
use crate::proc::{meminfo::MemInfo, system_stat::CpuTimes};
use crate::proc::{stat, tree};
use pagewise_model::Bytes;
use pagewise_model::capability::{Capability, CapabilityAnswer, MeasurementSpoiler};
use pagewise_model::machine::Machine;
use std::time::Duration;

/// How long to watch other processes.
const WATCH: Duration = Duration::from_millis(30);

pub(super) fn collect(
    machine: &Machine,
    capabilities: &[Capability],
    backing: &Result<f64, SysError>,
) -> Vec<MeasurementSpoiler> {
    let guest = machine.hypervisor.is_some();
    let memory_pressure = pressure::read(PressureResource::Memory);
    let found = [
        guest_without_counters(guest, capabilities),
        system_stat::read().ok().and_then(steal),
        machine.thp_enabled.known().and_then(|word| huge_by_default(word)),
        meminfo::read().ok().and_then(swap),
        memory_pressure.as_ref().ok().and_then(under_pressure),
        pressure_unseen(&memory_pressure),
        pressure_accounting(),
        governor(),
        turbo(),
        busy_neighbours(crowd::others_share(WATCH), machine.cpus.len()),
        taken_back(backing, &host::reclaiming_devices(), guest),
        damon(),
        read_number("/proc/sys/kernel/perf_event_max_sample_rate").ok().and_then(sample_rate),
        symbols(capabilities),
        mitigations(),
    ];
    found.into_iter().flatten().collect()
}

fn spoiler(what: impl Into<String>, remedy: &str) -> Option<MeasurementSpoiler> {
    Some(MeasurementSpoiler { what: what.into(), remedy: remedy.to_owned() })
}

fn absent(capabilities: &[Capability], name: &str) -> bool {
    capabilities.iter().any(|c| c.name == name && c.answer != CapabilityAnswer::Yes)
}

fn guest_without_counters(guest: bool, capabilities: &[Capability]) -> Option<MeasurementSpoiler> {
    if !guest || !absent(capabilities, "hardware counters") {
        return None;
    }
    spoiler(
        "a virtual machine without hardware counters: cycles in page walks cannot be counted",
        "address translation is bounded by a model and settled by the heap-huge arm",
    )
}

fn steal(times: CpuTimes) -> Option<MeasurementSpoiler> {
    let all = times.busy() + times.idle + times.steal;
    let share = times.steal.0 as f64 / all.0.max(1) as f64;
    if share < 0.001 {
        return None;
    }
    spoiler(
        format!("the hypervisor took {:.1}% of CPU time since boot", share * 100.0),
        "recorded with each block; use a dedicated machine for effects below 5%",
    )
}

fn huge_by_default(word: &str) -> Option<MeasurementSpoiler> {
    if word != "always" {
        return None;
    }
    spoiler(
        "transparent huge pages are on for all memory: the baseline gets them by chance",
        "heap-small shows what they cost; the receipt names the setting",
    )
}

fn swap(info: MemInfo) -> Option<MeasurementSpoiler> {
    let used = Bytes(info.swap_total.0.saturating_sub(info.swap_free.0));
    if used < Bytes::mib(1) {
        return None;
    }
    spoiler(
        format!("{used} of swap is in use: a major fault may come from swap instead of a file"),
        "swapoff -a, if memory is sufficient",
    )
}

fn under_pressure(pressure: &ResourcePressure) -> Option<MeasurementSpoiler> {
    if pressure.some.avg10_percent < 1.0 {
        return None;
    }
    spoiler(
        format!("memory pressure: {:.0}% of the last 10 s", pressure.some.avg10_percent),
        "free memory first; experiments stop when it rises",
    )
}

fn pressure_unseen(read: &Result<ResourcePressure, SysError>) -> Option<MeasurementSpoiler> {
    read.as_ref().err()?;
    spoiler(
        "this kernel does not account memory pressure",
        "boot with psi=1, unless profiles of wake-ups matter more",
    )
}

/// That this kernel accounts the time that tasks wait (PSI), if it does.
#[must_use]
pub fn pressure_accounting() -> Option<MeasurementSpoiler> {
    accounted(&pressure::read(PressureResource::Cpu))
}

fn accounted(read: &Result<ResourcePressure, SysError>) -> Option<MeasurementSpoiler> {
    read.as_ref().ok()?;
    spoiler("pressure-stall accounting is on: it takes part of each wake-up", "boot with psi=0")
}

fn governor() -> Option<MeasurementSpoiler> {
    let path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    let word = read_text(path).ok().filter(|w| w != "performance")?;
    spoiler(
        format!("the CPU governor is `{word}`: the clock follows the load"),
        "cpupower frequency-set -g performance",
    )
}

fn turbo() -> Option<MeasurementSpoiler> {
    let read = |path: &str| read_number(path).ok();
    let on = read("/sys/devices/system/cpu/intel_pstate/no_turbo") == Some(0)
        || read("/sys/devices/system/cpu/cpufreq/boost") == Some(1);
    if !on {
        return None;
    }
    spoiler(
        "turbo is on: the clock depends on temperature and on the load of other cores",
        "interleaved blocks cancel the drift; switch it off for absolute figures",
    )
}

fn busy_neighbours(share: Option<f64>, cpus: usize) -> Option<MeasurementSpoiler> {
    // The figures of running threads lag by up to a tick, so the sum may exceed the number of CPUs.
    let share = share.filter(|&s| s > 0.1)?.min(cpus as f64);
    spoiler(
        format!("other processes use {:.0}% of a CPU, of {cpus}", share * 100.0),
        "stop them, or keep them off two CPUs; blocks are interleaved, so slow drift cancels",
    )
}

fn taken_back(
    ratio: &Result<f64, SysError>,
    devices: &[String],
    guest: bool,
) -> Option<MeasurementSpoiler> {
    let seen = ratio.as_ref().is_ok_and(|&r| guest && r > host::SUSPECT_RATIO);
    let what = match (seen, ratio) {
        (true, Ok(ratio)) => format!(
            "the host takes free memory back: fresh memory took {ratio:.0} times as long to touch \
             as memory used before"
        ),
        _ if !devices.is_empty() => {
            format!("the host can take free memory back ({})", devices.join(", "))
        }
        _ => return None,
    };
    spoiler(what, "memory is touched and freed before each run, and the host's share is measured")
}

fn damon() -> Option<MeasurementSpoiler> {
    // Its settings are readable by root only; its kernel threads are visible to every account.
    let is_monitor = |pid: i32| stat::read(pid).is_ok_and(|s| s.comm.starts_with("kdamond"));
    if !tree::all().ok()?.into_iter().any(is_monitor) {
        return None;
    }
    spoiler(
        "DAMON is active: idle memory and unmapped file cache may be paged out within a minute",
        "pagewise keeps files of a session mapped and proves for each run that they are cached",
    )
}

fn sample_rate(rate: i64) -> Option<MeasurementSpoiler> {
    const DEFAULT: i64 = 100_000;
    if rate >= DEFAULT {
        return None;
    }
    spoiler(
        format!("the kernel lowered the sampling rate to {rate} Hz: its interrupts took too long"),
        "sysctl kernel.perf_event_max_sample_rate=100000",
    )
}

fn symbols(capabilities: &[Capability]) -> Option<MeasurementSpoiler> {
    if absent(capabilities, "kernel samples") || !absent(capabilities, "kernel symbols") {
        return None;
    }
    spoiler(
        "kernel symbols are hidden: samples have no function names",
        "sysctl kernel.kptr_restrict=0 kernel.perf_event_paranoid=1",
    )
}

fn mitigations() -> Option<MeasurementSpoiler> {
    let dir = std::fs::read_dir("/sys/devices/system/cpu/vulnerabilities").ok()?;
    let files = dir.flatten().filter_map(|e| {
        let name = e.file_name().to_string_lossy().into_owned();
        Some((name, read_text(e.path()).ok()?))
    });
    let costly = costly_mitigations(files.collect());
    if costly.is_empty() {
        return None;
    }
    spoiler(
        format!("mitigations make kernel entries more expensive: {}", costly.join(", ")),
        "prices are measured with them; results do not apply to a machine without them",
    )
}

/// Mitigations that act at each kernel entry or context switch, in order.
fn costly_mitigations(mut files: Vec<(String, String)>) -> Vec<String> {
    const MARKS: [&str; 4] = ["PTI", "Clear CPU buffers", "IBPB: always-on", "Safe RET"];
    files.retain(|(_, text)| MARKS.iter().any(|mark| text.contains(mark)));
    files.sort();
    files.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::super::answer::{answer_if, capability};
    use super::*;
    use pagewise_model::Nanos;

    fn have(name: &str, there: bool) -> Capability {
        capability("g", name, "x", answer_if(there, "no"), None)
    }

    #[test]
    fn counters_and_symbols() {
        let without = [have("hardware counters", false)];
        assert!(guest_without_counters(true, &without).is_some());
        assert!(guest_without_counters(false, &without).is_none());
        assert!(guest_without_counters(true, &[have("hardware counters", true)]).is_none());
        let hidden = [have("kernel samples", true), have("kernel symbols", false)];
        assert!(symbols(&hidden).is_some());
        assert!(symbols(&[have("kernel samples", false), have("kernel symbols", false)]).is_none());
    }

    #[test]
    fn shares() {
        let times =
            |steal| CpuTimes { idle: Nanos(1000), steal: Nanos(steal), ..CpuTimes::default() };
        assert!(steal(times(0)).is_none());
        assert!(steal(times(50)).unwrap().what.contains("4.8%"));
        assert!(busy_neighbours(Some(0.05), 2).is_none() && busy_neighbours(None, 2).is_none());
        assert!(busy_neighbours(Some(0.5), 2).unwrap().what.contains("50%"));
        assert!(busy_neighbours(Some(2.2), 2).unwrap().what.contains("200%"));
    }

    #[test]
    fn memory() {
        assert!(huge_by_default("madvise").is_none() && huge_by_default("always").is_some());
        let info =
            MemInfo { swap_total: Bytes::mib(9), swap_free: Bytes::mib(5), ..MemInfo::default() };
        assert!(swap(info).unwrap().what.starts_with("4.0 MiB"));
        assert!(swap(MemInfo::default()).is_none());
        let mut waiting = ResourcePressure::default();
        assert!(under_pressure(&waiting).is_none());
        waiting.some.avg10_percent = 20.0;
        assert!(under_pressure(&waiting).unwrap().what.contains("20%"));
        assert!(pressure_unseen(&Ok(waiting)).is_none());
        let refused = Err(SysError::new("read", "x", rustix::io::Errno::OPNOTSUPP));
        assert!(pressure_unseen(&refused).is_some() && accounted(&refused).is_none());
        assert_eq!(accounted(&Ok(waiting)).unwrap().remedy, "boot with psi=0");
    }

    #[test]
    fn memory_taken_back() {
        let balloon = ["virtio_balloon".to_owned()];
        assert!(taken_back(&Ok(1.0), &[], true).is_none());
        assert!(taken_back(&Ok(9.0), &[], false).is_none(), "not a guest");
        assert!(taken_back(&Ok(9.0), &balloon, true).unwrap().what.contains("9 times"));
        assert!(taken_back(&Ok(1.0), &balloon, true).unwrap().what.contains("can take"));
    }

    #[test]
    fn rates_and_mitigations() {
        assert!(sample_rate(100_000).is_none() && sample_rate(25_000).is_some());
        let files = [("meltdown", "Mitigation: PTI"), ("l1tf", "Not affected")];
        let files = files.map(|(a, b)| (a.to_owned(), b.to_owned())).to_vec();
        assert_eq!(costly_mitigations(files), ["meltdown"]);
    }
}
