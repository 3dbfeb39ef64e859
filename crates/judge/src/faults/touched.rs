//! Which pages of an address space were faulted on: one bit a page, in regions of 512 pages.

use std::collections::HashMap;

const WORD_BITS: u64 = 64;
const WORDS: usize = 8;
const REGION_PAGES: u64 = WORD_BITS * WORDS as u64;

/// A set of page numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Touched(HashMap<u64, [u64; WORDS]>);

impl Touched {
    /// Adds a page; false when it was there.
    pub(super) fn add(&mut self, page: u64) -> bool {
        let region = self.0.entry(page / REGION_PAGES).or_default();
        let within = page % REGION_PAGES;
        let bit = 1_u64 << (within % WORD_BITS);
        let Some(word) = region.get_mut((within / WORD_BITS) as usize) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_new_once() {
        let mut touched = Touched::default();
        for page in [0, 1, 63, 64, 511, 512, u64::MAX / 2, u64::MAX] {
            assert!(touched.add(page), "{page}");
            assert!(!touched.add(page), "{page}");
        }
    }
}
