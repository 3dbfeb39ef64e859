//! The program that a remedy is applied to without a look at its run: what its file shows.
//!
//! A script is followed to its interpreter, also through `env`; text without a `#!` line goes to the shell.
//! Facts are read only on request, since the search of symbols for an allocator takes up to 20 ms. Not seen:
//! programs that the program starts, and an allocator that is preloaded into it.

use pagewise_kernel::file_view::open_regular;
use pagewise_model::look::Allocator;
use pagewise_tracee::launch::ProgramLaunch;
use pagewise_tracee::{elf, glibc, lending};
use std::cell::OnceCell;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of nested interpreters that are followed, as in the kernel.
const DEEPEST: usize = 5;
/// Number of bytes of a `#!` line that the kernel reads.
const LINE: u64 = 256;

/// Facts about a program before it runs.
#[derive(Debug)]
pub struct TargetProgram {
    file: Option<PathBuf>,
    malloc: OnceCell<ProgramMalloc>,
}

/// The allocator behind malloc, and whether a glibc has the tunable for huge pages.
#[derive(Debug, Clone, Copy)]
struct ProgramMalloc {
    allocator: Allocator,
    glibc_huge_tunable: Option<bool>,
    is_python: bool,
    is_static: bool,
    is_32_bit: bool,
}

impl TargetProgram {
    /// The program that `command` starts.
    #[must_use]
    pub fn from_command(command: &[OsString]) -> Self {
        let file =
            ProgramLaunch::experiment(command.to_vec()).file().ok().and_then(|f| binary(f, 0));
        Self { file, malloc: OnceCell::new() }
    }

    /// A program with this allocator.
    #[cfg(test)]
    pub(crate) fn with_malloc(allocator: Allocator, glibc_huge_tunable: Option<bool>) -> Self {
        let malloc = ProgramMalloc {
            allocator,
            glibc_huge_tunable,
            is_python: false,
            is_static: false,
            is_32_bit: false,
        };
        Self { file: None, malloc: OnceCell::from(malloc) }
    }

    /// Like [`Self::with_malloc`], with a file.
    #[cfg(test)]
    pub(crate) fn with_file(file: &str, allocator: Allocator, is_static: bool) -> Self {
        let malloc = ProgramMalloc { is_static, ..Self::with_malloc(allocator, None).malloc() };
        Self { file: Some(file.into()), malloc: OnceCell::from(malloc) }
    }

    /// The file with the code that runs; `None` if it is not found.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The allocator behind malloc; unknown if the file is not found or cannot be read.
    #[must_use]
    pub fn allocator(&self) -> Allocator {
        self.malloc().allocator
    }

    /// Whether its glibc has the tunable for huge pages; `None` if that could not be read.
    #[must_use]
    pub fn glibc_huge_tunable(&self) -> Option<bool> {
        self.malloc().glibc_huge_tunable
    }

    /// Whether it is a CPython whose own pools can be switched off.
    #[must_use]
    pub fn is_python(&self) -> bool {
        self.malloc().is_python
    }

    /// Whether it has no dynamic linker.
    #[must_use]
    pub fn is_static(&self) -> bool {
        self.malloc().is_static
    }

    /// Whether it contains 32-bit code.
    #[must_use]
    pub fn is_32_bit(&self) -> bool {
        self.malloc().is_32_bit
    }

    /// Whether it opens libraries with `RTLD_DEEPBIND`.
    #[must_use]
    pub fn opens_deep(&self) -> bool {
        self.file().is_some_and(lending::file_opens_deep)
    }

    fn malloc(&self) -> ProgramMalloc {
        *self.malloc.get_or_init(|| {
            let file = self.file.as_deref();
            let seen = file.and_then(|file| elf::of_executable(file).ok());
            let allocator = seen.map_or(Allocator::Unknown, |seen| seen.allocator);
            let is = |what: fn(&elf::ElfProperties) -> bool| seen.as_ref().is_some_and(what);
            let glibc = file.filter(|_| allocator == Allocator::Glibc);
            let glibc_huge_tunable = glibc.and_then(glibc::has_huge_tunable);
            ProgramMalloc {
                allocator,
                glibc_huge_tunable,
                is_python: is(|seen| seen.is_python),
                is_static: is(|seen| seen.is_static),
                is_32_bit: is(|seen| seen.is_32_bit),
            }
        })
    }
}

/// The file whose code runs when `file` is started.
fn binary(file: PathBuf, depth: usize) -> Option<PathBuf> {
    let head = head(&file)?;
    let next = match interpreter(&head) {
        Some(next) => next,
        None if head.contains(&0) => return Some(file),
        None => PathBuf::from("/bin/sh"),
    };
    if depth == DEEPEST { None } else { binary(next, depth + 1) }
}

fn head(file: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    // A name may refer to anything, so this never waits for a FIFO.
    open_regular(file).ok()?.0.take(LINE).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The program that a `#!` line starts; for `env NAME`, the program with that name.
fn interpreter(head: &[u8]) -> Option<PathBuf> {
    let line = head.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let first = Path::new(OsStr::from_bytes(words.next()?));
    let is_setting = |word: &&[u8]| word.starts_with(b"-") || word.contains(&b'=');
    if first.file_name() == Some(OsStr::new("env"))
        && let Some(name) = words.find(|word| !is_setting(word))
    {
        return ProgramLaunch::experiment(vec![OsStr::from_bytes(name).to_owned()]).file().ok();
    }
    Some(first.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_its_interpreter() {
        assert_eq!(interpreter(b"#! /bin/sh -e\n").as_deref(), Some(Path::new("/bin/sh")));
        assert_eq!(interpreter(b"\x7fELF"), None);
        let named = interpreter(b"#!/usr/bin/env -S A=1 sh\n").expect("a shell in PATH");
        assert!(named.is_absolute() && named.ends_with("sh"), "{}", named.display());
        let circle = std::env::temp_dir().join(format!("pagewise-circle-{}", std::process::id()));
        std::fs::write(&circle, format!("#!{}\n", circle.display())).unwrap();
        let end = binary(circle.clone(), 0);
        std::fs::remove_file(circle).unwrap();
        assert_eq!(end, None);
    }

    #[test]
    fn only_where_glibc_serves_malloc_its_tunables_are_asked_for() {
        use std::os::unix::fs::PermissionsExt;
        let file = std::env::temp_dir().join(format!("pagewise-other-{}", std::process::id()));
        std::fs::write(&file, b"\x7fELF\0glibc.malloc.trim_threshold\0").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        let seen = TargetProgram::from_command(&[file.clone().into()]);
        assert_eq!(seen.file(), Some(file.as_path()));
        assert_ne!(seen.allocator(), Allocator::Glibc);
        let asked = glibc::has_huge_tunable(&file);
        std::fs::remove_file(file).unwrap();
        assert_eq!(asked, Some(false));
        assert_eq!(seen.glibc_huge_tunable(), None);
    }

    #[test]
    fn what_is_not_there_is_unknown() {
        for none in [
            TargetProgram::from_command(&["/nonexistent/program".into()]),
            TargetProgram::from_command(&[]),
        ] {
            assert_eq!((none.file(), none.allocator()), (None, Allocator::Unknown));
            assert_eq!(none.glibc_huge_tunable(), None);
        }
        let shell = TargetProgram::from_command(&["sh".into()]);
        assert_ne!(shell.allocator(), Allocator::Go);
    }
}
