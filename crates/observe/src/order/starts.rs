//! Where the functions of a linked file begin, and their names.
//!
//! Uses symbols; for a stripped file, its exported symbols and what `nameless` finds. Functions without a
//! symbol are named by their address in the file's own numbering, such as `0x401130`. Only the requested
//! names are read.

use super::nameless::{nameless, nameless_ranges};
use super::program::{frame, function_symbols, is_stripped};
use crate::segments::MappedSegments;
use object::elf::SHF_EXECINSTR;
use object::{
    Architecture, File, Object, ObjectSection, ObjectSymbol, ReadCache, ReadRef, SectionFlags,
};
use pagewise_model::Bytes;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The functions of a linked file.
#[derive(Debug)]
pub(super) struct FunctionStarts {
    segments: MappedSegments,
    addresses: Vec<u64>,
    code: Range<u64>,
}

impl FunctionStarts {
    /// Reads the starts of a file. `None` if it is no ELF file for x86-64.
    #[must_use]
    pub(super) fn read(file: &std::fs::File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = File::parse(&cache).ok()?;
        if elf.architecture() != Architecture::X86_64 {
            return None;
        }
        let addresses = addresses(&elf);
        Some(Self { segments: MappedSegments::from_elf(&elf), addresses, code: code(&elf) })
    }

    /// Their offsets in the file.
    #[must_use]
    pub(super) fn offsets(&self) -> Vec<u64> {
        self.addresses.iter().filter_map(|address| self.segments.offset(*address)).collect()
    }

    /// Addresses of the code.
    #[must_use]
    pub(super) fn code(&self) -> Range<u64> {
        self.code.clone()
    }

    /// The address of `offset` of the file.
    #[must_use]
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        self.segments.address(offset)
    }
}

fn code_sections<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> Vec<Range<u64>> {
    let is_code = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_EXECINSTR));
    let sections = elf.sections().filter(|section| is_code(section.flags()));
    sections
        .map(|section| section.address()..section.address().saturating_add(section.size()))
        .collect()
}

/// Addresses of all code of `elf`.
pub(super) fn code<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> Range<u64> {
    let parts = code_sections(elf);
    let start = parts.iter().map(|part| part.start).min().unwrap_or_default();
    start..parts.iter().map(|part| part.end).max().unwrap_or(start)
}

/// Where the functions of `elf` begin. Functions with several names occur several times.
fn addresses<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> Vec<u64> {
    let code = code_sections(elf);
    let symbols = function_symbols(elf);
    let mut addresses: Vec<u64> = symbols.iter().map(ObjectSymbol::address).collect();
    if is_stripped(elf) {
        addresses.extend(nameless_ranges(elf).into_iter().map(|range| range.start));
    }
    let frame = frame(elf);
    addresses.retain(|address| {
        let lies_in = |parts: &[Range<u64>]| parts.iter().any(|part| part.contains(address));
        lies_in(&code) && !lies_in(&frame)
    });
    addresses
}

/// How many functions `elf` has.
pub(super) fn function_count<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> u64 {
    addresses(elf).into_iter().collect::<HashSet<_>>().len() as u64
}

/// The names and sizes of the functions at these addresses; those without a name are called by the address.
#[must_use]
pub(super) fn names(file: &std::fs::File, addresses: &[u64]) -> Vec<(String, Bytes)> {
    let cache = ReadCache::new(file);
    let mut found: HashMap<u64, (bool, String, Bytes)> = HashMap::new();
    if let Ok(elf) = File::parse(&cache) {
        let wanted: HashSet<u64> = addresses.iter().copied().collect();
        for symbol in function_symbols(&elf).iter().filter(|s| wanted.contains(&s.address())) {
            let is_global = symbol.is_global();
            let known = found.get(&symbol.address()).map(|(is_global, ..)| *is_global);
            // The first global name, otherwise the first one, as in `read_functions`.
            let is_better = known.is_none_or(|known| is_global && !known);
            if let (true, Ok(name)) = (is_better, symbol.name()) {
                let function = (is_global, name.to_owned(), Bytes(symbol.size()));
                found.insert(symbol.address(), function);
            }
        }
    }
    let name = |address: &u64| match found.get(address) {
        Some((_, name, bytes)) => (name.clone(), *bytes),
        None => (nameless(*address), Bytes(0)),
    };
    addresses.iter().map(name).collect()
}
