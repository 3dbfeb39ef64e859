//! Entries of `/proc/PID/pagemap` and ranges of the ioctl `PAGEMAP_SCAN`, by the meanings that
//! `Documentation/admin-guide/mm/pagemap.rst` gives.
//!
//! Frame numbers and swap slots read as 0 without CAP_SYS_ADMIN. Bits that a kernel does not know yet
//! are 0 as well: guards are shown since Linux 6.15, protection by a userfaultfd since 5.13. A page that
//! is on its way from one frame to another counts as swapped for that moment.

use super::Address;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Entry(pub u64);

/// A place in swap space.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SwapSlot {
    /// Number of the swap space, in the order in which they were added.
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

impl Entry {
    const fn has(self, bit: u64) -> bool {
        self.0 & bit != 0
    }
    /// A frame is mapped.
    #[must_use]
    pub const fn is_present(self) -> bool {
        self.has(PRESENT)
    }
    /// The entry holds something that is no frame; a guard counts too.
    #[must_use]
    pub const fn is_swapped(self) -> bool {
        self.has(SWAPPED)
    }
    #[must_use]
    pub const fn is_guard(self) -> bool {
        self.has(GUARD)
    }
    /// Of a file or of shared memory.
    #[must_use]
    pub const fn is_of_file_or_shared(self) -> bool {
        self.has(OF_FILE_OR_SHARED)
    }
    /// Mapped here alone.
    #[must_use]
    pub const fn is_exclusive(self) -> bool {
        self.has(EXCLUSIVE)
    }
    /// Marked as written.
    #[must_use]
    pub const fn is_soft_dirty(self) -> bool {
        self.has(SOFT_DIRTY)
    }
    /// Protected by a userfaultfd.
    #[must_use]
    pub const fn is_write_protected(self) -> bool {
        self.has(WRITE_PROTECTED)
    }
    /// The frame, if it is present and the kernel tells.
    #[must_use]
    pub const fn frame(self) -> Option<u64> {
        match self.0 & FRAME_BITS {
            0 => None,
            _ if !self.is_present() => None,
            frame => Some(frame),
        }
    }
    /// The place in swap space, if it is swapped and the kernel tells: the first page of a swap space
    /// is its header and never a place.
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

/// A range of present pages, as `PAGEMAP_SCAN` gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scanned {
    pub start: Address,
    pub end: Address,
    /// Mapped by an entry above the lowest level.
    pub is_huge: bool,
    /// Mapped to the zero page.
    pub is_zero: bool,
}

impl Scanned {
    /// True when `address` lies in it.
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
        let present = Entry(1 << 63 | 1 << 61 | 1 << 56 | 0x1234);
        assert!(present.is_present() && present.is_of_file_or_shared() && present.is_exclusive());
        assert!(!present.is_swapped() && !present.is_soft_dirty() && !present.is_guard());
        assert_eq!((present.frame(), present.swap_slot()), (Some(0x1234), None));
        let swapped = Entry(1 << 62 | 7 << 5 | 2);
        assert_eq!(swapped.swap_slot(), Some(SwapSlot { space: 2, offset_pages: 7 }));
        assert_eq!(swapped.frame(), None);
        assert!(Entry(1 << 57 | 1 << 55).is_write_protected() && Entry(1 << 55).is_soft_dirty());
    }

    #[test]
    fn what_is_hidden_is_not_there() {
        assert_eq!(Entry(1 << 63).frame(), None);
        assert_eq!(Entry(1 << 62).swap_slot(), None);
        assert_eq!(Entry(1 << 62 | 1 << 58 | 9 << 5).swap_slot(), None, "a guard has no place");
    }
}
