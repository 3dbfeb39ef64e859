//! Reads from the ELF file of an executable whether it is static or dynamic, and whose `malloc` it uses.
//!
//! Checked in this order: defined symbols of known allocators, Go build information, messages that allocators
//! keep in read-only data, the needed libraries, the interpreter, and for static files messages of the C
//! libraries. For a live process, its mapped libraries come before its interpreter, so that a preloaded
//! allocator is seen. Files are read in pieces as needed. One look costs 0.1 to 20 ms, depending on the size
//! of the symbol table, and is cached per file.
//!
//! Not seen: a stripped allocator without any of its messages; an allocator that is built into a library of
//! another name.

use object::elf::{FileHeader32, FileHeader64, PT_INTERP, SHT_NOBITS};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::{Endianness, ReadCache, ReadRef};
use pagewise_kernel::error::SysError;
use pagewise_kernel::file_view::open_regular;
use pagewise_model::look::Allocator;
use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Properties of an executable file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfProperties {
    /// The allocator behind malloc.
    pub allocator: Allocator,
    /// Statically linked, including static-pie.
    pub is_static: bool,
    /// Contains 32-bit code.
    pub is_32_bit: bool,
    /// Has a built-in leak checker (LeakSanitizer, alone or in AddressSanitizer).
    pub checks_leaks: bool,
    /// CPython 3.6 or later. Its own pools for small objects can be disabled by `PYTHONMALLOC`.
    pub is_python: bool,
}

/// Looks at the executable of process `pid` and the libraries mapped into it.
///
/// # Errors
/// When `/proc/PID` cannot be read.
pub fn of_process(pid: i32) -> Result<ElfProperties, SysError> {
    let seen = of_one_file(Path::new(&format!("/proc/{pid}/exe")))?;
    let path = format!("/proc/{pid}/maps");
    let maps = fs::read(&path).map_err(|e| failed("read", Path::new(&path), e))?;
    let mapped = by_library_names(&String::from_utf8_lossy(&maps));
    let from_symbols =
        !matches!(seen.allocator, Allocator::Glibc | Allocator::Musl | Allocator::Unknown);
    let allocator = if from_symbols { seen.allocator } else { mapped.unwrap_or(seen.allocator) };
    Ok(ElfProperties { allocator, ..seen })
}

/// Looks at the executable `path`, which must not be a script.
///
/// # Errors
/// When it cannot be read.
pub fn of_executable(path: &Path) -> Result<ElfProperties, SysError> {
    of_one_file(path)
}

/// Looks at the executable of process `pid` alone, before its libraries are mapped.
///
/// # Errors
/// When `/proc/PID/exe` cannot be read.
pub fn of_executable_of(pid: i32) -> Result<ElfProperties, SysError> {
    of_one_file(Path::new(&format!("/proc/{pid}/exe")))
}

/// Device, inode, size and change time of a file.
pub(crate) type Key = (u64, u64, u64, i64);

/// Identifies a file, and changes when the file is written to.
pub(crate) fn key(meta: &fs::Metadata) -> Key {
    (meta.dev(), meta.ino(), meta.size(), meta.ctime_nsec() ^ meta.ctime() << 30)
}

static SEEN: LazyLock<Mutex<HashMap<Key, ElfProperties>>> = LazyLock::new(Mutex::default);

fn of_one_file(path: &Path) -> Result<ElfProperties, SysError> {
    let (file, _length) = open_regular(path)?;
    let meta = file.metadata().map_err(|e| failed("fstat", path, e))?;
    let key = key(&meta);
    if let Some(seen) = SEEN.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(*seen);
    }
    let cache = ReadCache::new(file);
    let seen = inspect_any(&cache);
    SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, seen);
    Ok(seen)
}

fn failed(call: &'static str, path: &Path, source: std::io::Error) -> SysError {
    SysError { call, subject: path.display().to_string(), source }
}

fn inspect_any<'data, R: ReadRef<'data>>(data: R) -> ElfProperties {
    inspect::<FileHeader64<Endianness>, R>(data)
        .or_else(|| {
            let seen = inspect::<FileHeader32<Endianness>, R>(data)?;
            Some(ElfProperties { is_32_bit: true, ..seen })
        })
        .unwrap_or(ElfProperties {
            allocator: Allocator::Unknown,
            is_static: false,
            is_32_bit: false,
            checks_leaks: false,
            is_python: false,
        })
}

