//! Where the elements of a chain lie.

use pagewise_model::walk::LINE;
use pagewise_model::{Bytes, PageSize};

/// Odd and without a pattern in its upper bits.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Offsets of so many elements, `apart` from page to page, each on a line of its own. Successive pages go
/// through all lines of a base page in turn, each such round turned by a hash of its number.
pub(super) fn places(apart: Bytes, count: u64, base: PageSize) -> Vec<usize> {
    let lines = (base.bytes() / LINE.0).max(2);
    let place = |page: u64| {
        let turned = (page / lines).wrapping_mul(MULTIPLIER) >> (u64::BITS - lines.ilog2());
        page * apart.0 + (page + turned) % lines * LINE.0
    };
    (0..count).map(|page| usize::try_from(place(page)).unwrap_or(usize::MAX)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_page_has_one_and_all_lines_are_used() {
        let places = places(Bytes::kib(4), 4096, PageSize::BASE_4K);
        assert!(places.iter().enumerate().all(|(page, at)| at / 4096 == page && at % 64 == 0));
        let of_first: BTreeSet<usize> = places[..64].iter().map(|at| at % 4096 / 64).collect();
        assert_eq!(of_first.len(), 64);
        // Sets of a cache of 1024 sets of lines, on memory that is contiguous.
        let mut used = [0_u32; 1024];
        places.iter().for_each(|at| used[at / 64 % 1024] += 1);
        let (least, most) = (used.iter().min(), used.iter().max());
        assert!(
            least.is_some_and(|n| *n >= 1) && most.is_some_and(|n| *n <= 12),
            "{least:?} {most:?}"
        );
    }
}
