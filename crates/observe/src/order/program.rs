//! Reads the functions of a linked program: symbols by address, and their callees. For a stripped program,
//! its exports, and the functions without a name under their addresses.
//!
//! Callees are the targets of direct calls and jumps that are the start of another function. Each function is
//! decoded from its first byte, on x86-64. On other architectures there are no callees. Calls through tables
//! and pointers are not seen.

use super::nameless::{nameless, nameless_ranges};
use super::objects::ObjectError;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction};
use object::{
    Architecture, BinaryFormat, File, Object, ObjectKind, ObjectSection, ObjectSymbol, ReadRef,
    Section, SectionIndex, Symbol, SymbolKind,
};
use pagewise_kernel::file_view::open_regular;
use pagewise_model::Bytes;
use pagewise_model::pieces::BuildSymbol;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

/// Whether the file is a program or library, and no object file or archive.
#[must_use]
pub fn is_linked(path: &Path) -> bool {
    open_regular(path).is_ok_and(|(file, _length)| {
        let cache = object::ReadCache::new(file);
        let kind = File::parse(&cache).map(|elf| elf.kind());
        matches!(kind, Ok(ObjectKind::Executable | ObjectKind::Dynamic))
    })
}

/// Sections of a linked program that hold code outside of its functions.
const FRAME: [&str; 5] = [".init", ".fini", ".plt", ".plt.got", ".plt.sec"];

/// Ranges of the program at `path` with code that each start runs and no order moves.
///
/// # Errors
/// If it is no readable ELF file.
pub fn read_frame(path: &Path) -> Result<Vec<Range<u64>>, ObjectError> {
    let data = super::objects::read(path)?;
    Ok(frame(&parse(path, &data)?))
}

/// Where the parts of [`FRAME`] are.
pub(super) fn frame<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> Vec<Range<u64>> {
    let sections = FRAME.iter().filter_map(|name| elf.section_by_name(name));
    sections.map(|section| section.address()..section.address() + section.size()).collect()
}

/// What [`read_linked`] calls a linker that leaves no name in the file, as GNU ld.
pub const GNU_LD: &str = "GNU ld";

/// The linker of the program at `path` with its version, and the bytes of its code.
///
/// # Errors
/// If it is no readable ELF file.
pub fn read_linked(path: &Path) -> Result<(String, Bytes), ObjectError> {
    let data = super::objects::read(path)?;
    let elf = parse(path, &data)?;
    let code = elf.sections().filter(|section| section.kind() == object::SectionKind::Text);
    let text = |name: &str| {
        let data = elf.section_by_name(name).and_then(|section| section.data().ok());
        String::from_utf8_lossy(data.unwrap_or_default()).into_owned()
    };
    let (comment, note) = (text(".comment"), text(".note.gnu.gold-version"));
    // What follows the version in brackets is its source.
    let name = |one: &str| {
        let name = one.strip_prefix("Linker: ").or(one.starts_with("mold ").then_some(one))?;
        name.split(" (").next().map(str::to_owned)
    };
    let comments = comment.split('\0').filter_map(name);
    // The note holds the name GNU, then the version.
    let gold = note.split('\0').find(|one| one.starts_with("gold")).map(str::to_owned);
    let linker = comments.chain(gold).next().unwrap_or_else(|| GNU_LD.to_owned());
    Ok((linker, Bytes(code.map(|section| section.size()).sum())))
}

pub(super) fn parse<'a>(path: &Path, data: &'a [u8]) -> Result<File<'a>, ObjectError> {
    let elf = File::parse(data).ok().filter(|elf| elf.format() == BinaryFormat::Elf);
    elf.ok_or_else(|| ObjectError::NotObject(path.display().to_string()))
}

/// The functions of the program at `path`, by address.
///
/// # Errors
/// When it is no ELF file that can be read.
pub fn read_functions(path: &Path) -> Result<Vec<BuildSymbol>, ObjectError> {
    let data = super::objects::read(path)?;
    let elf = parse(path, &data)?;
    let mut functions = symbols(&elf);
    if elf.architecture() == Architecture::X86_64 {
        callees(&elf, &mut functions);
    }
    Ok(functions.into_values().collect())
}