fn inspect<'data, H, R>(data: R) -> Option<ElfProperties>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    // A file without readable segments cannot run.
    header.program_headers(endian, data).ok()?;
    let interpreter = interpreter::<H, R>(data);
    let sections = header.sections(endian, data).unwrap_or_default();
    let needed = needed(endian, data, &sections);
    let allocator = defines(endian, data, &sections, &by_symbol_name)
        .or_else(|| has_go_sections(endian, &sections).then_some(Allocator::Go))
        .or_else(|| by_strings(endian, data, &sections, &OWN_MARKS))
        .or_else(|| by_library_names(&needed))
        .or_else(|| interpreter.and_then(by_interpreter))
        .or_else(|| by_strings(endian, data, &sections, &LIBRARY_MARKS))
        .unwrap_or(Allocator::Unknown);
    let checks_leaks =
        defines(endian, data, &sections, &|name| name.starts_with(b"__lsan_").then_some(()));
    Some(ElfProperties {
        allocator,
        is_static: interpreter.is_none(),
        is_32_bit: false,
        checks_leaks: checks_leaks.is_some(),
        is_python: needs_python(&needed) || holds(endian, data, &sections, PYTHON_MARK),
    })
}

/// The interpreter (dynamic loader) named by an ELF file of this class.
pub(crate) fn interpreter<'data, H, R>(data: R) -> Option<&'data [u8]>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let segment = segments.iter().find(|s| s.p_type(endian) == PT_INTERP)?;
    segment.interpreter(endian, data).ok().flatten()
}

/// The first result of `tells` over the symbols that the file defines.
fn defines<'data, H, R, T>(
    endian: Endianness,
    data: R,
    sections: &SectionTable<'data, H, R>,
    tells: &dyn Fn(&[u8]) -> Option<T>,
) -> Option<T>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    [object::elf::SHT_SYMTAB, object::elf::SHT_DYNSYM].into_iter().find_map(|kind| {
        let table = sections.symbols(endian, data, kind).ok()?;
        let strings = table.strings();
        table
            .iter()
            .filter(|symbol| !symbol.is_undefined(endian))
            .filter_map(|symbol| symbol.name(endian, strings).ok())
            .find_map(tells)
    })
}

fn by_symbol_name(name: &[u8]) -> Option<Allocator> {
    match name {
        b"mallctl" | b"je_malloc" | b"je_mallctl" | b"_rjem_malloc" | b"_rjem_mallctl"
        | b"_rjem_mallocx" => Some(Allocator::Jemalloc),
        b"mi_malloc" => Some(Allocator::Mimalloc),
        b"tc_malloc"
        | b"TCMallocInternalMalloc"
        | b"MallocExtension_Internal_GetNumericProperty" => Some(Allocator::Tcmalloc),
        _ => None,
    }
}

pub(crate) fn has_go_sections<'data, H, R>(
    endian: Endianness,
    sections: &SectionTable<'data, H, R>,
) -> bool
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    [&b".go.buildinfo"[..], b".note.go.buildid"]
        .into_iter()
        .any(|name| sections.section_by_name(endian, name).is_some())
}

/// The needed libraries of the file, one per line, each with a leading slash as if in a path.
fn needed<'data, H, R>(endian: Endianness, data: R, sections: &SectionTable<'data, H, R>) -> String
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let Ok(Some((entries, link))) = sections.dynamic(endian, data) else { return String::new() };
    let Ok(strings) = sections.strings(endian, data, link) else { return String::new() };
    let names = entries
        .iter()
        .filter(|entry| entry.tag(endian) == object::elf::DT_NEEDED)
        .filter_map(|entry| entry.string(endian, strings).ok())
        .map(|name| format!("/{}", String::from_utf8_lossy(name)));
    names.collect::<Vec<_>>().join("\n")
}

/// The variable that chooses the allocator. Every CPython since 3.6 contains its name.
const PYTHON_MARK: &[u8] = b"PYTHONMALLOC\0";

