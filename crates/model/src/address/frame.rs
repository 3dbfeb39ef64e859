//! Flags of a frame from `/proc/kpageflags` (include/uapi/linux/kernel-page-flags.h and, for the bits from 32
//! on, include/linux/kernel-page-flags.h). Bits that only a newer kernel knows appear by number.

/// The flags of one frame.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FrameFlags(pub u64);

/// Bit and word.
const NAMES: &[(u32, &str)] = &[
    (0, "locked"),
    (1, "error"),
    (2, "referenced"),
    (3, "up to date"),
    (4, "dirty"),
    (5, "LRU"),
    (6, "active"),
    (7, "slab"),
    (8, "under writeback"),
    (9, "to be reclaimed"),
    (10, "free"),
    (11, "mapped"),
    (12, "anonymous"),
    (13, "in swap cache"),
    (14, "backed by swap"),
    (15, "compound head"),
    (16, "compound tail"),
    (17, "hugetlb"),
    (18, "unevictable"),
    (19, "hardware-poisoned"),
    (20, "no frame"),
    (21, "KSM"),
    (22, "THP"),
    (23, "offline"),
    (24, "zero page"),
    (25, "idle"),
    (26, "page table"),
    (32, "reserved"),
    (33, "locked in memory"),
    (34, "owner 2"),
    (35, "private"),
    (36, "private 2"),
    (37, "owner"),
    (38, "architecture 1"),
    (39, "uncached"),
    (40, "soft-dirty"),
    (41, "architecture 2"),
    (42, "architecture 3"),
];

const COMPOUND_HEAD: u32 = 15;
const COMPOUND_TAIL: u32 = 16;

impl FrameFlags {
    const fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }
    /// True for the first frame of a folio of several frames.
    #[must_use]
    pub const fn is_head(self) -> bool {
        self.has(COMPOUND_HEAD)
    }
    /// True for any later frame of such a folio.
    #[must_use]
    pub const fn is_tail(self) -> bool {
        self.has(COMPOUND_TAIL)
    }
    /// The names of all flags that are set.
    #[must_use]
    pub fn names(self) -> Vec<String> {
        let known = |bit: u32| NAMES.iter().find(|(b, _)| *b == bit).map(|(_, name)| *name);
        let name = |bit: u32| known(bit).map_or_else(|| format!("bit {bit}"), str::to_owned);
        (0..u64::BITS).filter(|bit| self.has(*bit)).map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_has_one_name() {
        let names = FrameFlags(u64::MAX).names();
        assert_eq!(names.len(), 64);
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), 64);
        assert_eq!(FrameFlags(1 << 12 | 1 << 22).names(), ["anonymous", "THP"]);
        assert_eq!(FrameFlags(1 << 63).names(), ["bit 63"]);
        assert!(FrameFlags(1 << 15).is_head() && FrameFlags(1 << 16).is_tail());
    }
}
