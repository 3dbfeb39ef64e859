//! How far a mapping reaches, and where in it an address is.

use super::{Mappings, NEAR_MAIN_STACK};
use pagewise_model::PageSize;
use pagewise_model::fault::MappingKind;

/// A mapping, or what lies between two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::faults) struct Extent {
    pub(in crate::faults) start: u64,
    pub(in crate::faults) end: u64,
    /// Offset in its file; `None` for memory of no file.
    offset: Option<u64>,
    is_mapping: bool,
    /// Heap, or private memory of no file.
    pub(in crate::faults) is_private: bool,
}

impl Mappings {
    /// What `address` is in.
    pub(in crate::faults) fn extent(&self, address: u64) -> Extent {
        if let Some((start, range)) = self.find(address) {
            let is_private = matches!(range.kind, MappingKind::Heap | MappingKind::Anonymous);
            let (end, offset) = (range.end, range.offset);
            return Extent { start, end, offset, is_mapping: true, is_private };
        }
        let below = self.ranges.range(..=address).next_back();
        let above = self.ranges.range(address..).next();
        Extent {
            start: below.map_or(0, |(_, range)| range.end),
            end: above.map_or(u64::MAX, |(start, _)| *start),
            offset: None,
            is_mapping: false,
            is_private: false,
        }
    }
}

impl Mappings {
    /// Whether `address`, which lies in no mapping, is where the main stack below it grows to.
    pub(in crate::faults) fn is_below_stack(&self, address: u64) -> bool {
        let above = self.ranges.range(address..).next();
        above.is_some_and(|(start, range)| {
            range.kind == MappingKind::Stack && start - address <= NEAR_MAIN_STACK
        })
    }
}

impl Extent {
    pub(in crate::faults) const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// Where `address` is in its file; elsewhere the address itself.
    pub(in crate::faults) const fn position(&self, address: u64) -> u64 {
        match self.offset {
            Some(offset) => offset.saturating_add(address - self.start),
            None => address,
        }
    }

    /// Whether the whole page of `size` that `address` would be in lies in this mapping, at an
    /// address that fits its position.
    pub(in crate::faults) fn holds_whole(&self, address: u64, size: PageSize) -> bool {
        let size = size.bytes();
        let first = address - address % size;
        self.is_mapping
            && self.position(address) % size == address % size
            && first >= self.start
            && first.checked_add(size).is_some_and(|end| end <= self.end)
    }
}

#[cfg(test)]
impl Mappings {
    /// Adds private memory, of a file where an offset is given.
    pub(in crate::faults) fn insert_plain(&mut self, start: u64, end: u64, offset: Option<u64>) {
        let kind = offset.map_or(MappingKind::Anonymous, |_| MappingKind::File);
        let range = super::Range { end, offset, path: 0, kind, is_shared: false };
        self.insert(start, range);
    }
}
