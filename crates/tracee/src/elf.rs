//! What an executable is, from its ELF file: static or dynamic, and whose `malloc` it carries.
//!
//! Looked at in this order: defined symbols of the known allocators, the Go build information, the
//! libraries it needs, its interpreter, and for static files strings that the C libraries keep in
//! read-only data. For a live process the libraries mapped into it come before its interpreter, so
//! that a preloaded allocator is seen. Files are read in pieces as needed; one look costs 0.1 to
//! 20 ms by the size of the symbol table and is remembered per file. Not seen: a stripped allocator
//! without any of its messages, and one that is built into a library of another name.

use object::elf::{FileHeader32, FileHeader64, PT_INTERP, SHT_NOBITS};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym};
use object::{Endianness, ReadCache, ReadRef};
use pagewise_kernel::error::SysError;
use pagewise_model::look::Allocator;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// What an executable file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElfSeen {
    /// Who serves malloc.
    pub allocator: Allocator,
    /// Statically linked (static-pie included).
    pub is_static: bool,
    /// The file is a script; the rest is said of its interpreter.
    pub is_script: bool,
}

/// Looks at the executable `path`; a script is followed to its interpreter.
///
/// # Errors
/// When the file cannot be read. A file that is neither ELF nor script gives `Unknown`.
pub fn of_file(path: &Path) -> Result<ElfSeen, SysError> {
    let mut seen = of_one_file(path)?;
    if let Some(interpreter) = interpreter_of_script(path)? {
        seen = ElfSeen { is_script: true, ..of_one_file(&interpreter)? };
    }
    Ok(seen)
}

/// Looks at the executable of process `pid` and the libraries mapped into it.
///
/// # Errors
/// When `/proc/PID` cannot be read.
pub fn of_process(pid: i32) -> Result<ElfSeen, SysError> {
    let seen = of_one_file(Path::new(&format!("/proc/{pid}/exe")))?;
    let path = format!("/proc/{pid}/maps");
    let maps = fs::read(&path).map_err(|e| failed("read", Path::new(&path), e))?;
    let mapped = by_library_names(&String::from_utf8_lossy(&maps));
    let from_symbols =
        !matches!(seen.allocator, Allocator::Glibc | Allocator::Musl | Allocator::Unknown);
    let allocator = if from_symbols { seen.allocator } else { mapped.unwrap_or(seen.allocator) };
    Ok(ElfSeen { allocator, ..seen })
}

/// Looks at the executable of process `pid` alone, before its libraries are mapped.
///
/// # Errors
/// When `/proc/PID/exe` cannot be read.
pub fn of_executable_of(pid: i32) -> Result<ElfSeen, SysError> {
    of_one_file(Path::new(&format!("/proc/{pid}/exe")))
}

/// Looks at the bytes of a file.
#[must_use]
pub fn of_bytes(bytes: &[u8]) -> ElfSeen {
    inspect_any(bytes)
}

/// Device, inode, size and change time of a file.
type Key = (u64, u64, u64, i64);

static SEEN: LazyLock<Mutex<HashMap<Key, ElfSeen>>> = LazyLock::new(Mutex::default);

fn of_one_file(path: &Path) -> Result<ElfSeen, SysError> {
    let file = File::open(path).map_err(|e| failed("open", path, e))?;
    let meta = file.metadata().map_err(|e| failed("fstat", path, e))?;
    let key = (meta.dev(), meta.ino(), meta.size(), meta.ctime_nsec() ^ meta.ctime() << 30);
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

/// The interpreter that a `#!` line names, if `path` is a script.
fn interpreter_of_script(path: &Path) -> Result<Option<PathBuf>, SysError> {
    let mut head = Vec::new();
    let file = File::open(path).map_err(|e| failed("open", path, e))?;
    file.take(256).read_to_end(&mut head).map_err(|e| failed("read", path, e))?;
    Ok(script_interpreter(&head).map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))))
}

fn script_interpreter(head: &[u8]) -> Option<&[u8]> {
    let line = head.strip_prefix(b"#!")?.split(|&b| b == b'\n').next()?;
    line.split(|b| b" \t".contains(b)).find(|word| !word.is_empty())
}

fn inspect_any<'data, R: ReadRef<'data>>(data: R) -> ElfSeen {
    inspect::<FileHeader64<Endianness>, R>(data)
        .or_else(|| inspect::<FileHeader32<Endianness>, R>(data))
        .unwrap_or(ElfSeen { allocator: Allocator::Unknown, is_static: false, is_script: false })
}

fn inspect<'data, H, R>(data: R) -> Option<ElfSeen>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let interpreter = segments
        .iter()
        .find(|s| s.p_type(endian) == PT_INTERP)
        .and_then(|s| s.interpreter(endian, data).ok().flatten());
    let sections = header.sections(endian, data).unwrap_or_default();
    let allocator = by_symbols(endian, data, &sections)
        .or_else(|| has_go_sections(endian, &sections).then_some(Allocator::Go))
        .or_else(|| by_needed(endian, data, &sections))
        .or_else(|| interpreter.and_then(by_interpreter))
        .or_else(|| by_strings(endian, data, &sections))
        .unwrap_or(Allocator::Unknown);
    Some(ElfSeen { allocator, is_static: interpreter.is_none(), is_script: false })
}

