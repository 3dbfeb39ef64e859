//! Which files were brought on huge pages: a record that outlives the process that did it, so that all
//! of it can be dropped again (`pagewise text undo --all`). A file is recorded before its cache is changed:
//! whenever the process is killed, what it has done is there or in the record.
//!
//! Paths between NUL bytes, in one file of the state directory (`dirs::state_dir`, only the owner's), added at
//! its end by one write each. A writer that is killed leaves at most the beginning of one path, which the
//! NUL in front of the next one ends: a path that is not there is forgotten at the next chance. Writers and
//! who forgets take turns (`flock(2)`). What is forgotten leaves by a new file under the old name, whole or
//! not at all; one that a killed process has not given its name is removed by the next process.
//!
//! Nothing depends on it: a file that lies in huge folios and is not recorded is dropped by its name.

use pagewise_kernel::dirs;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Its name in the state directory.
const NAME: &str = "on-huge-pages";

/// Adds one file to the record of this account, by its absolute path.
///
/// # Errors
/// A sentence, where it cannot be written.
pub fn note(path: &Path) -> Result<(), String> {
    let path = std::path::absolute(path).map_err(|e| format!("`{}`: {e}", path.display()))?;
    Record::own()?.add([path.as_path()])
}

/// The record of this account.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
}

impl Record {
    /// That of this account.
    ///
    /// # Errors
    /// A sentence, where there is no place for it.
    pub fn own() -> Result<Self, String> {
        let state = dirs::state_dir().map_err(|error| error.to_string())?;
        Ok(Self { path: state.join(NAME) })
    }

    /// The files, each once.
    ///
    /// # Errors
    /// A sentence, where it cannot be read.
    pub fn files(&self) -> Result<BTreeSet<PathBuf>, String> {
        let mut file = self.open()?;
        self.parsed(&mut file)
    }

    /// Adds files that are not in it.
    ///
    /// # Errors
    /// A sentence, where it cannot be written.
    pub fn add<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) -> Result<(), String> {
        let mut file = self.open()?;
        let known = self.parsed(&mut file)?;
        let new: BTreeSet<&Path> = paths.into_iter().filter(|p| !known.contains(*p)).collect();
        file.write_all(&encoded(new)).map_err(|error| self.failed("write", &error))
    }

    /// Takes files out of it.
    ///
    /// # Errors
    /// A sentence, where it cannot be written.
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

    /// The file that has the name and is locked: another may have taken its place meanwhile.
    fn open(&self) -> Result<File, String> {
        loop {
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true).mode(0o600);
            let file = options.open(&self.path).map_err(|error| self.failed("open", &error))?;
            flock(&file, FlockOperation::LockExclusive)
                .map_err(|error| self.failed("lock", &error.into()))?;
            if self.has_the_name(&file) {
                // Under the lock it is nobody's but a killed one's.
                let _none_is_left = std::fs::remove_file(self.part());
                return Ok(file);
            }
        }
    }

    /// What is to take the record's place.
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

    fn record(dir: &Path) -> Record {
        Record { path: dir.join(NAME) }
    }

    fn files(record: &Record) -> Vec<PathBuf> {
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
