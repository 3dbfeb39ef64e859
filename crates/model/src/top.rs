//! The processes of a host that pay for pages, in one sample over an interval.

use crate::prediction::GainPrediction;
use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// One process over the interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopProcess {
    pub pid: i32,
    /// Name of its main thread.
    pub name: String,
    /// CPU time divided by wall time; above 1 if several threads ran.
    pub cpus: f64,
    /// Faults without I/O per second.
    pub minor_per_second: f64,
    /// Faults with I/O per second.
    pub major_per_second: f64,
    /// Cost of its minor faults at a usual price, as a share of one CPU.
    pub fault_cpus: f64,
    /// Resident set; absent if this account may not see it.
    pub resident_bytes: Option<Bytes>,
    /// Part of it that is anonymous.
    pub anonymous_bytes: Option<Bytes>,
    /// Memory of its page tables.
    pub table_bytes: Option<Bytes>,
    /// Anonymous memory on huge pages.
    pub huge_bytes: Option<Bytes>,
    /// What huge pages for its heap will probably gain if its faults are those of its heap; absent if they cost
    /// little, or if its allocator has no switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<GainPrediction>,
}

impl TopProcess {
    /// Share of its anonymous memory on huge pages.
    #[must_use]
    pub fn huge_share(&self) -> Option<f64> {
        let (huge, all) = (self.huge_bytes?, self.anonymous_bytes?);
        (all.0 > 0).then(|| huge.0 as f64 / all.0 as f64)
    }
}

/// Counters of the host since boot (/proc/vmstat); absent if this kernel has none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostCounts {
    /// Page faults (`pgfault`).
    pub faults: Option<u64>,
    /// Page faults with I/O (`pgmajfault`).
    pub major: Option<u64>,
    /// Huge pages allocated at faults (`thp_fault_alloc`).
    pub huge: Option<u64>,
    /// Faults that wanted a huge page and found none free (`thp_fault_fallback`).
    pub huge_refused: Option<u64>,
}

/// The whole host over the interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopHost {
    /// Counters at the end of the interval.
    pub counts: HostCounts,
    /// Faults per second (`pgfault` of /proc/vmstat).
    pub faults_per_second: Option<f64>,
    /// Faults with I/O per second (`pgmajfault`).
    pub major_per_second: Option<f64>,
    /// Huge pages allocated at faults, per second (`thp_fault_alloc`).
    pub huge_per_second: Option<f64>,
    /// Installed memory.
    pub memory_bytes: Option<Bytes>,
    /// Memory that programs can get without swapping.
    pub available_bytes: Option<Bytes>,
    /// Memory of the page tables of all processes.
    pub table_bytes: Option<Bytes>,
    /// Share of the last 10 s, in percent, in which some task waited for memory.
    pub pressure_percent: Option<f64>,
}

/// One sample.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TopSample {
    pub interval_ns: Nanos,
    /// Number of processes at its end.
    pub processes: u32,
    pub host: TopHost,
    /// The processes that pay most, the most expensive first.
    pub rows: Vec<TopProcess>,
    /// CPU time that this sample took.
    pub own_cpu_ns: Nanos,
}
