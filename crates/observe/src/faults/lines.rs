//! The source lines of instructions, and the functions inlined there, from DWARF debug information.
//!
//! The information comes from the file itself. If that is stripped and separate debug files are wanted, it
//! comes from the file that the build identifier names under /usr/lib/debug (where distributions put them and
//! gdb looks). The one of the C library alone takes 60 ms. The line is that of the instruction: in inlined
//! code, of the innermost inlined function. Names are those of the linker, not demangled.
//!
//! Not seen: debug information larger than [`MOST_BYTES`], or not present on this machine (no server is
//! asked), and what dwz(1) has moved to a separate file. Cost: the sections are read, and decompressed if
//! necessary, for one file at a time, and nothing of them is kept. That takes as much memory as they have
//! bytes, and for 108 MiB about a second in an unoptimised build.

use crate::segments::MappedSegments;
use addr2line::{Context, Frame, Location};
use gimli::{DwarfSections, EndianSlice, RunTimeEndian, SectionId};
use object::read::{CompressedData, CompressionFormat};
use object::{Object, ObjectSection, ReadCache, ReadRef};
use pagewise_kernel::file_view::open_regular;
use pagewise_model::fault::{InlinedFunction, InstructionOrigin, SourceLine};
use std::borrow::Cow;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Where separate debug files are, by build identifier.
const SEPARATE: &str = "/usr/lib/debug/.build-id";
/// The most that is read of one file, decompressed.
const MOST_BYTES: u64 = 192 << 20;

/// Name for an inlined function that has none.
const NAMELESS: &str = "[unknown]";

/// Sections that contain lines and inlined functions.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The source of the instruction at each of these offsets of `file`. `None` if the file has no debug
/// information, and no separate debug file either if `separate` allows one.
pub(super) fn find(file: &File, separate: bool, offsets: &[u64]) -> Option<Vec<InstructionOrigin>> {
    find_with(file, separate.then(|| Path::new(SEPARATE)), offsets)
}

fn find_with(
    file: &File,
    separate: Option<&Path>,
    offsets: &[u64],
) -> Option<Vec<InstructionOrigin>> {
    let cache = ReadCache::new(file);
    let elf = object::File::parse(&cache).ok()?;
    let segments = MappedSegments::from_elf(&elf);
    let addresses = offsets.iter().map(|offset| segments.address(*offset)).collect();
    if elf.section_by_name(SectionId::DebugLine.name()).is_some() {
        return look_up(file, &elf, addresses);
    }
    let id = elf.build_id().ok()??;
    let (file, _length) = open_regular(&separate_path(separate?, id)?).ok()?;
    let cache = ReadCache::new(&file);
    let elf = object::File::parse(&cache).ok()?;
    if elf.build_id().ok()? == Some(id) { look_up(&file, &elf, addresses) } else { None }
}

/// The path of the debug file for this build identifier, if it exists.
fn separate_path(root: &Path, build_id: &[u8]) -> Option<PathBuf> {
    let (first, rest) = build_id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(root.join(format!("{first:02x}")).join(format!("{rest}.debug")))
}

/// The origins of these addresses, as `elf` counts them; it is what `file` holds.
fn look_up<'data>(
    file: &File,
    elf: &object::File<'data, impl ReadRef<'data>>,
    addresses: Vec<Option<u64>>,
) -> Option<Vec<InstructionOrigin>> {
    let endian = if elf.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let mut left = MOST_BYTES;
    let sections = DwarfSections::load(|id| match SECTIONS.contains(&id) {
        true => section(file, elf, id.name(), &mut left).ok_or(()),
        false => Ok(Vec::new()),
    });
    let sections: DwarfSections<Vec<u8>> = sections.ok()?;
    let context = Context::from_dwarf(sections.borrow(|all| EndianSlice::new(all, endian))).ok()?;
    let of = |address: Option<u64>| address.and_then(|address| origin(&context, address));
    Some(addresses.into_iter().map(|address| of(address).unwrap_or_default()).collect())
}

/// The source of the instruction at `address`. `None` if its debug information cannot be read.
fn origin<R: gimli::Reader>(context: &Context<R>, address: u64) -> Option<InstructionOrigin> {
    let line = |found: Option<Location<'_>>| {
        let found = found?;
        Some(SourceLine { file: found.file?.to_owned(), line: found.line? })
    };
    let mut frames = context.find_frames(address).skip_all_loads().ok()?;
    let mut frame = frames.next().ok()??;
    let source = line(frame.location);
    let mut inlined = Vec::new();
    // The last frame is that of the function that contains the code.
    while let Some(outer) = frames.next().ok()? {
        let name = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
        let function = name.unwrap_or_else(|| NAMELESS.to_owned());
        inlined.push(InlinedFunction { function, called_at: line(outer.location) });
        frame = Frame { location: None, ..outer };
    }
    Some(InstructionOrigin { source, inlined })
}

