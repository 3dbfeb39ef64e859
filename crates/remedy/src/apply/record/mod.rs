//! Writes a change, records it, and undoes it.
//!
//! The record is written first. If the process is killed before the file is written, the record's undo finds
//! nothing to do and discards it. The file appears completely or not at all ([`part_file`]). An undo does not
//! touch a file that has been changed since.
//!
//! The directory is walked once and kept open, and the file is examined by its descriptor. Root writes only
//! where no other account can substitute the file. A file is replaced only if it belongs to this account, and
//! has no set-user-ID, set-group-ID or sticky bit and no access list. An undo restores its content, owner,
//! group and mode exactly.
//!
//! Not kept: times and extended attributes of a replaced file.

use super::ApplyError;
use pagewise_kernel::file_view::read_at_most;
use pagewise_kernel::part_file::{self, FilePermissions, PartFileTarget};
use pagewise_kernel::trusted_path::{MissingNamePolicy, TrustedDir, walk_to_place};
use pagewise_kernel::{SysError, attributes, clock, dirs};
use pagewise_model::Bytes;
use pagewise_model::applied::{AppliedChange, FileChange, PreviousFile};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Maximum size of a file that is replaced: no drop-in and no script comes near it.
const LARGEST: u64 = 1 << 20;
/// Maximum size of a record: it contains the replaced file as numbers.
const LARGEST_RECORD: Bytes = Bytes::mib(16);
/// Mode bits that a replaced file must not have: set-user-ID, set-group-ID, sticky bit.
const SPECIAL: u32 = 0o7000;
/// Attempts to get a number that other processes may take at the same time.
const ATTEMPTS: u32 = 100;

/// Result of an undo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UndoOutcome {
    /// The file is restored.
    Restored,
    /// There was no file before; it has been removed.
    Removed,
    /// The file was already in its previous state.
    Nothing,
}

fn failed(call: &'static str, path: &Path) -> impl Fn(std::io::Error) -> SysError {
    move |error| SysError::new(call, path.display().to_string(), error)
}

fn records() -> Result<PathBuf, ApplyError> {
    let directory = dirs::state_dir()?.join("applied");
    fs::create_dir_all(&directory).map_err(failed("mkdir", &directory))?;
    Ok(directory)
}

fn record_path(directory: &Path, number: u32) -> PathBuf {
    directory.join(format!("{number}.json"))
}

/// The active changes, oldest first. Writes nothing.
///
/// # Errors
/// When the records cannot be read.
pub fn all() -> Result<Vec<AppliedChange>, ApplyError> {
    match dirs::find_state_dir()? {
        Some(state) => all_in(&state.join("applied")),
        None => Ok(Vec::new()),
    }
}

/// The active wrappers.
///
/// # Errors
/// When the records cannot be read.
pub fn wrappers() -> Result<Vec<PathBuf>, ApplyError> {
    let wrappers = all()?.into_iter().map(|one| one.change).filter(is_wrapper_still);
    Ok(wrappers.map(|change| change.file.into()).collect())
}

/// Whether the file is still the wrapper. The second line of a wrapper names its run: an edited wrapper still
/// has it, another program does not.
fn is_wrapper_still(change: &FileChange) -> bool {
    let is_marked = |now: String| {
        now.lines().nth(1).is_some_and(|line| change.content.lines().nth(1) == Some(line))
    };
    change.is_wrapper()
        && read_at_most(Path::new(&change.file), Bytes(LARGEST))
            .is_ok_and(|now| String::from_utf8(now).is_ok_and(is_marked))
}

fn all_in(directory: &Path) -> Result<Vec<AppliedChange>, ApplyError> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed("readdir", directory))?,
    };
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found = Vec::new();
    for path in paths.filter(|path| path.extension().is_some_and(|kind| kind == "json")) {
        let text = match read_at_most(&path, LARGEST_RECORD) {
            Err(error) if error.is_gone() => continue,
            text => text?,
        };
        let applied = serde_json::from_slice(&text).map_err(|error| {
            let why = format!("the record {} is damaged: {error}", path.display());
            ApplyError::refused(why, "take the change back by hand, then remove the record")
        })?;
        found.push(applied);
    }
    found.sort_by_key(|applied: &AppliedChange| applied.number);
    Ok(found)
}

