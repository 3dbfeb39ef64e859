//! Reads object files and archives: their sections, the symbols that each defines, and its references.
//!
//! Only loaded sections are read, without those that only describe others (unwind tables, notes). If several
//! files define a symbol, the choice is that of linkers: an object file before a member of an archive, then a
//! strong definition before a weak one, then the first. Intermediate code of link-time optimisation has no
//! functions yet and is refused. Each file is read once and whole.

use super::references::{ReferenceTarget, references};
use object::elf::{SHF_ALLOC, SHF_EXECINSTR};
use object::read::archive::ArchiveFile;
use object::{
    BinaryFormat, File, FileKind, Object, ObjectSection, ObjectSymbol, SectionFlags, SectionIndex,
    SymbolKind,
};
use pagewise_kernel::file_view::open_regular;
use pagewise_model::Bytes;
use pagewise_model::pieces::{LinkPiece, LinkPieces, PieceKind, PieceReference};
use std::collections::{BTreeSet, HashMap};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Why object files cannot be put in order.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The file cannot be read.
    #[error("cannot read `{0}`: {1}")]
    Unreadable(String, std::io::Error),
    /// Neither an ELF object file nor an archive of them.
    #[error("`{0}` is not an ELF object file or archive")]
    NotObject(String),
    /// Made for link-time optimisation.
    #[error("`{0}` holds intermediate code for link-time optimisation: it has no functions yet")]
    Intermediate(String),
}

/// Reads `files`, members of archives included.
///
/// # Errors
/// When one of them is not an object file or archive of machine code.
pub fn read_objects(files: &[PathBuf]) -> Result<LinkPieces, ObjectError> {
    let mut reader = PieceReader::default();
    for path in files {
        let data = read(path)?;
        reader.file(path, &data)?;
    }
    Ok(reader.finish())
}

/// The whole file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, ObjectError> {
    let read = |(mut file, length): (std::fs::File, usize)| {
        let mut data = Vec::with_capacity(length);
        file.read_to_end(&mut data).map(|_| data)
    };
    open_regular(path)
        .map_err(|error| error.source)
        .and_then(read)
        .map_err(|error| ObjectError::Unreadable(path.display().to_string(), error))
}

/// Pieces so far.
#[derive(Debug, Default)]
struct PieceReader {
    pieces: LinkPieces,
    /// How good the definition of a symbol is; the least is the best.
    ranks: HashMap<String, (bool, bool)>,
    /// References to symbols by name, from pieces by place.
    pending: Vec<(usize, String, PieceReference)>,
}

impl PieceReader {
    fn file(&mut self, path: &Path, data: &[u8]) -> Result<(), ObjectError> {
        let name = path.display().to_string();
        let is_archive = matches!(FileKind::parse(data), Ok(FileKind::Archive));
        if !is_archive {
            return self.object(name, data, false);
        }
        let bad = || ObjectError::NotObject(name.clone());
        let archive = ArchiveFile::parse(data).map_err(|_| bad())?;
        for member in archive.members() {
            let member = member.map_err(|_| bad())?;
            let inside = String::from_utf8_lossy(member.name()).into_owned();
            let whole = format!("{name}({inside})");
            if member.is_thin() {
                let beside = path.parent().unwrap_or(Path::new("")).join(&inside);
                self.object(whole, &read(&beside)?, true)?;
                continue;
            }
            let data = member.data(data).map_err(|_| bad())?;
            // Rust archives contain metadata in addition to objects.
            if inside != "lib.rmeta" {
                self.object(whole, data, true)?;
            }
        }
        Ok(())
    }

    fn object(&mut self, name: String, data: &[u8], is_member: bool) -> Result<(), ObjectError> {
        if data.starts_with(b"BC\xC0\xDE") || data.starts_with(b"\xDE\xC0\x17\x0B") {
            return Err(ObjectError::Intermediate(name));
        }
        let elf = File::parse(data).ok().filter(|file| file.format() == BinaryFormat::Elf);
        let Some(elf) = elf else { return Err(ObjectError::NotObject(name)) };
        if elf.symbols().any(|symbol| symbol.name() == Ok("__gnu_lto_slim")) {
            return Err(ObjectError::Intermediate(name));
        }
        let object = self.pieces.objects.len();
        self.pieces.objects.push(name);
        let places = self.sections(&elf, object);
        self.symbols(&elf, &places, is_member);
        for (from, target, how) in references(&elf, &places) {
            match target {
                ReferenceTarget::Piece(to) => self.pieces.all[from].references.push((to, how)),
                ReferenceTarget::Symbol(name) => self.pending.push((from, name, how)),
            }
        }
        Ok(())
    }