/// Whether one of the libraries is CPython 3.6 or later.
fn needs_python(needed: &str) -> bool {
    let minor = |name: &str| -> Option<u32> {
        let version = name.strip_prefix("/libpython3.")?;
        version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    needed.lines().filter_map(minor).any(|minor| minor >= 6)
}

fn by_interpreter(interpreter: &[u8]) -> Option<Allocator> {
    let name = interpreter.rsplit(|&b| b == b'/').next()?;
    if name.starts_with(b"ld-musl") {
        Some(Allocator::Musl)
    } else if name.starts_with(b"ld-linux") || name.starts_with(b"ld64.so") {
        Some(Allocator::Glibc)
    } else {
        None
    }
}

/// The allocator found among library paths, one per line. An allocator's own library takes precedence over
/// the C library.
fn by_library_names(text: &str) -> Option<Allocator> {
    const NAMES: [(&str, Allocator); 8] = [
        // The JVM manages its own heap, whichever malloc its other parts use.
        ("/libjvm.so", Allocator::Hotspot),
        ("/libjli.so", Allocator::Hotspot),
        ("/libjemalloc", Allocator::Jemalloc),
        ("/libmimalloc", Allocator::Mimalloc),
        ("/libtcmalloc", Allocator::Tcmalloc),
        ("/libc.so.6", Allocator::Glibc),
        ("/libc.musl", Allocator::Musl),
        ("/ld-musl", Allocator::Musl),
    ];
    NAMES.into_iter().find(|(name, _)| text.contains(name)).map(|(_, allocator)| allocator)
}

/// Read-only data beyond this many bytes is not searched.
const STRINGS_LIMIT: u64 = 64 << 20;

/// First words of messages of allocators that a program may carry beside a C library. Names of their
/// variables do not serve: programs that only set those variables contain them too.
const OWN_MARKS: [(&[u8], Allocator); 4] = [
    (b"<jemalloc>: ", Allocator::Jemalloc),
    (b"mimalloc: warning: ", Allocator::Mimalloc),
    (b"tcmalloc: large alloc ", Allocator::Tcmalloc),
    (b"TCMALLOC_SAMPLE_PARAMETER", Allocator::Tcmalloc),
];

/// Marks of the C libraries, for static programs.
const LIBRARY_MARKS: [(&[u8], Allocator); 3] = [
    (b"malloc(): corrupted", Allocator::Glibc),
    (b"MUSL_LOCPATH", Allocator::Musl),
    (b"GLIBC_TUNABLES", Allocator::Glibc),
];

fn by_strings<'data, H, R>(
    endian: Endianness,
    data: R,
    sections: &SectionTable<'data, H, R>,
    marks: &[(&[u8], Allocator)],
) -> Option<Allocator>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let found = |mark: &[u8]| holds(endian, data, sections, mark);
    marks.iter().find(|(mark, _)| found(mark)).map(|(_, allocator)| *allocator)
}

