//! A directory of our own for outputs that are compared, gone when the session ends.
//!
//! Its name carries the pid and start time of its owner, so that the next session can remove what
//! a killed one left: only directories of this user, of this form, whose owner is gone.

use pagewise_kernel::clock;
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Start of the directory's name.
const PREFIX: &str = "pagewise-scratch-";

/// The directory; dropping it removes it.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes it below `parent` (usually the directory for temporary files), readable by nobody
    /// else, and removes what killed sessions left there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(parent: &Path) -> io::Result<Self> {
        remove_stale(parent);
        let pid = std::process::id();
        let start = start_of(i64::from(pid)).unwrap_or(0);
        let path = parent.join(format!("{PREFIX}{pid}-{start}"));
        let mut builder = fs::DirBuilder::new();
        builder.mode(0o700).create(&path)?;
        Ok(Self { path })
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

fn start_of(pid: i64) -> Option<u64> {
    clock::process_start(i32::try_from(pid).ok()?).ok()
}

/// Pid and start time in a name of our form.
fn owner(name: &str) -> Option<(i64, u64)> {
    let (pid, start) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

fn remove_stale(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let me = rustix::process::geteuid().as_raw();
    for entry in entries.flatten() {
        let Some((pid, start)) = entry.file_name().to_str().and_then(owner) else { continue };
        let ours = fs::symlink_metadata(entry.path()).is_ok_and(|m| m.is_dir() && m.uid() == me);
        if ours && start_of(pid) != Some(start) {
            let _gone = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_with_its_owner_and_stale_ones_go_with_the_next() {
        let parent = std::env::temp_dir().join(format!("pagewise-test-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        let stale = parent.join(format!("{PREFIX}999999999-1"));
        let foreign = parent.join("pagewise-scratch-notes");
        fs::create_dir_all(&stale).unwrap();
        fs::create_dir_all(&foreign).unwrap();
        let scratch = Scratch::create(&parent).unwrap();
        fs::write(scratch.file("out"), "x").unwrap();
        let path = scratch.path().to_owned();
        assert!(path.exists() && !stale.exists() && foreign.exists());
        drop(scratch);
        assert!(!path.exists());
        fs::remove_dir_all(&parent).unwrap();
    }
}
