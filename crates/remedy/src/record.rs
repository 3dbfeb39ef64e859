//! A persistent record of the files that were put on huge pages, so that all of them can be dropped again
//! (`pagewise text undo --all`). A file is recorded before its cache is changed: whenever the process is
//! killed, its work is undone or in the record.
//!
//! The record is one file in the state directory (`dirs::state_dir`, owner only). It holds paths between NUL
//! bytes; each is appended by one write. A killed writer leaves at most the beginning of one path, which the
//! NUL before the next path ends. A path that does not exist is removed at the next opportunity. Writers and
//! removers take turns (`flock(2)`). Removal writes a new file and renames it, so the record is always
//! complete. If a killed process left such a file without renaming it, the next process deletes it.
//!
//! Nothing depends on the record: a file in huge folios that is not recorded can be dropped by its name.

use pagewise_kernel::dirs;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Name of the record in the state directory.
const NAME: &str = "on-huge-pages";

/// Adds one file to the record of this account, by its absolute path.
///
/// # Errors
/// A sentence, when the record cannot be written.
pub fn note(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(|e| format!("`{}`: {e}", path.display()))?;
    HugeFileRecord::own()?.add([path.as_path()])
}

/// The record of this account.
#[derive(Debug)]
pub struct HugeFileRecord {
    path: PathBuf,
}

impl HugeFileRecord {
    /// The record of this account.
    ///
    /// # Errors
    /// A sentence, when no place for it is available.
    pub fn own() -> Result<Self, String> {
        let state = dirs::state_dir().map_err(|error| error.to_string())?;
        Ok(Self { path: state.join(NAME) })
    }

    /// The files, each once.
    ///
    /// # Errors
    /// A sentence, when it cannot be read.
    pub fn files(&self) -> Result<BTreeSet<PathBuf>, String> {
        let mut file = self.open()?;
        self.parsed(&mut file)
    }

    /// Adds files that it does not contain yet.
    ///
    /// # Errors
    /// A sentence, when it cannot be written.
    pub fn add<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> Result<(), String> {
        let mut file = self.open()?;
        let known = self.parsed(&mut file)?;
        let new: BTreeSet<&Path> = paths.into_iter().filter(|p| !known.contains(*p)).collect();
        file.write_all(&encoded(new)).map_err(|error| self.failed("write", &error))
    }

    /// Removes files from it.
    ///
    /// # Errors
    /// A sentence, when it cannot be written.
    pub fn forget(&self, paths: &BTreeSet<PathBuf>) -> Result<(), String> {
        let mut file = self.open()?;
        let mut left = self.parsed(&mut file)?;
        left.retain(|path| !paths.contains(path));
        let part = self.part();
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let written = options.open(&part);
        let written =
            written.and_then(|mut new| new.write_all(&encoded(left.iter().map(PathBuf::as_path))));
        written
            .and_then(|()| std::fs::rename(&part, &self.path))
            .map_err(|error| self.failed("replace", &error))
    }

    /// Opens and locks the file that has the name now: another may have replaced it meanwhile.
    fn open(&self) -> Result<File, String> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let file = options.open(&self.path).map_err(|error| self.failed("open", &error))?;
            flock(&file, FlockOperation::LockExclusive)
                .map_err(|error| self.failed("lock", &error.into()))?;
            if self.has_the_name(&file) {
                // With the lock held, such a file can only be a leftover of a killed process.
                let _none_is_left = std::fs::remove_file(self.part());
                return Ok(file);
            }
        }
    }

    /// The new file that will replace the record.
    fn part(&self) -> PathBuf {
        self.path.with_extension("part")
    }

    fn has_the_name(&self, file: &File) -> bool {
        use std::os::unix::fs::MetadataExt;
        let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
        let named = std::fs::metadata(&self.path).map(identity).ok();
        named.is_some() && named == file.metadata().map(identity).ok()
    }

    fn parsed(&self, file: &mut File) -> Result<BTreeSet<PathBuf>, String> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| self.failed("read", &error))?;
        let whole = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(whole.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }

    fn failed(&self, call: &str, error: &std::io::Error) -> String {
        format!("cannot {call} the record `{}`: {error}", self.path.display())
    }
}

fn encoded<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Vec<u8> {
    let bytes = |path: &Path| [b"\0", path.as_os_str().as_bytes(), b"\0"].concat();
    paths.into_iter().flat_map(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(dir: &Path) -> HugeFileRecord {
        HugeFileRecord { path: dir.join(NAME) }
    }

    fn files(record: &HugeFileRecord) -> Vec<PathBuf> {
        record.files().unwrap().into_iter().collect()
    }

    #[test]
    fn what_is_added_is_there_once_until_it_is_forgotten() {
        let dir = tempfile::tempdir().unwrap();
        let record = record(dir.path());
        assert!(files(&record).is_empty());
        let [a, b, odd] = ["/a", "/b c", "/new\nline"].map(Path::new);
        record.add([a, b]).unwrap();
        record.add([b, odd]).unwrap();
        assert_eq!(files(&record), [a, b, odd]);
        record.forget(&[b.to_owned()].into()).unwrap();
        assert_eq!(files(&record), [a, odd]);
        let left = std::fs::read_dir(dir.path()).unwrap().count();
        assert_eq!(left, 1, "no part of a file is left");
    }

    #[test]
    fn a_path_that_was_cut_short_spoils_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let record = record(dir.path());
        record.add([Path::new("/first")]).unwrap();
        let mut file = OpenOptions::new().append(true).open(&record.path).unwrap();
        file.write_all(b"\0/a path that was cu").unwrap();
        record.add([Path::new("/second")]).unwrap();
        let all = files(&record);
        assert!(all.contains(&"/first".into()) && all.contains(&"/second".into()), "{all:?}");
        assert_eq!(all.len(), 3);
    }

    #[test]
    fn what_a_killed_one_has_not_put_in_place_is_removed_by_the_next() {
        let dir = tempfile::tempdir().unwrap();
        let record = record(dir.path());
        record.add([Path::new("/first")]).unwrap();
        std::fs::write(record.part(), b"\0/half of wh").unwrap();
        assert_eq!(files(&record), [Path::new("/first")]);
        assert!(!record.part().exists());
    }

    #[test]
    fn writers_at_once_lose_nothing() {
        let dir = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let record = record(dir.path());
                scope.spawn(move || {
                    for nth in 0..25 {
                        let path = PathBuf::from(format!("/{writer}/{nth}"));
                        record.add([path.as_path()]).unwrap();
                        let gone = PathBuf::from(format!("/{writer}/{}", nth / 2));
                        record.forget(&[gone].into()).unwrap();
                    }
                });
            }
        });
        assert_eq!(files(&record(dir.path())).len(), 4 * 12, "0 to 12 are forgotten");
    }
}
