//! The program headers of an ELF file: which parts are mapped where, and what it needs.
//!
//! Only what loaders use is read (`PT_LOAD`, `PT_INTERP`, `PT_DYNAMIC`), so stripped section headers do not
//! matter. A file that no loader would accept is refused with the reason: parts beyond its end, no part at
//! all, offset and address that differ within a page.

use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_SONAME, DT_STRSZ, DT_STRTAB, ET_DYN, ET_EXEC,
    FileHeader32, FileHeader64, PF_W, PF_X, PT_INTERP, PT_LOAD,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef, StringTable};
use pagewise_kernel::page_size;
use pagewise_model::Bytes;
use pagewise_model::text::{ElfLayout, ImagePlacement, LoadSegment};
use std::fs::File;

/// Parts beyond this are not of a file that runs.
pub const MOST_SEGMENTS: u32 = 1 << 12;
/// Most bytes of dynamic entries.
pub const MOST_DYNAMIC: Bytes = Bytes::mib(1);

/// Why loaders cannot map a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// Another format, or a damaged header.
    #[error("it is not a readable ELF file")]
    NotElf,
    /// Neither a program nor a library.
    #[error("it is an ELF file, but neither a program nor a library")]
    NotLoaded,
    /// The headers name parts that are not there.
    #[error("its segments reach beyond its end: it is truncated or damaged")]
    Truncated,
    /// No loader accepts these headers.
    #[error("its program headers cannot be mapped: {0}")]
    Unmappable(&'static str),
}

/// What was read of an ELF file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElfFile {
    /// How it is mapped.
    pub layout: ElfLayout,
    /// Names of the libraries that it needs.
    pub needed: Vec<String>,
    /// The search path of the file (`DT_RUNPATH`, or else `DT_RPATH`), separated by colons.
    pub search: Option<String>,
    /// The path takes precedence over `LD_LIBRARY_PATH` (`DT_RPATH`).
    pub is_searched_first: bool,
    /// Whether it is of 64 bits, and its machine: libraries have the same.
    pub machine: (bool, u16),
}

impl ElfFile {
    /// Reads the headers of a file.
    ///
    /// # Errors
    /// When it is no ELF file that a loader would map.
    pub fn read(file: &File) -> Result<Self, ElfError> {
        let len = file.metadata().map_err(|_| ElfError::NotElf)?.len();
        let cache = ReadCache::new(file);
        Self::parse(&cache, len)
    }

    fn parse<'data, R: ReadRef<'data>>(data: R, len: u64) -> Result<Self, ElfError> {
        match parse::<FileHeader64<Endianness>, R>(data, len, true) {
            Err(ElfError::NotElf) => parse::<FileHeader32<Endianness>, R>(data, len, false),
            found => found,
        }
    }
}

fn parse<'data, H, R>(data: R, len: u64, is_64: bool) -> Result<ElfFile, ElfError>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data).map_err(|_| ElfError::NotElf)?;
    let endian = header.endian().map_err(|_| ElfError::NotElf)?;
    let kind = header.e_type(endian);
    if kind != ET_EXEC && kind != ET_DYN {
        return Err(ElfError::NotLoaded);
    }
    // Checked before they are read: the header may claim more than there is memory.
    if header.phnum(endian, data).map_err(|_| ElfError::Truncated)? > MOST_SEGMENTS {
        return Err(ElfError::Unmappable("it has too many segments"));
    }
    let headers = header.program_headers(endian, data).map_err(|_| ElfError::Truncated)?;
    let loads = headers.iter().filter(|part| part.p_type(endian) == PT_LOAD);
    let segments: Vec<LoadSegment> = loads
        .map(|part| segment::<H>(endian, part))
        .filter(|segment| segment.file_bytes > Bytes(0))
        .collect();
    check(&segments, len)?;
    let dynamic = DynamicEntries::read::<H, R>(endian, data, headers, &segments);
    let has_interpreter = headers.iter().any(|part| part.p_type(endian) == PT_INTERP);
    // A C library has an interpreter too, so that running it prints its version. Unlike programs, it also has
    // a name.
    let is_library = dynamic.has_name || (!has_interpreter && !dynamic.needed.is_empty());
    let placement = match (kind == ET_EXEC, has_interpreter, is_library) {
        (true, ..) => ImagePlacement::Fixed,
        (false, _, true) => ImagePlacement::Library,
        (false, true, false) => ImagePlacement::Program,
        (false, false, false) => ImagePlacement::Mapped,
    };
    Ok(ElfFile {
        layout: ElfLayout { placement, segments },
        needed: dynamic.needed,
        search: dynamic.search,
        is_searched_first: dynamic.is_searched_first,
        machine: (is_64, header.e_machine(endian).0),
    })
}

