//! The regular files that a tree wrote and left behind: results that are compared only if they are named.
//!
//! A file is identified by device and inode, and followed over renames, because programs write under a
//! temporary name first. A file that no longer exists at the end was no result. Kernel settings are not
//! results either.
//!
//! Not seen: a file without a name that is linked later, one below a directory that is renamed, and all
//! beyond the first [`MOST`].

use super::{Identity, NamedFile, identity};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// Files that are followed.
const MOST: usize = 4000;

#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    files: BTreeMap<Identity, PathBuf>,
}

impl WrittenFiles {
    /// A file is open for writing.
    pub(super) fn add(&mut self, place: &NamedFile) {
        let Some(file) = place.target.as_ref().filter(|target| target.is_file()) else { return };
        if self.files.len() < MOST {
            self.files.entry(identity(file)).or_insert_with(|| place.led());
        }
    }

    /// A file has another name now.
    pub(super) fn rename(&mut self, file: Identity, to: PathBuf) {
        self.files.entry(file).and_modify(|path| *path = to);
    }

    /// The paths of those that are still there.
    pub(super) fn left(&self) -> Vec<String> {
        const SETTINGS: [&str; 3] = ["/proc", "/sys", "/dev"];
        let is_left = |(of, path): &(&Identity, &PathBuf)| {
            !SETTINGS.iter().any(|root| path.starts_with(root))
                && fs::symlink_metadata(path).is_ok_and(|found| identity(&found) == **of)
        };
        let left = self.files.iter().filter(is_left);
        let mut paths: Vec<String> = left.map(|(_, path)| path.display().to_string()).collect();
        paths.sort();
        paths
    }
}
