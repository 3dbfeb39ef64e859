//! A file that is there whole under its name or not at all: written without a name, brought to disk, then
//! named.
//!
//! Where the file system can (`O_TMPFILE`, open(2)), the file has no name until it is whole, so a process that
//! is killed while it writes leaves nothing. Elsewhere it has another name in the same directory, which
//! begins with `.pagewise-part-` and is never an existing one (`O_EXCL`). So has a file that is to replace
//! another, for the moment between linkat(2) and rename(2). Its writer holds a lock on it (flock(2)), which
//! ends with the process however that ends, so a name without a lock is what a killed one left:
//! [`remove_leftovers`] takes it away. Contents go to disk before the name (fsync(2)). Where nothing may be
//! replaced, the name is given by linkat(2), or renameat2(2) with `RENAME_NOREPLACE`; on a file system without
//! that flag, such as NFS, by link(2).
//!
//! Not seen: leftovers of other accounts, or that this account may not open. Overhead: seven calls, and
//! the time that the disk takes.

use crate::clock;
use crate::error::SysError;
use crate::proc::own_pid;
use rustix::fs::{AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, RenameFlags, flock, fstat};
use rustix::io::Errno;
use std::fs::{File, Permissions};
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How names of unfinished files begin.
const START: &str = ".pagewise-part-";
/// How often another name is tried where somebody took a new one for a leftover.
const ATTEMPTS: usize = 10;

/// An unfinished file, removed when dropped.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    /// Its name meanwhile, where it has one.
    part: Option<PathBuf>,
    target: PathBuf,
}

/// Writes a file of this content, only for its owner or with these permissions: whole at once, without what
/// killed processes left beside it.
///
/// # Errors
/// Those of [`PartFile::create`] and [`PartFile::place`], and when the disk takes no more.
pub fn write_whole(
    target: &Path,
    content: &[u8],
    permissions: Option<Permissions>,
    replaces: bool,
) -> Result<(), SysError> {
    let failed = |call| move |e| SysError::new(call, target.display().to_string(), e);
    let _names = remove_leftovers(target);
    let part = PartFile::create(target)?;
    let mut file = part.file();
    file.write_all(content).map_err(failed("write"))?;
    if let Some(permissions) = permissions {
        file.set_permissions(permissions).map_err(failed("fchmod"))?;
    }
    part.place(replaces)
}

impl PartFile {
    /// Makes an empty file that is to be `target`, only for its owner.
    ///
    /// # Errors
    /// When `target` not the name of a file, or its directory takes no new ones.
    pub fn create(target: &Path) -> Result<Self, SysError> {
        let failed = |e: std::io::Error| SysError::new("open", target.display().to_string(), e);
        if target.file_name().is_none() {
            return Err(failed(std::io::Error::other("this is not the name of a file")));
        }
        if let Some(made) = Self::nameless(target) {
            return Ok(made);
        }
        for _ in 0..ATTEMPTS {
            if let Some(made) = Self::named(target).map_err(failed)? {
                return Ok(made);
            }
        }
        Err(failed(std::io::Error::other("something removes every new file there")))
    }

    /// None where the file system has no such files.
    fn nameless(target: &Path) -> Option<Self> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let opened = rustix::fs::open(directory(target), flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(opened.ok()?);
        // For the moment in which it has another name.
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Self { file, part: None, target: target.to_owned() })
    }

    /// None where somebody took the file for a leftover, between its making and its lock.
    fn named(target: &Path) -> std::io::Result<Option<Self>> {
        let part = other_name(target);
        let mut options = File::options();
        let file = options.read(true).write(true).create_new(true).mode(0o600).open(&part)?;
        let made = Self { file, part: Some(part), target: target.to_owned() };
        let is_locked = flock(&made.file, FlockOperation::NonBlockingLockExclusive).is_ok();
        Ok((is_locked && made.file.metadata()?.nlink() > 0).then_some(made))
    }

    /// The open file, to be filled.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Brings it to disk under its name; one of that name is replaced only where `replaces`.
    ///
    /// # Errors
    /// When the disk does not take it, EEXIST where the name is taken, EINVAL where the file system
    /// can neither rename without replacing nor link.
    pub fn place(mut self, replaces: bool) -> Result<(), SysError> {
        let failed = |call| {
            let subject = self.target.display().to_string();
            move |e: std::io::Error| SysError::new(call, subject, e)
        };
        self.file.sync_all().map_err(failed("fsync"))?;
        if self.part.is_none() && replaces {
            let name = other_name(&self.target);
            self.link(&name).map_err(failed("linkat"))?;
            self.part = Some(name);
        }
        match &self.part {
            None => self.link(&self.target).map_err(failed("linkat"))?,
            Some(part) if replaces => {
                std::fs::rename(part, &self.target).map_err(failed("rename"))?;
            }
            Some(part) => {
                let flags = RenameFlags::NOREPLACE;
                let renamed = rustix::fs::renameat_with(CWD, part, CWD, &self.target, flags);
                or_linked(renamed, part, &self.target)
                    .map_err(|e| failed("renameat2")(e.into()))?;
            }
        }
        // A directory that may be written and not read cannot be opened: its name goes to disk later.
        match File::open(directory(&self.target)) {
            Ok(directory) => directory.sync_all().map_err(failed("fsync")),
            Err(_) => Ok(()),
        }
    }

    /// Gives a file without a name this one.
    fn link(&self, name: &Path) -> std::io::Result<()> {
        // By its descriptor without a name (AT_EMPTY_PATH) it takes a right that users do not have.
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(rustix::fs::linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Gone already where it was placed: the name is never used again.
            let _gone = std::fs::remove_file(part);
        }
    }
}

