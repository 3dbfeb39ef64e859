//! What one ELF file can do, by the names in it and the calls in its code.
//!
//! Every file is searched for the name `vmsplice`. That finds imports, lookups at run time (dlsym), and
//! `unix.Vmsplice` in Go. `code_ARCHITECTURE` recognises code that makes the call by number. A library that
//! *defines* vmsplice is the C library, which never lends pages by itself: its callers contain the name.

use super::{LendingReason, code};
use memchr::memmem;
use object::elf::{FileHeader64, PF_X, PT_LOAD, SHT_DYNSYM, SHT_RELA};
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};
use object::{Endianness, ReadCache, ReadRef};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Result of examining a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LenderFinding {
    /// Why it may lend pages; `None` if it cannot.
    pub(super) why: Option<LendingReason>,
    /// It is a program that needs a loader.
    pub(super) has_interpreter: bool,
}

/// Larger files are not examined.
const LIMIT: u64 = 512 << 20;
/// Files are read in pieces of this size.
const PIECE: usize = 1 << 20;
/// Overlap of two pieces: longer than any sequence that is searched for.
const OVERLAP: usize = 256;
/// The end of `vmsplice` and of Go's `Vmsplice`.
const NAME: &[u8] = b"msplice";

/// A part of a file that is mapped as code.
#[derive(Debug, Clone, Copy)]
struct ExecutableSegment {
    offset: u64,
    address: u64,
    length: u64,
}

/// Contents of the tables of an ELF file.
#[derive(Debug, Default)]
struct ElfTables {
    segments: Vec<ExecutableSegment>,
    has_interpreter: bool,
    is_go: bool,
    /// It defines vmsplice.
    is_c_library: bool,
    /// It defines `ffi_call`.
    calls_anything: bool,
    /// It imports a call that moves file pages into pipes.
    splices: bool,
    /// Slots that hold the address of the imported `syscall`; below it, those of `fcntl`.
    syscall_slots: Vec<u64>,
    fcntl_slots: Vec<u64>,
    /// Slots that hold the address of the imported `dlopen`.
    dlopen_slots: Vec<u64>,
}

/// Examines a file.
pub(super) fn look(file: &File) -> io::Result<LenderFinding> {
    let length = file.metadata()?.len();
    if length > LIMIT {
        return Ok(LenderFinding { why: Some(LendingReason::Unreadable), has_interpreter: false });
    }
    let cache = ReadCache::new(file.try_clone()?);
    let Some(tables) = tables(&cache) else {
        return Ok(LenderFinding { why: Some(LendingReason::Foreign), has_interpreter: false });
    };
    let why = why(file, length, &tables)?;
    Ok(LenderFinding { why, has_interpreter: tables.has_interpreter })
}

