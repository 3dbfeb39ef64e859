//! Hardware counts of instructions and of misses of the TLB for code, in user mode.
//!
//! The generic event `iTLB-load-misses` means another thing on each processor: walks of the page table on Intel
//! and AMD, misses of the first level on Arm. So the processor's own events ([`EVENTS`]) stand beside it. An
//! event that the machine refuses is left out. The kernel may multiplex counters; counts are scaled as those of
//! [`super::walks`]. Speculative fetches count too. No measurable overhead.

use super::walks::{INTEL_NEW_MODELS, INTEL_OLD_MODELS, open, read_scaled};
use pagewise_kernel::perf::bindings::{
    PERF_COUNT_HW_CACHE_ITLB, PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS,
    PERF_COUNT_HW_INSTRUCTIONS, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW,
};
use pagewise_kernel::perf::{PerfCounter, hardware_refusal};
use pagewise_kernel::proc::cpuinfo::{self, CpuInfo};
use pagewise_model::Fact;
use pagewise_model::code_tlb::{CodeMissCounts, CountedEvent};

/// The generic event.
const GENERIC: &str = "iTLB-load-misses";
/// Models of family 6 with a Haswell or Broadwell core, which count hits of the second level by page size.
const INTEL_HASWELL_MODELS: [u32; 8] = [60, 63, 69, 70, 61, 71, 79, 86];

/// A family of processors with their own events of the TLB for code.
struct CodeEvents {
    /// Whether a processor belongs to it.
    has: fn(&CpuInfo) -> bool,
    /// First-level misses that the second level serves, and those that it does not: name, event | umask << 8.
    events: [(&'static str, u64); 2],
}

/// Events by processor, from Linux: `tools/perf/pmu-events/arch/x86/*/virtual-memory.json` (Intel),
/// `arch/x86/events/amd/core.c` (Zen), `include/linux/perf/arm_pmuv3.h` (Arm). The first line that fits counts.
const EVENTS: [CodeEvents; 5] = [
    CodeEvents {
        has: |cpu| is_intel(cpu, &INTEL_HASWELL_MODELS),
        events: [("ITLB_MISSES.STLB_HIT", 0x6085), ("ITLB_MISSES.WALK_COMPLETED", 0x0e85)],
    },
    CodeEvents {
        has: |cpu| is_intel(cpu, &INTEL_OLD_MODELS),
        events: [("ITLB_MISSES.STLB_HIT", 0x2085), ("ITLB_MISSES.WALK_COMPLETED", 0x0e85)],
    },
    CodeEvents {
        has: |cpu| is_intel(cpu, &INTEL_NEW_MODELS) || is_intel_after_6(cpu),
        events: [("ITLB_MISSES.STLB_HIT", 0x2011), ("ITLB_MISSES.WALK_COMPLETED", 0x0e11)],
    },
    CodeEvents {
        has: |cpu| {
            matches!(&*cpu.vendor, "AuthenticAMD" | "HygonGenuine") && cpu.family >= Some(0x17)
        },
        events: [("bp_l1_tlb_miss_l2_tlb_hit", 0x0084), ("bp_l1_tlb_miss_l2_tlb_miss", 0xff85)],
    },
    CodeEvents {
        has: |_| cfg!(target_arch = "aarch64"),
        events: [("l1i_tlb_refill", 0x02), ("itlb_walk", 0x35)],
    },
];

fn is_intel(cpu: &CpuInfo, models: &[u32]) -> bool {
    let model = cpu.model.is_some_and(|model| models.contains(&model));
    cpu.vendor == "GenuineIntel" && cpu.family == Some(6) && model
}

fn is_intel_after_6(cpu: &CpuInfo) -> bool {
    cpu.vendor == "GenuineIntel" && cpu.family > Some(15)
}

fn own_events(cpu: &CpuInfo) -> &'static [(&'static str, u64)] {
    EVENTS.iter().find(|line| (line.has)(cpu)).map_or(&[], |line| &line.events)
}

/// Counters in progress.
#[derive(Debug)]
pub struct CodeMissCounters {
    instructions: PerfCounter,
    events: Vec<(&'static str, PerfCounter)>,
}

impl CodeMissCounters {
    /// Starts counting for `pid` and its descendants from its exec on, or says why not.
    pub fn attach(pid: i32) -> Fact<Self> {
        let count = u64::from(PERF_COUNT_HW_INSTRUCTIONS);
        let instructions = match open(PERF_TYPE_HARDWARE, count, pid) {
            Ok(instructions) => instructions,
            Err(error) => return Fact::Missing(hardware_refusal(&error)),
        };
        let generic = PERF_COUNT_HW_CACHE_ITLB
            | PERF_COUNT_HW_CACHE_OP_READ << 8
            | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
        let own = own_events(&cpuinfo::read().unwrap_or_default());
        let own = own.iter().map(|&(name, config)| (name, PERF_TYPE_RAW, config));
        let all = std::iter::once((GENERIC, PERF_TYPE_HW_CACHE, u64::from(generic))).chain(own);
        let opened =
            all.filter_map(|(name, kind, config)| Some((name, open(kind, config, pid).ok()?)));
        match opened.collect::<Vec<_>>() {
            none if none.is_empty() => {
                Fact::missing("no event of the TLB for code on this machine")
            }
            events => Fact::Known(Self { instructions, events }),
        }
    }

    /// Reads the totals.
    pub fn finish(self) -> Fact<CodeMissCounts> {
        let counted = |(name, counter): &(&str, PerfCounter)| {
            Some(CountedEvent { name: (*name).to_owned(), count: read_scaled(counter)? })
        };
        let events: Vec<CountedEvent> = self.events.iter().filter_map(counted).collect();
        match read_scaled(&self.instructions).filter(|all| *all > 0 && !events.is_empty()) {
            Some(instructions) => Fact::Known(CodeMissCounts { instructions, events }),
            None => Fact::missing("hardware counters were open but never ran"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs(vendor: &str, family: u32, model: u32) -> Vec<u64> {
        let (family, model) = (Some(family), Some(model));
        let cpu = CpuInfo { vendor: vendor.to_owned(), family, model, ..CpuInfo::default() };
        own_events(&cpu).iter().map(|(_, config)| *config).collect()
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn events_follow_the_processor() {
        assert_eq!(configs("GenuineIntel", 6, 79), [0x6085, 0x0e85], "Broadwell");
        assert_eq!(configs("GenuineIntel", 6, 85), [0x2085, 0x0e85], "Skylake");
        assert_eq!(configs("GenuineIntel", 6, 143), [0x2011, 0x0e11], "Sapphire Rapids");
        assert_eq!(configs("GenuineIntel", 18, 1), [0x2011, 0x0e11]);
        assert_eq!(configs("AuthenticAMD", 26, 2), [0x0084, 0xff85]);
        assert!(configs("AuthenticAMD", 16, 2).is_empty() && configs("", 6, 85).is_empty());
    }

    #[test]
    #[allow(clippy::print_stdout, reason = "a skipped test says so")]
    fn a_program_has_counts_or_there_is_a_reason() {
        match CodeMissCounters::attach(0) {
            Fact::Known(counters) => assert!(!counters.events.is_empty()),
            Fact::Missing(why) => {
                assert!(why.contains("counters") || why.contains("TLB"), "{why}");
                println!("SKIP a_program_has_counts_or_there_is_a_reason: {why}");
            }
        }
    }
}