/// Gives `part` the name `target` by a link where renaming was refused as unknown (EINVAL). A link refuses a
/// taken name too. The first name goes when the part is dropped.
fn or_linked(renamed: Result<(), Errno>, part: &Path, target: &Path) -> Result<(), Errno> {
    let Err(Errno::INVAL) = renamed else { return renamed };
    match rustix::fs::link(part, target) {
        Err(error) if error != Errno::EXIST => renamed,
        linked => linked,
    }
}

/// A name beside `target` that nobody else chooses.
fn other_name(target: &Path) -> PathBuf {
    target.with_file_name(format!("{START}{}-{}", own_pid(), clock::now().0))
}

/// Removes what killed processes left in the directory of `target`; their names.
#[must_use]
pub fn remove_leftovers(target: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory(target)) else { return Vec::new() };
    let is_part = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(START.as_bytes()))
    };
    let parts = entries.flatten().map(|entry| entry.path()).filter(is_part);
    let removed = |path: &PathBuf| {
        // Locked until it is gone: a writer that meets the lock makes another.
        left(path).is_some_and(|_locked| std::fs::remove_file(path).is_ok())
    };
    parts.filter(removed).collect()
}

/// A file of this account (of anybody, for root) that no living process writes, locked.
fn left(path: &Path) -> Option<OwnedFd> {
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let user = rustix::process::geteuid();
    let is_ours = fstat(&file).is_ok_and(|found| {
        FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && (user.is_root() || found.st_uid == user.as_raw())
    });
    let is_locked = is_ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_locked.then_some(file)
}

/// The directory that a name is in.
fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(place: &tempfile::TempDir) -> usize {
        place.path().read_dir().unwrap().count()
    }

    #[test]
    fn a_name_appears_with_all_of_its_content() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        let part = PartFile::create(&target).unwrap();
        part.file().write_all(b"first").unwrap();
        assert!(!target.exists());
        part.place(false).unwrap();
        assert_eq!((std::fs::read(&target).unwrap(), entries(&place)), (b"first".to_vec(), 1));
    }

    #[test]
    fn a_taken_name_is_replaced_only_where_that_is_asked_for() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        std::fs::write(&target, b"there").unwrap();
        let named = PartFile::named(&target).unwrap().unwrap();
        for (part, call) in [(named, "renameat2"), (PartFile::create(&target).unwrap(), "linkat")] {
            // Without files that have no name, all of them are of the first kind.
            let call = if part.part.is_some() { "renameat2" } else { call };
            let error = part.place(false).unwrap_err();
            assert_eq!((error.call, error.errno()), (call, Some(libc::EEXIST)));
        }
        assert_eq!((std::fs::read(&target).unwrap(), entries(&place)), (b"there".to_vec(), 1));
        PartFile::create(&target).unwrap().place(true).unwrap();
        assert_eq!((std::fs::read(&target).unwrap(), entries(&place)), (Vec::new(), 1));
        PartFile::named(&target).unwrap().unwrap().place(true).unwrap();
        assert_eq!(entries(&place), 1);
    }

    #[test]
    fn a_link_gives_the_name_where_renaming_cannot_refuse_a_taken_one() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        let named = PartFile::named(&target).unwrap().unwrap();
        let part = named.part.clone().unwrap();
        let unknown = Err(Errno::INVAL);
        assert_eq!(or_linked(unknown, &part, &target), Ok(()));
        assert_eq!(or_linked(unknown, &part, &target), Err(Errno::EXIST));
        // The first answer stays where there are no links either, and where it was another one.
        assert_eq!(or_linked(unknown, &part, Path::new("/nonexistent/file")), unknown);
        let other = place.path().join("other");
        assert_eq!(or_linked(Err(Errno::NOSPC), &part, &other), Err(Errno::NOSPC));
        drop(named);
        assert_eq!((target.exists(), entries(&place)), (true, 1));
    }

    #[test]
    fn what_is_given_up_leaves_nothing_and_what_is_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        drop(PartFile::create(&target).unwrap());
        assert_eq!(entries(&place), 0);
        let left = place.path().join(format!("{START}1-1"));
        std::fs::write(&left, b"half").unwrap();
        std::fs::create_dir(place.path().join(format!("{START}directory"))).unwrap();
        std::os::unix::fs::symlink(&left, place.path().join(format!("{START}link"))).unwrap();
        let living = PartFile::named(&target).unwrap().unwrap();
        assert_eq!(remove_leftovers(&target), [left]);
        assert_eq!(entries(&place), 3, "a directory, a link, and what somebody still writes");
        living.place(false).unwrap();
        assert!(target.exists());
    }

    #[test]
    fn a_whole_file_is_written_with_its_permissions_and_without_leftovers() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        std::fs::write(place.path().join(format!("{START}1-1")), b"half").unwrap();
        write_whole(&target, b"one", None, false).unwrap();
        let mode = || target.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((std::fs::read(&target).unwrap(), mode()), (b"one".to_vec(), 0o600));
        assert!(write_whole(&target, b"two", None, false).is_err());
        write_whole(&target, b"two", Some(Permissions::from_mode(0o644)), true).unwrap();
        assert_eq!((std::fs::read(&target).unwrap(), mode()), (b"two".to_vec(), 0o644));
        assert_eq!(entries(&place), 1);
    }

    #[test]
    fn what_names_no_file_or_is_nowhere_is_an_error() {
        assert!(
            PartFile::create(Path::new("/"))
                .unwrap_err()
                .to_string()
                .contains("not the name of a file")
        );
        let error = PartFile::create(Path::new("/nonexistent/file")).unwrap_err();
        assert!(error.is_gone(), "{error}");
        assert!(remove_leftovers(Path::new("/nonexistent/file")).is_empty());
        assert_eq!(directory(Path::new("file")), Path::new("."));
    }
}