/// Writes the file of `change`. Replaces an existing file with other content only if `replaces`. `None` if
/// the file has this content already.
///
/// # Errors
/// When an existing file is in the way, or the file cannot be written.
pub fn apply(change: &FileChange, replaces: bool) -> Result<Option<AppliedChange>, ApplyError> {
    apply_in(&records()?, change, replaces)
}

fn apply_in(
    directory: &Path,
    change: &FileChange,
    replaces: bool,
) -> Result<Option<AppliedChange>, ApplyError> {
    let file = Path::new(&change.file);
    let before = match place_of(file, MissingNamePolicy::Ends)? {
        Some((directory, name)) => present(&directory, name)?,
        None => None,
    };
    if before.as_ref().is_some_and(|before| before.content == change.content.as_bytes()) {
        return Ok(None);
    }
    if before.is_some() && !replaces {
        let help = "--replace writes over it; --undo brings it back";
        return Err(ApplyError::refused(format!("{} exists", change.file), help));
    }
    let missing = missing_directories(file);
    let mut applied = AppliedChange {
        number: 0,
        at_unix_ns: clock::unix_now().0,
        change: change.clone(),
        before,
        directories: missing.iter().map(|path| path.display().to_string()).collect(),
    };
    let record = keep(directory, &mut applied)?;
    match write(&applied) {
        Ok(()) => Ok(Some(applied)),
        Err(error) => {
            remove_directories(&applied);
            let _forgotten = fs::remove_file(record);
            Err(error)
        }
    }
}

/// The open directory of a file, and the file's name; `None` if the directory is missing and is not to be
/// created.
pub(super) fn place_of(
    file: &Path,
    missing: MissingNamePolicy,
) -> Result<Option<(TrustedDir, &OsStr)>, ApplyError> {
    let (Some(above), Some(name)) = (file.parent(), file.file_name()) else {
        let why = format!("{} is not the name of a file", file.display());
        return Err(ApplyError::refused(why, "give another place"));
    };
    Ok(walk_to_place(above, missing)?.map(|directory| (directory, name)))
}

/// The current file; `None` if there is no file.
fn present(directory: &TrustedDir, name: &OsStr) -> Result<Option<PreviousFile>, ApplyError> {
    let path = directory.path().join(name);
    let refused = |why: &str, help: &str| {
        ApplyError::refused(format!("{} {why}", path.display()), help.to_owned())
    };
    const OTHER: &str = "is not a file that can be restored";
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(directory, name, OFlags::RDONLY | flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP | Errno::NXIO) => return Err(refused(OTHER, "give another place")),
        Err(error) => return Err(failed("open", &path)(error.into()).into()),
    };
    let meta = file.metadata().map_err(failed("fstat", &path))?;
    if !meta.is_file() || meta.len() > LARGEST {
        return Err(refused(OTHER, "give another place"));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        let why = format!("belongs to another user (uid {})", meta.uid());
        return Err(refused(&why, "run this as that user, or give another place"));
    }
    if meta.mode() & SPECIAL != 0 {
        return Err(refused("is set-user-ID, set-group-ID or sticky", "give another place"));
    }
    if attributes::access_list(&file)?.is_some() {
        return Err(refused("has an access list", "remove that first: setfacl -b FILE"));
    }
    let mut content = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut content).map_err(failed("read", &path))?;
    Ok(Some(PreviousFile { content, mode: meta.mode() & 0o777, group: Some(meta.gid()) }))
}

/// Missing directories above `file`, outermost first.
fn missing_directories(file: &Path) -> Vec<PathBuf> {
    let above = file.ancestors().skip(1).take_while(|path| !path.exists());
    let mut missing: Vec<PathBuf> = above.map(Path::to_owned).collect();
    missing.reverse();
    missing
}

/// Assigns a number to the change, and stores its record under that number.
fn keep(directory: &Path, applied: &mut AppliedChange) -> Result<PathBuf, ApplyError> {
    let newest = all_in(directory)?.last().map_or(0, |applied| applied.number);
    let mut kept = Ok(());
    for number in (newest + 1..).take(ATTEMPTS as usize) {
        applied.number = number;
        let path = record_path(directory, number);
        let text = serde_json::to_vec(applied).map_err(std::io::Error::from);
        let text = text.map_err(failed("write", &path))?;
        kept = part_file::write_whole(&path, &text, part_file::PRIVATE, false);
        match &kept {
            Ok(()) => return Ok(path),
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {}
            Err(_) => break,
        }
    }
    kept?;
    Err(ApplyError::refused("no number is free for the record", "pagewise apply --list"))
}

