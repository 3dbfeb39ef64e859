//! Where the parts of an ELF file are mapped. Translates file offsets to the addresses that its tables use,
//! and back.

use object::{Object, ObjectSegment};

/// The parts of a file that are mapped.
#[derive(Debug, Default)]
pub(crate) struct MappedSegments(Vec<MappedSegment>);

#[derive(Debug)]
struct MappedSegment {
    offset: u64,
    size: u64,
    address: u64,
}

impl MappedSegments {
    /// Those of `elf`.
    pub(crate) fn from_elf<'a>(elf: &impl Object<'a>) -> Self {
        let segments = elf.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            MappedSegment { offset, size, address: segment.address() }
        });
        Self(segments.collect())
    }

    /// The address of `offset` of the file.
    pub(crate) fn address(&self, offset: u64) -> Option<u64> {
        let within = |s: &&MappedSegment| s.offset <= offset && offset - s.offset < s.size;
        let segment = self.0.iter().find(within)?;
        segment.address.checked_add(offset - segment.offset)
    }

    /// Where in the file that is which its tables call `address`.
    pub(crate) fn offset(&self, address: u64) -> Option<u64> {
        let within = |s: &&MappedSegment| s.address <= address && address - s.address < s.size;
        let segment = self.0.iter().find(within)?;
        Some(segment.offset + (address - segment.address))
    }
}
