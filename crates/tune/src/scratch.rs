//! A private directory for outputs that are compared, removed when the session ends.
//!
//! Its owner holds a lock (flock(2)) on a file in it, which the kernel releases when the owner ends, however
//! that happens. So a directory without a lock is left over from a killed session, whatever process ids its
//! name shows. Two pid namespaces may share a directory for temporary files and use the same ids. Only
//! directories of this user and of this form are removed.
//!
//! Not removed: a directory without a lock file, unless it is empty.

use pagewise_kernel::clock;
use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, openat, unlinkat};
use rustix::io::Errno;
use rustix::path::Arg;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Start of the directory's name.
const PREFIX: &str = "pagewise-scratch-";
/// The file in it that is locked.
const LOCK: &str = ".lock";
/// Number of other names tried if another session removed a new directory as a leftover.
const ATTEMPTS: usize = 10;

/// The directory; dropping it removes it.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    _lock: File,
}

impl ScratchDir {
    /// Creates it below `parent` (usually the directory for temporary files), readable only by this user, and
    /// removes the leftovers of killed sessions there.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(parent: &Path) -> io::Result<Self> {
        remove_stale(parent);
        for _ in 0..ATTEMPTS {
            if let Some(made) = Self::try_create(parent)? {
                return Ok(made);
            }
        }
        Err(io::Error::other("something removes every new directory there"))
    }

    /// `None` if the name is taken, or if another session removed the directory as a leftover before it was
    /// locked.
    fn try_create(parent: &Path) -> io::Result<Option<Self>> {
        let path = parent.join(format!("{PREFIX}{}-{}", std::process::id(), clock::now().0));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
            made => made?,
        }
        let mut options = File::options();
        let lock = options.write(true).create_new(true).mode(0o600).open(path.join(LOCK));
        let lock = match lock {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            lock => lock?,
        };
        let is_locked = flock(&lock, FlockOperation::NonBlockingLockExclusive);
        if is_locked == Err(Errno::WOULDBLOCK) || lock.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        // A file system without locks keeps others from locking, too, and so from removing.
        Ok(Some(Self { path, _lock: lock }))
    }

    /// Whether a path is exactly one word in every context of a command: without quotes, within either kind of
    /// quotes, or passed on to another shell. So no path needs quoting, and the user's quotes stay correct.
    #[must_use]
    pub fn is_one_word(path: &Path) -> bool {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+,:@".contains(byte);
        path.as_os_str().as_bytes().iter().all(is_plain)
    }

    /// A path in it.
    #[must_use]
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The directory itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _gone = remove_tree(&self.path);
    }
}

/// Removes a directory and everything below it, but does not enter mount points. What a user's command has
/// mounted holds the user's data. A mount point stays, and so do its parents.
///
/// # Errors
/// The first path that stays, and why.
pub(crate) fn remove_tree(path: &Path) -> Result<(), String> {
    remove(CWD, path, path)
}

/// Removes `name` of `dir`, which is `path`, as far as it can be removed.
fn remove(dir: BorrowedFd<'_>, name: impl Arg + Copy, path: &Path) -> Result<(), String> {
    let failed = |error: Errno| format!("`{}` ({})", path.display(), io::Error::from(error));
    let removed = match unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => unlinkat(dir, name, AtFlags::REMOVEDIR),
        removed => removed,
    };
    match removed {
        Err(Errno::NOENT) => Ok(()),
        // Of a mount point the kernel says EBUSY, full or not.
        Err(Errno::NOTEMPTY | Errno::EXIST) => {
            // By its name below an open directory: no link that is put there meanwhile leads elsewhere.
            let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let full = openat(dir, name, flags, Mode::empty()).map_err(failed)?;
            empty(&full, path, failed)?;
            unlinkat(dir, name, AtFlags::REMOVEDIR).map_err(failed)
        }
        removed => removed.map_err(failed),
    }
}

