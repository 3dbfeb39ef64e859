//! Dependent random loads over growing sets, on base and on huge pages, ns per load.
//!
//! Each cache line of a set holds the place of the next; all lines form one cycle, so the hardware
//! can neither overlap nor foresee the loads. The order is a bijection of the line numbers
//! (multiply and fold high bits into low ones, which can be undone), hence the memory is filled in
//! ascending order and not by millions of random writes. Each set is walked on fresh mappings,
//! because placement in caches and memory is luck. The difference between base and huge pages is
//! the upper bound of what address translation costs such a walk. Not seen: loads that overlap.

use crate::error::PriceError;
use crate::sample::{Stop, time};
use pagewise_kernel::SysError;
use pagewise_kernel::region::{Pages, Region};
use pagewise_model::price::ChasePoint;
use pagewise_model::{Bytes, Fact, Measured};

/// Sets that are walked, memory allowing.
const SETS: [Bytes; 4] = [Bytes::mib(16), Bytes::mib(64), Bytes::mib(256), Bytes::gib(1)];
/// Bytes of a cache line; two of them are one on some machines, which this order does not use.
const LINE: usize = 64;
/// Loads of one repeat.
const STEPS: usize = 40_000;
/// Repeats, over all mappings of a set.
const REPEATS: usize = 6;
/// Multiplier of the order, odd, and its inverse modulo 2^64.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sets that take at most `most` memory.
pub(crate) fn sets_within(most: Bytes) -> impl Iterator<Item = Bytes> {
    SETS.into_iter().filter(move |set| *set <= most)
}

/// Walks each of these sets.
pub(crate) fn walk_sets(sets: &[Bytes], stop: Stop<'_>) -> Result<Vec<ChasePoint>, PriceError> {
    let walk_both = |set_bytes| {
        let base_ns = walk(set_bytes, Pages::Base, stop)?;
        let huge_ns = match walk(set_bytes, Pages::Huge, stop) {
            Err(PriceError::Interrupted) => return Err(PriceError::Interrupted),
            other => Fact::from(other),
        };
        Ok(ChasePoint { set_bytes, base_ns, huge_ns })
    };
    sets.iter().copied().map(walk_both).collect()
}

/// The price over one set on one kind of page.
fn walk(set: Bytes, pages: Pages, stop: Stop<'_>) -> Result<Measured, PriceError> {
    // Filling costs the more time the larger the set: fewer mappings, more walks of each.
    let mappings = match set {
        set if set > Bytes::mib(256) => 1,
        set if set > Bytes::mib(64) => 2,
        _ => 3,
    };
    let mut values = Vec::with_capacity(REPEATS);
    for _ in 0..mappings {
        stop.check()?;
        let mut region = Region::new(set, pages)?;
        region.populate()?;
        if pages == Pages::Huge && region.huge_bytes()? < region.size() {
            return Err(PriceError::Unavailable("the kernel gave base pages only".to_owned()));
        }
        stop.check()?;
        fill_cycle(region.as_mut_slice());
        stop.check()?;
        let mut at = follow(region.as_slice(), 0, STEPS)?;
        for _ in 0..REPEATS / mappings {
            let (ns, next) = time(|| follow(region.as_slice(), at, STEPS));
            at = next?;
            values.push(ns / STEPS as f64);
        }
    }
    Measured::of(&values).ok_or(PriceError::NoRepeat { price: "the chase" })
}

/// Follows the cycle; gives the place where it stops.
fn follow(memory: &[u8], start: usize, steps: usize) -> Result<usize, SysError> {
    let mut at = start;
    for _ in 0..steps {
        let word = memory.get(at..).and_then(|rest| rest.first_chunk::<8>());
        let word = word.ok_or_else(|| SysError::malformed("walk", "a set of lines"))?;
        at = u64::from_ne_bytes(*word) as usize;
    }
    Ok(at)
}

/// Makes one cycle of all lines of `memory`, whose length is a power of two of lines.
fn fill_cycle(memory: &mut [u8]) {
    let order = Order::new((memory.len() / LINE).ilog2());
    for (number, line) in memory.chunks_exact_mut(LINE).enumerate() {
        let next = order.place(order.rank(number as u64).wrapping_add(1));
        line[..8].copy_from_slice(&(next * LINE as u64).to_ne_bytes());
    }
}

/// A bijection between the ranks in the cycle and the places in memory, both of `bits` bits.
struct Order {
    mask: u64,
    shift: u32,
    inverse: u64,
}

impl Order {
    fn new(bits: u32) -> Self {
        // Newton's iteration doubles the right bits each time: 3, 6, 12, 24, 48, 96.
        let inverse = (0..5).fold(MULTIPLIER, |x, _| {
            x.wrapping_mul(2_u64.wrapping_sub(MULTIPLIER.wrapping_mul(x)))
        });
        Self { mask: (1 << bits) - 1, shift: bits.div_ceil(2), inverse }
    }

    /// Folding by at least half of the bits is its own inverse.
    fn fold(&self, x: u64) -> u64 {
        x ^ (x >> self.shift)
    }

    fn place(&self, rank: u64) -> u64 {
        let once = self.fold((rank & self.mask).wrapping_mul(MULTIPLIER) & self.mask);
        self.fold(once.wrapping_mul(MULTIPLIER) & self.mask)
    }

    fn rank(&self, place: u64) -> u64 {
        let once = self.fold(place).wrapping_mul(self.inverse) & self.mask;
        self.fold(once).wrapping_mul(self.inverse) & self.mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_has_all_lines() {
        for bits in [4, 9, 12] {
            let lines = 1_usize << bits;
            let mut memory = vec![0; lines * LINE];
            fill_cycle(&mut memory);
            let mut seen = vec![false; lines];
            let mut at = 0;
            for _ in 0..lines {
                assert!(!std::mem::replace(&mut seen[at / LINE], true), "short cycle");
                at = follow(&memory, at, 1).expect("inside");
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn neighbours_in_the_cycle_are_far_apart() {
        let order = Order::new(18);
        let far = (0..10_000).filter(|&r| order.place(r).abs_diff(order.place(r + 1)) > 64);
        assert!(far.count() > 9_900);
    }

    #[test]
    fn a_broken_set_is_an_error() {
        assert!(follow(&[0xff; 64], 0, 2).is_err());
    }
}