fn segment<H: FileHeader<Endian = Endianness>>(
    endian: Endianness,
    part: &H::ProgramHeader,
) -> LoadSegment {
    let flags = part.p_flags(endian);
    LoadSegment {
        offset_bytes: Bytes(part.p_offset(endian).into()),
        address: part.p_vaddr(endian).into(),
        file_bytes: Bytes(part.p_filesz(endian).into()),
        align_bytes: Bytes(part.p_align(endian).into()),
        is_writable: flags.contains(PF_W),
        is_executable: flags.contains(PF_X),
    }
}

/// Checks that a loader can map all of these from a file of this length.
fn check(segments: &[LoadSegment], len: u64) -> Result<(), ElfError> {
    let page = page_size::base().bytes();
    if segments.is_empty() {
        return Err(ElfError::Unmappable("it has no loadable segment"));
    }
    for segment in segments {
        let (offset, size) = (segment.offset_bytes.0, segment.file_bytes.0);
        if offset.checked_add(size).is_none_or(|end| end > len) {
            return Err(ElfError::Truncated);
        }
        if segment.address.checked_add(size).is_none_or(|end| end > u64::MAX - page) {
            return Err(ElfError::Unmappable("a segment ends beyond the last address"));
        }
        if offset % page != segment.address % page {
            return Err(ElfError::Unmappable(
                "a segment's address and offset differ within the page",
            ));
        }
    }
    Ok(())
}

/// The dynamic entries. Empty if they cannot be read.
#[derive(Debug, Default)]
struct DynamicEntries {
    needed: Vec<String>,
    search: Option<String>,
    is_searched_first: bool,
    has_name: bool,
}

impl DynamicEntries {
    fn read<'data, H, R>(
        endian: Endianness,
        data: R,
        headers: &[H::ProgramHeader],
        segments: &[LoadSegment],
    ) -> Self
    where
        H: FileHeader<Endian = Endianness>,
        R: ReadRef<'data>,
    {
        let is_readable = |part: &&H::ProgramHeader| part.p_filesz(endian).into() <= MOST_DYNAMIC.0;
        let mut parts = headers.iter().filter(is_readable);
        let entries = parts.find_map(|part| part.dynamic(endian, data).ok().flatten());
        let entries: Vec<_> = entries
            .unwrap_or_default()
            .iter()
            .map(|entry| (entry.tag(endian), entry.val(endian)))
            .take_while(|(tag, _)| *tag != DT_NULL)
            .collect();
        let value =
            |wanted| entries.iter().find(|(tag, _)| *tag == wanted).map(|(_, value)| *value);
        let table = value(DT_STRTAB).zip(value(DT_STRSZ));
        let Some((start, size)) =
            table.and_then(|(address, size)| Some((offset_of(segments, address)?, size)))
        else {
            return Self::default();
        };
        let strings = StringTable::new(data, start, start.saturating_add(size));
        let text = |at: u64| {
            let bytes = strings.get(u32::try_from(at).ok()?).ok()?;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let needed = entries.iter().filter(|(tag, _)| *tag == DT_NEEDED);
        Self {
            needed: needed.filter_map(|(_, at)| text(*at)).collect(),
            search: value(DT_RUNPATH).or_else(|| value(DT_RPATH)).and_then(text),
            is_searched_first: value(DT_RUNPATH).is_none(),
            has_name: value(DT_SONAME).is_some(),
        }
    }
}

