//! The references of an object file's sections, from their relocations.
//!
//! Whether a reference is a call depends on the architecture. On x86-64 the bytes before the relocation are
//! those of a call or jump; on aarch64 the relocation says so. A symbol that is defined in the same file is
//! that one, whatever other files define.

use object::elf::{R_AARCH64_CALL26, R_AARCH64_JUMP26};
use object::read::{Relocation, RelocationTarget};
use object::{
    Architecture, File, Object, ObjectSection, ObjectSymbol, RelocationFlags, SectionIndex,
};
use pagewise_model::pieces::PieceReference;
use std::collections::HashMap;

/// What is referred to.
#[derive(Debug)]
pub(super) enum ReferenceTarget {
    /// A piece of the same file.
    Piece(usize),
    /// A symbol of another one.
    Symbol(String),
}

/// The references of all sections in `places`, each with the piece that it is in.
pub(super) fn references(
    elf: &File<'_>,
    places: &HashMap<SectionIndex, usize>,
) -> Vec<(usize, ReferenceTarget, PieceReference)> {
    let mut all = Vec::new();
    for section in elf.sections() {
        let Some(from) = places.get(&section.index()) else { continue };
        let code = section.data().unwrap_or_default();
        for (offset, relocation) in section.relocations() {
            let how = match is_call(elf.architecture(), code, offset, &relocation) {
                true => PieceReference::Call,
                false => PieceReference::Address,
            };
            match target(elf, places, &relocation) {
                Some(ReferenceTarget::Piece(to)) if to == *from => {}
                Some(target) => all.push((*from, target, how)),
                None => {}
            }
        }
    }
    all
}

fn target(
    elf: &File<'_>,
    places: &HashMap<SectionIndex, usize>,
    relocation: &Relocation,
) -> Option<ReferenceTarget> {
    let RelocationTarget::Symbol(index) = relocation.target() else { return None };
    let symbol = elf.symbol_by_index(index).ok()?;
    match symbol.section_index() {
        Some(section) => places.get(&section).map(|place| ReferenceTarget::Piece(*place)),
        None => {
            let name = symbol.name().ok().filter(|name| !name.is_empty())?;
            symbol.is_undefined().then(|| ReferenceTarget::Symbol(name.to_owned()))
        }
    }
}

fn is_call(architecture: Architecture, code: &[u8], offset: u64, relocation: &Relocation) -> bool {
    let before = |bytes: usize| {
        let at = usize::try_from(offset).ok()?;
        code.get(at.checked_sub(bytes)?..at)
    };
    match (architecture, relocation.flags()) {
        // call, jmp; jcc; call and jmp through a pointer of the linker's.
        (Architecture::X86_64, _) => {
            before(1).is_some_and(|b| matches!(b, [0xe8 | 0xe9]))
                || before(2).is_some_and(|b| matches!(b, [0x0f, 0x80..=0x8f] | [0xff, 0x15 | 0x25]))
        }
        (Architecture::Aarch64, RelocationFlags::Elf { r_type }) => {
            [R_AARCH64_CALL26, R_AARCH64_JUMP26].contains(&r_type)
        }
        _ => false,
    }
}
