//! A chain of jumps through generated code: elements of a few bytes, one on each requested line, linked by a
//! separate list of addresses.
//!
//! Each element adds its number to a sum, steps to the next address of the list and jumps there. The final
//! sum shows which elements were executed. Only the list defines the order. So the same code can run in the
//! same order again and again, which branch predictors learn, or in a new order each time. The code is
//! written first and executed only after it has been closed to writing ([`CodeRegion`]).
//!
//! The code is specific to an architecture (`x86_64.rs`). Other architectures have none, and [`IS_KNOWN`]
//! says so.

#[cfg(not(target_arch = "x86_64"))]
mod unknown;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(not(target_arch = "x86_64"))]
use unknown as machine;
#[cfg(target_arch = "x86_64")]
use x86_64 as machine;

pub(crate) use machine::{INSTRUCTIONS, IS_KNOWN};

use pagewise_kernel::SysError;
use pagewise_kernel::code_region::CodeRegion;
use pagewise_kernel::region::MemoryRegion;

/// What elements are apart by at least: no two of them overlap, nor the frame and another element.
const LINE: usize = 64;
/// Offset of the frame after the first element.
const FRAME: usize = 32;

/// Code that can be run.
#[derive(Debug)]
pub(crate) struct JumpChain {
    code: CodeRegion,
    /// Where the elements are, by number.
    places: Vec<usize>,
}

impl JumpChain {
    /// Writes an element at each of `places`, which ascend by multiples of a line, and closes the code.
    pub(crate) fn write(mut region: MemoryRegion, places: Vec<usize>) -> Result<Self, SysError> {
        let unfit = || SysError::malformed("write", "generated code");
        let apart = places.is_sorted_by(|a, b| a < b) && places.iter().all(|at| at % LINE == 0);
        let Some(first) = places.first().copied().filter(|_| apart && IS_KNOWN) else {
            return Err(unfit());
        };
        let memory = region.as_mut_slice();
        for (number, place) in (1..).zip(&places) {
            put(memory, *place, &machine::element(number)).ok_or_else(unfit)?;
        }
        put(memory, first.saturating_add(FRAME), &machine::FRAME).ok_or_else(unfit)?;
        Ok(Self { code: CodeRegion::close(region)?, places })
    }

    /// The memory, to look at its pages.
    pub(crate) const fn region(&self) -> &MemoryRegion {
        self.code.region()
    }

    /// A way through the elements of these indices, from 0; indices beyond them are left out.
    pub(crate) fn route(&self, order: &[usize]) -> JumpRoute<'_> {
        let start = self.region().as_ptr().expose_provenance();
        let visited = order.iter().filter(|index| **index < self.places.len());
        let sum = visited.clone().map(|index| *index as u64 + 1).sum();
        let mut list: Vec<usize> = visited.map(|index| start + self.places[*index]).collect();
        let jumps = list.len() as u64;
        list.push(start + self.frame() + machine::EXIT);
        JumpRoute { chain: self, list, jumps, sum }
    }

    /// Offset of the code that enters the chain and leaves it.
    fn frame(&self) -> usize {
        self.places.first().map_or(0, |first| first + FRAME)
    }
}

/// Writes `bytes` at `place`, if all of them fit.
fn put(memory: &mut [u8], place: usize, bytes: &[u8]) -> Option<()> {
    memory.get_mut(place..place.checked_add(bytes.len())?)?.copy_from_slice(bytes);
    Some(())
}

/// A way through a chain.
#[derive(Debug)]
pub(crate) struct JumpRoute<'a> {
    chain: &'a JumpChain,
    list: Vec<usize>,
    jumps: u64,
    sum: u64,
}

impl JumpRoute<'_> {
    /// Elements that it visits.
    pub(crate) const fn jumps(&self) -> u64 {
        self.jumps
    }

    /// Runs it once. Returns whether all of its elements were executed, by their sum.
    pub(crate) fn run(&self) -> bool {
        let entry = self.chain.region().as_ptr().wrapping_add(self.chain.frame());
        // SAFETY: `JumpChain::write` put the frame there, which nothing overlaps, and the memory is
        // executable and unchanged since. Every address of the list is that of a whole element of the
        // same chain, which is borrowed, and the last that of the frame's exit (`JumpChain::route`).
        let sum = unsafe { machine::enter(entry, self.list.as_ptr()) };
        sum == self.sum
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use pagewise_kernel::page_size;
    use pagewise_kernel::region::RegionPages;
    use pagewise_model::Bytes;

    fn chain(places: &[usize]) -> Result<JumpChain, SysError> {
        let page = page_size::base().bytes();
        JumpChain::write(
            MemoryRegion::new(Bytes(4 * page), RegionPages::Base).expect("memory"),
            places.to_vec(),
        )
    }

    #[test]
    fn every_element_of_a_route_is_executed_once() {
        let page = usize::try_from(page_size::base().bytes()).expect("small");
        let places = [0, page + 64, 3 * page - 64];
        let chain = chain(&places).expect("executable memory");
        for order in [&[0, 1, 2][..], &[2, 0, 1, 1, 0, 2], &[1], &[]] {
            let route = chain.route(order);
            assert_eq!(route.jumps(), order.len() as u64);
            assert!(route.run() && route.run(), "{order:?}");
        }
    }

    #[test]
    fn another_way_than_the_one_that_was_asked_for_is_noticed() {
        let chain = chain(&[0, 64, 128]).expect("executable memory");
        let mut route = chain.route(&[0, 1, 2]);
        route.list.swap(0, 2);
        assert!(route.run(), "another order has the same sum");
        route.list[1] = route.list[0];
        assert!(!route.run(), "one element twice and another not at all");
        let beyond = chain.route(&[0, 7]);
        assert_eq!(beyond.jumps(), 1, "there is no such element");
        assert!(beyond.run());
    }

    #[test]
    fn code_that_would_overlap_or_not_fit_is_refused() {
        let page = usize::try_from(page_size::base().bytes()).expect("small");
        for places in [&[][..], &[0, 32], &[64, 0], &[64, 64], &[4 * page], &[4 * page - 32]] {
            assert!(chain(places).is_err(), "{places:?}");
        }
    }
}
