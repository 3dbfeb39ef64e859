//! Misses of the instruction TLB, if the processor counts them: the kernel's generic event `iTLB-load-misses`
//! on the calling thread, in user mode.
//!
//! The hardware event behind it differs between processors. On some it counts misses of the first level, on
//! others walks of the page table.

use pagewise_kernel::SysError;
use pagewise_kernel::perf::bindings::{
    PERF_COUNT_HW_CACHE_ITLB, PERF_COUNT_HW_CACHE_OP_READ, PERF_COUNT_HW_CACHE_RESULT_MISS,
    PERF_TYPE_HW_CACHE,
};
use pagewise_kernel::perf::{self, PerfCounter};
use pagewise_model::Fact;

/// The event, as perf(1) names it.
const NAME: &str = "iTLB-load-misses, user mode";

/// A count under way.
#[derive(Debug)]
pub(super) struct ItlbMissCounter(PerfCounter);

impl ItlbMissCounter {
    /// Begins to count in the calling thread.
    pub(super) fn count() -> Result<Self, SysError> {
        let config = PERF_COUNT_HW_CACHE_ITLB
            | PERF_COUNT_HW_CACHE_OP_READ << 8
            | PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
        let counter = PerfCounter::open(&perf::attr(PERF_TYPE_HW_CACHE, u64::from(config)), 0, -1)?;
        counter.enable()?;
        Ok(Self(counter))
    }

    /// Misses per 1000 of `instructions`. `None` if the event was never scheduled on the hardware.
    pub(super) fn per_1000(&self, instructions: u64) -> Option<f64> {
        let count = self.0.read().ok()?.scaled()?;
        Some(count * 1000.0 / instructions.max(1) as f64)
    }
}

/// The event that counts here, or why none is available.
pub(super) fn event() -> Fact<String> {
    match ItlbMissCounter::count() {
        Ok(_) => Fact::Known(NAME.to_owned()),
        Err(error) => Fact::Missing(perf::hardware_refusal(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_counted_or_there_is_a_reason() {
        match event() {
            Fact::Known(_) => {
                let counted = ItlbMissCounter::count().expect("as before").per_1000(1000);
                assert!(counted.is_none_or(|misses| misses >= 0.0), "{counted:?}");
            }
            Fact::Missing(why) => assert!(why.contains("hardware counters"), "{why}"),
        }
    }
}