fn by_symbols<'data, H, R>(
    endian: Endianness,
    data: R,
    sections: &SectionTable<'data, H, R>,
) -> Option<Allocator>
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
            .find_map(by_symbol_name)
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

fn has_go_sections<'data, H, R>(endian: Endianness, sections: &SectionTable<'data, H, R>) -> bool
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    [&b".go.buildinfo"[..], b".note.go.buildid"]
        .into_iter()
        .any(|name| sections.section_by_name(endian, name).is_some())
}

fn by_needed<'data, H, R>(
    endian: Endianness,
    data: R,
    sections: &SectionTable<'data, H, R>,
) -> Option<Allocator>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let (entries, link) = sections.dynamic(endian, data).ok()??;
    let strings = sections.strings(endian, data, link).ok()?;
    let names: Vec<String> = entries
        .iter()
        .filter(|entry| entry.tag(endian) == object::elf::DT_NEEDED)
        .filter_map(|entry| entry.string(endian, strings).ok())
        .map(|name| format!("/{}", String::from_utf8_lossy(name)))
        .collect();
    by_library_names(&names.join("\n"))
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

/// The allocator among library paths, one per line; an allocator's own library before the C library.
fn by_library_names(text: &str) -> Option<Allocator> {
    const NAMES: [(&str, Allocator); 6] = [
        ("/libjemalloc", Allocator::Jemalloc),
        ("/libmimalloc", Allocator::Mimalloc),
        ("/libtcmalloc", Allocator::Tcmalloc),
        ("/libc.so.6", Allocator::Glibc),
        ("/libc.musl", Allocator::Musl),
        ("/ld-musl", Allocator::Musl),
    ];
    NAMES.into_iter().find(|(name, _)| text.contains(name)).map(|(_, allocator)| allocator)
}

/// Read-only data beyond this is not searched.
const STRINGS_LIMIT: u64 = 64 << 20;

fn by_strings<'data, H, R>(
    endian: Endianness,
    data: R,
    sections: &SectionTable<'data, H, R>,
) -> Option<Allocator>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    const MARKS: [(&[u8], Allocator); 6] = [
        (b"<jemalloc>: ", Allocator::Jemalloc),
        (b"MIMALLOC_", Allocator::Mimalloc),
        (b"TCMALLOC_", Allocator::Tcmalloc),
        (b"malloc(): corrupted", Allocator::Glibc),
        (b"MUSL_LOCPATH", Allocator::Musl),
        (b"GLIBC_TUNABLES", Allocator::Glibc),
    ];
    let (_, section) = sections.section_by_name(endian, b".rodata")?;
    let size: u64 = section.sh_size(endian).into();
    if section.sh_type(endian) == SHT_NOBITS || size > STRINGS_LIMIT {
        return None;
    }
    let bytes = section.data(endian, data).ok()?;
    MARKS.into_iter().find(|(mark, _)| contains(bytes, mark)).map(|(_, allocator)| allocator)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn own_test_binary_is_dynamic_glibc_or_static() {
        let seen = of_file(&std::env::current_exe().unwrap()).unwrap();
        assert!(matches!(seen.allocator, Allocator::Glibc | Allocator::Musl));
        assert_eq!(of_process(std::process::id() as i32).unwrap().allocator, seen.allocator);
    }

    #[test]
    fn ls_is_dynamic_glibc() {
        let seen = of_file(Path::new("/bin/ls")).unwrap();
        assert_eq!(seen.allocator, Allocator::Glibc);
        assert!(!seen.is_static && !seen.is_script);
    }

    #[test]
    fn stripped_static_glibc_is_known_by_its_messages() {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("p.c"), dir.path().join("p"));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let built = std::process::Command::new("cc")
            .args(["-static", "-s", "-o"])
            .args([&program, &source])
            .stderr(std::process::Stdio::null())
            .status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("SKIP stripped_static_glibc: no C compiler with a static library");
            return;
        }
        let seen = of_file(&program).unwrap();
        assert!(seen.is_static);
        assert!(matches!(seen.allocator, Allocator::Glibc | Allocator::Musl));
    }

    #[test]
    fn names_decide() {
        assert_eq!(by_symbol_name(b"_rjem_mallctl"), Some(Allocator::Jemalloc));
        assert_eq!(by_symbol_name(b"malloc"), None);
        assert_eq!(by_interpreter(b"/lib/ld-musl-x86_64.so.1"), Some(Allocator::Musl));
        assert_eq!(by_interpreter(b"/lib64/ld-linux-x86-64.so.2"), Some(Allocator::Glibc));
        let maps = "x /lib/libc.so.6\ny /usr/lib/libjemalloc.so.2\n";
        assert_eq!(by_library_names(maps), Some(Allocator::Jemalloc));
        assert_eq!(script_interpreter(b"#! /bin/sh -e\nx"), Some(&b"/bin/sh"[..]));
        assert_eq!(script_interpreter(b"\x7fELF"), None);
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
            prop_assert!(!of_bytes(&bytes).is_script);
        }
    }
}
