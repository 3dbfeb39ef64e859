//! How much memory of no file an ELF file asks for behind its data: what its program header says of zeros
//! (`p_memsz` beyond `p_filesz`), in whole pages. The kernel, or the loader, maps it next to the file's last pages.

use object::elf::{FileHeader64, PF_W, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache};
use pagewise_kernel::page_size;
use pagewise_kernel::proc::maps::Mapping;
use pagewise_tracee::mapped_file;
use std::collections::HashMap;
use std::fs::File;

/// The lengths by file, as mappings list it.
#[derive(Debug, Default)]
pub(super) struct ZeroedData(HashMap<((u32, u32), u64), u64>);

impl ZeroedData {
    /// Zeroed bytes that the file of a mapping of process `pid` requests. 0 if it is no 64-bit ELF file.
    pub(super) fn of(&mut self, pid: i32, mapping: &Mapping) -> u64 {
        let read = || read(&mapped_file::open(pid, mapping).ok()?);
        let key = (mapping.device, mapping.inode);
        *self.0.entry(key).or_insert_with(|| read().unwrap_or(0))
    }
}

fn read(file: &File) -> Option<u64> {
    let file = ReadCache::new(file);
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
    use pagewise_kernel::proc::{maps, own_pid};

    #[test]
    fn what_is_no_program_asks_for_nothing() {
        let file = |path| File::open(path).unwrap();
        assert_eq!(read(&file("/proc/self/maps")), None);
        let (mut data, own) = (ZeroedData::default(), own_pid());
        let maps = maps::read(own).unwrap();
        let program = std::fs::read_link("/proc/self/exe").unwrap();
        let mapping = maps.iter().find(|mapping| mapping.path == program).unwrap();
        assert_eq!(data.of(own, mapping), read(&file("/proc/self/exe")).unwrap());
        assert_eq!(
            data.of(own, &Mapping { inode: 1, path: "/nonexistent".into(), ..mapping.clone() }),
            0
        );
    }
}
