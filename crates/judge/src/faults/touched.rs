//! Which pages of an address space were faulted on, how often, and which were mapped again since.
//!
//! Uses two bits a page, in regions of 512 pages. Counts are kept only in regions with a repeated fault.

use rustc_hash::FxHashMap;
use std::ops::Range;

/// Pages in a word of bits.
pub(super) const WORD_BITS: u64 = u64::BITS as u64;
const WORDS: usize = 8;
const REGION_PAGES: u64 = WORD_BITS * WORDS as u64;

/// What was known of a page when it was faulted on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageHistory {
    New,
    /// It was faulted on.
    Touched,
    /// It was faulted on, and then something was mapped there.
    Remapped,
}

/// Page numbers with the number of faults on each.
#[derive(Debug, Clone, Default)]
pub(super) struct PageTouchCounts(FxHashMap<u64, TouchedRegion>);

#[derive(Debug, Clone, Default)]
struct TouchedRegion {
    touched: [u64; WORDS],
    remapped: [u64; WORDS],
    /// Faults on each page beyond the first one.
    again: Option<Box<[u32; REGION_PAGES as usize]>>,
}

impl PageTouchCounts {
    /// Adds a fault on a page. Returns what was known about the page before.
    pub(super) fn add(&mut self, page: u64) -> PageHistory {
        let region = self.0.entry(page / REGION_PAGES).or_default();
        let within = page % REGION_PAGES;
        let bit = 1_u64 << (within % WORD_BITS);
        let at = (within / WORD_BITS) as usize;
        let (Some(touched), Some(remapped)) =
            (region.touched.get_mut(at), region.remapped.get_mut(at))
        else {
            return PageHistory::Touched;
        };
        let before = match (*touched & bit != 0, *remapped & bit != 0) {
            (false, _) => PageHistory::New,
            (true, false) => PageHistory::Touched,
            (true, true) => PageHistory::Remapped,
        };
        *touched |= bit;
        *remapped &= !bit;
        if before != PageHistory::New {
            let again = region.again.get_or_insert_with(|| Box::new([0; REGION_PAGES as usize]));
            if let Some(count) = again.get_mut(within as usize) {
                *count = count.saturating_add(1);
            }
        }
        before
    }

    /// Whether a page was faulted on since something was last mapped there.
    pub(super) fn holds(&self, page: u64) -> bool {
        let Some(region) = self.0.get(&(page / REGION_PAGES)) else { return false };
        let within = page % REGION_PAGES;
        let at = (within / WORD_BITS) as usize;
        let words = region.touched.get(at).zip(region.remapped.get(at));
        words.is_some_and(|(touched, new)| (touched & !new) >> (within % WORD_BITS) & 1 == 1)
    }

    /// Something was mapped over the pages from `first` up to `end`.
    pub(super) fn remap(&mut self, first: u64, end: u64) {
        each_within(&mut self.0, REGION_PAGES, &(first..end), |start, region| {
            let words = region.touched.iter().zip(&mut region.remapped);
            for (at, (touched, remapped)) in (0..).zip(words) {
                *remapped |= touched & bits_of(start + at * WORD_BITS, &(first..end));
            }
        });
    }

    /// Each page and the number of faults on it, in the order of pages.
    pub(super) fn pages(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut regions: Vec<_> = self.0.iter().collect();
        regions.sort_unstable_by_key(|(number, _)| **number);
        regions.into_iter().flat_map(|(number, region)| {
            (0..REGION_PAGES).filter_map(move |within| {
                let word = region.touched.get((within / WORD_BITS) as usize)?;
                if word >> (within % WORD_BITS) & 1 == 0 {
                    return None;
                }
                let again = region.again.as_ref().and_then(|again| again.get(within as usize));
                Some((number * REGION_PAGES + within, 1 + u64::from(again.copied().unwrap_or(0))))
            })
        })
    }
}

/// Calls `each` with those of `all`, groups of `size` pages by their number, that have some of
/// `pages`, and with their first page.
pub(super) fn each_within<G>(
    all: &mut FxHashMap<u64, G>,
    size: u64,
    pages: &Range<u64>,
    mut each: impl FnMut(u64, &mut G),
) {
    if pages.is_empty() {
        return;
    }
    let numbers = pages.start / size..=(pages.end - 1) / size;
    if numbers.end() - numbers.start() < all.len() as u64 {
        for number in numbers {
            if let Some(group) = all.get_mut(&number) {
                each(number * size, group);
            }
        }
    } else {
        // A range reserved for later may have more groups than were ever touched.
        let known = all.iter_mut().filter(|(number, _)| numbers.contains(number));
        known.for_each(|(number, group)| each(number * size, group));
    }
}

/// The bits of `pages` in the word whose first page is `word`.
pub(super) fn bits_of(word: u64, pages: &Range<u64>) -> u64 {
    let within = |page: u64| page.saturating_sub(word).min(WORD_BITS);
    below(within(pages.end)) & !below(within(pages.start))
}

/// A word whose lowest `bits` are set.
const fn below(bits: u64) -> u64 {
    if bits >= WORD_BITS { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_new_once_and_its_faults_are_counted() {
        let mut touched = PageTouchCounts::default();
        let pages = [0, 1, 63, 64, 511, 512, u64::MAX / 2, u64::MAX];
        for page in pages {
            assert_eq!(touched.add(page), PageHistory::New, "{page}");
            assert_eq!(touched.add(page), PageHistory::Touched, "{page}");
        }
        touched.add(64);
        let want: Vec<(u64, u64)> =
            pages.iter().map(|page| (*page, if *page == 64 { 3 } else { 2 })).collect();
        assert_eq!(touched.pages().collect::<Vec<_>>(), want);
    }

    #[test]
    fn a_mapping_marks_the_pages_it_covers_once() {
        for (first, end) in [(60, 70), (0, 512), (500, 1030), (64, 65), (0, u64::MAX)] {
            let mut touched = PageTouchCounts::default();
            let pages = || (50..80).chain(490..520).chain(1020..1040);
            pages().for_each(|page| {
                touched.add(page);
            });
            touched.remap(first, end);
            for page in pages() {
                let want = if (first..end).contains(&page) {
                    PageHistory::Remapped
                } else {
                    PageHistory::Touched
                };
                assert_eq!(
                    touched.holds(page),
                    want == PageHistory::Touched,
                    "{page} of {first}..{end}"
                );
                assert_eq!(touched.add(page), want, "{page} of {first}..{end}");
                assert!(touched.holds(page) && !touched.holds(page + 2000));
                assert_eq!(touched.add(page), PageHistory::Touched, "{page} of {first}..{end}");
            }
        }
        let mut none = PageTouchCounts::default();
        none.remap(5, 5);
        none.remap(0, u64::MAX);
        assert_eq!(none.add(5), PageHistory::New);
    }
}
