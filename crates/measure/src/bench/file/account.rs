//! What blocks contain, and the account of the blocks that were read.
//!
//! A generated file contains words that are well-mixed numbers of their places. So nothing compresses them,
//! and the sum of a pass is known without reading the file. One word of every block is read, from the place
//! where the way to read has put it. Its offset in the block depends on the block. The sum of these words is
//! the checksum: a block that was not copied, came twice, or is a different block changes it. Each block has
//! a bit, so that the blocks read at least once can be counted. All ways keep this account inside the clock,
//! some 2 ns a block.

use pagewise_model::Bytes;
use pagewise_model::bench::file::ReadLedger;

/// Bytes of a word.
pub(super) const WORD: usize = size_of::<u64>();

/// A number that is a bijection of `x` and looks like chance (the last step of splitmix64).
pub(super) const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The word of a generated file at this offset, a multiple of the word size.
pub(super) const fn own_word(offset: u64) -> u64 {
    mix(offset / WORD as u64)
}

/// Fills `buffer` with the content of a generated file from `offset` on.
pub(super) fn fill(buffer: &mut [u8], offset: u64) {
    let (words, _) = buffer.as_chunks_mut::<WORD>();
    for (word, nth) in words.iter_mut().zip(offset / WORD as u64..) {
        *word = mix(nth).to_ne_bytes();
    }
}

/// The position, within its block, of the word that is read.
pub(super) const fn sampled(index: u64, block: usize) -> usize {
    let words = block / WORD;
    if words == 0 { 0 } else { (mix(index) % words as u64) as usize * WORD }
}

/// The word at `at` of a block. 0 if the block is too short.
pub(super) fn word_at(block: &[u8], at: usize) -> u64 {
    block.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_ne_bytes)
}

/// Blocks that were taken.
#[derive(Debug)]
pub(super) struct BlockAccount {
    block: u64,
    blocks: u64,
    checksum: u64,
    seen: Vec<u64>,
}

impl BlockAccount {
    /// An account over `blocks` blocks of `block` bytes.
    pub(super) fn new(blocks: u64, block: u64) -> Self {
        let words = usize::try_from(blocks.div_ceil(64)).unwrap_or(usize::MAX);
        Self { block, blocks: 0, checksum: 0, seen: vec![0; words] }
    }

    /// Records that a block was read and this word was found in it.
    pub(super) fn take(&mut self, index: u64, word: u64) {
        self.blocks += 1;
        self.checksum = self.checksum.wrapping_add(word);
        if let Some(bits) = self.seen.get_mut((index / 64) as usize) {
            *bits |= 1 << (index % 64);
        }
    }

    /// Adds what another thread took.
    pub(super) fn join(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.checksum = self.checksum.wrapping_add(other.checksum);
        for (bits, more) in self.seen.iter_mut().zip(&other.seen) {
            *bits |= more;
        }
    }

    /// The account in the form that is reported.
    pub(super) fn ledger(&self, mapped_before_bytes: Bytes) -> ReadLedger {
        ReadLedger {
            bytes: Bytes(self.blocks.saturating_mul(self.block)),
            blocks: self.blocks,
            distinct_blocks: self.seen.iter().map(|bits| u64::from(bits.count_ones())).sum(),
            checksum: self.checksum,
            mapped_before_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_filled_is_what_is_known() {
        let mut buffer = [0; 64];
        fill(&mut buffer, 4096);
        assert_eq!(word_at(&buffer, 0), own_word(4096));
        assert_eq!(word_at(&buffer, 56), own_word(4096 + 56));
        assert_eq!((word_at(&buffer, 57), word_at(&buffer, usize::MAX)), (0, 0));
    }

    #[test]
    fn the_word_that_is_looked_at_lies_in_the_block() {
        let places: Vec<usize> = (0..1000).map(|index| sampled(index, 512)).collect();
        assert!(places.iter().all(|at| at % WORD == 0 && at + WORD <= 512));
        assert!((0..64).all(|word| places.contains(&(word * WORD))), "every place is looked at");
        assert_eq!(sampled(5, 0), 0);
    }

    #[test]
    fn blocks_bytes_and_sums_are_counted() {
        let (mut one, mut other) = (BlockAccount::new(130, 512), BlockAccount::new(130, 512));
        one.take(0, 1);
        one.take(0, 1);
        other.take(129, u64::MAX);
        other.take(500, 7);
        one.join(&other);
        let ledger = one.ledger(Bytes(3));
        assert_eq!((ledger.blocks, ledger.bytes, ledger.distinct_blocks), (4, Bytes(2048), 2));
        assert_eq!((ledger.checksum, ledger.mapped_before_bytes), (8, Bytes(3)));
    }
}
