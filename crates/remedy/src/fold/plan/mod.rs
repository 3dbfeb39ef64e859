//! Plans which program headers of an ELF file must change so that more of its code can be on huge pages. A
//! pure function on bytes, safe for any input.
//!
//! A slot (a huge page of address space) is mapped by one entry if all of it is in one mapping whose
//! addresses and offsets have the same remainder modulo its size (*congruent*). Nothing is moved in the file
//! or in memory, so only three changes are possible, each only if it wins a slot:
//!
//! - **join**: neighbours that are not writable and have the same distance to their offsets become one part,
//!   readable and executable, so that slots across their seams are whole. The headers of the others become
//!   `PT_NULL`, which loaders skip;
//! - **fill**: a part is extended to the end of its last slot, if no other part begins there. It then maps the
//!   bytes that follow in the file, and beyond its end appended zero bytes;
//! - **align**: `p_align` becomes the huge page, only in congruent parts. The kernel places position-independent
//!   programs at a multiple of the largest alignment (fs/binfmt_elf.c, `maximum_alignment`); so does glibc 2.35
//!   with libraries (elf/dl-load.c, `_dl_map_segment`). Older ones refuse a part whose address and offset are
//!   not congruent by its alignment. `ET_EXEC` needs no alignment.
//!
//! Refused: headers that no loader accepts; parts that overlap or are not in address order; text that is
//! relocated when it is loaded, whose pages become private copies.

use object::elf::{
    DF_TEXTREL, DT_FLAGS, DT_NULL, DT_TEXTREL, ET_DYN, ET_EXEC, FileHeader32, FileHeader64, PF_R,
    PF_W, PF_X, PT_DYNAMIC, PT_LOAD, PT_NULL, ProgramFlags, ProgramHeader64, SHT_NOBITS,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, LittleEndian, ReadRef, pod};
use pagewise_model::fold::{FileRange, FoldChanges, FoldedSegment, SegmentTail, TailOutcome};
use pagewise_model::text::LoadSegment;
use pagewise_model::{Bytes, PageSize};
use pagewise_observe::text::{ElfError, MOST_DYNAMIC, MOST_SEGMENTS};
use std::ops::Range;

type Header = FileHeader64<LittleEndian>;
const LITTLE: LittleEndian = LittleEndian;
/// Files with more sections are treated as if they had none: 64 MiB of headers.
const MOST_SECTIONS: u32 = 1 << 20;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoldOptions {
    /// Join neighbours that are not writable.
    pub merge: bool,
    /// Fill last slots that contain more than this; 0 for no filling.
    pub fill_above: Bytes,
    pub base: PageSize,
    pub huge: PageSize,
}

/// Why the headers of a file cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FoldPlanError {
    /// A loader would refuse it too.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// Not 64-bit.
    #[error("it is a 32-bit ELF file; only 64-bit files can be folded")]
    Narrow,
    /// Big-endian.
    #[error("it is a big-endian ELF file; only little-endian files can be folded")]
    BigEndian,
    /// Its text is modified while it is loaded.
    #[error("its code is relocated at load time (DT_TEXTREL), so its pages are private copies")]
    TextRelocations,
}

/// Bytes that replace others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderEdit {
    /// File offset.
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// How the copy differs from the original.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoldPlan {
    /// The length of the original.
    pub len: u64,
    /// Program headers, by offset.
    pub edits: Vec<HeaderEdit>,
    /// The changes for the report, with reasons.
    pub changes: FoldChanges,
}

impl FoldPlan {
    /// The length of the copy.
    #[must_use]
    pub fn copy_len(&self) -> u64 {
        let appended = self.changes.appended.map_or(0, |range| range.length_bytes.0);
        self.len.saturating_add(appended)
    }

    /// Turns a piece of the original, which begins at `offset`, into that of the copy.
    pub fn apply(&self, offset: u64, piece: &mut [u8]) {
        for edit in &self.edits {
            for (at, byte) in (edit.offset..).zip(&edit.bytes) {
                let within = at.checked_sub(offset).and_then(|at| usize::try_from(at).ok());
                if let Some(place) = within.and_then(|at| piece.get_mut(at)) {
                    *place = *byte;
                }
            }
        }
    }
}