/// Whether a file opens libraries with `RTLD_DEEPBIND`.
pub(super) fn opens_deep(file: &File) -> io::Result<bool> {
    let is_short = file.metadata()?.len() <= LIMIT;
    let cache = ReadCache::new(file.try_clone()?);
    let tables = if is_short { tables(&cache) } else { None };
    let Some(tables) = tables.filter(|tables| !tables.dlopen_slots.is_empty()) else {
        return Ok(false);
    };
    let body = |address| body(file, &tables, address);
    let calls = code::CallResolver { body: &body, slots: &tables.dlopen_slots, is_go: false };
    for segment in &tables.segments {
        let test = |piece: &[u8], at: u64| {
            calls.opens_deep(piece, segment.address + (at - segment.offset))
        };
        if any_piece(file, segment.offset, segment.length, &test)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn why(file: &File, length: u64, tables: &ElfTables) -> io::Result<Option<LendingReason>> {
    if tables.is_c_library {
        return Ok(None);
    }
    if tables.calls_anything {
        return Ok(Some(LendingReason::CallsAnything));
    }
    let named = |piece: &[u8], _| memmem::find(piece, NAME).is_some();
    if any_piece(file, 0, length, &named)? {
        return Ok(Some(LendingReason::Names));
    }
    let body = |address| body(file, tables, address);
    let calls =
        code::CallResolver { body: &body, slots: &tables.syscall_slots, is_go: tables.is_go };
    let asks = code::CallResolver { body: &body, slots: &tables.fcntl_slots, is_go: false };
    for segment in &tables.segments {
        let address = |offset: u64| segment.address + (offset - segment.offset);
        let any = |test: &dyn Fn(&[u8], u64) -> bool| {
            any_piece(file, segment.offset, segment.length, &|piece, at| test(piece, address(at)))
        };
        if any(&|piece, at| calls.vmsplice(piece, at))? {
            return Ok(Some(LendingReason::Calls));
        }
        if tables.splices && any(&|piece, at| asks.capacity(piece, at))? {
            return Ok(Some(LendingReason::SplicesByCapacity));
        }
    }
    Ok(None)
}

/// Whether `test` holds for any piece of a part of `file`. It also gets the offset of the piece.
fn any_piece(
    file: &File,
    offset: u64,
    length: u64,
    test: &dyn Fn(&[u8], u64) -> bool,
) -> io::Result<bool> {
    let mut piece = vec![0; PIECE + OVERLAP];
    let end = offset.saturating_add(length);
    let mut at = offset;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(piece.len());
        let mut got = 0;
        while got < wanted {
            match file.read_at(&mut piece[got..wanted], at + got as u64)? {
                0 => break,
                n => got += n,
            }
        }
        if test(&piece[..got], at) {
            return Ok(true);
        }
        at += PIECE as u64;
    }
    Ok(false)
}

/// The first bytes of the code at `address`; empty if there is no code.
fn body(file: &File, tables: &ElfTables, address: u64) -> Vec<u8> {
    let within = |s: &&ExecutableSegment| address >= s.address && address - s.address < s.length;
    let Some(segment) = tables.segments.iter().find(within) else { return Vec::new() };
    let into = address - segment.address;
    let mut bytes = vec![0; code::BODY.min(usize::try_from(segment.length - into).unwrap_or(0))];
    let read = file.read_exact_at(&mut bytes, segment.offset + into);
    read.map_or_else(|_| Vec::new(), |()| bytes)
}

fn tables<'data, R: ReadRef<'data>>(data: R) -> Option<ElfTables> {
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != code::MACHINE {
        return None;
    }
    let mut tables = ElfTables::default();
    for part in header.program_headers(endian, data).ok()? {
        tables.has_interpreter |= part.interpreter(endian, data).ok().flatten().is_some();
        if part.p_type(endian) == PT_LOAD && part.p_flags(endian).contains(PF_X) {
            tables.segments.push(ExecutableSegment {
                offset: part.p_offset(endian),
                address: part.p_vaddr(endian),
                length: part.p_filesz(endian),
            });
        }
    }
    let sections = header.sections(endian, data).ok()?;
    // Without a section table, the imports of a dynamic program could not be seen.
    if tables.has_interpreter && sections.is_empty() {
        return None;
    }
    tables.is_go = crate::elf::has_go_sections(endian, &sections);
    note_symbols(&mut tables, endian, data, &sections);
    Some(tables)
}

fn note_symbols<'data, R: ReadRef<'data>>(
    tables: &mut ElfTables,
    endian: Endianness,
    data: R,
    sections: &SectionTable<'data, FileHeader64<Endianness>, R>,
) {
    let Ok(symbols) = sections.symbols(endian, data, SHT_DYNSYM) else { return };
    let mut imported = Vec::new();
    for (index, symbol) in symbols.enumerate() {
        let Ok(name) = symbol.name(endian, symbols.strings()) else { continue };
        match (name, symbol.is_undefined(endian)) {
            (b"vmsplice", false) => tables.is_c_library = true,
            (b"ffi_call", false) => tables.calls_anything = true,
            (b"splice" | b"tee" | b"sendfile" | b"sendfile64", true) => tables.splices = true,
            (b"syscall" | b"fcntl" | b"fcntl64" | b"dlopen", true) => imported.push((index, name)),
            _ => {}
        }
    }
    for section in sections.iter().filter(|s| s.sh_type(endian) == SHT_RELA) {
        let Ok(Some((entries, _))) = section.rela(endian, data) else { continue };
        for entry in entries {
            let symbol = entry.symbol(endian, false);
            let Some((_, name)) = imported.iter().find(|(i, _)| Some(*i) == symbol) else {
                continue;
            };
            let slots = match *name {
                b"syscall" => &mut tables.syscall_slots,
                b"dlopen" => &mut tables.dlopen_slots,
                _ => &mut tables.fcntl_slots,
            };
            slots.push(entry.r_offset(endian));
        }
    }
}
