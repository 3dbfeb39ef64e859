//! One repeat: one fresh pair of processes.

use crate::schema::JsonSchema;
use crate::units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The work and resource use of one end of the pipe, from the start to its last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct PipeEndUsage {
    /// Bytes that the end moved.
    pub bytes: Bytes,
    /// CPU time in user mode.
    pub user_ns: Nanos,
    /// CPU time in the kernel.
    pub sys_ns: Nanos,
    /// Times the end gave up the CPU to wait.
    pub voluntary_switches: u64,
    /// Times the CPU was taken away.
    pub involuntary_switches: u64,
    /// Page faults served without I/O.
    pub minor_faults: u64,
    /// Calls that move bytes, including those that moved none.
    pub calls: u64,
    /// Pipe slots that the bytes used: in the producer, the pages that the bytes of each call touch.
    pub slots: u64,
    /// Calls that returned because the other end was not ready.
    pub spins: u64,
    /// Time spent in repeated calls until the other end was ready; none in runs saved before this was
    /// measured.
    #[serde(default)]
    pub spun_ns: Option<Nanos>,
    /// Time in the end's own code on the bytes: writing them, including the faults that this takes, or
    /// reading them. None in runs saved before this was measured.
    #[serde(default)]
    pub own_ns: Option<Nanos>,
    /// Times the end decided to sleep: in poll(2), or in a call after it had spun.
    pub blocks: u64,
}

impl PipeEndUsage {
    /// CPU time, user and kernel.
    #[must_use]
    pub fn cpu_ns(&self) -> Nanos {
        self.user_ns + self.sys_ns
    }
}

/// One repeat of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipeSample {
    /// Number of the repeat, from 0.
    pub repeat: u32,
    /// Position of this repeat in the order in which all repeats of the ladder were run, from 0.
    pub place: u32,
    /// Bytes that went through the pipe.
    pub bytes: Bytes,
    /// Bytes that arrived while the clock ran: all except those whose arrival started it.
    pub timed_bytes: Bytes,
    /// Wall time from the arrival of the first bytes to that of the last.
    pub wall_ns: Nanos,
    /// The producer.
    pub writer: PipeEndUsage,
    /// The consumer.
    pub reader: PipeEndUsage,
}

impl PipeSample {
    /// Rate in GiB/s on the wall clock; none if no time passed.
    #[must_use]
    pub fn gib_per_s(&self) -> Option<f64> {
        let rate = gib(self.timed_bytes) / self.wall_ns.as_secs();
        rate.is_finite().then_some(rate)
    }

    /// CPU time of both ends, in seconds for each GiB.
    #[must_use]
    pub fn cpu_s_per_gib(&self) -> Option<f64> {
        let cpu = (self.writer.cpu_ns() + self.reader.cpu_ns()).as_secs();
        self.per_gib(cpu)
    }

    /// Times an end slept and was woken, for each GiB.
    #[must_use]
    pub fn wakeups_per_gib(&self) -> Option<f64> {
        self.per_gib((self.writer.voluntary_switches + self.reader.voluntary_switches) as f64)
    }

    /// Wall time for each slot of the pipe, in nanoseconds.
    #[must_use]
    pub fn ns_per_slot(&self) -> Option<f64> {
        let slots = self.writer.slots as f64 * self.timed_bytes.0 as f64 / self.bytes.0 as f64;
        let ns = self.wall_ns.0 as f64 / slots;
        ns.is_finite().then_some(ns)
    }

    fn per_gib(&self, value: f64) -> Option<f64> {
        let share = value / gib(self.bytes);
        share.is_finite().then_some(share)
    }
}

fn gib(bytes: Bytes) -> f64 {
    bytes.0 as f64 / Bytes::gib(1).0 as f64
}
