//! The host's part, kept out of the figures and shown beside them.
//!
//! Before each mapping a quarter more than it takes is touched and freed, on pages of its kind, in chunks
//! (`prices/host.rs`): what a virtual machine's host had taken back is there again when the clock runs. Each
//! chunk is timed; one that costs half as much again as memory that is there was not backed, and what it
//! cost more is the host's. The first chunks come before everything else and are the state in which the
//! machine was found.
//!
//! Not seen: a host that takes memory back between the two, within milliseconds.

use crate::error::PriceError;
use crate::prices::host::{self, CHUNK};
use crate::sample::Stop;
use pagewise_kernel::region::Pages;
use pagewise_model::bench::memory::{Host, Part, Point, Way};
use pagewise_model::{Bytes, Nanos};

/// Time after which no more is touched before one mapping.
const PATIENCE: Nanos = Nanos::secs(2);

/// Costs of all chunks, ns for each base page.
#[derive(Debug, Default)]
pub(super) struct Before {
    base: Vec<f64>,
    huge: Vec<f64>,
}

impl Before {
    /// Touches and frees so much memory on base or huge pages.
    pub(super) fn touch(
        &mut self,
        is_huge: bool,
        size: Bytes,
        stop: Stop<'_>,
    ) -> Result<(), PriceError> {
        let (pages, costs) =
            if is_huge { (Pages::Huge, &mut self.huge) } else { (Pages::Base, &mut self.base) };
        // Whole chunks, at least one.
        let size = if size > Bytes(0) { size.max(CHUNK) } else { size };
        costs.extend(host::touch_chunks(pages, size, PATIENCE, stop)?);
        Ok(())
    }

    /// The host's part against what a touch of memory that is there costs, where that was measured.
    pub(super) fn finish(self, points: &[Point]) -> Vec<Host> {
        let price = |way| {
            let point = points.iter().find(|point| point.is(way, 1, 1))?;
            point.page_ns(Part::Touch).map(|ns| ns.median)
        };
        let part = |(is_huge, costs, way): (bool, Vec<f64>, Way)| {
            let price_ns = price(way)?;
            (!costs.is_empty()).then(|| Host {
                is_huge,
                chunk_bytes: CHUNK,
                chunks: costs.len() as u64,
                slow_chunks: host::find_slow(&costs, price_ns).len() as u64,
                extra_page_ns: host::find_extra(&costs, price_ns),
            })
        };
        [(false, self.base, Way::OnDemand), (true, self.huge, Way::Thp)]
            .into_iter()
            .filter_map(part)
            .collect()
    }
}