/// Whether the read-only data of the file contains these bytes.
fn holds<'data, H, R>(
    endian: Endianness,
    data: R,
    sections: &SectionTable<'data, H, R>,
    mark: &[u8],
) -> bool
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let Some((_, section)) = sections.section_by_name(endian, b".rodata") else { return false };
    let size: u64 = section.sh_size(endian).into();
    if section.sh_type(endian) == SHT_NOBITS || size > STRINGS_LIMIT {
        return false;
    }
    section.data(endian, data).is_ok_and(|bytes| memchr::memmem::find(bytes, mark).is_some())
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_process_is_looked_at_with_its_libraries() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // Its output has passed through its C library, so that library is mapped by now.
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        std::io::Write::write_all(&mut input, b"x").unwrap();
        std::io::Read::read_exact(&mut output, &mut [0]).unwrap();
        let seen = of_process(child.id() as i32).unwrap();
        drop(input);
        child.wait().unwrap();
        assert!(matches!(seen.allocator, Allocator::Glibc | Allocator::Musl));
        assert!(!seen.is_32_bit);
    }

    #[test]
    fn ls_is_dynamic_glibc() {
        let seen = of_one_file(Path::new("/bin/ls")).unwrap();
        assert_eq!(seen.allocator, Allocator::Glibc);
        assert!(!seen.is_static && !seen.is_32_bit);
    }

    /// What a stripped C program built from this source is found to be; `None` if it cannot be built.
    fn built(source: &str, args: &[&str]) -> Option<ElfProperties> {
        let dir = tempfile::tempdir().unwrap();
        let (file, program) = (dir.path().join("p.c"), dir.path().join("p"));
        fs::write(&file, source).unwrap();
        let built = std::process::Command::new("cc")
            .args(args)
            .args(["-s".as_ref(), "-o".as_ref(), program.as_os_str(), file.as_os_str()])
            .stderr(std::process::Stdio::null())
            .status();
        built.is_ok_and(|status| status.success()).then(|| of_one_file(&program).unwrap())
    }

    #[test]
    fn stripped_static_glibc_is_known_by_its_messages() {
        let Some(seen) = built("int main(void) { return 0; }\n", &["-static"]) else {
            eprintln!("SKIP stripped_static_glibc: no C compiler with a static library");
            return;
        };
        assert!(seen.is_static);
        assert!(matches!(seen.allocator, Allocator::Glibc | Allocator::Musl));
    }

    #[test]
    fn a_stripped_program_with_an_allocator_of_its_own_does_not_count_as_glibc() {
        let source =
            "#include <stdio.h>\nint main(int n, char **a) { return puts(n > 9 ? a[0] : MARK); }\n";
        for (mark, allocator) in [
            ("<jemalloc>: Error in munmap", Allocator::Jemalloc),
            ("mimalloc: warning: ", Allocator::Mimalloc),
            ("MIMALLOC_VERBOSE", Allocator::Glibc),
        ] {
            let Some(seen) = built(source, &[&format!("-DMARK=\"{mark}\"")]) else {
                eprintln!("SKIP a_stripped_program_with_an_allocator: no C compiler");
                return;
            };
            assert!(!seen.is_static);
            assert!(seen.allocator == allocator || seen.allocator == Allocator::Musl, "{mark}");
        }
    }

    #[test]
    fn names_decide() {
        assert_eq!(by_symbol_name(b"_rjem_mallctl"), Some(Allocator::Jemalloc));
        assert_eq!(by_symbol_name(b"malloc"), None);
        assert_eq!(by_interpreter(b"/lib/ld-musl-x86_64.so.1"), Some(Allocator::Musl));
        assert_eq!(by_interpreter(b"/lib64/ld-linux-x86-64.so.2"), Some(Allocator::Glibc));
        let maps = "x /lib/libc.so.6\ny /usr/lib/libjemalloc.so.2\n";
        assert_eq!(by_library_names(maps), Some(Allocator::Jemalloc));
        let jvm = format!("{maps}z /opt/jdk/lib/server/libjvm.so\n");
        assert_eq!(by_library_names(&jvm), Some(Allocator::Hotspot));
    }

    #[test]
    fn a_python_is_known_by_its_library_or_by_the_variable_that_it_reads() {
        for (name, known) in [
            ("/libpython3.11.so.1.0", true),
            ("/libpython3.6m.so.1.0", true),
            ("/libpython3.5m.so.1.0", false),
            ("/libpython2.7.so.1.0", false),
            ("/libpythonesque.so", false),
        ] {
            assert_eq!(needs_python(&format!("/libc.so.6\n{name}")), known, "{name}");
        }
        let source = "#include <stdlib.h>\nint main(void) { return getenv(NAME) != 0; }\n";
        for (name, known) in [("PYTHONMALLOC", true), ("PYTHONMALLOCSTATS", false)] {
            let Some(seen) = built(source, &[&format!("-DNAME=\"{name}\"")]) else {
                eprintln!("SKIP a_python_is_known: no C compiler");
                return;
            };
            assert_eq!(seen.is_python, known, "{name}");
        }
        assert!(!of_one_file(Path::new("/bin/ls")).unwrap().is_python);
    }

    proptest! {
        #[test]
        fn damaged_files_never_panic(
            cut in 0_usize..200_000,
            changes in prop::collection::vec((0_usize..200_000, any::<u8>()), 0..40),
            head in prop::collection::vec((0_usize..1024, any::<u8>()), 0..20),
        ) {
            let mut bytes = fs::read("/bin/ls").unwrap();
            let len = bytes.len();
            for (at, value) in changes.into_iter().chain(head) {
                bytes[at % len] = value;
            }
            bytes.truncate(cut.max(1));
            let seen = inspect_any(&bytes[..]);
            prop_assert!(bytes.starts_with(b"\x7fELF") || seen.allocator == Allocator::Unknown);
        }
    }
}
