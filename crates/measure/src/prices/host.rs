//! The extra cost of a first touch if a virtual machine's host must back the memory again, ns per base page.
//!
//! A guest's free memory may have been given back to the host (free page reporting, balloon). Such memory is
//! searched for, not created. Memory is touched in chunks, more than was in use a moment ago, until the
//! amount or the time is used up. Chunks whose pages cost over one and a half times the price were not
//! backed. Without such a chunk there is nothing to report. The memory is freed at the end, and is backed
//! then. Not seen: a host that takes memory back later.

use crate::error::PriceError;
use crate::sample::{StopCheck, time_cpu};
use pagewise_kernel::page_size;
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_model::{Bytes, Fact, Measured, Nanos};
use std::time::Instant;

/// Memory of one chunk.
pub(crate) const CHUNK: Bytes = Bytes::mib(16);
/// A chunk is slow from this multiple of the price on.
const SLOW: f64 = 1.5;

/// Cost of a first touch in each chunk, ns per base page, without the unmapping. On base or huge pages:
/// the kernel takes the two from different free blocks.
pub(crate) fn touch_chunks(
    pages: RegionPages,
    most: Bytes,
    time_limit: Nanos,
    stop: StopCheck<'_>,
) -> Result<Vec<f64>, PriceError> {
    let stride = if pages == RegionPages::Huge { page_size::huge() } else { page_size::base() };
    let started = Instant::now();
    let mut held = Vec::new();
    let mut costs = Vec::new();
    while CHUNK.0 * (held.len() as u64 + 1) <= most.0 && started.elapsed() < time_limit.duration() {
        stop.check()?;
        let mut chunk = MemoryRegion::new(CHUNK, pages)?;
        let (ns, _) = time_cpu(|| chunk.touch(Bytes(stride.bytes())));
        costs.push(ns / chunk.size().pages(page_size::base()) as f64);
        held.push(chunk);
    }
    Ok(costs)
}

/// The chunks that cost more than memory that is there.
pub(crate) fn find_slow(costs: &[f64], price_ns: f64) -> Vec<f64> {
    costs.iter().copied().filter(|cost| *cost > SLOW * price_ns).collect()
}

/// The extra cost that these chunks show against the price of a backed page.
pub(crate) fn find_extra(costs: &[f64], price_ns: f64) -> Fact<f64> {
    match Measured::from_values(&find_slow(costs, price_ns)) {
        Some(cost) => Fact::Known(cost.median - price_ns),
        None => Fact::missing("the host had all touched memory ready"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_chunks_make_the_extra() {
        assert_eq!(find_extra(&[100.0, 900.0, 110.0, 1100.0], 100.0), Fact::Known(900.0));
        assert!(find_extra(&[100.0, 140.0], 100.0).reason().is_some());
        assert!(find_extra(&[], 100.0).reason().is_some());
    }

    #[test]
    fn no_more_is_touched_than_allowed() {
        let touch =
            |limit| touch_chunks(RegionPages::Base, Bytes::mib(40), limit, StopCheck(&|| false));
        assert_eq!(touch(Nanos::secs(60)).expect("memory").len(), 2);
        assert!(touch(Nanos(0)).expect("nothing").is_empty());
        let stopped =
            touch_chunks(RegionPages::Base, Bytes::mib(40), Nanos::secs(60), StopCheck(&|| true));
        assert!(matches!(stopped, Err(PriceError::Interrupted)));
    }
}
