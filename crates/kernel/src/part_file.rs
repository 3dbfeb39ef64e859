//! Creates a file that exists completely or not at all: it is written without a name, synced to disk, then
//! named.
//!
//! If the file system supports it (`O_TMPFILE`, open(2)), the file has no name until it is complete, so a
//! process that is killed while writing leaves nothing. Otherwise it has a temporary name in the same
//! directory, which begins with `.pagewise-part-` and never existed before (`O_EXCL`). A file that replaces
//! another also has such a name, for the moment between linkat(2) and rename(2). Its writer holds a lock on
//! it (flock(2)), which ends with the process however that ends. So a temporary name without a lock is a
//! leftover of a killed process, and [`remove_leftovers`] removes it. Content goes to disk before the name
//! (fsync(2)). If nothing may be replaced, the name is given by linkat(2), or by renameat2(2) with
//! `RENAME_NOREPLACE`; on a file system without that flag, such as NFS, by link(2).
//!
//! Not seen: leftovers of other accounts, or that this account may not open. Overhead: seven calls, and the
//! time of the disk.

use crate::attributes::ACCESS_LIST;
use crate::clock;
use crate::error::SysError;
use crate::proc::{lines, named, own_pid, read_bytes};
use crate::trusted_path::{PathEnd, TrustedDir, lead_to_result};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, FlockOperation, Gid, Mode, OFlags, RenameFlags, Uid, XattrFlags,
    fchmod, fchown, flock, fremovexattr, fsetxattr, fstat, linkat, openat, renameat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name prefix of unfinished files.
const START: &str = ".pagewise-part-";
/// Attempts to find a name, in case another process mistakes a new file for a leftover.
const ATTEMPTS: usize = 10;
/// Mode of a file for its owner only.
pub const PRIVATE: u32 = 0o600;
/// Mode of a file that other accounts may read.
pub const PUBLIC: u32 = 0o644;

/// Mode of a new file that the user has named: the umask is applied (`Umask` of proc(5), since Linux 4.7).
#[must_use]
pub fn by_umask() -> u32 {
    let status = read_bytes(Path::new("/proc/self/status")).unwrap_or_default();
    let mut values = lines(&status).filter_map(named);
    let umask = values
        .find(|(name, _)| *name == b"Umask")
        .and_then(|(_, value)| u32::from_str_radix(std::str::from_utf8(value).ok()?, 8).ok());
    umask.map_or(PRIVATE, |umask| 0o666 & !umask)
}

/// The name of the future file, in an open directory: a path that changes meanwhile has no effect.
#[derive(Debug)]
pub struct PartFileTarget {
    directory: TrustedDir,
    name: OsString,
    /// The path as the user knows it.
    path: PathBuf,
}

/// What a file gets besides its content, and never more: no set-user-ID, set-group-ID or sticky bit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilePermissions {
    /// Owner and group; `None` for those that the kernel assigns.
    pub owner: Option<(u32, u32)>,
    /// Permission bits.
    pub mode: u32,
    /// An access list (acl(5)).
    pub access_list: Option<Vec<u8>>,
}

impl FilePermissions {
    /// The permissions of a new file.
    #[must_use]
    pub const fn new(mode: u32) -> Self {
        Self { owner: None, mode, access_list: None }
    }

    /// Applies them to a file. The owner is set first: a new owner must not get wider permissions in between.
    fn give(&self, file: &File) -> Result<(), (&'static str, Errno)> {
        if let Some((uid, gid)) = self.owner {
            let is_owned = fstat(file).is_ok_and(|now| (now.st_uid, now.st_gid) == (uid, gid));
            if !is_owned {
                let owner = (Uid::from_raw(uid), Gid::from_raw(gid));
                fchown(file, Some(owner.0), Some(owner.1)).map_err(|error| ("fchown", error))?;
            }
            // Removes an access list that the directory gives to new files.
            match fremovexattr(file, ACCESS_LIST) {
                Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
                Err(error) => return Err(("fremovexattr", error)),
            }
        }
        let mode = Mode::from_raw_mode(self.mode & 0o777);
        fchmod(file, mode).map_err(|error| ("fchmod", error))?;
        self.access_list.iter().try_for_each(|list| {
            let set = fsetxattr(file, ACCESS_LIST, list, XattrFlags::empty());
            set.map_err(|error| ("fsetxattr", error))
        })
    }
}

