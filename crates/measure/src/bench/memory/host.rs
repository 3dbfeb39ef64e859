//! The host's part, excluded from the figures and reported beside them.
//!
//! Before each mapping, memory of its page kind is touched and freed in chunks, a quarter more than the
//! mapping takes (`prices/host.rs`). So memory that the host of a virtual machine had taken back is present
//! again before the clock starts. Each chunk is timed. A chunk that costs at least one and a half times as
//! much as present memory was not backed, and the excess is the host's part. The first chunks come before
//! everything else and show the initial state of the machine.
//!
//! Not seen: a host that takes memory back between the two, within milliseconds.

use crate::error::PriceError;
use crate::prices::host::{self, CHUNK};
use crate::sample::StopCheck;
use pagewise_kernel::region::RegionPages;
use pagewise_model::bench::memory::{
    HostBackingCost, MemoryBenchPhase, MemoryBenchPoint, MemoryBenchWay,
};
use pagewise_model::{Bytes, Nanos};

/// Time after which no more is touched before one mapping.
const PATIENCE: Nanos = Nanos::secs(2);

/// Costs of all chunks, ns for each base page.
#[derive(Debug, Default)]
pub(super) struct HostCosts {
    base: Vec<f64>,
    huge: Vec<f64>,
}

impl HostCosts {
    /// Touches and frees this much memory on base or huge pages.
    pub(super) fn touch(
        &mut self,
        is_huge: bool,
        size: Bytes,
        stop: StopCheck<'_>,
    ) -> Result<(), PriceError> {
        let (pages, costs) = if is_huge {
            (RegionPages::Huge, &mut self.huge)
        } else {
            (RegionPages::Base, &mut self.base)
        };
        // Whole chunks, at least one.
        let size = if size > Bytes(0) { size.max(CHUNK) } else { size };
        costs.extend(host::touch_chunks(pages, size, PATIENCE, stop)?);
        Ok(())
    }

    /// The host's part compared with the cost of touching present memory, if that was measured.
    pub(super) fn finish(self, points: &[MemoryBenchPoint]) -> Vec<HostBackingCost> {
        let price = |way| {
            let point = points.iter().find(|point| point.is(way, 1, 1))?;
            point.page_ns(MemoryBenchPhase::Touch).map(|ns| ns.median)
        };
        let part = |(is_huge, costs, way): (bool, Vec<f64>, MemoryBenchWay)| {
            let price_ns = price(way)?;
            (!costs.is_empty()).then(|| HostBackingCost {
                is_huge,
                chunk_bytes: CHUNK,
                chunks: costs.len() as u64,
                slow_chunks: host::find_slow(&costs, price_ns).len() as u64,
                extra_page_ns: host::find_extra(&costs, price_ns),
            })
        };
        [(false, self.base, MemoryBenchWay::OnDemand), (true, self.huge, MemoryBenchWay::Thp)]
            .into_iter()
            .filter_map(part)
            .collect()
    }
}
