//! Replaces files by folded copies, for one program and its children only: `run --fold`.
//!
//! If the layout of a file leaves no code for huge pages, a copy with merged segments is made in memory. It
//! is mounted over the file, in a mount namespace that this process enters
//! ([`pagewise_kernel::mount_namespace`]). A program that is started by its name runs from the copy;
//! `/proc/self/exe` and its first argument stay the same. Nothing is left when the last process in the
//! namespace has ended.
//!
//! If the page cache alone can put code of a file on huge pages, that is preferred
//! ([`warmth`](crate::warmth)): all processes share its pages, while only the processes of one start share
//! those of a copy.
//!
//! Not seen: files that the program reaches by other names. Cost: at each start the file is read twice and
//! written once, to memory that can only be reclaimed by swapping.

use super::{FoldError, FoldTarget, make, merge_all};
use crate::code::CodePlacement;
use crate::warmth::{self, TEXT_HUGE};
use pagewise_kernel::cached_file::PageCacheFile;
use pagewise_kernel::limits;
use pagewise_kernel::mount_namespace::MountNamespace;
use pagewise_kernel::privilege::FilePrivileges;
use pagewise_model::Bytes;
use pagewise_model::plan::{FileKind, HugeFile};
use pagewise_observe::text::ElfFile;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Files that are covered by copies.
#[derive(Debug, Default)]
pub struct CoveredFiles {
    covered: Vec<HugeFile>,
    /// The program starts in its own user namespace.
    has_own_users: bool,
}

impl CoveredFiles {
    /// Lines about code that the copies do not put on huge pages; with `verbose` also what was done.
    #[must_use]
    pub fn lines(&self, verbose: bool) -> Vec<String> {
        let of = |file: &HugeFile| {
            let now = warmth::text_now(file);
            let copy = format!("{}: {}: a folded copy over it", TEXT_HUGE, file.path);
            if now.huge_bytes == Bytes(0) {
                return Some(format!("{copy} has no huge page"));
            }
            verbose.then(|| {
                format!(
                    "{copy} has {} of {} of its text on huge pages",
                    now.huge_bytes, now.text_bytes
                )
            })
        };
        let users = (verbose && self.has_own_users).then(|| {
            format!(
                "{}: starting in a user namespace: other users appear as nobody, set-user-id programs give no rights",
                TEXT_HUGE
            )
        });
        self.covered.iter().filter_map(of).chain(users).collect()
    }
}

/// Files whose code only a copy can put on huge pages.
#[derive(Debug, Default)]
pub struct FoldChoice {
    originals: Vec<(HugeFile, PageCacheFile)>,
}

/// Separates the files whose code only a copy can put on huge pages from the others, which are left to the
/// page cache.
#[must_use]
pub fn choose(files: Vec<HugeFile>) -> (FoldChoice, Vec<HugeFile>) {
    let (mut choice, mut rest) = (FoldChoice::default(), Vec::new());
    for file in files {
        match foldable(&file) {
            Some(original) => choice.originals.push((file, original)),
            None => rest.push(file),
        }
    }
    (choice, rest)
}

impl FoldChoice {
    /// Covers the files by copies. This process, which must have one thread, and its later children see the
    /// copies. If it has to enter a user namespace, it can no longer read the mappings of processes outside,
    /// so do such work before.
    ///
    /// # Errors
    /// When a namespace or a mount is refused, the copies take too much memory, or one cannot be made. This
    /// process may then be in a namespace and should end.
    pub fn cover(self) -> Result<CoveredFiles, FoldError> {
        if self.originals.is_empty() {
            return Ok(CoveredFiles::default());
        }
        let originals = || self.originals.iter().map(|(_, original)| original);
        originals().try_for_each(refuse_rights)?;
        refuse_large(originals().fold(Bytes(0), |sum, file| sum + file.size()))?;
        let namespace = MountNamespace::enter()?;
        for original in originals() {
            namespace.cover(original.path(), |copy| fold_into(original, copy))?;
        }
        let covered = self.originals.into_iter().map(|(file, _)| file).collect();
        Ok(CoveredFiles { covered, has_own_users: namespace.has_own_users() })
    }
}

/// The open file, if a copy would have code on huge pages and the file itself never has.
fn foldable(file: &HugeFile) -> Option<PageCacheFile> {
    let opened = PageCacheFile::open(Path::new(&file.path)).ok()?;
    let elf = (file.kind == FileKind::Code).then(|| ElfFile::read(opened.file()).ok()).flatten()?;
    let code = CodePlacement::from_file(&opened, &elf.layout);
    (code.reach() == Bytes(0) && code.folded_reach() > Bytes(0)).then_some(opened)
}

/// Refuses a program that gains rights from its file: it would not get them from a copy.
fn refuse_rights(original: &PageCacheFile) -> Result<(), FoldError> {
    let name = original.path().display().to_string();
    match FilePrivileges::of_open(original.file(), &name)?.mark() {
        None => Ok(()),
        Some(mark) => {
            let why = format!("{name} {mark}, and would lose those rights under a mounted copy");
            Err(FoldError::refused(why, "start it without --fold"))
        }
    }
}

/// Refuses copies that take more memory than host and cgroups leave.
fn refuse_large(size: Bytes) -> Result<(), FoldError> {
    match limits::experiment_memory()?.exceeded("copies take", size) {
        None => Ok(()),
        Some(why) => {
            let help = "free memory first, or make a copy on disk: pagewise text fold";
            Err(FoldError::refused(why, help))
        }
    }
}

fn fold_into(original: &PageCacheFile, copy: &Path) -> Result<(), FoldError> {
    let options = merge_all();
    // A signal ends this process and with it the copy.
    let stop = AtomicBool::new(false);
    make(original, FoldTarget { path: copy, replaces: false }, &options, &stop).map(|_made| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gains_nothing_is_left_to_the_cache() {
        let code = |path: &str| HugeFile { path: path.into(), kind: FileKind::Code };
        let own = std::env::current_exe().unwrap();
        let input = HugeFile { path: own.to_str().unwrap().into(), kind: FileKind::Input };
        let files = vec![code("/nonexistent/file"), code("/etc/passwd"), input];
        let (choice, rest) = choose(files.clone());
        assert_eq!((rest, choice.originals.len()), (files, 0));
        let covering = choice.cover().unwrap();
        assert!(!covering.has_own_users && covering.lines(true).is_empty());
    }

    #[test]
    fn copies_larger_than_memory_are_refused() {
        assert!(refuse_large(Bytes(1)).is_ok());
        let error = refuse_large(Bytes(u64::MAX)).unwrap_err().to_string();
        assert!(error.contains("leaves only"), "{error}");
    }
}
