//! `/proc/buddyinfo`: free memory of each zone by the size of its blocks.
//!
//! Column n counts free blocks of 2^n base pages. A block counts once, at its full size. Memory that is free
//! in smaller blocks can become a huge page only if the kernel moves the pages in between (compaction). The
//! counts of a zone are consistent. Pages in per-CPU lists are not counted (mm/vmstat.c, `frag_show_print`).

use super::{fields, lines, number, read_bytes};
use crate::error::SysError;
use pagewise_model::{Bytes, PageSize};

/// Free blocks of all zones together: index n holds the number of blocks of 2^n base pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BuddyInfo {
    blocks: Vec<u64>,
}

impl BuddyInfo {
    /// Free bytes in blocks that can hold a page of this size.
    #[must_use]
    pub fn free_for(&self, page: PageSize, base: PageSize) -> Bytes {
        let order = (page.bytes() / base.bytes().max(1)).max(1).ilog2() as usize;
        let size = |order: usize| base.bytes().checked_shl(u32::try_from(order).ok()?);
        let blocks = self.blocks.iter().enumerate().skip(order);
        blocks.fold(Bytes(0), |sum, (order, count)| {
            sum + Bytes(size(order).unwrap_or(u64::MAX).saturating_mul(*count))
        })
    }
}

/// The blocks in `text`.
#[must_use]
pub fn parse(text: &[u8]) -> BuddyInfo {
    let mut info = BuddyInfo::default();
    // `Node 0, zone   Normal  17006   6168 ...`
    for line in lines(text).filter(|line| line.starts_with(b"Node ")) {
        for (order, count) in fields(line).skip(4).map_while(number::<u64>).enumerate() {
            match info.blocks.get_mut(order) {
                Some(sum) => *sum = sum.saturating_add(count),
                None => info.blocks.push(count),
            }
        }
    }
    info
}

/// The blocks now.
pub fn read() -> Result<BuddyInfo, SysError> {
    read_bytes("/proc/buddyinfo").map(|text| parse(&text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO_ZONES: &[u8] = b"Node 0, zone      DMA      0      1      0      0      0      0      0 \
        0      0      1      3 \n\
        Node 0, zone   Normal     10      0      0      0      0      0      0      0      0      2      0 \n";

    #[test]
    fn blocks_add_up_from_the_size_on() {
        let info = parse(TWO_ZONES);
        let free = |page| info.free_for(page, PageSize::BASE_4K);
        assert_eq!(free(PageSize::PMD_2M), Bytes::mib(3 * 2 + 3 * 4));
        assert_eq!(free(PageSize::BASE_4K), Bytes::mib(18) + Bytes::kib(40 + 8));
        let beyond = PageSize::new(Bytes::gib(1).0).unwrap();
        assert_eq!(free(beyond), Bytes(0), "no block is as large");
    }

    #[test]
    fn this_machine_has_free_blocks() {
        let base = crate::page_size::base();
        assert!(read().unwrap().free_for(base, base) > Bytes(0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text).free_for(PageSize::PMD_2M, PageSize::BASE_4K);
        }
    }
}
