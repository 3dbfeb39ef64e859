//! The variables on the data pages that a run touched, and which of them its code refers to.
//!
//! A fault reports a page, so all variables of a touched page count, in address order. Data that the loader
//! relocates is touched as well. If the called functions of the run are known, their code is decoded.
//! Variables that it names come first, in the order of the first touch. The other variables on these pages
//! follow. Variables that code reaches only by a pointer are among the others.
//!
//! Zeroed data is in no file: a page of it is found from where the program was loaded, which its code pages
//! show.

use super::objects::ObjectError;
use super::program::{by_address, parse};
use crate::text::ElfFile;
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};
use object::{File, Object, ObjectKind, ObjectSection, ObjectSymbol, SymbolKind};
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::page_size;
use pagewise_model::first_calls::{CalledObject, FirstCall};
use pagewise_model::pieces::BuildSymbol;
use pagewise_model::text::LoadSegment;
use pagewise_model::{Bytes, Nanos};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// A page of an image that was touched first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageTouch {
    pub page_address: u64,
    /// Its offset in the file. `None` for zeroed data.
    pub offset: Option<Bytes>,
    pub is_code: bool,
    pub at_ns: Nanos,
    pub pid: i32,
}

/// The variables of the program at `path`, by address.
///
/// # Errors
/// When it is no ELF file that can be read.
pub fn read_variables(path: &Path) -> Result<Vec<BuildSymbol>, ObjectError> {
    let data = super::objects::read(path)?;
    Ok(variables(&parse(path, &data)?))
}

/// The variables of the file at `path` that lie on touched data pages, those that the functions `called`
/// refer to first. `None` if it is no linked file, or its load address is unknown.
#[must_use]
pub fn variables_on(
    path: &Path,
    touches: &[ImageTouch],
    called: &HashSet<String>,
) -> Option<CalledObject> {
    let layout = open_regular(path).ok().and_then(|(file, _)| ElfFile::read(&file).ok())?.layout;
    let data = super::objects::read(path).ok()?;
    let elf = parse(path, &data).ok()?;
    let (all, pages) = (variables(&elf), data_pages(touches, &layout.segments)?);
    let page = page_size::base().bytes();
    let touched = |one: &BuildSymbol| {
        let first = one.address - one.address % page;
        let end = one.address + one.bytes.0.max(1);
        pages.range(first..end).map(|(_, touch)| *touch).min()
    };
    let referred = referred(&elf, called);
    let is_named = |one: &BuildSymbol| {
        let end = one.address + one.bytes.0.max(1);
        called.is_empty() || referred.range(one.address..end).next().is_some()
    };
    let mut found: Vec<(bool, FirstCall)> = all
        .iter()
        .filter_map(|one| {
            let (at_ns, pid) = touched(one)?;
            let (name, address, bytes) = (one.name.clone(), one.address, one.bytes);
            Some((!is_named(one), FirstCall { name, address, bytes, at_ns, pid }))
        })
        .collect();
    found.sort_by_key(|(is_other, call)| (*is_other, call.at_ns, call.address));
    let start = all.first().map_or(0, |one| one.address);
    let end = all.last().map_or(start, |one| one.address + one.bytes.0);
    Some(CalledObject {
        path: path.to_string_lossy().into_owned(),
        functions: all.len() as u64,
        code: start..end,
        calls: found.into_iter().map(|(_, call)| call).collect(),
    })
}

/// Variables with a size and a name.
fn variables(elf: &File<'_>) -> Vec<BuildSymbol> {
    let is_variable = |symbol: &object::Symbol<'_, '_>| {
        // A copy of a library's variable has the library's version in its name.
        let has_name = symbol.name().is_ok_and(|name| !name.is_empty() && !name.contains('@'));
        symbol.kind() == SymbolKind::Data && symbol.is_definition() && symbol.size() > 0 && has_name
    };
    by_address(elf.symbols().filter(is_variable).collect()).into_values().collect()
}

