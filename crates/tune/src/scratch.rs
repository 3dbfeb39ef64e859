//! A directory of our own for outputs that are compared, gone when the session ends.
//!
//! Its owner holds a lock (flock(2)) on a file in it, which the kernel frees when the owner ends,
//! however that ends. So a directory without a lock is what a killed session left, whatever process
//! ids its name shows: two pid namespaces may share a directory for temporary files and give the same
//! ids. Only directories of this user and of this form are removed.
//!
//! Not removed: one in which there is no lock file, unless it is empty.

use pagewise_kernel::clock;
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Start of the directory's name.
const PREFIX: &str = "pagewise-scratch-";
/// The file in it that is locked.
const LOCK: &str = ".lock";
/// How often another name is tried where somebody took a new directory for a leftover.
const ATTEMPTS: usize = 10;

/// The directory; dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    _lock: File,
}

impl Scratch {
    /// Makes it below `parent` (usually the directory for temporary files), readable by nobody
    /// else, and removes what killed sessions left there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(parent: &Path) -> io::Result<Self> {
        remove_stale(parent);
        for _ in 0..ATTEMPTS {
            if let Some(made) = Self::try_create(parent)? {
                return Ok(made);
            }
        }
        Err(io::Error::other("something removes every new directory there"))
    }

    /// None where the name is taken, or where another session took the directory for a leftover
    /// before it was locked.
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
        if is_locked == Err(rustix::io::Errno::WOULDBLOCK) || lock.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        // A file system without locks keeps others from locking, too, and so from removing.
        Ok(Some(Self { path, _lock: lock }))
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

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.path);
    }
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

/// Removes the directory where nobody holds its lock. One without a lock file is about to get one, or
/// was left before it had one: it goes only if it is empty, and then its maker takes another name.
fn remove_unless_owned(path: &Path) {
    let mut options = File::options();
    let lock = options
        .write(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path.join(LOCK));
    let _stays = match lock {
        Ok(lock) if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() => {
            fs::remove_dir_all(path)
        }
        Ok(_) => Ok(()),
        Err(_) => fs::remove_dir(path),
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
        let scratch = Scratch::create(&parent).unwrap();
        fs::write(scratch.file("out"), "x").unwrap();
        let path = scratch.path().to_owned();
        assert!(path.exists() && !stale.exists() && !begun.exists());
        assert!(foreign.join("mine").exists());
        drop(scratch);
        assert!(!path.exists());
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_living_owners_directory_stays_whatever_its_name_says() {
        let parent = parent("owned");
        let scratch = Scratch::create(&parent).unwrap();
        // What a session in another pid namespace looks like from here: nobody has that id.
        let elsewhere = parent.join(format!("{PREFIX}999999999-1"));
        fs::rename(scratch.path(), &elsewhere).unwrap();
        let next = Scratch::create(&parent).unwrap();
        assert!(elsewhere.exists(), "its owner lives");
        drop(scratch);
        drop(next);
        // A child that a test beside this one has just forked holds the lock until it executes.
        let is_gone = (0..500).any(|_| {
            let _last = Scratch::create(&parent).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
            !elsewhere.exists()
        });
        assert!(is_gone, "its owner is gone");
        fs::remove_dir_all(&parent).unwrap();
    }
}