/// An unfinished file, removed when dropped.
#[derive(Debug)]
pub struct PartFile {
    file: File,
    /// Its temporary name, if it has one.
    part: Option<OsString>,
    target: PartFileTarget,
}

/// Writes a complete file with this content and mode. Also removes what killed processes left in the
/// directory.
///
/// # Errors
/// Those of [`PartFileTarget::open`], [`PartFile::create`] and [`PartFile::place`], and when the disk is full.
pub fn write_whole(path: &Path, content: &[u8], mode: u32, replaces: bool) -> Result<(), SysError> {
    PartFileTarget::open(path)?.write(content, &FilePermissions::new(mode), replaces)
}

impl PartFileTarget {
    /// The last component of this path, in the directory that the rest leads to. A link with that name is not
    /// followed.
    ///
    /// # Errors
    /// When the path does not end with a name, or its directory cannot be opened, or only by a link that
    /// another account planted.
    pub fn open(path: &Path) -> Result<Self, SysError> {
        let failed = |error| SysError::new("open", path.display().to_string(), error);
        let Some(name) = path.file_name() else {
            return Err(failed(std::io::Error::other("this is not the name of a file")));
        };
        match lead_to_result(path.parent().unwrap_or(Path::new("")))? {
            PathEnd::Directory(directory) => Ok(Self::within(directory, name)),
            PathEnd::Other(_) => Err(failed(Errno::NOTDIR.into())),
            PathEnd::Nowhere { .. } => Err(failed(Errno::NOENT.into())),
        }
    }

    /// This name in an open directory.
    #[must_use]
    pub fn within(directory: TrustedDir, name: &OsStr) -> Self {
        let path = directory.path().join(name);
        Self { directory, name: name.to_owned(), path }
    }

    /// Writes its file, as [`write_whole`].
    ///
    /// # Errors
    /// As [`write_whole`].
    pub fn write(
        self,
        content: &[u8],
        rights: &FilePermissions,
        replaces: bool,
    ) -> Result<(), SysError> {
        let subject = self.path.display().to_string();
        let failed = |call, error: std::io::Error| SysError::new(call, subject.clone(), error);
        let _names = self.remove_leftovers();
        let part = PartFile::create(self)?;
        part.file().write_all(content).map_err(|error| failed("write", error))?;
        rights.give(part.file()).map_err(|(call, error)| failed(call, error.into()))?;
        part.place(replaces)
    }

    /// Removes what killed processes left in its directory. Returns the names.
    #[must_use]
    pub fn remove_leftovers(&self) -> Vec<PathBuf> {
        let Some(entries) = self.readable().and_then(|fd| Dir::new(fd).ok()) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
        let parts = names.filter(|name| name.as_bytes().starts_with(START.as_bytes()));
        let removed = |name: &OsString| {
            // Stays locked until it is removed: a writer that finds it locked creates another file.
            self.left(name).is_some_and(|_locked| self.unlink(name).is_ok())
        };
        parts.filter(removed).map(|name| self.path.with_file_name(name)).collect()
    }

    /// Its directory, opened for reading; `None` if it may only be written.
    fn readable(&self) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat(&self.directory, ".", flags, Mode::empty()).ok()
    }

    fn unlink(&self, name: &OsStr) -> Result<(), Errno> {
        unlinkat(&self.directory, name, AtFlags::empty())
    }

    /// A file of this account (for root: of any account) that no living process writes; locked.
    fn left(&self, name: &OsStr) -> Option<OwnedFd> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&self.directory, name, flags, Mode::empty()).ok()?;
        let user = rustix::process::geteuid();
        let is_ours = fstat(&file).is_ok_and(|found| {
            FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
                && (user.is_root() || found.st_uid == user.as_raw())
        });
        let is_locked = is_ours && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        is_locked.then_some(file)
    }
}

