//! Files that a run leaves: the program's output and the files that it was asked to write.
//!
//! Only regular files are read. Opening never blocks, so that a FIFO or a device named by mistake cannot hang
//! the session. A file counts as the run's if its change time or its inode differs from before the run. So
//! files left by an earlier run or the user are not mistaken for it. Change times advance in steps of the
//! kernel's clock tick. Therefore a file that was changed just now must first become older than a tick.
//!
//! Not seen: a file whose content the program changes through a mapping after it has ended.

use crate::output::StreamHashes;
use pagewise_kernel::file_view::open_regular;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Longer than a tick of any kernel (10 ms at 100 Hz).
const TICK: Duration = Duration::from_millis(20);
/// Bytes at the end of standard error that are searched for the program's message.
const TAIL: u64 = 8_000;
/// Longest line of it that is shown.
const SAID: usize = 160;

/// Distinguishes two states of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

impl FileStamp {
    fn of(there: &Metadata) -> Self {
        Self {
            device: there.dev(),
            inode: there.ino(),
            bytes: there.size(),
            changed: (there.ctime(), there.ctime_nsec()),
        }
    }

    /// Time since its change. `None` if that is in the future (another machine's clock).
    fn age(self) -> Option<Duration> {
        let (seconds, nanos) = self.changed;
        let since = Duration::new(u64::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        SystemTime::now().duration_since(UNIX_EPOCH).ok()?.checked_sub(since)
    }
}

/// A named file as it was before a run.
#[derive(Debug)]
pub(crate) struct FileSnapshot {
    path: PathBuf,
    before: Option<FileStamp>,
}

impl FileSnapshot {
    /// Taken right before the run.
    pub(crate) fn take(path: &Path) -> Self {
        let before = std::fs::metadata(path).ok().map(|there| FileStamp::of(&there));
        if before.and_then(FileStamp::age).is_some_and(|age| age < TICK) {
            std::thread::sleep(TICK);
        }
        Self { path: path.to_owned(), before }
    }

    /// The content that the run wrote, or why it is missing.
    pub(crate) fn read(&self) -> Result<StreamHashes, String> {
        let (file, after) = open(&self.path)?;
        if self.before == Some(after) {
            return Err("was not written by the run".to_owned());
        }
        stream(file)
    }

    /// Its name in a report.
    pub(crate) fn name(&self) -> String {
        format!("file `{}`", self.path.display())
    }
}

/// Reads a scratch file that a run wrote to.
pub(crate) fn read(path: &Path) -> Result<StreamHashes, String> {
    open(path).and_then(|(file, _)| stream(file))
}

fn open(path: &Path) -> Result<(File, FileStamp), String> {
    let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).unwrap_or_default();
    let unreadable = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::NotFound => "is not there".to_owned(),
        _ => format!("cannot be read: {e}"),
    };
    // Opening a file that is not regular may have side effects (a device, a FIFO's writer).
    if !std::fs::metadata(path).map_err(unreadable)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    let there = file.metadata().map_err(unreadable)?;
    if there.is_file() {
        Ok((file, FileStamp::of(&there)))
    } else {
        Err("is not a regular file".into())
    }
}

fn stream(file: File) -> Result<StreamHashes, String> {
    StreamHashes::read(BufReader::with_capacity(1 << 20, file))
        .map_err(|e| format!("cannot be read: {e}"))
}

/// Last line that is not empty of a file.
pub(crate) fn last_line(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let (mut file, length) = open_regular(path).map_err(|error| error.source)?;
        file.seek(SeekFrom::Start((length as u64).saturating_sub(TAIL)))?;
        let mut bytes = Vec::new();
        file.take(TAIL).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    last_line_in(&text).chars().take(SAID).collect()
}

/// The last line with something in it.
pub(crate) fn last_line_in(text: &str) -> &str {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_run_wrote_counts() {
        let dir = std::env::temp_dir().join(format!("pagewise-files-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("out");
        let absent = FileSnapshot::take(&path);
        assert_eq!(absent.read().unwrap_err(), "is not there");
        std::fs::write(&path, "new").unwrap();
        assert_eq!(absent.read(), StreamHashes::read(&b"new"[..]).map_err(|e| e.to_string()));
        let left = FileSnapshot::take(&path);
        assert_eq!(left.read().unwrap_err(), "was not written by the run");
        std::fs::write(&path, "new").unwrap();
        assert!(left.read().is_ok(), "written again, if with the same content");
        std::fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_no_regular_file_is_refused_at_once() {
        let dir = std::env::temp_dir().join(format!("pagewise-fifo-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let fifo = dir.join("fifo");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [fifo.as_path(), dir.as_path(), Path::new("/dev/null")] {
            assert_eq!(read(path).unwrap_err(), "is not a regular file", "{}", path.display());
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