/// Where in the file an address is.
fn offset_of(segments: &[LoadSegment], address: u64) -> Option<u64> {
    let within = |s: &&LoadSegment| address >= s.address && address - s.address < s.file_bytes.0;
    let segment = segments.iter().find(within)?;
    segment.offset_bytes.0.checked_add(address - segment.address)
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;

    fn of_bytes(bytes: &[u8]) -> Result<ElfFile, ElfError> {
        ElfFile::parse(bytes, bytes.len() as u64)
    }

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").unwrap()
    }

    #[test]
    fn this_program_is_position_independent_with_text_and_a_library() {
        let elf = ElfFile::read(&File::open("/proc/self/exe").unwrap()).unwrap();
        assert!(elf.layout.segments.iter().any(|segment| segment.is_executable));
        if elf.layout.placement != ImagePlacement::Program {
            println!("SKIP what this program needs: it is {:?}", elf.layout.placement);
            return;
        }
        assert!(elf.needed.iter().any(|name| name.starts_with("libc.")), "{:?}", elf.needed);
        assert!(elf.machine.0);
    }

    #[test]
    fn what_is_no_program_is_distinguished() {
        assert_eq!(of_bytes(b"#!/bin/sh\n"), Err(ElfError::NotElf));
        assert_eq!(of_bytes(b""), Err(ElfError::NotElf));
        assert_eq!(of_bytes(&own()[..5000]), Err(ElfError::Truncated));
        let mut object = own();
        object[16] = 1;
        assert_eq!(of_bytes(&object), Err(ElfError::NotLoaded));
    }

    #[test]
    fn headers_that_no_loader_follows_are_refused() {
        let page = page_size::base().bytes();
        let good = LoadSegment {
            offset_bytes: Bytes(0),
            address: 16 * page,
            file_bytes: Bytes(page),
            align_bytes: Bytes(page),
            is_writable: false,
            is_executable: true,
        };
        assert_eq!(check(&[good], page), Ok(()));
        assert_eq!(check(&[good], page - 1), Err(ElfError::Truncated));
        let beyond = LoadSegment { offset_bytes: Bytes(u64::MAX), ..good };
        assert_eq!(check(&[beyond], page), Err(ElfError::Truncated));
        let high = LoadSegment { address: u64::MAX - page, ..good };
        assert!(matches!(check(&[high], page), Err(ElfError::Unmappable(_))));
        let shifted = LoadSegment { address: 16 * page + 8, ..good };
        assert!(matches!(check(&[shifted], page), Err(ElfError::Unmappable(_))));
        assert!(matches!(check(&[], page), Err(ElfError::Unmappable(_))));
    }

    #[test]
    fn more_dynamic_entries_than_any_program_has_are_not_read() {
        let mut bytes = own();
        let is_little = bytes[5] == 1;
        if bytes[4] != 2 || !is_little || of_bytes(&bytes).unwrap().needed.is_empty() {
            return println!("SKIP more_dynamic_entries: it is no dynamic program of 64 bits");
        }
        let table = u64::from_le_bytes(bytes[32..40].try_into().unwrap()) as usize;
        let mut headers = bytes[table..].chunks_exact_mut(56);
        let dynamic = headers.find(|header| header[..4] == [2, 0, 0, 0]).unwrap();
        dynamic[32..40].copy_from_slice(&(MOST_DYNAMIC.0 + 1).to_le_bytes());
        bytes.resize(bytes.len() + MOST_DYNAMIC.0 as usize, 0);
        assert!(of_bytes(&bytes).unwrap().needed.is_empty());
    }

    #[test]
    fn damaged_headers_never_panic() {
        let mut bytes = own();
        // Sets each byte of the first headers to the largest, the smallest and the nearest value.
        for at in 16..1024.min(bytes.len()) {
            let right = bytes[at];
            for value in [0, 0x7f, 0xff, right.wrapping_add(1)] {
                bytes[at] = value;
                let _any = of_bytes(&bytes);
            }
            bytes[at] = right;
        }
    }
}