impl PartFile {
    /// Creates an empty file, accessible to its owner only, that is to become `target`.
    ///
    /// # Errors
    /// When its directory does not accept new files.
    pub fn create(target: PartFileTarget) -> Result<Self, SysError> {
        let subject = target.path.display().to_string();
        let failed = |e: std::io::Error| SysError::new("open", subject.clone(), e);
        if let Some(file) = Self::nameless(&target) {
            return Ok(Self { file, part: None, target });
        }
        for _ in 0..ATTEMPTS {
            if let Some((file, part)) = Self::named(&target).map_err(failed)? {
                return Ok(Self { file, part: Some(part), target });
            }
        }
        Err(failed(std::io::Error::other("something removes every new file there")))
    }

    /// `None` if the file system does not support unnamed files.
    fn nameless(target: &PartFileTarget) -> Option<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let opened = openat(&target.directory, ".", flags, Mode::from_raw_mode(PRIVATE));
        let file = File::from(opened.ok()?);
        // For the moment in which it has a temporary name.
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(file)
    }

    /// `None` if another process took the file for a leftover, between its creation and its lock.
    fn named(target: &PartFileTarget) -> std::io::Result<Option<(File, OsString)>> {
        let part = other_name();
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let opened = openat(&target.directory, &part, flags, Mode::from_raw_mode(PRIVATE));
        let file = File::from(opened?);
        let is_locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_locked && fstat(&file)?.st_nlink > 0 {
            return Ok(Some((file, part)));
        }
        let _gone = target.unlink(&part);
        Ok(None)
    }

    /// The open file, to be written.
    #[must_use]
    pub const fn file(&self) -> &File {
        &self.file
    }

    /// Syncs it to disk under its name. Replaces an existing file only with `replaces`.
    ///
    /// # Errors
    /// When the disk does not accept it; EEXIST if the name is taken; EINVAL if the file system can neither
    /// rename without replacing nor link.
    pub fn place(mut self, replaces: bool) -> Result<(), SysError> {
        let subject = self.target.path.display().to_string();
        let failed = |call| {
            let subject = subject.clone();
            move |e: std::io::Error| SysError::new(call, subject, e)
        };
        self.file.sync_all().map_err(failed("fsync"))?;
        if self.part.is_none() && replaces {
            let name = other_name();
            self.link(&name).map_err(failed("linkat"))?;
            self.part = Some(name);
        }
        let PartFileTarget { directory, name, .. } = &self.target;
        match &self.part {
            None => self.link(name).map_err(failed("linkat"))?,
            Some(part) if replaces => {
                renameat(directory, part, directory, name)
                    .map_err(|e| failed("rename")(e.into()))?;
            }
            Some(part) => {
                let flags = RenameFlags::NOREPLACE;
                let renamed = renameat_with(directory, part, directory, name, flags);
                or_linked(renamed, directory, part, name)
                    .map_err(|e| failed("renameat2")(e.into()))?;
            }
        }
        // A directory that may be written but not read cannot be opened: then its entry goes to disk later.
        let directory = self.target.readable().map(File::from);
        directory.map_or(Ok(()), |directory| directory.sync_all().map_err(failed("fsync")))
    }

    /// Gives this name to an unnamed file.
    fn link(&self, name: &OsStr) -> std::io::Result<()> {
        // Linking by descriptor (AT_EMPTY_PATH) needs a privilege that ordinary users do not have.
        let open = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        Ok(linkat(CWD, open, &self.target.directory, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Already gone if the file was placed. The name is never used again.
            let _gone = self.target.unlink(part);
        }
    }
}

/// Gives `part` the name `name` by a link if renaming was refused as unknown (EINVAL). A link also refuses a
/// taken name. The first name is removed when the part is dropped.
fn or_linked(
    renamed: Result<(), Errno>,
    directory: &impl AsFd,
    part: &OsStr,
    name: &OsStr,
) -> Result<(), Errno> {
    let Err(Errno::INVAL) = renamed else { return renamed };
    match linkat(directory, part, directory, name, AtFlags::empty()) {
        Err(error) if error != Errno::EXIST => renamed,
        linked => linked,
    }
}

