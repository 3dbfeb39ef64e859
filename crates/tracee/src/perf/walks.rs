//! Hardware counts of page walks: cycles in user mode, and cycles with a walk active for data and
//! for instructions.
//!
//! Intel has counted "walk active" cycles since Haswell, under an event number that changed with Golden Cove.
//! AMD Zen counts walks (ls_tablewalker) but no cycles, so it gives no share of time, and the result says so.
//! The encoding is found by trying; if the machine refuses one, it does not have it. User mode only, so a
//! `kernel.perf_event_paranoid` of 2 suffices. The kernel may multiplex counters: counts are scaled by time
//! enabled over time running (perf_event_open(2), "Reading results"). Loads and stores may walk at the same
//! time, so the sum of both is limited to the cycles. No measurable overhead.

use super::event;
use pagewise_kernel::SysError;
use pagewise_kernel::perf::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_TYPE_HARDWARE, PERF_TYPE_RAW,
};
use pagewise_kernel::perf::{PerfCounter, hardware_refusal};
use pagewise_kernel::proc::cpuinfo::{self, CpuInfo};
use pagewise_model::Fact;
use pagewise_model::look::WalkCounts;

/// Raw encodings of the walk events of one generation: event | umask << 8 | threshold << 24.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WalkEvents {
    load: u64,
    store: u64,
    code: u64,
}

const fn walk_active(event: u64) -> u64 {
    event | 0x10 << 8 | 1 << 24
}

/// Golden Cove and later (Alder Lake, Sapphire Rapids, ...): events 12H, 13H, 11H.
const INTEL_NEW: WalkEvents =
    WalkEvents { load: walk_active(0x12), store: walk_active(0x13), code: walk_active(0x11) };
/// Haswell to Ice Lake: events 08H, 49H, 85H.
const INTEL_OLD: WalkEvents =
    WalkEvents { load: walk_active(0x08), store: walk_active(0x49), code: walk_active(0x85) };
/// Models of family 6 from Haswell to Rocket Lake that use the older numbers.
pub(super) const INTEL_OLD_MODELS: [u32; 27] = [
    60, 63, 69, 70, 61, 71, 79, 86, 78, 85, 94, 142, 158, 165, 166, 102, 106, 108, 125, 126, 157,
    140, 141, 167, 103, 104, 128,
];
/// Models of family 6 with Golden Cove or a later core.
pub(super) const INTEL_NEW_MODELS: [u32; 15] =
    [143, 207, 151, 154, 183, 186, 191, 170, 172, 173, 174, 189, 197, 198, 181];

/// Counters in progress.
#[derive(Debug)]
pub struct WalkCounters {
    cycles: PerfCounter,
    load: PerfCounter,
    store: PerfCounter,
    code: PerfCounter,
}

impl WalkCounters {
    /// Starts counting for `pid` and its descendants from its exec on, or says why not.
    pub fn attach(pid: i32) -> Fact<Self> {
        let cycles = match open(PERF_TYPE_HARDWARE, u64::from(PERF_COUNT_HW_CPU_CYCLES), pid) {
            Ok(cycles) => cycles,
            Err(error) => return Fact::Missing(hardware_refusal(&error)),
        };
        let events = match walk_events(&cpuinfo::read().unwrap_or_default()) {
            Fact::Known(events) => events,
            Fact::Missing(reason) => return Fact::Missing(reason),
        };
        let raw = |config| open(PERF_TYPE_RAW, config, pid);
        match (raw(events.load), raw(events.store), raw(events.code)) {
            (Ok(load), Ok(store), Ok(code)) => Fact::Known(Self { cycles, load, store, code }),
            (Err(error), ..) | (_, Err(error), _) | (.., Err(error)) => {
                Fact::Missing(format!("page walk events: {}", hardware_refusal(&error)))
            }
        }
    }

    /// Reads the totals.
    pub fn finish(self) -> Fact<WalkCounts> {
        let counts = || {
            let cycles = read_scaled(&self.cycles)?;
            let data = read_scaled(&self.load)?.saturating_add(read_scaled(&self.store)?);
            Some(WalkCounts {
                cycles,
                data_walk_cycles: data.min(cycles),
                code_walk_cycles: read_scaled(&self.code)?.min(cycles),
            })
        };
        match counts() {
            Some(counts) if counts.cycles > 0 => Fact::Known(counts),
            _ => Fact::missing("hardware counters were open but never ran"),
        }
    }
}

fn walk_events(cpu: &CpuInfo) -> Fact<WalkEvents> {
    let (family, model) = (cpu.family.unwrap_or(0), cpu.model.unwrap_or(0));
    match cpu.vendor.as_str() {
        "GenuineIntel" if family > 15 || family == 6 && INTEL_NEW_MODELS.contains(&model) => {
            Fact::Known(INTEL_NEW)
        }
        "GenuineIntel" if family == 6 && INTEL_OLD_MODELS.contains(&model) => {
            Fact::Known(INTEL_OLD)
        }
        "AuthenticAMD" | "HygonGenuine" => {
            Fact::missing("AMD processors count page walks, but not the cycles they take")
        }
        _ => Fact::Missing(format!(
            "no page walk events are known for this processor (vendor {:?}, family {family}, model {model})",
            cpu.vendor
        )),
    }
}

pub(super) fn open(kind: u32, config: u64, pid: i32) -> Result<PerfCounter, SysError> {
    PerfCounter::open(&event::attributes(kind, config), pid, -1)
}

/// The count, scaled to the whole enabled time; `None` if it never ran.
pub(super) fn read_scaled(counter: &PerfCounter) -> Option<u64> {
    let count = counter.read().ok()?.scaled()?;
    Some(count.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(vendor: &str, family: u32, model: u32) -> CpuInfo {
        let (family, model) = (Some(family), Some(model));
        CpuInfo { vendor: vendor.to_owned(), family, model, ..CpuInfo::default() }
    }

    #[test]
    fn events_follow_the_generation() {
        assert_eq!(walk_events(&cpu("GenuineIntel", 6, 85)), Fact::Known(INTEL_OLD));
        assert_eq!(walk_events(&cpu("GenuineIntel", 6, 143)), Fact::Known(INTEL_NEW));
        assert_eq!(walk_events(&cpu("GenuineIntel", 18, 1)), Fact::Known(INTEL_NEW));
        assert!(walk_events(&cpu("GenuineIntel", 6, 15)).reason().is_some());
        for model in [0, 3, 85, 143] {
            assert!(walk_events(&cpu("GenuineIntel", 15, model)).reason().is_some(), "NetBurst");
            assert!(walk_events(&cpu("GenuineIntel", 5, model)).reason().is_some());
        }
        assert!(walk_events(&cpu("AuthenticAMD", 26, 2)).reason().unwrap().contains("AMD"));
        assert!(walk_events(&CpuInfo::default()).reason().is_some());
    }

    #[test]
    fn encodings_are_those_of_the_manual() {
        assert_eq!(INTEL_OLD.load, 0x0100_1008);
        assert_eq!(INTEL_NEW.code, 0x0100_1011);
        assert!(INTEL_OLD_MODELS.iter().all(|m| !INTEL_NEW_MODELS.contains(m)));
    }
}