/// Plans the headers for a copy of a file of `len` bytes.
///
/// # Errors
/// When the file cannot be folded.
pub fn plan<'data, R: ReadRef<'data>>(
    data: R,
    len: u64,
    options: &FoldOptions,
) -> Result<FoldPlan, FoldPlanError> {
    let image = ElfHeaders::read(data, len)?;
    let mut parts = image.parts();
    check(&parts, len, options)?;
    let made_executable_bytes = if options.merge { join(&mut parts, options) } else { Bytes(0) };
    let (tails, end) = fill(&mut parts, &image, len, options);
    let base_bits_lost = if image.is_fixed { 0 } else { align(&mut parts, options) };
    let edits = image.edits(&parts);
    let edited = edits.iter().map(|edit| range(edit.offset, edit.bytes.len() as u64));
    let changes = FoldChanges {
        segments: parts.iter().map(|part| part.segment_report(options)).collect(),
        tails,
        edited: edited.collect(),
        appended: (end > len).then(|| range(len, end - len)),
        made_executable_bytes,
        base_bits_lost,
    };
    Ok(FoldPlan { len, edits, changes })
}

const fn range(offset: u64, length: u64) -> FileRange {
    FileRange { offset_bytes: Bytes(offset), length_bytes: Bytes(length) }
}

/// Data read from the file.
struct ElfHeaders<'data> {
    is_fixed: bool,
    table: u64,
    headers: &'data [ProgramHeader64<LittleEndian>],
    /// End of the last section, part or table.
    end: u64,
}

impl<'data> ElfHeaders<'data> {
    fn read<R: ReadRef<'data>>(data: R, len: u64) -> Result<Self, FoldPlanError> {
        let header = Header::parse(data).map_err(|_| narrow_or_none(data))?;
        header.endian().map_err(|_| FoldPlanError::BigEndian)?;
        let kind = header.e_type(LITTLE);
        if kind != ET_EXEC && kind != ET_DYN {
            return Err(ElfError::NotLoaded.into());
        }
        // Checked before they are read: a header may claim more than fits in memory.
        if header.phnum(LITTLE, data).map_err(|_| ElfError::Truncated)? > MOST_SEGMENTS {
            return Err(ElfError::Unmappable("it has too many segments").into());
        }
        let headers = header.program_headers(LITTLE, data).map_err(|_| ElfError::Truncated)?;
        let is_dynamic = |part: &&ProgramHeader64<LittleEndian>| part.p_type(LITTLE) == PT_DYNAMIC;
        let mut dynamic = headers.iter().filter(is_dynamic);
        if dynamic.any(|part| part.p_filesz(LITTLE) > MOST_DYNAMIC.0) {
            return Err(ElfError::Unmappable("it has too many dynamic entries").into());
        }
        if is_relocated(headers, data) {
            return Err(FoldPlanError::TextRelocations);
        }
        let end = end_of_parts(header, headers, data).min(len);
        Ok(Self { is_fixed: kind == ET_EXEC, table: header.e_phoff(LITTLE), headers, end })
    }

    fn parts(&self) -> Vec<SegmentChange> {
        let loaded = |(header, part): (usize, &ProgramHeader64<LittleEndian>)| {
            let load = LoadHeader::from_header(part);
            let is_loaded = part.p_type(LITTLE) == PT_LOAD && (load.memory > 0 || load.file > 0);
            is_loaded.then_some(SegmentChange { header, before: load, after: Some(load) })
        };
        self.headers.iter().enumerate().filter_map(loaded).collect()
    }

    fn edits(&self, parts: &[SegmentChange]) -> Vec<HeaderEdit> {
        let changed = parts.iter().filter(|part| part.after != Some(part.before));
        let edit = |part: &SegmentChange| {
            let mut header = *self.headers.get(part.header)?;
            match part.after {
                None => header.p_type.set(LITTLE, PT_NULL),
                Some(load) => load.put(&mut header),
            }
            let bytes = pod::bytes_of(&header).to_vec();
            let place = (part.header as u64).checked_mul(bytes.len() as u64)?;
            Some(HeaderEdit { offset: self.table.checked_add(place)?, bytes })
        };
        changed.filter_map(edit).collect()
    }
}

