//! One cycle through all of 2^n places in an order that looks random, without a table of it.
//!
//! The place of a rank in the cycle is a bijection of the rank: multiply, fold high bits into low ones, mix a
//! key in, and repeat once. It can be inverted, so the successor of every place is known. A list can
//! therefore be written in ascending order of its places instead of by millions of random writes. Not
//! suitable for secrets, and not uniform among all orders. It only ensures that neighbours in the cycle are
//! far apart and that no prefetcher finds a pattern.

use crate::kernels::list::{ChaseList, ChaseListBuilder};
use pagewise_kernel::region::MemoryRegion;

/// Bytes of a cache line; two of them are one on some machines, which this order does not use.
const LINE: usize = 64;
/// Multiplier of the order, odd.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A cycle through the places below 2^`bits`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RandomCycle {
    mask: u64,
    shift: u32,
    inverse: u64,
    key: u64,
}

impl RandomCycle {
    /// The cycle of this `key`; other keys give other cycles.
    pub(crate) fn new(bits: u32, key: u64) -> Self {
        // Newton's iteration doubles the right bits each time: 3, 6, 12, 24, 48, 96.
        let inverse = (0..5).fold(MULTIPLIER, |x, _| {
            x.wrapping_mul(2_u64.wrapping_sub(MULTIPLIER.wrapping_mul(x)))
        });
        let mask = 1_u64.checked_shl(bits).unwrap_or(0).wrapping_sub(1);
        Self { mask, shift: bits.div_ceil(2).max(1), inverse, key: key & mask }
    }

    /// The place that follows `place`.
    pub(crate) fn successor(&self, place: u64) -> u64 {
        self.place(self.rank(place).wrapping_add(1))
    }

    /// Folding by at least half of the bits is its own inverse.
    fn fold(&self, x: u64) -> u64 {
        x ^ (x >> self.shift)
    }

    fn place(&self, rank: u64) -> u64 {
        let once = self.fold((rank & self.mask).wrapping_mul(MULTIPLIER) & self.mask) ^ self.key;
        self.fold(once.wrapping_mul(MULTIPLIER) & self.mask)
    }

    fn rank(&self, place: u64) -> u64 {
        let once = (self.fold(place).wrapping_mul(self.inverse) & self.mask) ^ self.key;
        self.fold(once).wrapping_mul(self.inverse) & self.mask
    }
}

/// Makes one cycle of all lines of `region`, whose length is a power of two of lines.
pub(crate) fn link_lines(region: MemoryRegion) -> ChaseList {
    let lines = region.size().0 / LINE as u64;
    let cycle = RandomCycle::new(lines.ilog2(), 0);
    let mut links = ChaseListBuilder::new(region);
    for line in 0..lines {
        links.link(line as usize * LINE, cycle.successor(line) as usize * LINE);
    }
    links.close()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_kernel::region::RegionPages;
    use pagewise_model::Bytes;

    #[test]
    fn the_cycle_has_all_places() {
        for (bits, key) in [(1, 0), (2, 3), (3, 5), (9, 0), (12, 77), (12, u64::MAX)] {
            let cycle = RandomCycle::new(bits, key);
            let places = 1_usize << bits;
            let mut seen = vec![false; places];
            let mut at = 0;
            for _ in 0..places {
                assert!(!std::mem::replace(&mut seen[at as usize], true), "short: {bits} {key}");
                at = cycle.successor(at);
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn neighbours_in_the_cycle_are_far_apart() {
        let cycle = RandomCycle::new(18, 0);
        let far = (0..10_000).filter(|&place| cycle.successor(place).abs_diff(place) > 64);
        assert!(far.count() > 9_900);
    }

    #[test]
    fn keys_make_other_cycles() {
        let (one, other) = (RandomCycle::new(12, 1), RandomCycle::new(12, 2));
        let same = (0..4000).filter(|&place| one.successor(place) == other.successor(place));
        assert!(same.count() < 100);
    }

    #[test]
    fn all_lines_of_a_region_are_linked() {
        let region = MemoryRegion::new(Bytes::mib(1), RegionPages::Base).expect("memory");
        let lines = region.size().0 as usize / LINE;
        let list = link_lines(region);
        let mut seen = vec![false; lines];
        let mut at = 0;
        for _ in 0..lines {
            assert!(!std::mem::replace(&mut seen[at / LINE], true), "short cycle");
            at = list.walk(at, 1).expect("inside");
        }
        assert_eq!(at, 0);
    }
}