/// First touches of data pages, by address in the file's own numbering.
fn data_pages(
    touches: &[ImageTouch],
    segments: &[LoadSegment],
) -> Option<BTreeMap<u64, (Nanos, i32)>> {
    let page = page_size::base().bytes();
    let code = segments.iter().find(|segment| segment.is_executable)?;
    let first = code.offset_bytes.0 - code.offset_bytes.0 % page;
    let loaded = |touch: &ImageTouch| {
        let within = touch.offset.filter(|_| touch.is_code)?.0.checked_sub(first)?;
        let address = code.address - code.address % page + within;
        Some((touch.pid, touch.page_address.wrapping_sub(address)))
    };
    let by_process: HashMap<i32, u64> = touches.iter().filter_map(loaded).collect();
    let any = by_process.values().next().copied();
    let mut pages = BTreeMap::new();
    for touch in touches.iter().filter(|touch| !touch.is_code) {
        // A forked process has its parent's load address.
        let base = by_process.get(&touch.pid).copied().or(any)?;
        let first =
            pages.entry(touch.page_address.wrapping_sub(base)).or_insert((touch.at_ns, touch.pid));
        *first = (*first).min((touch.at_ns, touch.pid));
    }
    Some(pages)
}

/// Addresses that the code of these functions names.
fn referred(elf: &File<'_>, called: &HashSet<String>) -> BTreeSet<u64> {
    let mut found = BTreeSet::new();
    let is_fixed = elf.kind() == ObjectKind::Executable;
    let sections: Vec<(u64, &[u8])> = elf
        .sections()
        .filter(|section| section.kind() == object::SectionKind::Text)
        .filter_map(|section| Some((section.address(), section.data().ok()?)))
        .collect();
    for symbol in super::program::function_symbols(elf) {
        if !symbol.name().is_ok_and(|name| called.contains(name)) {
            continue;
        }
        let lies_in = |(start, code): &&(u64, &[u8])| {
            (*start..start + code.len() as u64).contains(&symbol.address())
        };
        let Some((start, code)) = sections.iter().find(lies_in) else { continue };
        let from = (symbol.address() - start) as usize;
        let end = from.saturating_add(symbol.size() as usize).min(code.len());
        named_by(&code[from..end], symbol.address(), is_fixed, &mut found);
    }
    found
}

/// Adds the addresses that instructions name: relative to the instruction and, in a program loaded at its
/// link address, absolute ones.
fn named_by(code: &[u8], address: u64, is_fixed: bool, found: &mut BTreeSet<u64>) {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let kinds = (0..instruction.op_count()).map(|operand| instruction.op_kind(operand));
        for (operand, kind) in (0..).zip(kinds) {
            match kind {
                OpKind::Memory if instruction.memory_base() == Register::RIP => {
                    found.insert(instruction.ip_rel_memory_address());
                }
                OpKind::Memory if is_fixed => {
                    found.insert(instruction.memory_displacement64());
                }
                OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64 if is_fixed => {
                    found.insert(instruction.immediate(operand));
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_where_the_code_lies() {
        let page = page_size::base().bytes();
        let segment = |offset: u64, address: u64, is_executable: bool| LoadSegment {
            offset_bytes: Bytes(offset),
            address,
            file_bytes: Bytes(page),
            align_bytes: Bytes(page),
            is_writable: !is_executable,
            is_executable,
        };
        let segments = [segment(page + 8, 5 * page + 8, true), segment(2 * page, 9 * page, false)];
        let touch = |page_address, offset: Option<u64>, is_code, at| ImageTouch {
            page_address,
            offset: offset.map(Bytes),
            is_code,
            at_ns: Nanos(at),
            pid: 1,
        };
        let base = 100 * page;
        let touches = [
            touch(base + 9 * page, Some(2 * page), false, 1),
            touch(base + 5 * page, Some(page), true, 2),
            touch(base + 10 * page, None, false, 3),
            touch(base + 9 * page, Some(2 * page), false, 4),
        ];
        let pages = data_pages(&touches, &segments).unwrap();
        let want = BTreeMap::from([(9 * page, (Nanos(1), 1)), (10 * page, (Nanos(3), 1))]);
        assert_eq!(pages, want);
        assert_eq!(data_pages(&touches[..1], &segments), None);
    }

    #[test]
    fn code_names_addresses() {
        let mut found = BTreeSet::new();
        // mov eax, [rip+0x10]; mov edi, 0x404040; mov eax, [rdi*4+0x405000]
        let code = [
            0x8b, 0x05, 0x10, 0, 0, 0, 0xbf, 0x40, 0x40, 0x40, 0, 0x8b, 0x04, 0xbd, 0, 0x50, 0x40,
            0,
        ];
        named_by(&code, 0x1000, false, &mut found);
        assert_eq!(found, BTreeSet::from([0x1016]));
        named_by(&code, 0x1000, true, &mut found);
        assert_eq!(found, BTreeSet::from([0x1016, 0x40_4040, 0x40_5000]));
    }
}