/// The bytes of a section. Empty if it does not exist, `None` if it cannot be read or is larger than `left`.
fn section<'data>(
    file: &File,
    elf: &object::File<'data, impl ReadRef<'data>>,
    name: &str,
    left: &mut u64,
) -> Option<Vec<u8>> {
    let Some(section) = elf.section_by_name(name) else { return Some(Vec::new()) };
    let range = section.compressed_file_range().ok()?;
    *left = left.checked_sub(range.uncompressed_size.max(range.compressed_size))?;
    let mut bytes = vec![0; usize::try_from(range.compressed_size).ok()?];
    file.read_exact_at(&mut bytes, range.offset).ok()?;
    if range.format == CompressionFormat::None {
        return Some(bytes);
    }
    let (format, uncompressed_size) = (range.format, range.uncompressed_size);
    let whole = CompressedData { format, data: &bytes, uncompressed_size }.decompress();
    whole.ok().map(Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{ObjectSegment, ObjectSymbol};
    use std::process::Command;

    /// The address of a function is that of its first line.
    const SOURCE: &str =
        "\nint answer(void) {\n    return 42;\n}\nint main(void) { return answer(); }\n";
    const FIRST_LINE: u32 = 2;

    /// Runs a tool on files in `place`. Returns false if the tool is not installed.
    fn has_run(place: &Path, words: &str) -> bool {
        let mut words = words.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).current_dir(place);
        command.output().is_ok_and(|done| done.status.success())
    }

    /// Offset of `answer` in the file.
    fn offset(elf: &[u8]) -> u64 {
        let elf = object::File::parse(elf).unwrap();
        let address = elf.symbols().find(|s| s.name() == Ok("answer")).unwrap().address();
        let is_within =
            |s: &object::Segment<'_, '_>| (s.address()..s.address() + s.size()).contains(&address);
        let segment = elf.segments().find(is_within).unwrap();
        segment.file_range().0 + (address - segment.address())
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a test says when it skips")]
    fn a_line_is_found_in_the_file_and_by_its_build_identifier() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("answer.c"), SOURCE).unwrap();
        if !has_run(place.path(), "cc -g -Wl,--build-id=sha1 -o whole answer.c") {
            println!("SKIP a_line_is_found_in_the_file_and_by_its_build_identifier: no C compiler");
            return;
        }
        let whole = std::fs::read(place.path().join("whole")).unwrap();
        let at = offset(&whole);
        let found = |name: &str| {
            let file = File::open(place.path().join(name)).unwrap();
            find_with(&file, Some(place.path()), &[at, u64::MAX])
        };
        let seen = found("whole").unwrap();
        let line = seen[0].source.as_ref().unwrap();
        assert!(line.file.ends_with("/answer.c") && line.line == FIRST_LINE, "{line:?}");
        assert_eq!(seen[1], InstructionOrigin::default());
        let split = has_run(place.path(), "objcopy --only-keep-debug whole debug")
            && has_run(place.path(), "objcopy --compress-debug-sections debug")
            && has_run(place.path(), "objcopy --strip-all whole stripped");
        if !split {
            println!("SKIP lines by build identifier: no objcopy");
            return;
        }
        assert_eq!(found("stripped"), None);
        let elf = object::File::parse(whole.as_slice()).unwrap();
        let separate = separate_path(place.path(), elf.build_id().unwrap().unwrap()).unwrap();
        std::fs::create_dir_all(separate.parent().unwrap()).unwrap();
        std::fs::rename(place.path().join("debug"), &separate).unwrap();
        assert_eq!(found("stripped"), Some(seen));
        let stripped = File::open(place.path().join("stripped")).unwrap();
        assert_eq!(find_with(&stripped, None, &[at]), None);
        // A FIFO without a writer must not block either.
        std::fs::remove_file(&separate).unwrap();
        crate::bounded::fifo(separate.parent().unwrap(), separate.file_name().unwrap());
        let (stripped, root) = (stripped.try_clone().unwrap(), place.path().to_owned());
        assert_eq!(crate::bounded::soon(move || find_with(&stripped, Some(&root), &[at])), None);
        std::fs::remove_file(&separate).unwrap();
        // One of another program is not taken.
        assert!(has_run(place.path(), "cc -g -O2 -Wl,--build-id=sha1 -o other answer.c"));
        std::fs::copy(place.path().join("other"), &separate).unwrap();
        assert_eq!(found("stripped"), None);
    }

    #[test]
    #[expect(clippy::print_stdout, reason = "a test says when it skips")]
    fn inlined_functions_are_named_with_the_lines_of_their_calls() {
        const SOURCE: &str = "\
#define ALWAYS static inline __attribute__((always_inline))
ALWAYS void inner(volatile int *at) {
    *at = 1;
}
ALWAYS void outer(volatile int *at) {
    inner(at);
}
void answer(volatile int *at) {
    outer(at);
}
int main(void) { int x; answer(&x); return 0; }
";
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("inlined.c"), SOURCE).unwrap();
        if !has_run(place.path(), "cc -g -O2 -o inlined inlined.c") {
            println!("SKIP inlined_functions_are_named: no C compiler");
            return;
        }
        let path = place.path().join("inlined");
        let first = offset(&std::fs::read(&path).unwrap());
        let all: Vec<u64> = (first..first + 16).collect();
        let found = find_with(&File::open(&path).unwrap(), None, &all).unwrap();
        let origin = found.iter().find(|origin| !origin.inlined.is_empty()).unwrap();
        let line = |source: &Option<SourceLine>| source.as_ref().unwrap().line;
        let inlined =
            origin.inlined.iter().map(|one| (one.function.as_str(), line(&one.called_at)));
        assert_eq!(line(&origin.source), 3);
        assert_eq!(inlined.collect::<Vec<_>>(), [("inner", 6), ("outer", 9)]);
    }

    #[test]
    fn debug_files_are_kept_by_build_identifier() {
        let path = separate_path(Path::new("/d"), &[0xab, 0x01, 0xff]);
        assert_eq!(path.as_deref(), Some(Path::new("/d/ab/01ff.debug")));
        assert_eq!(separate_path(Path::new("/d"), &[]), None);
    }
}
