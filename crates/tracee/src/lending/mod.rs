//! Whether a process may lend pages to a pipe and reuse them according to the pipe's capacity.
//!
//! vmsplice(2) puts a reference to a page into a pipe, not a copy. The writer is not notified when the reader
//! has the page, so such writers rely on the capacity: once a pipeful has followed, the page must have been
//! read. If another process enlarges the pipe, that no longer holds, and the reader gets bytes of later
//! pages. splice(2) does the same with pages of files.
//!
//! The answer comes from the files that a process executes code from: its program and every library that is
//! mapped at the time ([`file`]). A file is read once, at 1 to 2 ms per MB, and cached for the run by device,
//! inode, size and change time. Asking again takes 50 to 100 us.
//!
//! The same search of code finds programs that open libraries with `RTLD_DEEPBIND`, which breaks preloaded
//! allocators. A mode that is computed at run time is not seen.
//!
//! Not seen: a call number that is data (an interpreter's script, `syscall` of Perl); code generated at run
//! time by a dynamic program; a library that is loaded later.

#[cfg(target_arch = "x86_64")]
mod code_x86_64;
mod file;

#[cfg(target_arch = "x86_64")]
use code_x86_64 as code;

use crate::{elf, mapped_file};
use file::LenderFinding;
use pagewise_kernel::SysError;
use pagewise_kernel::file_view::open_regular;
use pagewise_kernel::proc::maps::{self, Mapping};
use pagewise_model::fault::event::FileId;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Why the code of a file may lend pages by the capacity of a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LendingReason {
    /// It imports vmsplice or contains its name.
    Names,
    /// It makes the system call by its number.
    Calls,
    /// It splices files and gets or sets the capacity of pipes.
    SplicesByCapacity,
    /// It lets a script call any C function.
    CallsAnything,
    /// A static program that has generated code.
    MadeCode,
    /// It is for another architecture.
    Foreign,
    /// It cannot be read.
    Unreadable,
}

impl fmt::Display for LendingReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Names => "names vmsplice",
            Self::Calls => "calls vmsplice by its number",
            Self::SplicesByCapacity => "splices files and asks for the size of pipes",
            Self::CallsAnything => "lets scripts call any function",
            Self::MadeCode => "runs code that is in no file",
            Self::Foreign => "is for another architecture",
            Self::Unreadable => "cannot be examined",
        })
    }
}

/// Result for a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LendingAnswer {
    /// The first of its files that may lend pages, and why.
    pub lender: Option<(PathBuf, LendingReason)>,
    /// A file had to be read, so the answer may be out of date; or the process has no code yet.
    pub took_long: bool,
}

/// The files that were read so far.
#[derive(Debug, Default)]
pub struct LendingFiles {
    seen: HashMap<elf::Key, LenderFinding>,
}

impl LendingFiles {
    /// Whether process `pid` may lend pages, by the code that is mapped into it now.
    ///
    /// # Errors
    /// When its mappings cannot be read.
    pub fn of_process(&mut self, pid: i32) -> Result<LendingAnswer, SysError> {
        let mappings = maps::read(pid)?;
        let code = code_files(&mappings);
        // In the middle of an exec, a process has no code yet.
        let mut answer = LendingAnswer { lender: None, took_long: code.is_empty() };
        let mut is_static = !code.is_empty();
        for (id, mapping) in code {
            let path = Path::new(&mapping.path);
            let file = mapped_file::open(pid, mapping).ok();
            let Some(seen) = file.and_then(|file| self.look(&file, &mut answer.took_long)) else {
                // Unless the process has executed another program meanwhile.
                if code_files(&maps::read(pid)?).contains_key(&id) {
                    answer.lender = Some((path.to_owned(), LendingReason::Unreadable));
                }
                answer.took_long = true;
                return Ok(answer);
            };
            is_static &= !seen.has_interpreter;
            if let Some(why) = seen.why {
                answer.lender = Some((path.to_owned(), why));
                return Ok(answer);
            }
        }
        if is_static && mappings.iter().any(is_made) {
            answer.lender = Some((exe(pid), LendingReason::MadeCode));
        }
        Ok(answer)
    }

    /// Result for `file`, from the cache or by reading it.
    fn look(&mut self, file: &File, took_long: &mut bool) -> Option<LenderFinding> {
        let key = elf::key(&file.metadata().ok()?);
        if let Some(seen) = self.seen.get(&key) {
            return Some(*seen);
        }
        *took_long = true;
        let seen = file::look(file).ok()?;
        self.seen.insert(key, seen);
        Some(seen)
    }
}

/// The first file of process `pid` that opens libraries with `RTLD_DEEPBIND` (dlopen(3)), among the code
/// mapped now. Such a library looks functions up in its own dependencies first. So it finds the C library's
/// `free`, where the rest of the process uses that of a preloaded allocator.
#[must_use]
pub fn deep_opener_of(pid: i32) -> Option<PathBuf> {
    let mappings = maps::read(pid).ok()?;
    let code = code_files(&mappings);
    let opener = code
        .into_iter()
        .find(|(_, mapping)| mapped_file::open(pid, mapping).is_ok_and(|file| opens_deep(&file)));
    opener.map(|(_, mapping)| PathBuf::from(&mapping.path))
}

/// Whether this file opens libraries with `RTLD_DEEPBIND`.
#[must_use]
pub fn file_opens_deep(path: &Path) -> bool {
    open_regular(path).is_ok_and(|(file, _)| opens_deep(&file))
}

/// Cache of results, by file.
static DEEP: LazyLock<Mutex<HashMap<elf::Key, bool>>> = LazyLock::new(Mutex::default);

fn opens_deep(file: &File) -> bool {
    let Ok(key) = file.metadata().map(|meta| elf::key(&meta)) else { return false };
    if let Some(known) = DEEP.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return *known;
    }
    let found = file::opens_deep(file).unwrap_or(false);
    DEEP.lock().unwrap_or_else(PoisonError::into_inner).insert(key, found);
    found
}

/// Files with executable mappings, each once.
fn code_files(mappings: &[Mapping]) -> BTreeMap<FileId, &Mapping> {
    let executed = mappings.iter().filter(|m| m.perms.exec && m.is_file());
    executed.map(|m| (mapped_file::id_of(m), m)).collect()
}

/// Whether it is executable memory without a file.
fn is_made(mapping: &Mapping) -> bool {
    mapping.perms.exec && mapping.is_anonymous()
}

fn exe(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/exe"))
}

#[cfg(test)]
mod tests;