/// The symbols of functions; of a stripped file those that it exports.
pub(super) fn function_symbols<'data, 'file, R: ReadRef<'data>>(
    elf: &'file File<'data, R>,
) -> Vec<Symbol<'data, 'file, R>> {
    let is_frame =
        |section: &Section<'data, 'file, R>| section.name().is_ok_and(|name| FRAME.contains(&name));
    let frame: Vec<SectionIndex> = elf.sections().filter(is_frame).map(|s| s.index()).collect();
    let is_function = |symbol: &Symbol<'data, 'file, R>| {
        let in_frame = symbol.section_index().is_none_or(|at| frame.contains(&at));
        symbol.kind() == SymbolKind::Text && symbol.is_definition() && !in_frame
    };
    let mut all: Vec<_> = elf.symbols().filter(is_function).collect();
    if all.is_empty() {
        all = elf.dynamic_symbols().filter(is_function).collect();
    }
    all
}

/// Whether its symbol names have been removed.
pub(super) fn is_stripped<'data, R: ReadRef<'data>>(elf: &File<'data, R>) -> bool {
    elf.symbol_table().is_none()
}

/// The ranges that these symbols name, by address. The first global name is the name, the others are aliases.
pub(super) fn by_address<'data, R: ReadRef<'data>>(
    mut symbols: Vec<Symbol<'data, '_, R>>,
) -> BTreeMap<u64, BuildSymbol> {
    let mut named: BTreeMap<u64, BuildSymbol> = BTreeMap::new();
    symbols.sort_by_key(|symbol| !symbol.is_global());
    for symbol in symbols {
        let Ok(name) = symbol.name() else { continue };
        let one = named.entry(symbol.address()).or_default();
        one.address = symbol.address();
        one.bytes = one.bytes.max(Bytes(symbol.size()));
        match one.name.is_empty() {
            true => name.clone_into(&mut one.name),
            false => one.aliases.push(name.to_owned()),
        }
    }
    named
}

/// Functions by address. One without a size, such as the compiler's start-up code, ends where the next one
/// begins.
fn symbols(elf: &File<'_>) -> BTreeMap<u64, BuildSymbol> {
    let mut functions = by_address(function_symbols(elf));
    if is_stripped(elf) {
        add_nameless(elf, &mut functions);
    }
    let starts: Vec<u64> = functions.keys().copied().collect();
    for two in starts.windows(2) {
        if let Some(function) = functions.get_mut(&two[0]).filter(|f| f.bytes == Bytes(0)) {
            function.bytes = Bytes(two[1] - two[0]);
        }
    }
    functions
}

/// Functions without a symbol.
fn add_nameless(elf: &File<'_>, functions: &mut BTreeMap<u64, BuildSymbol>) {
    let frame: Vec<Range<u64>> = frame(elf);
    for range in nameless_ranges(elf) {
        if !frame.iter().any(|part| part.contains(&range.start)) {
            functions.entry(range.start).or_insert_with(|| BuildSymbol {
                name: nameless(range.start),
                address: range.start,
                bytes: Bytes(range.end - range.start),
                ..BuildSymbol::default()
            });
        }
    }
}

fn callees(elf: &File<'_>, functions: &mut BTreeMap<u64, BuildSymbol>) {
    let mut called: Vec<(u64, BTreeSet<u64>)> = Vec::new();
    for section in elf.sections() {
        let (start, Ok(code)) = (section.address(), section.data()) else { continue };
        if section.kind() != object::SectionKind::Text {
            continue;
        }
        for (address, function) in functions.range(start..start + code.len() as u64) {
            let from = (address - start) as usize;
            let to = from.saturating_add(function.bytes.0 as usize).min(code.len());
            let targets = targets(&code[from..to], *address);
            let others =
                targets.into_iter().filter(|to| to != address && functions.contains_key(to));
            called.push((*address, others.collect()));
        }
    }
    for (address, targets) in called {
        let names = targets.iter().filter_map(|to| functions.get(to)).map(|f| f.name.clone());
        let names = names.collect();
        if let Some(function) = functions.get_mut(&address) {
            function.callees = names;
        }
    }
}

/// The targets of direct calls and jumps in some code.
fn targets(code: &[u8], address: u64) -> BTreeSet<u64> {
    let mut decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut targets = BTreeSet::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        if matches!(
            instruction.flow_control(),
            FlowControl::Call | FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch
        ) {
            targets.insert(instruction.near_branch_target());
        }
    }
    targets
}