/// Removes the content of a directory. Returns the first thing that stays.
fn empty(dir: &OwnedFd, path: &Path, failed: impl Fn(Errno) -> String) -> Result<(), String> {
    let mut first = Ok(());
    for entry in Dir::read_from(dir).map_err(&failed)? {
        let entry = entry.map_err(&failed)?;
        let name = entry.file_name();
        if ![c".", c".."].contains(&name) {
            let below = path.join(OsStr::from_bytes(name.to_bytes()));
            first = first.and(remove(dir.as_fd(), name, &below));
        }
    }
    first
}

fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let me = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let path = entry.path();
        let is_ours = fs::symlink_metadata(&path).is_ok_and(|m| m.is_dir() && m.uid() == me);
        if is_ours && entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            remove_unless_owned(&path);
        }
    }
}

/// Removes the directory if its lock is free. A directory without a lock file is about to get one, or was
/// abandoned before it had one. It is removed only if it is empty; its maker then takes another name.
fn remove_unless_owned(path: &Path) {
    let mut options = File::options();
    let lock = options
        .write(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path.join(LOCK));
    let _stays = match lock {
        Ok(lock) if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() => {
            remove_tree(path)
        }
        Ok(_) => Ok(()),
        Err(_) => fs::remove_dir(path).map_err(|error| error.to_string()),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parent(name: &str) -> PathBuf {
        let parent = std::env::temp_dir().join(format!("pagewise-{name}-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        parent
    }

    #[test]
    fn it_goes_with_its_owner_and_stale_ones_go_with_the_next() {
        let parent = parent("stale");
        let stale = parent.join(format!("{PREFIX}999999999-1"));
        let begun = parent.join(format!("{PREFIX}999999999-2"));
        let foreign = parent.join("pagewise-scratch-notes");
        for dir in [&stale, &begun, &foreign] {
            fs::create_dir_all(dir).unwrap();
        }
        fs::write(stale.join(LOCK), "").unwrap();
        fs::write(stale.join("out"), "x").unwrap();
        fs::write(foreign.join("mine"), "x").unwrap();
        let scratch = ScratchDir::create(&parent).unwrap();
        fs::write(scratch.file("out"), "x").unwrap();
        let path = scratch.path().to_owned();
        assert!(path.exists() && !stale.exists() && !begun.exists());
        assert!(foreign.join("mine").exists());
        drop(scratch);
        assert!(!path.exists());
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_tree_goes_whole_and_links_in_it_are_not_followed() {
        let parent = parent("tree");
        let (tree, other) = (parent.join("tree"), parent.join("other"));
        fs::create_dir_all(tree.join("a/b/c")).unwrap();
        fs::create_dir(&other).unwrap();
        fs::write(tree.join("a/b/file"), "x").unwrap();
        fs::write(other.join("mine"), "x").unwrap();
        std::os::unix::fs::symlink(&other, tree.join("a/link")).unwrap();
        remove_tree(&tree).unwrap();
        assert!(!tree.exists() && other.join("mine").exists());
        assert_eq!(remove_tree(&tree), Ok(()), "it is not there");
        let why = remove_tree(Path::new("/proc/self/status")).unwrap_err();
        assert!(why.starts_with("`/proc/self/status` ("), "{why}");
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_living_owners_directory_stays_whatever_its_name_says() {
        let parent = parent("owned");
        let scratch = ScratchDir::create(&parent).unwrap();
        // How a session in another pid namespace appears here: no process has that id.
        let elsewhere = parent.join(format!("{PREFIX}999999999-1"));
        fs::rename(scratch.path(), &elsewhere).unwrap();
        let next = ScratchDir::create(&parent).unwrap();
        assert!(elsewhere.exists(), "its owner lives");
        drop(scratch);
        drop(next);
        // A child that a parallel test has just forked holds the lock until it executes.
        let is_gone = (0..500).any(|_| {
            let _last = ScratchDir::create(&parent).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
            !elsewhere.exists()
        });
        assert!(is_gone, "its owner is gone");
        fs::remove_dir_all(&parent).unwrap();
    }
}
