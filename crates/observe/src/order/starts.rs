//! Where the functions of a linked file begin, and what they are called.
//!
//! Symbols say so; of a stripped file, its exported symbols and the unwind table (`.eh_frame`), which
//! has an entry for each function. Those without a symbol are called by their address in the file's
//! own numbering, such as `0x401130`. Only the names that are asked for are read.

use super::program::{frame, function_symbols, is_stripped, nameless, unwind_ranges};
use crate::segments::Segments;
use object::elf::SHF_EXECINSTR;
use object::{Architecture, File, Object, ObjectSection, ObjectSymbol, ReadCache, SectionFlags};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The functions of a linked file.
#[derive(Debug)]
pub(super) struct Starts {
    segments: Segments,
    addresses: Vec<u64>,
}

impl Starts {
    /// Reads them; `None` where it is no ELF file of x86-64.
    #[must_use]
    pub(super) fn read(file: &std::fs::File) -> Option<Self> {
        let cache = ReadCache::new(file);
        let elf = File::parse(&cache).ok()?;
        if elf.architecture() != Architecture::X86_64 {
            return None;
        }
        let is_code = |flags| matches!(flags, SectionFlags::Elf { sh_flags, .. } if sh_flags.contains(SHF_EXECINSTR));
        let code: Vec<Range<u64>> = elf
            .sections()
            .filter(|section| is_code(section.flags()))
            .map(|section| section.address()..section.address().saturating_add(section.size()))
            .collect();
        let symbols = function_symbols(&elf);
        let mut addresses: Vec<u64> = symbols.iter().map(ObjectSymbol::address).collect();
        if is_stripped(&elf) {
            addresses.extend(unwind_ranges(&elf).into_iter().map(|range| range.start));
        }
        let frame = frame(&elf);
        addresses.retain(|address| {
            let lies_in = |parts: &[Range<u64>]| parts.iter().any(|part| part.contains(address));
            lies_in(&code) && !lies_in(&frame)
        });
        Some(Self { segments: Segments::from_elf(&elf), addresses })
    }

    /// Their offsets in the file.
    #[must_use]
    pub(super) fn offsets(&self) -> Vec<u64> {
        self.addresses.iter().filter_map(|address| self.segments.offset(*address)).collect()
    }

    /// The address of what is at `offset` of the file.
    #[must_use]
    pub(super) fn address(&self, offset: u64) -> Option<u64> {
        self.segments.address(offset)
    }
}

/// The names of the functions at these addresses; those without one are called by the address.
#[must_use]
pub(super) fn names(file: &std::fs::File, addresses: &[u64]) -> Vec<String> {
    let cache = ReadCache::new(file);
    let mut found: HashMap<u64, (bool, String)> = HashMap::new();
    if let Ok(elf) = File::parse(&cache) {
        let wanted: HashSet<u64> = addresses.iter().copied().collect();
        for symbol in function_symbols(&elf).iter().filter(|s| wanted.contains(&s.address())) {
            let is_global = symbol.is_global();
            let known = found.get(&symbol.address()).map(|(is_global, _)| *is_global);
            // The first global name, else the first: as `read_functions` has it.
            let is_better = known.is_none_or(|known| is_global && !known);
            if let (true, Ok(name)) = (is_better, symbol.name()) {
                found.insert(symbol.address(), (is_global, name.to_owned()));
            }
        }
    }
    let name = |address: &u64| match found.get(address) {
        Some((_, name)) => name.clone(),
        None => nameless(*address),
    };
    addresses.iter().map(name).collect()
}
