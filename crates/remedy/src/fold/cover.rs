//! Folded copies in the place of the files themselves, for one program and what it starts: `run --fold`.
//!
//! Of the files whose layout leaves none of their code to huge pages, a copy with merged segments is made in
//! memory and mounted over the file, in a mount namespace that this process enters
//! ([`pagewise_kernel::mount_namespace`]). A program that is started by its name runs from the copy, and
//! `/proc/self/exe` and its first argument are what they are without it. Nothing is left when the last process
//! in the namespace has ended.
//!
//! Files of which the page cache alone brings something on huge pages are left to that
//! ([`warmth`](crate::warmth)): their pages are shared by all, those of a copy by the processes of one start.
//!
//! Not seen: files that the program reaches by other names. Cost: the file is read twice and written once
//! into memory that only swapping takes back, at each start.

use super::{FoldError, Options, Target, make};
use crate::code::Code;
use crate::warmth::{self, TEXT_HUGE};
use pagewise_kernel::cached_file::CachedFile;
use pagewise_kernel::mount_namespace::MountNamespace;
use pagewise_kernel::privilege::FileRights;
use pagewise_kernel::{limits, page_size};
use pagewise_model::Bytes;
use pagewise_model::plan::{FileKind, HugeFile};
use pagewise_observe::text::Elf;
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// Files with copies in their places.
#[derive(Debug, Default)]
pub struct Covering {
    covered: Vec<HugeFile>,
    /// The program starts in a user namespace of its own.
    has_own_users: bool,
}

impl Covering {
    /// What the copies do not have on huge pages, a line each; with `verbose` what was done.
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

/// Files of which only a copy brings code on huge pages.
#[derive(Debug, Default)]
pub struct Choice {
    originals: Vec<(HugeFile, CachedFile)>,
}

/// Tells the files of which only a copy brings code on huge pages from the others, which are left to the
/// page cache.
#[must_use]
pub fn choose(files: Vec<HugeFile>) -> (Choice, Vec<HugeFile>) {
    let (mut choice, mut rest) = (Choice::default(), Vec::new());
    for file in files {
        match foldable(&file) {
            Some(original) => choice.originals.push((file, original)),
            None => rest.push(file),
        }
    }
    (choice, rest)
}

impl Choice {
    /// Puts copies in the places of the files. This process, which must have one thread, and what it starts
    /// from now on see them; it sees no mappings of processes outside any more where it had to enter a user
    /// namespace, so whatever depends on those comes before.
    ///
    /// # Errors
    /// When a namespace or a mount is refused, the copies take too much memory, or one cannot be made. This
    /// process may be in a namespace then and should end.
    pub fn cover(self) -> Result<Covering, FoldError> {
        if self.originals.is_empty() {
            return Ok(Covering::default());
        }
        let originals = || self.originals.iter().map(|(_, original)| original);
        originals().try_for_each(refuse_rights)?;
        refuse_large(originals().fold(Bytes(0), |sum, file| sum + file.size()))?;
        let namespace = MountNamespace::enter()?;
        for original in originals() {
            namespace.cover(original.path(), |copy| fold_into(original, copy))?;
        }
        let covered = self.originals.into_iter().map(|(file, _)| file).collect();
        Ok(Covering { covered, has_own_users: namespace.has_own_users() })
    }
}

/// The open file, where a copy has code on huge pages and the file itself never has.
fn foldable(file: &HugeFile) -> Option<CachedFile> {
    let opened = CachedFile::open(Path::new(&file.path)).ok()?;
    let elf = (file.kind == FileKind::Code).then(|| Elf::read(opened.file()).ok()).flatten()?;
    let code = Code::from_file(&opened, &elf.layout);
    (code.reach() == Bytes(0) && code.folded_reach() > Bytes(0)).then_some(opened)
}

/// Refuses a program that gains rights from its file: it would have none from a copy over it.
fn refuse_rights(original: &CachedFile) -> Result<(), FoldError> {
    let name = original.path().display().to_string();
    match FileRights::of_open(original.file(), &name)?.mark() {
        None => Ok(()),
        Some(mark) => {
            let why = format!("{name} {mark}, and would lose those rights under a mounted copy");
            Err(FoldError::refused(why, "start it without --fold"))
        }
    }
}

/// Refuses copies that take more than host and cgroups leave.
fn refuse_large(size: Bytes) -> Result<(), FoldError> {
    match limits::experiment_memory()?.exceeded("copies take", size) {
        None => Ok(()),
        Some(why) => {
            let help = "free memory first, or make a copy on disk: pagewise text fold";
            Err(FoldError::refused(why, help))
        }
    }
}

fn fold_into(original: &CachedFile, copy: &Path) -> Result<(), FoldError> {
    let (base, huge) = (page_size::base(), page_size::huge());
    let options = Options { merge: true, fill_above: Bytes(base.bytes()), base, huge };
    // A signal ends this process, and the copy with it.
    let stop = AtomicBool::new(false);
    make(original, Target { path: copy, replaces: false }, &options, &stop).map(|_made| ())
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
