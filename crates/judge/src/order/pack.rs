//! Packs pieces into the fewest pages, with as few pieces as possible across page ends.
//!
//! A linker lays out pieces one after the other, with gaps only for alignment. So no piece crosses a page end
//! only if the sizes add up to a page. Pieces are taken in the given order. If the next one does not fit, the
//! largest later one that fits is taken. If none fits, the rest of the page goes to a piece larger than a
//! page, which crosses pages anyway, or to the next piece. The first piece is assumed to begin a page.

use pagewise_model::PageSize;
use pagewise_model::pieces::OrderPages;
use std::collections::VecDeque;

/// Pieces ahead that may be taken before their turn. More would fill pages better and tear groups apart.
const AHEAD: usize = 8;
/// A size with its alignment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlignedSize {
    /// The size.
    pub bytes: u64,
    /// A power of two; 0 counts as 1.
    pub align: u64,
}

impl AlignedSize {
    /// Where the piece begins if it follows `end`.
    #[must_use]
    pub const fn start(self, end: u64) -> u64 {
        end.next_multiple_of(if self.align == 0 { 1 } else { self.align })
    }
}

/// The order of `extents` that fills pages best. `extents` is sorted by importance, the most important first.
#[must_use]
pub fn pack(extents: &[AlignedSize], page: PageSize) -> Vec<usize> {
    let mut left: VecDeque<usize> = (0..extents.len()).collect();
    let mut order = Vec::with_capacity(extents.len());
    let mut end = 0;
    while let Some(at) = next(extents, &left, end, page.bytes()) {
        let Some(taken) = left.remove(at) else { break };
        end = extents[taken].start(end) + extents[taken].bytes;
        order.push(taken);
    }
    order
}

/// Pages and crossings of an order.
#[must_use]
pub fn measure(extents: &[AlignedSize], order: &[usize], page: PageSize) -> OrderPages {
    let (mut end, mut crossing) = (0_u64, 0);
    for extent in order.iter().filter_map(|at| extents.get(*at)) {
        let start = extent.start(end);
        end = start + extent.bytes;
        let crosses = start / page.bytes() != end.saturating_sub(1) / page.bytes();
        crossing += u64::from(crosses && extent.bytes <= page.bytes());
    }
    OrderPages { pages: end.div_ceil(page.bytes()), crossing }
}

/// The piece to lay after `end`, by its place in `left`.
fn next(extents: &[AlignedSize], left: &VecDeque<usize>, end: u64, page: u64) -> Option<usize> {
    let room = end.next_multiple_of(page) - end;
    let fits = |at: &usize| extents[*at].start(end) + extents[*at].bytes <= end + room;
    let first = left.front()?;
    if room == 0 || fits(first) {
        return Some(0);
    }
    let ahead = left.len().min(AHEAD);
    let fitting = left.range(..ahead).enumerate().filter(|(_, at)| fits(at));
    // Of equals the first.
    let largest =
        fitting.max_by_key(|(place, at)| (extents[**at].bytes, std::cmp::Reverse(*place)));
    let crosses_anyhow = || left.range(..ahead).position(|at| extents[*at].bytes > page);
    largest.map(|(place, _)| place).or_else(crosses_anyhow).or(Some(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn extents(sizes: &[u64]) -> Vec<AlignedSize> {
        sizes.iter().map(|bytes| AlignedSize { bytes: *bytes, align: 16 }).collect()
    }

    fn packed(sizes: &[u64]) -> (Vec<usize>, u64, u64) {
        let all = extents(sizes);
        let order = pack(&all, PageSize::BASE_4K);
        let paged = measure(&all, &order, PageSize::BASE_4K);
        (order, paged.pages, paged.crossing)
    }

    #[test]
    fn the_end_of_a_page_goes_to_what_fits_it() {
        let sizes = [3008, 2000, 1088, 2000, 96];
        assert_eq!(packed(&sizes), (vec![0, 2, 1, 3, 4], 2, 0));
        let plain: Vec<usize> = (0..5).collect();
        assert_eq!(measure(&extents(&sizes), &plain, PageSize::BASE_4K).crossing, 1);
    }

    #[test]
    fn a_piece_larger_than_a_page_takes_the_room_that_nothing_fits() {
        assert_eq!(packed(&[3008, 2000, 9280]), (vec![0, 2, 1], 4, 0));
    }

    proptest! {
        #[test]
        fn each_piece_is_laid_once(sizes in prop::collection::vec(1_u64..6000, 0..200)) {
            let (mut order, pages, crossing) = packed(&sizes);
            order.sort_unstable();
            let plain: Vec<usize> = (0..sizes.len()).collect();
            prop_assert_eq!(&order, &plain);
            let plain = measure(&extents(&sizes), &plain, PageSize::BASE_4K);
            prop_assert!(pages <= plain.pages + 1);
            prop_assert!(crossing <= pages);
        }
    }
}
