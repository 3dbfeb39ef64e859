//! Where the heap of a Java program lies, from the tables that HotSpot exports for its debuggers
//! (`gHotSpotVMStructs` in libjvm.so, src/hotspot/share/runtime/vmStructs.cpp): the addresses of its
//! variables and the offsets of its fields by name. `Universe::_collectedHeap` leads to
//! `CollectedHeap::_reserved`, a start and a number of words.
//!
//! Not seen: the VM's other mappings (metadata of classes, tables of the collector).

use object::elf::{FileHeader64, SHT_DYNSYM};
use object::read::elf::{FileHeader, Sym};
use object::{Endianness, ReadCache};
use pagewise_kernel::proc::smaps;
use pagewise_tracee::mapped_file;
use pagewise_tracee::ptrace::{read_memory, read_u64};
use std::fs::File;
use std::ops::Range;

const LIBRARY: &str = "libjvm.so";
const TABLE: &[u8] = b"gHotSpotVMStructs";
/// `sizeof (VMStructEntry)`: names of type, field and its type, whether it is static, offset, address.
const ENTRY: usize = 48;
/// Entries that are read at most; the last one has no name.
const MOST: u64 = 8192;
/// Longer names are not looked for.
const LONGEST: usize = 32;
const WORD: u64 = 8;

/// The addresses reserved for the Java heap of process `pid`.
pub(super) fn heap(pid: i32, entries: &[smaps::SmapsEntry]) -> Option<Range<u64>> {
    let is_first = |entry: &&smaps::SmapsEntry| {
        entry.mapping.offset == 0 && super::file_name(entry) == LIBRARY
    };
    let library = &entries.iter().find(is_first)?.mapping;
    let file = mapped_file::open(pid, library).ok()?;
    let table = library.start + symbol(&file, TABLE)?;
    let fields = HotspotFields::read(pid, read_u64(pid, table).ok()?)?;
    let heap = read_u64(pid, fields.collected_heap?).ok()?;
    let reserved = heap.checked_add(fields.reserved?)?;
    let start = read_u64(pid, reserved.checked_add(fields.start?)?).ok()?;
    let words = read_u64(pid, reserved.checked_add(fields.words?)?).ok()?;
    let end = start.checked_add(words.checked_mul(WORD)?)?;
    (start > 0 && start < end).then_some(start..end)
}

/// The needed fields of the table.
#[derive(Debug, Default)]
struct HotspotFields {
    /// Address of the variable that points to the heap.
    collected_heap: Option<u64>,
    /// Offset of its range, and in a range.
    reserved: Option<u64>,
    start: Option<u64>,
    words: Option<u64>,
}

impl HotspotFields {
    fn is_complete(&self) -> bool {
        let all = [self.collected_heap, self.reserved, self.start, self.words];
        all.iter().all(Option::is_some)
    }

    fn read(pid: i32, table: u64) -> Option<Self> {
        let mut fields = Self::default();
        for nth in 0..MOST {
            let mut entry = [0; ENTRY];
            let read = read_memory(pid, table + nth * ENTRY as u64, &mut entry).ok()?;
            let (words, _) = entry[..read].as_chunks::<8>();
            let word = |nth: usize| words.get(nth).map(|word| u64::from_ne_bytes(*word));
            let (kind, field) = (word(0)?, word(1)?);
            if kind == 0 || fields.is_complete() {
                return Some(fields);
            }
            let names = (name(pid, kind), name(pid, field));
            match (names.0.as_slice(), names.1.as_slice()) {
                (b"Universe", b"_collectedHeap") => fields.collected_heap = word(5),
                (b"CollectedHeap", b"_reserved") => fields.reserved = word(4),
                (b"MemRegion", b"_start") => fields.start = word(4),
                (b"MemRegion", b"_word_size") => fields.words = word(4),
                _ => {}
            }
        }
        None
    }
}

/// The text at `address`, up to its terminator. Empty if there is none.
fn name(pid: i32, address: u64) -> Vec<u8> {
    let mut bytes = [0; LONGEST];
    let read = read_memory(pid, address, &mut bytes).unwrap_or(0);
    let text = bytes[..read].split(|byte| *byte == 0).next();
    text.unwrap_or_default().to_vec()
}

/// Offset of the symbol `wanted` of a library from its first byte in memory.
fn symbol(file: &File, wanted: &[u8]) -> Option<u64> {
    let file = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, &file).ok()?;
    let symbols = sections.symbols(endian, &file, SHT_DYNSYM).ok()?;
    let is_wanted = |symbol: &&object::elf::Sym64<Endianness>| {
        symbol.name(endian, symbols.strings()).is_ok_and(|name| name == wanted)
    };
    let address = symbols.iter().find(is_wanted)?.st_value(endian);
    // A shared library is linked for address 0, and its first mapping begins there.
    Some(address)
}
