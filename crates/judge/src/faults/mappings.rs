//! The mappings of a process by their addresses, how far each reaches, and where in it an address is.

use pagewise_model::PageSize;
use pagewise_model::fault::MappingKind;
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// An address in no mapping: the main stack's size is 8 MiB unless it was changed.
pub(super) const NEAR_MAIN_STACK: u64 = 8 << 20;

/// One mapping, by its first address in [`ProcessMappings`].
#[derive(Debug, Clone)]
pub(super) struct MappingRange {
    pub(super) end: u64,
    /// Offset in its file; `None` for memory of no file.
    pub(super) offset: Option<u64>,
    pub(super) path: u32,
    pub(super) kind: MappingKind,
    pub(super) is_shared: bool,
    /// Process that made it.
    pub(super) maker: i32,
}

/// The mappings of a process.
#[derive(Debug, Clone, Default)]
pub(super) struct ProcessMappings {
    ranges: BTreeMap<u64, MappingRange>,
    /// Files of which a part may be executed.
    pub(super) images: FxHashSet<u32>,
}

/// A mapping, or what lies between two of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappingExtent {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Offset in its file; `None` for memory of no file.
    offset: Option<u64>,
    is_mapping: bool,
    /// Heap, or private memory of no file.
    pub(super) is_private: bool,
}

impl ProcessMappings {
    pub(super) fn find(&self, address: u64) -> Option<(u64, &MappingRange)> {
        let (start, range) = self.ranges.range(..=address).next_back()?;
        (address < range.end).then_some((*start, range))
    }

    /// Puts `range` in, cutting what it covers.
    pub(super) fn insert(&mut self, start: u64, mut range: MappingRange) {
        if range.end <= start {
            return;
        }
        self.extend_image(start, &mut range);
        if range.kind == MappingKind::Code && range.path != 0 {
            self.images.insert(range.path);
        }
        let end = range.end;
        let covered: Vec<u64> = self
            .ranges
            .range(..end)
            .rev()
            .take_while(|(_, old)| old.end > start)
            .map(|(old_start, _)| *old_start)
            .collect();
        for old_start in covered {
            let Some(old) = self.ranges.remove(&old_start) else { continue };
            if old.end > end {
                let offset = old.offset.map(|offset| offset.saturating_add(end - old_start));
                self.ranges.insert(end, MappingRange { offset, ..old.clone() });
            }
            if old_start < start {
                self.ranges.insert(old_start, MappingRange { end: start, ..old });
            }
        }
        self.ranges.insert(start, range);
    }

    /// Private memory right behind the data of an image is that image's zeroed data.
    fn extend_image(&self, start: u64, range: &mut MappingRange) {
        if range.kind != MappingKind::Anonymous {
            return;
        }
        let before = self.ranges.range(..start).next_back().map(|(_, before)| before);
        if let Some(before) = before.filter(|b| b.end == start && self.images.contains(&b.path))
            && before.kind == MappingKind::File
        {
            (range.kind, range.path) = (MappingKind::Data, before.path);
        }
    }

    /// What `address` is in.
    pub(super) fn extent(&self, address: u64) -> MappingExtent {
        if let Some((start, range)) = self.find(address) {
            let is_private = matches!(range.kind, MappingKind::Heap | MappingKind::Anonymous);
            let (end, offset) = (range.end, range.offset);
            return MappingExtent { start, end, offset, is_mapping: true, is_private };
        }
        let below = self.ranges.range(..=address).next_back();
        let above = self.ranges.range(address..).next();
        MappingExtent {
            start: below.map_or(0, |(_, range)| range.end),
            end: above.map_or(u64::MAX, |(start, _)| *start),
            offset: None,
            is_mapping: false,
            is_private: false,
        }
    }

    /// Whether `address`, which lies in no mapping, is where the main stack below it grows to.
    pub(super) fn is_below_stack(&self, address: u64) -> bool {
        let above = self.ranges.range(address..).next();
        above.is_some_and(|(start, range)| {
            range.kind == MappingKind::Stack && start - address <= NEAR_MAIN_STACK
        })
    }
}

impl MappingExtent {
    pub(super) const fn contains(&self, address: u64) -> bool {
        self.start <= address && address < self.end
    }

    /// The position of `address` in its file. For other memory, the address itself.
    pub(super) const fn position(&self, address: u64) -> u64 {
        match self.offset {
            Some(offset) => offset.saturating_add(address - self.start),
            None => address,
        }
    }

    /// Whether the whole page of `size` that `address` would be in lies in this mapping, at an
    /// address that fits its position.
    pub(super) fn holds_whole(&self, address: u64, size: PageSize) -> bool {
        let size = size.bytes();
        let first = address - address % size;
        self.is_mapping
            && self.position(address) % size == address % size
            && first >= self.start
            && first.checked_add(size).is_some_and(|end| end <= self.end)
    }
}

#[cfg(test)]
impl ProcessMappings {
    /// Adds private memory, of a file where an offset is given.
    pub(super) fn insert_plain(&mut self, start: u64, end: u64, offset: Option<u64>) {
        let kind = offset.map_or(MappingKind::Anonymous, |_| MappingKind::File);
        let range = MappingRange { end, offset, path: 0, kind, is_shared: false, maker: 1 };
        self.insert(start, range);
    }
}
