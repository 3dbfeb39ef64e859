//! `/proc/pagetypeinfo` (root): memory in blocks of a huge page, by the kind of its content.
//!
//! A block becomes a huge page if everything in it is free or can be moved elsewhere. The kernel keeps
//! movable memory (of programs, page cache) and its own unmovable memory in separate blocks as far as
//! possible. If a block of another kind had to be used, or a page is pinned, fewer huge pages are available
//! than the kind suggests (mm/vmstat.c, `pagetypeinfo_showblockcount_print`).

use super::{fields, lines, number, read_bytes};
use crate::error::SysError;

/// Heading of the block counts.
const COUNTS: &[u8] = b"Number of blocks type";

/// Blocks of all zones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageBlocks {
    /// Blocks for movable memory.
    pub movable: u64,
    pub other: u64,
}

/// Parses the blocks in `text`; `None` if they are not counted.
#[must_use]
pub fn parse(text: &[u8]) -> Option<PageBlocks> {
    let mut rest = lines(text).skip_while(|line| !line.starts_with(COUNTS));
    // `Number of blocks type     Unmovable      Movable ...`, then `Node 0, zone      DMA      1      7 ...`
    let kinds: Vec<&[u8]> = fields(rest.next()?.strip_prefix(COUNTS)?).collect();
    let mut blocks = PageBlocks::default();
    for line in rest.filter(|line| line.starts_with(b"Node ")) {
        let counts = fields(line).skip(4).map_while(number::<u64>);
        for (kind, count) in kinds.iter().zip(counts) {
            let sum = if *kind == b"Movable" { &mut blocks.movable } else { &mut blocks.other };
            *sum = sum.saturating_add(count);
        }
    }
    Some(blocks)
}

/// The blocks now.
pub fn read() -> Result<PageBlocks, SysError> {
    let path = "/proc/pagetypeinfo";
    parse(&read_bytes(path)?).ok_or_else(|| SysError::malformed("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TWO_ZONES: &[u8] = b"Page block order: 9\nPages per block:  512\n\n\
        Free pages count per migrate type at order       0      1 \n\
        Node    0, zone      DMA, type    Unmovable      3      4 \n\n\
        Number of blocks type     Unmovable      Movable  Reclaimable   HighAtomic      Isolate \n\
        Node 0, zone      DMA            1            7            0            0            0 \n\
        Node 0, zone   Normal          119        10120          513            2            0 \n";

    #[test]
    fn kinds_add_up_over_zones() {
        assert_eq!(parse(TWO_ZONES), Some(PageBlocks { movable: 10127, other: 635 }));
        assert_eq!(parse(b"Page block order: 9\n"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
            let _ = parse(&[COUNTS, b" Movable\n", &text].concat());
        }
    }
}
