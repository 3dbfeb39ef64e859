//! Which pages of an address space were faulted on, and how often: one bit a page, in regions of 512
//! pages; counts only in regions where a page was faulted on again.

use std::collections::HashMap;

const WORD_BITS: u64 = 64;
const WORDS: usize = 8;
const REGION_PAGES: u64 = WORD_BITS * WORDS as u64;

/// Page numbers with the number of faults on each.
#[derive(Debug, Clone, Default)]
pub(super) struct Touched(HashMap<u64, Region>);

#[derive(Debug, Clone, Default)]
struct Region {
    pages: [u64; WORDS],
    /// Faults on each page beyond the first one.
    again: Option<Box<[u32; REGION_PAGES as usize]>>,
}

impl Touched {
    /// Adds a fault on a page; false when there was one before.
    pub(super) fn add(&mut self, page: u64) -> bool {
        let region = self.0.entry(page / REGION_PAGES).or_default();
        let within = page % REGION_PAGES;
        let bit = 1_u64 << (within % WORD_BITS);
        let Some(word) = region.pages.get_mut((within / WORD_BITS) as usize) else { return false };
        let is_new = *word & bit == 0;
        *word |= bit;
        if !is_new {
            let again = region.again.get_or_insert_with(|| Box::new([0; REGION_PAGES as usize]));
            if let Some(count) = again.get_mut(within as usize) {
                *count = count.saturating_add(1);
            }
        }
        is_new
    }

    /// Each page and the number of faults on it, in the order of pages.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut regions: Vec<_> = self.0.iter().collect();
        regions.sort_unstable_by_key(|(number, _)| **number);
        regions.into_iter().flat_map(|(number, region)| {
            (0..REGION_PAGES).filter_map(move |within| {
                let word = region.pages.get((within / WORD_BITS) as usize)?;
                if word >> (within % WORD_BITS) & 1 == 0 {
                    return None;
                }
                let again = region.again.as_ref().and_then(|again| again.get(within as usize));
                Some((number * REGION_PAGES + within, 1 + u64::from(again.copied().unwrap_or(0))))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_new_once_and_its_faults_are_counted() {
        let mut touched = Touched::default();
        let pages = [0, 1, 63, 64, 511, 512, u64::MAX / 2, u64::MAX];
        for page in pages {
            assert!(touched.add(page), "{page}");
            assert!(!touched.add(page), "{page}");
        }
        touched.add(64);
        let want: Vec<(u64, u64)> =
            pages.iter().map(|page| (*page, if *page == 64 { 3 } else { 2 })).collect();
        assert_eq!(touched.pages().collect::<Vec<_>>(), want);
    }
}
