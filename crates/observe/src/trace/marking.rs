//! The processor's cost of setting an accessed bit: a locked write to a page-table entry by microcode, and
//! under nested paging more of them, some 0.1 to 0.5 us. A program whose bits were just cleared pays this for
//! each page that it starts to use.
//!
//! Measured as the difference between two touches of each page of a region larger than any TLB: the first
//! after the bits of this process were cleared, the second with the bits set. In CPU time of this thread; 10
//! to 30 ms in total. Clearing changes nothing that a program can see.

use pagewise_kernel::proc::{own_pid, smaps};
use pagewise_kernel::region::{MemoryRegion, RegionPages};
use pagewise_kernel::{SysError, clock, page_size};
use pagewise_model::{Bytes, Nanos};

/// Beyond the reach of second-level TLBs: 8192 pages of 4 KiB.
const REGION: Bytes = Bytes::mib(32);
/// Odd, for a median that was measured.
const REPEATS: usize = 5;

/// What setting one accessed bit costs: the median of some repeats.
pub(super) fn cost() -> Result<Nanos, SysError> {
    let mut region = MemoryRegion::new(REGION, RegionPages::Base)?;
    let page = page_size::base();
    let pages = region.touch(Bytes(page.bytes())).max(1);
    let mut touch = || {
        let begin = clock::thread_cpu();
        region.touch(Bytes(page.bytes()));
        clock::thread_cpu().0.saturating_sub(begin.0)
    };
    let mut extra = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        smaps::clear_referenced(own_pid())?;
        let (setting, set) = (touch(), touch());
        extra.push(setting.saturating_sub(set) / pages);
    }
    extra.sort_unstable();
    Ok(Nanos(extra[REPEATS / 2]))
}

#[cfg(test)]
#[expect(clippy::print_stderr, reason = "a live test tells what it skips")]
mod tests {
    use super::*;

    #[test]
    fn it_is_below_what_a_fault_costs() {
        match cost() {
            Ok(cost) => assert!(cost < Nanos(20_000), "{cost:?} for each page"),
            Err(error) => eprintln!("SKIP it_is_below_what_a_fault_costs: {error}"),
        }
    }
}
