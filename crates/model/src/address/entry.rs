//! Entries of `/proc/PID/pagemap` and ranges of the ioctl `PAGEMAP_SCAN`, with the meanings of
//! `Documentation/admin-guide/mm/pagemap.rst`.
//!
//! Frame numbers and swap slots read as 0 without CAP_SYS_ADMIN. Bits that an older kernel does not set are 0
//! as well: Linux shows guards since 6.15 and protection by a userfaultfd since 5.13. While a page moves from
//! one frame to another, it counts as swapped.

use super::VirtualAddress;
use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PagemapEntry(pub u64);

/// A place in swap space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwapSlot {
    /// Number of the swap space. The kernel numbers them in the order in which they were added.
    pub space: u64,
    pub offset_pages: u64,
}

const FRAME_BITS: u64 = (1 << 55) - 1;
const SWAP_SPACE_BITS: u32 = 5;
const SOFT_DIRTY: u64 = 1 << 55;
const EXCLUSIVE: u64 = 1 << 56;
const WRITE_PROTECTED: u64 = 1 << 57;
const GUARD: u64 = 1 << 58;
const OF_FILE_OR_SHARED: u64 = 1 << 61;
const SWAPPED: u64 = 1 << 62;
const PRESENT: u64 = 1 << 63;

impl PagemapEntry {
    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }
    /// True if a frame is mapped.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.has(PRESENT)
    }
    /// True if the entry holds something other than a frame. A guard counts too.
    #[must_use]
    pub const fn is_swapped(self) -> bool {
        self.has(SWAPPED)
    }
    #[must_use]
    pub const fn is_guard(self) -> bool {
        self.has(GUARD)
    }
    /// True for a page of a file or of shared memory.
    #[must_use]
    pub const fn is_of_file_or_shared(self) -> bool {
        self.has(OF_FILE_OR_SHARED)
    }
    /// True if no other process maps the page.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        self.has(EXCLUSIVE)
    }
    /// True if the page is marked as written.
    #[must_use]
    pub const fn is_soft_dirty(self) -> bool {
        self.has(SOFT_DIRTY)
    }
    /// True if a userfaultfd write-protects the page.
    #[must_use]
    pub const fn is_write_protected(self) -> bool {
        self.has(WRITE_PROTECTED)
    }
    /// The frame, if one is present and the kernel shows its number.
    #[must_use]
    pub const fn frame(self) -> Option<u64> {
        match self.0 & FRAME_BITS {
            0 => None,
            _ if !self.is_present() => None,
            frame => Some(frame),
        }
    }
    /// The place in swap space, if the page is swapped and the kernel shows the place. The first page of a
    /// swap space is its header and never a place.
    #[must_use]
    pub const fn swap_slot(self) -> Option<SwapSlot> {
        let bits = self.0 & FRAME_BITS;
        if !self.is_swapped() || self.is_guard() || bits >> SWAP_SPACE_BITS == 0 {
            return None;
        }
        let space = bits & ((1 << SWAP_SPACE_BITS) - 1);
        Some(SwapSlot { space, offset_pages: bits >> SWAP_SPACE_BITS })
    }
}

/// A range of present pages, as `PAGEMAP_SCAN` reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScannedRange {
    pub start: VirtualAddress,
    pub end: VirtualAddress,
    /// True if an entry above the lowest level maps the range.
    pub is_huge: bool,
    /// True if the range is mapped to the zero page.
    pub is_zero: bool,
}

impl ScannedRange {
    /// True if `address` lies in the range.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        self.start.0 <= address && address < self.end.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_as_documented() {
        let present = PagemapEntry(1 << 63 | 1 << 61 | 1 << 56 | 0x1234);
        assert!(present.is_present() && present.is_of_file_or_shared() && present.is_exclusive());
        assert!(!present.is_swapped() && !present.is_soft_dirty() && !present.is_guard());
        assert_eq!((present.frame(), present.swap_slot()), (Some(0x1234), None));
        let swapped = PagemapEntry(1 << 62 | 7 << 5 | 2);
        assert_eq!(swapped.swap_slot(), Some(SwapSlot { space: 2, offset_pages: 7 }));
        assert_eq!(swapped.frame(), None);
        assert!(
            PagemapEntry(1 << 57 | 1 << 55).is_write_protected()
                && PagemapEntry(1 << 55).is_soft_dirty()
        );
    }

    #[test]
    fn what_is_hidden_is_not_there() {
        assert_eq!(PagemapEntry(1 << 63).frame(), None);
        assert_eq!(PagemapEntry(1 << 62).swap_slot(), None);
        assert_eq!(
            PagemapEntry(1 << 62 | 1 << 58 | 9 << 5).swap_slot(),
            None,
            "a guard has no place"
        );
    }
}
