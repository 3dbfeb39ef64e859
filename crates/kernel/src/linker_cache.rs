//! Finds libraries by name in the dynamic linker's cache (`/etc/ld.so.cache`, ldconfig(8)).
//!
//! The format is that of glibc since 2.2 (sysdeps/generic/dl-cache.h, `struct cache_file_new`): a header, one
//! entry of 24 bytes for each library, and a string table. An older format may precede it. The same list
//! contains libraries of other architectures; the ELF header of each file identifies them.
//!
//! Not seen: libraries in directories of `LD_LIBRARY_PATH` or outside `/etc/ld.so.conf`; any library of musl,
//! which has no cache. Overhead: one read of some 50 KiB, and one of 20 bytes for each match.

use crate::file_view::open_regular;
use pagewise_model::look::Allocator;
use pagewise_model::machine::AllocatorLibrary;
use std::fs;
use std::io::Read;
use std::path::Path;

const CACHE: &str = "/etc/ld.so.cache";
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// Offset of the number of entries in the header.
const COUNT: usize = 20;
/// Offset, in an entry, of the string offset of the name; below, of the path.
const NAME: usize = 4;
const PATH: usize = 8;

/// An allocator that can replace glibc's malloc.
#[derive(Debug, Clone, Copy)]
pub struct KnownAllocator {
    pub allocator: Allocator,
    pub name: &'static str,
    /// The Debian and Ubuntu package that contains it.
    pub package: &'static str,
    /// Prefixes of its library names, preferred first.
    libraries: &'static [&'static str],
}

/// The known allocators, preferred first.
pub const ALLOCATORS: [KnownAllocator; 3] = [
    KnownAllocator {
        allocator: Allocator::Jemalloc,
        name: "jemalloc",
        package: "libjemalloc2",
        libraries: &["libjemalloc.so."],
    },
    KnownAllocator {
        allocator: Allocator::Mimalloc,
        name: "mimalloc",
        package: "libmimalloc2.0",
        libraries: &["libmimalloc.so."],
    },
    KnownAllocator {
        allocator: Allocator::Tcmalloc,
        name: "tcmalloc",
        package: "libtcmalloc-minimal4",
        libraries: &["libtcmalloc_minimal.so.", "libtcmalloc.so."],
    },
];

/// The allocators that are available as a shared library for programs of this architecture.
#[must_use]
pub fn allocators() -> Vec<AllocatorLibrary> {
    let cache = fs::read(CACHE).unwrap_or_default();
    let Some(own) = architecture(Path::new("/proc/self/exe")) else { return Vec::new() };
    let path = |prefix: &&str| {
        let mut named = libraries(&cache).filter(|(name, _)| name.starts_with(prefix));
        named.find(|(_, path)| architecture(Path::new(path)) == Some(own)).map(|(_, path)| path)
    };
    let found = |known: &KnownAllocator| {
        let path = known.libraries.iter().find_map(path)?.to_owned();
        Some(AllocatorLibrary { allocator: known.allocator, path })
    };
    ALLOCATORS.iter().filter_map(found).collect()
}

/// Name and path of each library in the cache; empty if the cache has another format.
fn libraries(cache: &[u8]) -> impl Iterator<Item = (&str, &str)> {
    let start = cache.windows(MAGIC.len()).position(|bytes| bytes == MAGIC);
    let table = start.map_or(&[][..], |at| &cache[at..]);
    let count = number(table, COUNT).unwrap_or(0);
    (0..count).map_while(move |index| {
        let entry = HEADER + index * ENTRY;
        Some((
            text(table, number(table, entry + NAME)?)?,
            text(table, number(table, entry + PATH)?)?,
        ))
    })
}

fn number(table: &[u8], at: usize) -> Option<usize> {
    let bytes = table.get(at..at.checked_add(4)?)?;
    usize::try_from(u32::from_ne_bytes(bytes.try_into().ok()?)).ok()
}

fn text(table: &[u8], at: usize) -> Option<&str> {
    std::ffi::CStr::from_bytes_until_nul(table.get(at..)?).ok()?.to_str().ok()
}

/// Class, byte order and machine of an ELF file (elf(5)).
fn architecture(path: &Path) -> Option<[u8; 4]> {
    let mut head = [0; 20];
    open_regular(path).ok()?.0.read_exact(&mut head).ok()?;
    head.starts_with(b"\x7fELF").then_some([head[4], head[5], head[18], head[19]])
}

#[cfg(test)]
#[allow(clippy::print_stderr, reason = "a test says why it is skipped")]
mod tests {
    use super::*;

    fn cache(libraries: &[(&str, &str)]) -> Vec<u8> {
        let mut table = MAGIC.to_vec();
        table.extend(u32::try_from(libraries.len()).unwrap().to_ne_bytes());
        table.resize(HEADER, 0);
        let (mut strings, start) = (Vec::new(), HEADER + libraries.len() * ENTRY);
        for (name, path) in libraries {
            let mut add = |text: &str| {
                let at = u32::try_from(start + strings.len()).unwrap();
                strings.extend(text.bytes().chain([0]));
                at.to_ne_bytes()
            };
            let (name, path) = (add(name), add(path));
            table.extend([[0; 4], name, path, [0; 4], [0; 4], [0; 4]].concat());
        }
        [b"ld.so-1.7.0\0\0\0\0\0".to_vec(), table, strings].concat()
    }

    #[test]
    fn libraries_have_names_and_paths() {
        let pairs = [("liba.so.1", "/lib/liba.so.1"), ("libb.so.2", "/usr/lib/libb.so.2")];
        assert_eq!(libraries(&cache(&pairs)).collect::<Vec<_>>(), pairs);
    }

    #[test]
    fn what_is_cut_off_or_foreign_lists_nothing_beyond_itself() {
        let whole = cache(&[("liba.so.1", "/lib/liba.so.1")]);
        for end in 0..whole.len() {
            assert_eq!(libraries(&whole[..end]).count(), 0, "{end} bytes");
        }
        assert_eq!(libraries(b"no cache at all").count(), 0);
    }

    #[test]
    fn the_c_library_of_this_machine_is_found() {
        let cache = fs::read(CACHE).unwrap_or_default();
        let own = architecture(Path::new("/proc/self/exe"));
        let mut found = libraries(&cache).filter(|(name, _)| *name == "libc.so.6");
        if cache.is_empty() {
            eprintln!("SKIP the_c_library_of_this_machine_is_found: no {CACHE}");
            return;
        }
        assert!(found.any(|(_, path)| architecture(Path::new(path)) == own));
    }
}
