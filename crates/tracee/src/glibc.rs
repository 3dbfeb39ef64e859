//! Reads from the glibc of an executable which tunables it has, and where its allocator's code lies.
//!
//! The file with the tunables is the dynamic loader that the executable names, or a static executable itself.
//!
//! glibc keeps the names of all its tunables as strings in that file (elf/dl-tunables.c). A name that is
//! missing is a tunable that it does not have. The names are read, not the version. The allocator is one
//! object file (malloc/malloc.c), whose functions lie together in the shared library. A stripped library
//! still exports some of them. The code between the nearest other exported functions is the allocator's,
//! including the static functions that do the work.
//!
//! Not seen: a loader named on the command line instead of in the executable.

use crate::{elf, mapped_file};
use object::elf::{FileHeader32, FileHeader64, PT_LOAD, SHT_DYNSYM, STT_FUNC, STT_GNU_IFUNC};
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use object::{Endianness, ReadCache, ReadRef};
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::proc::maps;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The tunable that puts the heap on huge pages (glibc 2.35 and later).
const HUGE: &[u8] = b"glibc.malloc.hugetlb";
/// A tunable that every glibc with tunables has. If its name is in a file, that file holds the names.
const EVERY: &[u8] = b"glibc.malloc.trim_threshold";
/// Bytes of a file that are searched.
const LIMIT: u64 = 64 << 20;

/// Device, inode, size and change time of a file.
type Key = (u64, u64, u64, i64);

static SEEN: LazyLock<Mutex<HashMap<Key, Option<bool>>>> = LazyLock::new(Mutex::default);

/// Whether the glibc of `executable` has the tunable for huge pages. `None` if its file cannot be read or is
/// not a glibc with tunables.
#[must_use]
pub fn has_huge_tunable(executable: &Path) -> Option<bool> {
    let open = |file: &Path| open_regular(file).ok().map(|(file, _)| file);
    let file = open(executable)?;
    holder_names_huge(file, &open)
}

/// Like [`has_huge_tunable`], for the program that process `pid` runs. The loader is looked up in that
/// process's root.
#[must_use]
pub fn has_huge_tunable_in(pid: i32) -> Option<bool> {
    let file = File::open(format!("/proc/{pid}/exe")).ok()?;
    holder_names_huge(file, &|loader: &Path| mapped_file::open_inside(pid, loader))
}

fn holder_names_huge(executable: File, open: &dyn Fn(&Path) -> Option<File>) -> Option<bool> {
    let holder = match loader(&ReadCache::new(&executable)) {
        Some(loader) => open(&loader)?,
        None => executable,
    };
    let meta = holder.metadata().ok()?;
    let key = (meta.dev(), meta.ino(), meta.size(), meta.ctime_nsec() ^ meta.ctime() << 30);
    let known = SEEN.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    known.unwrap_or_else(|| {
        let found = read(holder).and_then(|bytes| names_huge(&bytes));
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found);
        found
    })
}

/// Functions that malloc/malloc.c exports.
const MALLOC: [&[u8]; 26] = [
    b"malloc",
    b"free",
    b"cfree",
    b"calloc",
    b"realloc",
    b"memalign",
    b"aligned_alloc",
    b"valloc",
    b"pvalloc",
    b"posix_memalign",
    b"malloc_trim",
    b"malloc_usable_size",
    b"mallinfo",
    b"mallinfo2",
    b"malloc_stats",
    b"mallopt",
    b"malloc_info",
    b"__libc_malloc",
    b"__libc_free",
    b"__libc_calloc",
    b"__libc_realloc",
    b"__libc_memalign",
    b"__libc_valloc",
    b"__libc_pvalloc",
    b"__libc_mallinfo",
    // malloc/morecore.c, which malloc.c includes.
    b"__default_morecore",
];
/// The shared library of glibc.
const LIBRARY: &str = "libc.so.6";

/// Addresses of the allocator's code in process `pid`. `None` if the process has not mapped glibc's shared
/// library.
#[must_use]
pub fn malloc_addresses(pid: i32) -> Option<Range<u64>> {
    let mappings = maps::read(pid).ok()?;
    mappings.iter().filter(|mapping| mapping.perms.exec).find_map(|mapping| {
        let name = mapping.path.to_string_lossy();
        if !is_library(&name) {
            return None;
        }
        let code = malloc_code(&name, &mapped_file::open(pid, mapping).ok()?)?;
        let address = |offset: u64| Some(offset.checked_sub(mapping.offset)? + mapping.start);
        let (start, end) = (address(code.start)?, address(code.end)?);
        (mapping.contains(start) && end <= mapping.end).then_some(start..end)
    })
}

/// Whether a file of this name is glibc's shared library.
fn is_library(name: &str) -> bool {
    // When two files have the same path, one has a number after its name (`mapped_file`).
    name.rsplit('/').next().and_then(|last| last.split(' ').next()) == Some(LIBRARY)
}

/// File offsets of the allocator's code in `file`, which is called `name`. `None` if it is not glibc's shared
/// library.
pub(crate) fn malloc_code(name: &str, file: &File) -> Option<Range<u64>> {
    if !is_library(name) {
        return None;
    }
    let file = ReadCache::new(file);
    allocator_in::<FileHeader64<Endianness>, _>(&file)
        .or_else(|| allocator_in::<FileHeader32<Endianness>, _>(&file))
}

