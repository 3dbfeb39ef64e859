//! How much memory of no file an ELF file asks for behind its data: what its program header says of zeros
//! (`p_memsz` beyond `p_filesz`), in whole pages. The kernel, or the loader, maps it next to the file's last pages.

use object::elf::{FileHeader64, PF_W, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use pagewise_kernel::page_size;
use std::collections::HashMap;
use std::fs::File;

/// The lengths by path.
#[derive(Debug, Default)]
pub(super) struct ZeroedData(HashMap<String, u64>);

impl ZeroedData {
    /// The bytes that the file at `path` asks for; 0 where it is no ELF file of 64 bits.
    pub(super) fn of(&mut self, path: &str) -> u64 {
        if let Some(known) = self.0.get(path) {
            return *known;
        }
        let length = read(path).unwrap_or(0);
        self.0.insert(path.to_owned(), length);
        length
    }
}

fn read(path: &str) -> Option<u64> {
    let file = ReadCache::new(File::open(path).ok()?);
    let header = FileHeader64::<Endianness>::parse(&file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, &file).ok()?;
    let data = |segment: &&object::elf::ProgramHeader64<Endianness>| {
        segment.p_type(endian) == PT_LOAD && segment.p_flags(endian).0 & PF_W.0 != 0
    };
    let page = page_size::base().bytes();
    let zeroed = |segment: &object::elf::ProgramHeader64<Endianness>| {
        let start = segment.p_vaddr(endian);
        let pages = |bytes: u64| start.checked_add(bytes)?.checked_next_multiple_of(page);
        pages(segment.p_memsz(endian))?.checked_sub(pages(segment.p_filesz(endian))?)
    };
    segments.iter().filter(data).filter_map(zeroed).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_program_asks_for_nothing() {
        let mut data = ZeroedData::default();
        assert_eq!(data.of("/proc/self/maps"), 0);
        assert_eq!(data.of("/nonexistent"), 0);
        assert_eq!(data.of("/proc/self/exe"), read("/proc/self/exe").unwrap());
    }
}