/// A unique name.
fn other_name() -> OsString {
    format!("{START}{}-{}", own_pid(), clock::now().0).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(path: &Path) -> PartFileTarget {
        PartFileTarget::open(path).unwrap()
    }

    /// As on a file system without unnamed files.
    fn named(path: &Path) -> PartFile {
        let target = target(path);
        let (file, part) = PartFile::named(&target).unwrap().unwrap();
        PartFile { file, part: Some(part), target }
    }

    fn entries(place: &tempfile::TempDir) -> usize {
        place.path().read_dir().unwrap().count()
    }

    #[test]
    fn a_name_appears_with_all_of_its_content() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        let part = PartFile::create(self::target(&target)).unwrap();
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
        let part_file = named(&target);
        for (part, call) in
            [(part_file, "renameat2"), (PartFile::create(self::target(&target)).unwrap(), "linkat")]
        {
            // Without unnamed files, all files take the first way.
            let call = if part.part.is_some() { "renameat2" } else { call };
            let error = part.place(false).unwrap_err();
            assert_eq!((error.call, error.errno()), (call, Some(libc::EEXIST)));
        }
        assert_eq!((std::fs::read(&target).unwrap(), entries(&place)), (b"there".to_vec(), 1));
        PartFile::create(self::target(&target)).unwrap().place(true).unwrap();
        assert_eq!((std::fs::read(&target).unwrap(), entries(&place)), (Vec::new(), 1));
        named(&target).place(true).unwrap();
        assert_eq!(entries(&place), 1);
    }

    #[test]
    fn a_link_gives_the_name_where_renaming_cannot_refuse_a_taken_one() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        let part_file = named(&target);
        let directory = &part_file.target.directory;
        let part = part_file.part.clone().unwrap();
        let unknown = Err(Errno::INVAL);
        let linked = |renamed, name: &str| or_linked(renamed, directory, &part, name.as_ref());
        assert_eq!(linked(unknown, "file"), Ok(()));
        assert_eq!(linked(unknown, "file"), Err(Errno::EXIST));
        // If links are not supported either, or the first error was another one, the first result stays.
        assert_eq!(linked(unknown, "/nonexistent/file"), unknown);
        assert_eq!(linked(Err(Errno::NOSPC), "other"), Err(Errno::NOSPC));
        drop(part_file);
        assert_eq!((target.exists(), entries(&place)), (true, 1));
    }

    #[test]
    fn what_is_given_up_leaves_nothing_and_what_is_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let target = place.path().join("file");
        drop(PartFile::create(self::target(&target)).unwrap());
        assert_eq!(entries(&place), 0);
        let left = place.path().join(format!("{START}1-1"));
        std::fs::write(&left, b"half").unwrap();
        std::fs::create_dir(place.path().join(format!("{START}directory"))).unwrap();
        std::os::unix::fs::symlink(&left, place.path().join(format!("{START}link"))).unwrap();
        let living = named(&target);
        assert_eq!(self::target(&target).remove_leftovers(), [left]);
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
        write_whole(&target, b"one", PRIVATE, false).unwrap();
        let mode = || target.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!((std::fs::read(&target).unwrap(), mode()), (b"one".to_vec(), 0o600));
        assert!(write_whole(&target, b"two", PRIVATE, false).is_err());
        write_whole(&target, b"two", PUBLIC, true).unwrap();
        assert_eq!((std::fs::read(&target).unwrap(), mode()), (b"two".to_vec(), 0o644));
        assert_eq!(entries(&place), 1);
    }

    #[test]
    fn what_names_no_file_or_is_nowhere_is_an_error() {
        let error = PartFileTarget::open(Path::new("/")).unwrap_err().to_string();
        assert!(error.contains("not the name of a file"), "{error}");
        let error = PartFileTarget::open(Path::new("/nonexistent/file")).unwrap_err();
        assert!(error.is_gone(), "{error}");
        assert!(PartFileTarget::open(Path::new("file")).is_ok());
    }
}
