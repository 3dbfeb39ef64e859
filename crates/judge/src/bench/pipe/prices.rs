//! What one unit of each kind of work costs, from the prices of the session.
//!
//! The session prices a write with its read at three sizes (`SessionPrices::pipe_transfers`), and the parts are the
//! differences between them. The smallest is two calls with the pipe's lock. Up to two pages, which a pipe
//! keeps, only two copies are added. From there on each page is also allocated, charged and freed. A
//! hand-over includes such a pair of calls, which is subtracted because calls are counted separately. The
//! extra cost of another core is priced separately for each way
//! ([`pagewise_model::bench::pipe::CrossCorePrices`]). In ladders saved before there was a price for bytes that
//! are lent again, the yardstick between cores is used, minus the copy itself.
//!
//! A part at or below zero is not a price but noise. It is missing, and its time stays unexplained.

use super::PipeContext;
use pagewise_model::bench::pipe::{PipeYardsticks, ReferencePrices};
use pagewise_model::price::{SessionPrices, TransferPoint};
use pagewise_model::{Bytes, Fact};

/// Prices in nanoseconds. `None` if there is no price.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct UnitPrices {
    /// One copy of a GiB, from cache to cache of one core.
    pub(super) copy_gib: Option<f64>,
    /// The extra cost of a GiB that lies in the caches of another core.
    pub(super) cross_gib: Option<f64>,
    /// One page of a pipe allocated and freed.
    pub(super) page: Option<f64>,
    /// Into the kernel and back.
    pub(super) entry: Option<f64>,
    /// The rest of a call on a pipe.
    pub(super) lock: Option<f64>,
    /// A sleeping end woken on another CPU, without the calls.
    pub(super) wakeup_cross: Option<f64>,
    /// CPU time of that, of both sides.
    pub(super) wakeup_cpu: Option<f64>,
    /// A sleeping end woken on the same CPU.
    pub(super) wakeup_same: Option<f64>,
    /// First touch of a base page.
    pub(super) fault_base: Option<f64>,
    /// First touch of a huge page.
    pub(super) fault_huge: Option<f64>,
    pub(super) reference: ReferencePrices,
}

impl UnitPrices {
    /// The prices as they were before the ladder.
    pub(super) fn freeze(known: &PipeContext<'_>, yardsticks: &PipeYardsticks) -> Self {
        let prices = known.prices;
        let transfers = prices.map_or(&[][..], |p| &p.pipe_transfers);
        let copy_byte = copy_byte_ns(transfers);
        let gib = Bytes::gib(1).0 as f64;
        // Without a priced pipe, a copy of memory is the nearest there is.
        let copy_gib = copy_byte
            .map(|ns| ns * gib)
            .or_else(|| Some(1e9 / yardsticks.memcpy_gib_per_s.known()?.median));
        let cross = yardsticks.cross_core_gib_per_s.known().map(|rate| 1e9 / rate.median);
        let pair = transfers.first().map(|p| p.transfer_ns.median);
        let entry = prices.map(|p| p.syscall_ns.median);
        let hand_over = |ns: f64| Some(ns - pair?);
        let wakeup_cross = prices.and_then(|p| hand_over(p.wakeup_cross_ns.known()?.median));
        let hand_over_cpu = known.reference.hand_over_cpu_ns.known().copied();
        Self {
            copy_gib,
            cross_gib: cross.and_then(|cross| Some((cross - copy_gib?).max(0.0))),
            page: page_ns(transfers, copy_byte, known).and_then(above_zero),
            entry: entry.and_then(above_zero),
            lock: pair.and_then(|pair| above_zero(pair / 2.0 - entry?)),
            wakeup_cross: wakeup_cross.and_then(above_zero),
            wakeup_cpu: hand_over_cpu.and_then(hand_over).and_then(above_zero),
            wakeup_same: prices
                .and_then(|p| hand_over(p.wakeup_same_ns.median))
                .and_then(above_zero),
            fault_base: prices.map(|p| p.anon_fault_ns.median).and_then(above_zero),
            fault_huge: prices.and_then(huge_fault).and_then(above_zero),
            reference: known.reference.clone(),
        }
    }
}

fn huge_fault(prices: &SessionPrices) -> Option<f64> {
    Some(prices.huge_fault_ns.known()?.median)
}

fn above_zero(ns: f64) -> Option<f64> {
    (ns.is_finite() && ns > 0.0).then_some(ns)
}

/// A price, if there is one.
pub(super) fn known(price: &Fact<f64>) -> Option<f64> {
    price.known().copied().and_then(above_zero)
}

/// One copy of one byte: half of what a byte adds to a transfer that needs no new pages.
fn copy_byte_ns(transfers: &[TransferPoint]) -> Option<f64> {
    let [small, kept, ..] = transfers else { return None };
    let bytes = kept.transfer_bytes.0.checked_sub(small.transfer_bytes.0)? as f64;
    above_zero((kept.transfer_ns.median - small.transfer_ns.median) / bytes / 2.0)
}

/// One new page: what a page adds to a transfer beyond its two copies.
fn page_ns(
    transfers: &[TransferPoint],
    copy_byte: Option<f64>,
    known: &PipeContext<'_>,
) -> Option<f64> {
    let [_, kept, fresh, ..] = transfers else { return None };
    let bytes = fresh.transfer_bytes.0.checked_sub(kept.transfer_bytes.0)?;
    let copies = 2.0 * copy_byte? * bytes as f64;
    let ns = fresh.transfer_ns.median - kept.transfer_ns.median - copies;
    Some(ns / Bytes(bytes).pages(known.base_page) as f64)
}
