//! The order in which blocks are read: by address, or at random, each block once (a permutation, made before
//! the clock starts). Also the erroneous orders of the published benchmark.

use super::account::mix;
use pagewise_model::bench::file::{BenchmarkFlaw, FileCell};
use pagewise_model::bench::tlb::AccessOrder;
use std::ops::Range;

/// The blocks of a pass, in their order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BlockSequence {
    /// By address, this many blocks.
    Sequential(usize),
    Listed(Vec<u32>),
}

impl BlockSequence {
    /// The blocks of `cell`, in the order of this seed, with the errors that were asked for.
    pub(super) fn new(cell: &FileCell, slips: &[BenchmarkFlaw], seed: u64) -> Self {
        let has = |slip: BenchmarkFlaw| slips.contains(&slip) && slip.changes(cell);
        let all = usize::try_from(cell.blocks()).unwrap_or(usize::MAX);
        let taken = if has(BenchmarkFlaw::ShortLoop) { all / 2 } else { all };
        let mut listed = match cell.order {
            AccessOrder::Sequential => return Self::Sequential(taken),
            AccessOrder::Random if has(BenchmarkFlaw::Replacement) => drawn(all, seed),
            AccessOrder::Random => permuted(all, seed),
        };
        listed.truncate(taken);
        Self::Listed(listed)
    }

    /// How many are taken.
    fn len(&self) -> usize {
        match self {
            Self::Sequential(count) => *count,
            Self::Listed(all) => all.len(),
        }
    }

    /// The places in the order that one of `threads` threads reads.
    pub(super) fn share(&self, thread: usize, threads: usize) -> Range<usize> {
        let (len, threads) = (self.len(), threads.max(1));
        // Whole ones first: the product may be larger than a number.
        let edge = |nth: usize| len / threads * nth + (len % threads).min(nth);
        edge(thread)..edge(thread + 1)
    }

    /// Calls `take` with each block of a share, until one fails.
    pub(super) fn each<E>(
        &self,
        share: Range<usize>,
        mut take: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Sequential(_) => share.into_iter().try_for_each(|index| take(index as u64)),
            Self::Listed(all) => {
                let share = all.get(share).unwrap_or_default();
                share.iter().try_for_each(|index| take(u64::from(*index)))
            }
        }
    }
}

/// A number below `bound` for this place of a series; the bias is below 1 in 2^32.
fn below(bound: usize, seed: u64, place: usize) -> usize {
    (mix(seed ^ mix(place as u64)) % bound.max(1) as u64) as usize
}

/// Every number below `count` once (Fisher and Yates).
fn permuted(count: usize, seed: u64) -> Vec<u32> {
    let mut all: Vec<u32> = (0..u32::try_from(count).unwrap_or(u32::MAX)).collect();
    for last in (1..all.len()).rev() {
        all.swap(last, below(last + 1, seed, last));
    }
    all
}

/// `count` random numbers below `count`, drawn with replacement.
fn drawn(count: usize, seed: u64) -> Vec<u32> {
    (0..count).map(|place| below(count, seed, place) as u32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagewise_model::Bytes;
    use pagewise_model::bench::file::{FileBenchPart, ReadWay};
    use std::collections::BTreeSet;

    fn cell(order: AccessOrder) -> FileCell {
        FileCell {
            order,
            ..FileCell::plain(FileBenchPart::Blocks, ReadWay::Map, Bytes(512), Bytes(512 * 1001))
        }
    }

    fn taken(blocks: &BlockSequence, threads: usize) -> Vec<u64> {
        let mut all = Vec::new();
        for thread in 0..threads {
            let share = blocks.share(thread, threads);
            blocks
                .each(share, |index| {
                    all.push(index);
                    Ok::<(), ()>(())
                })
                .expect("taken");
        }
        all
    }

    #[test]
    fn each_block_comes_once_whoever_takes_it() {
        for order in AccessOrder::ALL {
            let blocks = BlockSequence::new(&cell(order), &[], 5);
            for threads in [1, 2, 7, 1001, 2000] {
                let all = taken(&blocks, threads);
                let distinct: BTreeSet<u64> = all.iter().copied().collect();
                assert_eq!((all.len(), distinct.len()), (1001, 1001), "{order:?} {threads}");
                assert_eq!(
                    all.is_sorted(),
                    order == AccessOrder::Sequential,
                    "{order:?} {threads}"
                );
            }
        }
        assert_ne!(
            BlockSequence::new(&cell(AccessOrder::Random), &[], 5),
            BlockSequence::new(&cell(AccessOrder::Random), &[], 6)
        );
    }

    #[test]
    fn errors_are_repeated_as_they_were() {
        let half =
            BlockSequence::new(&cell(AccessOrder::Sequential), &[BenchmarkFlaw::ShortLoop], 5);
        assert_eq!(taken(&half, 1), (0..500).collect::<Vec<u64>>());
        let drawn =
            BlockSequence::new(&cell(AccessOrder::Random), &[BenchmarkFlaw::Replacement], 5);
        let distinct: BTreeSet<u64> = taken(&drawn, 1).into_iter().collect();
        assert!((580..690).contains(&distinct.len()), "{} of 1001", distinct.len());
        let by_read = cell(AccessOrder::Sequential).by(ReadWay::Read);
        assert_eq!(
            BlockSequence::new(&by_read, &[BenchmarkFlaw::ShortLoop], 5),
            BlockSequence::Sequential(1001)
        );
    }

    #[test]
    fn the_first_failure_ends_it() {
        let mut count = 0;
        let blocks = BlockSequence::Listed(vec![4, 2, 9]);
        let failed = blocks.each(0..3, |index| {
            count += 1;
            if index == 2 { Err(index) } else { Ok(()) }
        });
        assert_eq!((failed, count), (Err(2), 2));
        assert_eq!(blocks.each(2..9, |_| Err(())), Ok(()), "beyond the end there is nothing");
    }
}
