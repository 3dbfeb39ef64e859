//! The functions of an ELF file by their offset in it.

use crate::segments::MappedSegments;
use object::{Object, ObjectSymbol, ReadCache, SymbolKind};
use std::fs::File;

/// Functions sorted by address, and where the file's parts are mapped.
#[derive(Debug, Default)]
pub(super) struct ImageSymbols {
    functions: Vec<FunctionSymbol>,
    segments: MappedSegments,
}

#[derive(Debug)]
struct FunctionSymbol {
    start: u64,
    /// 0 if the file does not say it.
    size: u64,
    name: String,
}

impl ImageSymbols {
    /// Reads the symbols. Empty for a damaged file.
    pub(super) fn read(file: &File) -> Self {
        let cache = ReadCache::new(file);
        let Ok(elf) = object::File::parse(&cache) else { return Self::default() };
        let function = |symbol: object::Symbol<'_, '_, _>| {
            let is_function = symbol.kind() == SymbolKind::Text && symbol.is_definition();
            let name = symbol.name().ok().filter(|name| is_function && !name.is_empty())?;
            Some(FunctionSymbol {
                start: symbol.address(),
                size: symbol.size(),
                name: name.to_owned(),
            })
        };
        let mut functions: Vec<FunctionSymbol> = elf.symbols().filter_map(function).collect();
        if functions.is_empty() {
            functions = elf.dynamic_symbols().filter_map(function).collect();
        }
        // Of several names for one address the longest function, then the first by name.
        functions.sort_by(|a, b| {
            let size = |f: &FunctionSymbol| std::cmp::Reverse(f.size);
            (a.start, size(a), &a.name).cmp(&(b.start, size(b), &b.name))
        });
        functions.dedup_by_key(|function| function.start);
        Self { functions, segments: MappedSegments::from_elf(&elf) }
    }

    /// The function at `offset` of the file.
    pub(super) fn find(&self, offset: u64) -> Option<&str> {
        let address = self.segments.address(offset)?;
        let after = self.functions.partition_point(|function| function.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        let is_inside = function.size == 0 || address - function.start < function.size;
        is_inside.then_some(function.name.as_str())
    }
}