fn narrow_or_none<'data, R: ReadRef<'data>>(data: R) -> FoldPlanError {
    match FileHeader32::<Endianness>::parse(data) {
        Ok(_) => FoldPlanError::Narrow,
        Err(_) => ElfError::NotElf.into(),
    }
}

/// Whether the dynamic section announces relocations in parts that are not writable.
fn is_relocated<'data, R: ReadRef<'data>>(
    headers: &[ProgramHeader64<LittleEndian>],
    data: R,
) -> bool {
    let entries = headers.iter().find_map(|part| part.dynamic(LITTLE, data).ok().flatten());
    let entries = entries.unwrap_or_default().iter();
    let mut entries = entries.take_while(|entry| entry.tag(LITTLE) != DT_NULL);
    entries.any(|entry| match entry.tag(LITTLE) {
        DT_TEXTREL => true,
        DT_FLAGS => entry.val(LITTLE) & DF_TEXTREL.0 != 0,
        _ => false,
    })
}

/// End of the last object that the headers name. Sections that cannot be read are ignored.
fn end_of_parts<'data, R: ReadRef<'data>>(
    header: &Header,
    headers: &[ProgramHeader64<LittleEndian>],
    data: R,
) -> u64 {
    let is_readable = header.shnum(LITTLE, data).is_ok_and(|sections| sections <= MOST_SECTIONS);
    let sections = if is_readable { header.section_headers(LITTLE, data) } else { Ok(&[][..]) };
    let sections = sections.unwrap_or_default();
    let table = |offset: u64, bytes: usize| offset.saturating_add(bytes as u64);
    let parts = headers.iter().map(|part| part.file_range(LITTLE));
    let filled = sections.iter().filter(|section| section.sh_type(LITTLE) != SHT_NOBITS);
    let filled = filled.map(|section| (section.sh_offset(LITTLE), section.sh_size(LITTLE)));
    let ends = parts.chain(filled).map(|(offset, size)| offset.saturating_add(size));
    let tables = [
        table(header.e_phoff(LITTLE), size_of_val(headers)),
        table(header.e_shoff(LITTLE), size_of_val(sections)),
    ];
    ends.chain(tables).max().unwrap_or_default()
}

/// The header of a loaded part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoadHeader {
    flags: ProgramFlags,
    offset: u64,
    address: u64,
    file: u64,
    memory: u64,
    align: u64,
}

impl LoadHeader {
    fn from_header(part: &ProgramHeader64<LittleEndian>) -> Self {
        Self {
            flags: part.p_flags(LITTLE),
            offset: part.p_offset(LITTLE),
            address: part.p_vaddr(LITTLE),
            file: part.p_filesz(LITTLE),
            memory: part.p_memsz(LITTLE),
            align: part.p_align(LITTLE),
        }
    }

    /// Writes the header. Offset and addresses never change.
    fn put(&self, header: &mut ProgramHeader64<LittleEndian>) {
        header.p_flags.set(LITTLE, self.flags);
        header.p_filesz.set(LITTLE, self.file);
        header.p_memsz.set(LITTLE, self.memory);
        header.p_align.set(LITTLE, self.align);
    }

    /// Whether it is text or read-only data that comes completely from the file.
    fn is_of_the_file(&self) -> bool {
        let readable = self.flags == PF_R || self.flags == PF_R | PF_X;
        readable && self.file == self.memory && self.file > 0
    }

    const fn delta(&self) -> u64 {
        self.address.wrapping_sub(self.offset)
    }

    /// Distance of address and offset from being congruent.
    const fn off_by(&self, huge: PageSize) -> u64 {
        self.delta() % huge.bytes()
    }