fn write(applied: &AppliedChange) -> Result<(), ApplyError> {
    let (change, before) = (&applied.change, &applied.before);
    let file = Path::new(&change.file);
    let Some((directory, name)) = place_of(file, MissingNamePolicy::IsMadeOpen)? else {
        return Err(failed("open", file)(Errno::NOENT.into()).into());
    };
    let rights = rights(change.mode, before.as_ref());
    let content = change.content.as_bytes();
    Ok(PartFileTarget::within(directory, name).write(content, &rights, before.is_some())?)
}

/// Owner is this account, group that of the previous file. If the group cannot be kept, nothing is replaced.
fn rights(mode: u32, before: Option<&PreviousFile>) -> FilePermissions {
    let own = rustix::process::geteuid().as_raw();
    let group = before.and_then(|before| before.group);
    FilePermissions { owner: group.map(|group| (own, group)), ..FilePermissions::new(mode) }
}

/// Removes directories that were created for the change, if they are empty.
fn remove_directories(applied: &AppliedChange) {
    for directory in applied.directories.iter().rev() {
        let _in_use = fs::remove_dir(directory);
    }
}

/// Undoes the change with this number, or the newest one. With `is_forced`, also if its file has been changed
/// since.
///
/// # Errors
/// When there is no such change, its file was changed, or the previous file cannot be written.
pub fn undo(
    number: Option<u32>,
    is_forced: bool,
) -> Result<(AppliedChange, UndoOutcome), ApplyError> {
    undo_in(&records()?, number, is_forced)
}

fn undo_in(
    directory: &Path,
    number: Option<u32>,
    is_forced: bool,
) -> Result<(AppliedChange, UndoOutcome), ApplyError> {
    let mut all = all_in(directory)?;
    let wanted = |applied: &AppliedChange| number.is_none_or(|number| applied.number == number);
    let at = all.iter().rposition(wanted).ok_or_else(|| {
        let why = match number {
            Some(number) => format!("there is no change {number} to undo"),
            None => "there is no change to undo".to_owned(),
        };
        ApplyError::refused(why, "pagewise apply --list shows the changes in effect")
    })?;
    let applied = all.swap_remove(at);
    let undone = take_back(&applied, is_forced)?;
    remove_directories(&applied);
    let record = record_path(directory, applied.number);
    fs::remove_file(&record).map_err(failed("unlink", &record))?;
    Ok((applied, undone))
}

fn take_back(applied: &AppliedChange, is_forced: bool) -> Result<UndoOutcome, ApplyError> {
    let file = Path::new(&applied.change.file);
    let place = place_of(file, MissingNamePolicy::Ends)?;
    let now = match &place {
        Some((directory, name)) => present(directory, name)?,
        None => None,
    };
    let is_ours = now.as_ref().is_some_and(|now| now.content == applied.change.content.as_bytes());
    if is_as_before(now.as_ref(), applied.before.as_ref()) {
        return Ok(UndoOutcome::Nothing);
    }
    if !is_ours && !is_forced {
        let why = format!("{} was changed since it was applied", applied.change.file);
        return Err(ApplyError::refused(why, "--force undoes it and discards the later edits"));
    }
    let Some((directory, name)) = place else {
        return Err(failed("open", file)(Errno::NOENT.into()).into());
    };
    match &applied.before {
        None => {
            rustix::fs::unlinkat(&directory, name, AtFlags::empty())
                .map_err(|error| failed("unlink", file)(error.into()))?;
            Ok(UndoOutcome::Removed)
        }
        // A record of an earlier version does not contain the owner: the content may belong to another
        // account.
        Some(before) if before.mode & SPECIAL != 0 => {
            let why = format!("{} was set-user-ID, set-group-ID or sticky", applied.change.file);
            let help = "restore it by hand: pagewise apply --list --json holds its content";
            Err(ApplyError::refused(why, help))
        }
        Some(before) => {
            let rights = rights(before.mode, Some(before));
            PartFileTarget::within(directory, name).write(&before.content, &rights, true)?;
            Ok(UndoOutcome::Restored)
        }
    }
}

/// Whether a file is in its previous state. The group counts if it was recorded.
fn is_as_before(now: Option<&PreviousFile>, before: Option<&PreviousFile>) -> bool {
    match (now, before) {
        (Some(now), Some(before)) => {
            let is_same_group = before.group.is_none() || before.group == now.group;
            is_same_group && (&now.content, now.mode) == (&before.content, before.mode)
        }
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests;
