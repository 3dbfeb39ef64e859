//! What the glibc of an executable can do, from the file that holds its tunables: the dynamic
//! loader that the executable names, or a static executable itself.
//!
//! glibc keeps the names of all its tunables as strings in that file (elf/dl-tunables.c), so that
//! a name that is not there is a tunable it does not have. The names are read, not the version.
//! Not seen: a loader named on the command line instead of in the executable.

use crate::elf;
use object::elf::{FileHeader32, FileHeader64};
use object::{Endianness, ReadCache, ReadRef};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// The tunable that puts the heap on huge pages, of glibc 2.35 and later.
const HUGE: &[u8] = b"glibc.malloc.hugetlb";
/// A tunable that every glibc with tunables has: its name tells that the names are in this file.
const EVERY: &[u8] = b"glibc.malloc.trim_threshold";
/// Files beyond this are not searched.
const LIMIT: u64 = 64 << 20;

/// Device, inode, size and change time of a file.
type Key = (u64, u64, u64, i64);

static SEEN: LazyLock<Mutex<HashMap<Key, Option<bool>>>> = LazyLock::new(Mutex::default);

/// Whether the glibc of `executable` knows the tunable for huge pages; `None` where its file
/// cannot be read or is no glibc with tunables.
#[must_use]
pub fn has_huge_tunable(executable: &Path) -> Option<bool> {
    let file = File::open(executable).ok()?;
    let holder = loader(&ReadCache::new(file)).unwrap_or_else(|| executable.to_path_buf());
    let meta = fs::metadata(&holder).ok()?;
    let key = (meta.dev(), meta.ino(), meta.size(), meta.ctime_nsec() ^ meta.ctime() << 30);
    let known = SEEN.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied();
    known.unwrap_or_else(|| {
        let found = read(&holder).and_then(|bytes| names_huge(&bytes));
        SEEN.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found);
        found
    })
}

fn read(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Whether the file with these bytes names the tunable among others.
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

    #[test]
    fn names_tell_old_from_new_and_from_neither() {
        assert_eq!(names_huge(b"x\0glibc.malloc.trim_threshold\0y"), Some(false));
        assert_eq!(names_huge(b"glibc.malloc.trim_threshold\0glibc.malloc.hugetlb\0"), Some(true));
        assert_eq!(names_huge(b"\x7fELF musl"), None);
        assert_eq!(names_huge(b""), None);
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
