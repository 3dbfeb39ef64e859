//! Small files that keep expensive measurements from one start to the next.
//!
//! Each is readable only by its owner and is replaced as a whole ([`part_file`](crate::part_file)). A file is
//! not read if it is missing, too old, from the future, too large, owned by another user, writable by others,
//! or a link. The data can be measured again.

use crate::error::SysError;
use crate::part_file;
use rustix::fs::OFlags;
use std::fs::{self, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

/// Conditions for reading a file.
#[derive(Debug, Clone, Copy)]
pub struct StateFileLimits {
    /// Older files are not read.
    pub most_age: Duration,
    /// At most this much is read; a larger file is then malformed.
    pub most_bytes: u64,
}

/// Content of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateFileContent {
    /// The file's contents.
    pub text: Vec<u8>,
    /// Time since it was written.
    pub age: Duration,
}

/// The content of a file, if it can be trusted.
#[must_use]
pub fn read(path: &Path, limits: StateFileLimits) -> Option<StateFileContent> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
    let file = options.open(path).ok()?;
    let meta = file.metadata().ok()?;
    let is_own = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o022 == 0;
    // A modification time in the future gives no age.
    let age = meta.modified().ok()?.elapsed().ok()?;
    if !meta.is_file() || !is_own || age > limits.most_age {
        return None;
    }
    let mut text = Vec::new();
    file.take(limits.most_bytes).read_to_end(&mut text).ok()?;
    Some(StateFileContent { text, age })
}

/// Writes `text` to a file. Creates its directory if necessary.
///
/// # Errors
/// When it cannot be written. Then the file is unchanged.
pub fn write(path: &Path, text: &[u8]) -> Result<(), SysError> {
    let failed = |call| move |e: std::io::Error| SysError::new(call, path.display().to_string(), e);
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("mkdir"))?;
    part_file::write_whole(path, text, part_file::PRIVATE, true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::SystemTime;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const LIMITS: StateFileLimits = StateFileLimits { most_age: DAY, most_bytes: 100 };

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("sub/kept.json");
        assert_eq!(read(&path, LIMITS), None);
        for text in [b"one".as_slice(), b"two"] {
            write(&path, text).expect("written");
            assert_eq!(read(&path, LIMITS).map(|kept| kept.text), Some(text.to_vec()));
        }
        assert_eq!(fs::metadata(&path).expect("metadata").mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("sub")).expect("listed").count(), 1);
        write(&path, &[7; 200]).expect("written");
        assert_eq!(read(&path, LIMITS).map(|kept| kept.text.len()), Some(100));
        assert!(write(Path::new("/dev/null/kept"), b"x").is_err());
    }

    #[test]
    fn old_files_are_ignored_and_the_age_of_others_is_known() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("kept.json");
        write(&path, b"x").expect("written");
        let file = fs::File::options().write(true).open(&path).expect("opened");
        let hour = Duration::from_secs(3600);
        file.set_modified(SystemTime::now() - DAY + hour).expect("set");
        let age = read(&path, LIMITS).expect("young enough").age;
        assert!(age > DAY - hour - hour && age < DAY, "{age:?}");
        file.set_modified(SystemTime::now() - DAY - hour).expect("set");
        assert_eq!(read(&path, LIMITS), None);
        file.set_modified(SystemTime::now() + hour).expect("set");
        assert_eq!(read(&path, LIMITS), None, "from the future");
    }

    #[test]
    fn links_and_files_open_to_others_are_ignored() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, link) = (dir.path().join("kept.json"), dir.path().join("link"));
        write(&path, b"x").expect("written");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert_eq!(read(&link, LIMITS), None);
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o622);
        fs::set_permissions(&path, open).expect("set");
        assert_eq!(read(&path, LIMITS), None);
    }
}
