//! Functions of a stripped file, which have no name. They come from its unwind table (`.eh_frame`), which has
//! an entry for each function. They also come from code compiled with `-fpatchable-function-entry`, whose
//! functions are listed in a separate section with or without the table.

use gimli::{BaseAddresses, CieOrFde, EhFrame, LittleEndian, UnwindSection};
use object::{File, Object, ObjectSection, ReadRef, SectionKind};
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// The section that lists them, one address each.
const PATCHABLE: &str = "__patchable_function_entries";
/// Bytes of an address there.
const SLOT: usize = 8;
/// `endbr64`, which precedes the patched bytes.
const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
const NOP: u8 = 0x90;

/// The name used for a function without a name.
pub(super) fn nameless(address: u64) -> String {
    format!("{address:#x}")
}

/// The functions of a stripped file. Those with an unknown end are empty.
pub(super) fn nameless_ranges<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> Vec<Range<u64>> {
    let mut ranges = unwind_ranges(elf);
    let known: BTreeSet<u64> = ranges.iter().map(|range| range.start).collect();
    let more = patchable_starts(elf, &known);
    ranges.extend(more.into_iter().filter(|at| !known.contains(at)).map(|at| at..at));
    ranges
}

/// The functions by the unwind table.
fn unwind_ranges<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> Vec<Range<u64>> {
    let Some(section) = elf.section_by_name(".eh_frame") else { return Vec::new() };
    let Ok(data) = section.data() else { return Vec::new() };
    let mut table = EhFrame::new(data, LittleEndian);
    table.set_address_size(8);
    let bases = BaseAddresses::default().set_eh_frame(section.address());
    let (mut ranges, mut entries) = (Vec::new(), table.entries(&bases));
    // A damaged table ends there.
    while let Ok(Some(entry)) = entries.next() {
        if let CieOrFde::Fde(part) = entry
            && let Ok(function) = part.parse(EhFrame::cie_from_offset)
        {
            let start = function.initial_address();
            ranges.push(start..start.saturating_add(function.len()));
        }
    }
    ranges
}

/// Where functions begin that can be patched.
fn patchable_starts<'data, R: ReadRef<'data>>(
    elf: &File<'data, R>,
    known: &BTreeSet<u64>,
) -> Vec<u64> {
    let is_text = |kind| kind == SectionKind::Text;
    let code: Vec<(u64, &[u8])> = elf
        .sections()
        .filter(|section| is_text(section.kind()))
        .filter_map(|section| Some((section.address(), section.data().ok()?)))
        .collect();
    let within = |at: &u64| {
        let part =
            code.iter().find(|(start, bytes)| (*start..start + bytes.len() as u64).contains(at));
        part.map(|(start, bytes)| (*bytes, (at - start) as usize))
    };
    let start = |at: u64| {
        let (bytes, place) = within(&at)?;
        if place >= ENDBR.len() && bytes[place - ENDBR.len()..place] == ENDBR {
            return Some(at - ENDBR.len() as u64);
        }
        // The patched bytes may also precede the function, which then is known, or begins with `endbr64`.
        let nops = bytes[place..].iter().take_while(|byte| **byte == NOP).count();
        let end = at + nops as u64;
        let is_before = nops > 0 && known.range(at + 1..=end).next().is_some();
        let is_marked = nops > 0 && bytes[place + nops..].starts_with(&ENDBR);
        if is_marked { Some(end) } else { (!is_before).then_some(at) }
    };
    entries(elf).into_iter().filter_map(start).collect()
}

/// The addresses in that section: as stored, or as the loader will write them.
fn entries<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> Vec<u64> {
    let Some(section) = elf.section_by_name(PATCHABLE) else { return Vec::new() };
    let Ok(data) = section.data() else { return Vec::new() };
    let place = section.address()..section.address() + section.size();
    let relocated: HashMap<u64, u64> = elf
        .dynamic_relocations()
        .into_iter()
        .flatten()
        .filter(|(at, _)| place.contains(at))
        .map(|(at, relocation)| (at, relocation.addend().cast_unsigned()))
        .collect();
    let slots = data.chunks_exact(SLOT).zip((place.start..).step_by(SLOT));
    let address = |(bytes, at): (&[u8], u64)| {
        let there = bytes.try_into().map_or(0, u64::from_le_bytes);
        if there == 0 { relocated.get(&at).copied() } else { Some(there) }
    };
    slots.filter_map(address).collect()
}
