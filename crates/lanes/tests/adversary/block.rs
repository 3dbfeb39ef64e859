//! The data sent: bytes that follow from a seed, so that the reader knows every one of them.

use std::ops::Range;

/// A piece of a seed's content.
#[derive(Debug, Clone)]
pub struct Block {
    pub seed: u64,
    pub range: Range<usize>,
}

impl Block {
    /// The first `len` bytes of a seed's content.
    pub fn new(seed: u64, len: usize) -> Self {
        Self { seed, range: 0..len }
    }

    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// The bytes from offset `from` on.
    pub fn rest(&self, from: usize) -> Self {
        Self { seed: self.seed, range: self.range.start + from..self.range.end }
    }

    /// The first `len` bytes.
    pub fn first(&self, len: usize) -> Self {
        Self { seed: self.seed, range: self.range.start..self.range.start + len }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.range.end];
        fill(self.seed, &mut bytes);
        bytes.drain(..self.range.start);
        bytes
    }
}

/// Writes the content of a seed: one byte value, and a stamp every 512 bytes.
pub fn fill(seed: u64, into: &mut [u8]) {
    into.fill((seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8);
    for (number, part) in into.chunks_mut(512).enumerate() {
        let stamp = seed.wrapping_mul(1 << 20).wrapping_add(number as u64).to_le_bytes();
        let len = part.len().min(8);
        part[..len].copy_from_slice(&stamp[..len]);
    }
}

/// Pseudo-random numbers that repeat with the seed (xorshift).
#[derive(Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// A block length: small, unaligned, whole pages or many pages.
    pub fn len(&mut self) -> usize {
        const LENGTHS: [usize; 8] = [1, 100, 4096, 4097, 8192, 12_345, 16_384, 40_000];
        LENGTHS[self.roll(8) as usize]
    }
}
