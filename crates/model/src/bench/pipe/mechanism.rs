//! How a pipe works, shown on a live one: its ring of slots, and what each part of the mechanism costs.

use crate::bench::ClaimFigure;
use crate::measured::{Fact, Measured};
use crate::schema::JsonSchema;
use crate::units::Bytes;
use serde::{Deserialize, Serialize};

/// The state of a pipe after a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipeFillStep {
    /// The call: `write 100 B`.
    pub call: String,
    /// Bytes in the pipe (FIONREAD).
    pub held_bytes: Bytes,
    /// Slots filled since the pipe was made: those occupied and those emptied. The kernel does not show it.
    /// Occupied are all slots but those that still take a byte each.
    pub head: u64,
    /// Slots emptied since the pipe was made.
    pub tail: u64,
}

/// The mechanism of a pipe, step by step. Prices are nanoseconds, medians over rounds of all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PipeMechanism {
    /// Capacity (F_GETPIPE_SZ).
    pub capacity_bytes: Bytes,
    /// Slots of the ring: base pages of the capacity.
    pub slots: u64,
    pub fill: Vec<PipeFillStep>,
    /// A page more to write and read, of those that the pipe keeps.
    pub kept_page_ns: Fact<Measured>,
    /// The same page if it is allocated, charged and freed, beyond a kept one.
    pub new_page_ns: Fact<Measured>,
    /// A page more to pass by vmsplice(2) and discard, within a batch of 16.
    pub lent_page_ns: Fact<Measured>,
    /// What the first page of a new batch costs beyond that.
    pub batch_edge_ns: Fact<Measured>,
    /// Waking another thread through a pipe on the same CPU and sleeping.
    pub thread_switch_ns: Fact<Measured>,
    /// The same with another process, which has an address space of its own.
    pub process_switch_ns: Fact<Measured>,
    /// The first touch of a page after a switch to another thread and back.
    pub touch_ns: Fact<Measured>,
    /// The same after a switch to another process and back.
    pub switched_touch_ns: Fact<Measured>,
    /// The same after this address space was flushed from the TLB.
    pub flushed_touch_ns: Fact<Measured>,
    /// How much of the cost of a flush a touch has after a switch between processes: 0 nothing, 1 all.
    pub flushed_share: Fact<Measured>,
    /// True if the processor tags TLB entries with the address space (`pcid` in /proc/cpuinfo), so that the
    /// kernel need not flush.
    pub has_pcid: Fact<bool>,
}

impl PipeMechanism {
    /// All prices.
    pub fn prices(&self) -> impl Iterator<Item = &Measured> {
        let all = [
            &self.kept_page_ns,
            &self.new_page_ns,
            &self.lent_page_ns,
            &self.batch_edge_ns,
            &self.thread_switch_ns,
            &self.process_switch_ns,
            &self.touch_ns,
            &self.switched_touch_ns,
            &self.flushed_touch_ns,
        ];
        all.into_iter().filter_map(Fact::known)
    }

    /// The claim that a switch between processes flushes the TLB: more than half of the cost of a flush.
    #[must_use]
    pub fn flush_figure(&self) -> Option<ClaimFigure> {
        self.flushed_share.known().map(|share| ClaimFigure::of(share).above(0.5))
    }
}