    /// Mapped addresses, up to the beginning of the next part.
    fn span(&self, next: u64, base: PageSize) -> Range<u64> {
        let page = base.bytes();
        let end = self.address.saturating_add(self.file).checked_next_multiple_of(page);
        self.address / page * page..end.unwrap_or(u64::MAX).min(next)
    }

    /// Bytes in whole slots, if the base address is a multiple of the huge page.
    fn whole(&self, next: u64, options: &FoldOptions) -> u64 {
        if !self.is_of_the_file() || self.off_by(options.huge) != 0 {
            return 0;
        }
        let slots = options.huge.whole_within(self.span(next, options.base));
        slots.map_or(0, |slots| slots.end - slots.start)
    }
}

/// A part and the index of its header. `after` is `None` if it was joined to the previous part.
#[derive(Debug, Clone, Copy)]
struct SegmentChange {
    header: usize,
    before: LoadHeader,
    after: Option<LoadHeader>,
}

impl SegmentChange {
    fn segment_report(&self, options: &FoldOptions) -> FoldedSegment {
        let segment = |load: LoadHeader| LoadSegment {
            offset_bytes: Bytes(load.offset),
            address: load.address,
            file_bytes: Bytes(load.file),
            align_bytes: Bytes(load.align),
            is_writable: load.flags.contains(PF_W),
            is_executable: load.flags.contains(PF_X),
        };
        FoldedSegment {
            header: self.header as u64,
            before: segment(self.before),
            after: self.after.map(segment),
            off_by_bytes: Bytes(self.before.off_by(options.huge)),
        }
    }
}

/// Checks that a loader can map all of these parts, and that none overlap.
fn check(parts: &[SegmentChange], len: u64, options: &FoldOptions) -> Result<(), ElfError> {
    let page = options.base.bytes();
    let highest = u64::MAX - options.huge.bytes();
    if parts.is_empty() {
        return Err(ElfError::Unmappable("it has no loadable segment"));
    }
    let mut end = 0;
    for LoadHeader { offset, address, file, memory, .. } in parts.iter().map(|part| part.before) {
        if offset.checked_add(file).is_none_or(|end| end > len) {
            return Err(ElfError::Truncated);
        }
        if file > memory {
            return Err(ElfError::Unmappable("a segment is larger in the file than in memory"));
        }
        if offset % page != address % page {
            let why = "a segment's address and offset differ within the page";
            return Err(ElfError::Unmappable(why));
        }
        if address < end {
            let why = "segments overlap, or are not in order of their addresses";
            return Err(ElfError::Unmappable(why));
        }
        end = match address.checked_add(memory) {
            Some(end) if end <= highest => end,
            _ => return Err(ElfError::Unmappable("a segment ends beyond the last address")),
        };
    }
    Ok(())
}

/// Address of the part after index `at`.
fn following(parts: &[SegmentChange], at: usize) -> u64 {
    let later = parts.iter().skip(at.saturating_add(1)).filter_map(|part| part.after);
    later.map(|load| load.address).next().unwrap_or(u64::MAX)
}

/// Beginning of that part's first page.
fn next_start(parts: &[SegmentChange], at: usize, base: PageSize) -> u64 {
    following(parts, at) / base.bytes() * base.bytes()
}

/// Joins neighbours if that wins a slot. Returns how many bytes become executable by it.
fn join(parts: &mut [SegmentChange], options: &FoldOptions) -> Bytes {
    let fits = |a: &SegmentChange, b: &SegmentChange| {
        let (a, b) = (a.before, b.before);
        let is_later = a.offset.checked_add(a.file).is_some_and(|end| end <= b.offset);
        a.is_of_the_file() && b.is_of_the_file() && a.delta() == b.delta() && is_later
    };
    let lengths: Vec<usize> = parts.chunk_by(fits).map(<[SegmentChange]>::len).collect();
    let (mut at, mut made_executable) = (0, 0);
    for length in lengths {
        let run = at..at + length;
        at = run.end;
        if length < 2 {
            continue;
        }
        let apart =
            run.clone().map(|i| parts[i].before.whole(next_start(parts, i, options.base), options));
        let apart: u64 = apart.sum();
        let one = joined(&parts[run.clone()]);
        if one.whole(next_start(parts, run.end - 1, options.base), options) <= apart {
            continue;
        }
        for part in &mut parts[run.clone()] {
            if one.flags.contains(PF_X) && !part.before.flags.contains(PF_X) {
                made_executable += part.before.file;
            }
            part.after = None;
        }
        parts[run.start].after = Some(one);
    }
    Bytes(made_executable)
}