fn allocator_in<'data, H, R>(data: R) -> Option<Range<u64>>
where
    H: FileHeader<Endian = Endianness>,
    R: ReadRef<'data>,
{
    let header = H::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let table = header.sections(endian, data).ok()?.symbols(endian, data, SHT_DYNSYM).ok()?;
    let is_function = |symbol: &&H::Sym| {
        !symbol.is_undefined(endian) && matches!(symbol.st_type(), STT_FUNC | STT_GNU_IFUNC)
    };
    let functions: Vec<(u64, u64, bool)> = table
        .iter()
        .filter(is_function)
        .filter_map(|symbol| {
            let start = symbol.st_value(endian).into();
            let name = symbol.name(endian, table.strings()).ok()?;
            Some((start, start + symbol.st_size(endian).into(), MALLOC.contains(&name)))
        })
        .collect();
    let code = allocator_among(&functions)?;
    let segments = header.program_headers(endian, data).ok()?;
    let holds = |s: &&H::ProgramHeader| {
        let start: u64 = s.p_vaddr(endian).into();
        s.p_type(endian) == PT_LOAD
            && (start..start + s.p_filesz(endian).into()).contains(&code.start)
    };
    let segment = segments.iter().find(holds)?;
    let offset =
        |address| address - segment.p_vaddr(endian).into() + segment.p_offset(endian).into();
    Some(offset(code.start)..offset(code.end))
}

/// The addresses between the nearest non-allocator functions around those of the allocator. Each function is
/// given by start, end, and whether it is the allocator's.
fn allocator_among(functions: &[(u64, u64, bool)]) -> Option<Range<u64>> {
    let first = functions.iter().filter(|f| f.2).map(|f| f.0).min()?;
    let last = functions.iter().filter(|f| f.2).map(|f| f.1).max()?;
    let others = || functions.iter().filter(|f| !f.2);
    // Aliases of an exported function have the same address.
    let before = others().map(|f| f.1).filter(|end| *end <= first).max()?;
    let after = others().map(|f| f.0).filter(|start| *start >= last).min()?;
    Some(before..after)
}

fn read(mut file: File) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind().ok()?;
    file.take(LIMIT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether a file with these bytes contains the tunable's name; `None` if it holds no tunables at all.
fn names_huge(bytes: &[u8]) -> Option<bool> {
    let has = |name: &[u8]| memchr::memmem::find(bytes, name).is_some();
    if has(HUGE) { Some(true) } else { has(EVERY).then_some(false) }
}

/// The dynamic loader that an executable names.
fn loader<'data, R: ReadRef<'data>>(data: R) -> Option<PathBuf> {
    elf::interpreter::<FileHeader64<Endianness>, R>(data)
        .or_else(|| elf::interpreter::<FileHeader32<Endianness>, R>(data))
        .map(|path| PathBuf::from(OsStr::from_bytes(path)))
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn names_tell_old_from_new_and_from_neither() {
        assert_eq!(names_huge(b"x\0glibc.malloc.trim_threshold\0y"), Some(false));
        assert_eq!(names_huge(b"glibc.malloc.trim_threshold\0glibc.malloc.hugetlb\0"), Some(true));
        assert_eq!(names_huge(b"\x7fELF musl"), None);
        assert_eq!(names_huge(b""), None);
    }

    #[test]
    fn the_allocator_lies_between_its_neighbours() {
        let functions =
            [(0, 10, false), (40, 50, true), (60, 90, true), (100, 120, false), (5, 8, false)];
        assert_eq!(allocator_among(&functions), Some(10..100));
        assert_eq!(allocator_among(&functions[..3]), None, "no end is known");
        assert_eq!(allocator_among(&[(0, 10, false)]), None);
    }

    #[test]
    fn the_allocator_of_this_libc_holds_malloc_and_little_else() {
        let maps = fs::read_to_string("/proc/self/maps").unwrap();
        let Some(path) =
            maps.lines().find(|l| l.ends_with(LIBRARY)).and_then(|l| l.split(' ').next_back())
        else {
            println!(
                "SKIP the_allocator_of_this_libc_holds_malloc_and_little_else: no {LIBRARY} here"
            );
            return;
        };
        let code = malloc_code(path, &File::open(path).unwrap()).unwrap();
        assert!((16 << 10..64 << 10).contains(&(code.end - code.start)), "{code:x?}");
        let there = malloc_addresses(pagewise_kernel::proc::own_pid()).unwrap();
        assert!(there.contains(&(libc::malloc as *const () as u64)), "{there:x?}");
        assert!(!there.contains(&(libc::mmap as *const () as u64)), "{there:x?}");
        let other = File::open("/bin/ls").unwrap();
        assert_eq!((malloc_code("/bin/ls", &other), malloc_code(path, &other)), (None, None));
    }

    #[test]
    fn a_dynamic_program_is_asked_through_its_loader() {
        let program = Path::new("/bin/ls");
        let file = ReadCache::new(File::open(program).unwrap());
        let Some(loader) = loader(&file) else {
            println!("SKIP a_dynamic_program_is_asked_through_its_loader: ls is static");
            return;
        };
        assert_eq!(has_huge_tunable(program), names_huge(&fs::read(loader).unwrap()));
        assert_eq!(has_huge_tunable(Path::new("/nonexistent")), None);
    }
}