    /// Adds the loaded sections. Returns where each one is.
    fn sections(&mut self, elf: &File<'_>, object: usize) -> HashMap<SectionIndex, usize> {
        let mut places = HashMap::new();
        for section in elf.sections() {
            let name = section.name().unwrap_or_default();
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let only_describes = name.starts_with(".eh_frame")
                || name.starts_with(".note")
                || name.starts_with(".gcc_except_table");
            if !sh_flags.contains(SHF_ALLOC) || section.size() == 0 || only_describes {
                continue;
            }
            let kind = match sh_flags.contains(SHF_EXECINSTR) {
                true if is_cold(name) => PieceKind::ColdCode,
                true => PieceKind::Code,
                false => PieceKind::Data,
            };
            places.insert(section.index(), self.pieces.all.len());
            self.pieces.all.push(LinkPiece {
                name: name.to_owned(),
                section: name.to_owned(),
                object,
                kind,
                bytes: Bytes(section.size()),
                align: section.align(),
                symbols: 0,
                is_start_list: is_start_list(name),
                references: Vec::new(),
            });
        }
        places
    }

    /// Names the pieces of an object by the symbols in them, and notes what others may refer to.
    fn symbols(&mut self, elf: &File<'_>, places: &HashMap<SectionIndex, usize>, is_member: bool) {
        let mut starts: HashMap<usize, BTreeSet<u64>> = HashMap::new();
        // A global name at the start of a section is the best name of its piece.
        let mut best: HashMap<usize, (u64, bool)> = HashMap::new();
        for symbol in elf.symbols().filter(|symbol| symbol.is_definition()) {
            let place = symbol.section_index().and_then(|index| places.get(&index));
            let (Some(place), Ok(name)) = (place, symbol.name()) else { continue };
            let is_named = matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Data);
            if symbol.is_global() {
                self.define(name, *place, (is_member, symbol.is_weak()));
            }
            if name.is_empty() || !(is_named || symbol.is_global()) {
                continue;
            }
            starts.entry(*place).or_default().insert(symbol.address());
            let rank = (symbol.address(), !symbol.is_global());
            if best.get(place).is_none_or(|former| rank < *former) {
                best.insert(*place, rank);
                name.clone_into(&mut self.pieces.all[*place].name);
            }
        }
        for (place, starts) in starts {
            self.pieces.all[place].symbols = starts.len();
        }
    }

    fn define(&mut self, name: &str, place: usize, rank: (bool, bool)) {
        if self.ranks.get(name).is_none_or(|former| rank < *former) {
            self.ranks.insert(name.to_owned(), rank);
            self.pieces.symbols.insert(name.to_owned(), place);
        }
    }

    /// Resolves the references between the files.
    fn finish(mut self) -> LinkPieces {
        let mut undefined = BTreeSet::new();
        for (from, name, how) in self.pending {
            match self.pieces.symbols.get(&name) {
                Some(to) => self.pieces.all[from].references.push((*to, how)),
                None => {
                    undefined.insert(name);
                }
            }
        }
        self.pieces.undefined = undefined.into_iter().collect();
        self.pieces
    }
}

/// Sections of the compilers for code that seldom runs.
fn is_cold(section: &str) -> bool {
    [".text.unlikely", ".text.split", ".text.cold"].iter().any(|cold| section.starts_with(cold))
}

/// Sections whose functions the C library calls before and after `main`.
fn is_start_list(section: &str) -> bool {
    [".init_array", ".fini_array", ".preinit_array", ".ctors", ".dtors", ".init", ".fini"]
        .iter()
        .any(|list| {
            section == *list || section.strip_prefix(list).is_some_and(|r| r.starts_with('.'))
        })
}