/// One part in place of neighbours, which come completely from the file.
fn joined(run: &[SegmentChange]) -> LoadHeader {
    let loads = || run.iter().map(|part| part.before);
    let first = run[0].before;
    let end = loads().map(|load| load.offset.saturating_add(load.file)).max().unwrap_or_default();
    let file = end.saturating_sub(first.offset);
    LoadHeader {
        flags: loads().fold(first.flags, |flags, load| flags | load.flags),
        align: loads().map(|load| load.align).max().unwrap_or_default(),
        file,
        memory: file,
        ..first
    }
}

/// Extends parts to the end of their last slots. Returns the outcome for each, and the required length of the
/// file.
fn fill(
    parts: &mut [SegmentChange],
    image: &ElfHeaders<'_>,
    len: u64,
    options: &FoldOptions,
) -> (Vec<SegmentTail>, u64) {
    let (mut tails, mut longest) = (Vec::new(), len);
    for at in 0..parts.len() {
        let next = next_start(parts, at, options.base);
        let Some(load) = parts[at].after else { continue };
        let Some((address, tail_bytes)) = tail(&load, next, options) else { continue };
        // `check` keeps it below the highest address, so nothing overflows.
        let end = address.saturating_add(options.huge.bytes());
        let file = end - load.address;
        let file_end = load.offset.saturating_add(file);
        let outcome = if tail_bytes <= options.fill_above {
            TailOutcome::BelowThreshold
        } else if next < end {
            TailOutcome::Taken { by_address: following(parts, at) }
        } else if file_end > len && image.end < len {
            TailOutcome::Payload { payload_bytes: Bytes(len - image.end) }
        } else {
            parts[at].after = Some(LoadHeader { file, memory: file, ..load });
            longest = longest.max(file_end);
            TailOutcome::Filled
        };
        tails.push(SegmentTail { address, tail_bytes, outcome });
    }
    (tails, longest)
}

/// The last slot of a part, if the part begins at or before it and ends inside it.
fn tail(load: &LoadHeader, next: u64, options: &FoldOptions) -> Option<(u64, Bytes)> {
    let is_asked = options.fill_above > Bytes(0) && load.is_of_the_file();
    if !is_asked || load.off_by(options.huge) != 0 {
        return None;
    }
    let span = load.span(next, options.base);
    let slot = span.end / options.huge.bytes() * options.huge.bytes();
    (span.start <= slot && slot < span.end).then(|| (slot, Bytes(span.end - slot)))
}

/// Aligns congruent parts to the huge page if any part has a whole slot. Returns how many bits of the base
/// address that takes.
fn align(parts: &mut [SegmentChange], options: &FoldOptions) -> u32 {
    let has_slot = |at: usize| {
        let next = next_start(parts, at, options.base);
        parts[at].after.is_some_and(|load| load.whole(next, options) > 0)
    };
    if !(0..parts.len()).any(has_slot) {
        return 0;
    }
    let aligns = parts.iter().map(|part| part.before.align).filter(|align| align.is_power_of_two());
    let before = aligns.max().unwrap_or_default().max(options.base.bytes());
    for load in parts.iter_mut().filter_map(|part| part.after.as_mut()) {
        if load.is_of_the_file() && load.off_by(options.huge) == 0 {
            let is_larger = load.align.is_power_of_two() && load.align > options.huge.bytes();
            load.align = if is_larger { load.align } else { options.huge.bytes() };
        }
    }
    (options.huge.bytes() / before).checked_ilog2().unwrap_or(0)
}

#[cfg(test)]
mod tests;
