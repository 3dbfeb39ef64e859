//! Whether any process has opened a file since some moment: `inotify(7)` on the file itself.
//!
//! `execve(2)` opens the file that it runs, so this detects even short-lived programs, and under any name:
//! the mark is on the inode. `stat(2)` of the file or of a link to it is not an event. The kernel merges
//! equal events that have not been read yet. So the answer is yes or no, not a count, and nothing piles up
//! however often the file is opened.
//!
//! Not seen: who opened it, and whether to run or to read it. Overhead: two calls, and a comparison of one
//! event for each open of the file. Uses one of the user's inotify instances
//! (`fs.inotify.max_user_instances`) while it exists.

use crate::error::SysError;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Buffer size for the few events of one read.
const ROOM: usize = 256;

/// A mark on a file.
#[derive(Debug)]
pub struct OpenWatch {
    events: OwnedFd,
}

impl OpenWatch {
    /// Starts to watch `file`. The descriptor is closed at exec.
    ///
    /// # Errors
    /// When the user has no inotify instance left, or the file does not exist.
    pub fn of(file: &Path) -> Result<Self, SysError> {
        let failed = |call| move |error| SysError::new(call, file.to_string_lossy(), error);
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(failed("inotify_init1"))?;
        inotify::add_watch(&events, file, WatchFlags::OPEN).map_err(failed("inotify_add_watch"))?;
        Ok(Self { events })
    }

    /// Whether it was opened since the last call.
    ///
    /// # Errors
    /// When the events cannot be read.
    pub fn any(&self) -> Result<bool, SysError> {
        let mut room = [MaybeUninit::uninit(); ROOM];
        let mut events = Reader::new(&self.events, &mut room);
        let mut opened = false;
        loop {
            match events.next() {
                Ok(event) => opened |= event.events().contains(ReadFlags::OPEN),
                Err(Errno::AGAIN) => return Ok(opened),
                Err(Errno::INTR) => {}
                Err(error) => return Err(SysError::new("read", "events of inotify", error)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{File, symlink_metadata};

    #[test]
    fn an_opening_is_seen_once_and_a_look_is_none() {
        let place = tempfile::tempdir().unwrap();
        let (file, link) = (place.path().join("file"), place.path().join("link"));
        std::fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let opens = OpenWatch::of(&link).unwrap();
        assert!(symlink_metadata(&link).is_ok() && link.metadata().is_ok());
        assert!(!opens.any().unwrap());
        for _twice in 0..2 {
            drop(File::open(&link).unwrap());
        }
        assert!(opens.any().unwrap());
        assert!(!opens.any().unwrap());
    }

    #[test]
    fn a_start_is_an_opening() {
        let place = tempfile::tempdir().unwrap();
        let program = place.path().join("true");
        // Uses another process: a file that is open for writing cannot be executed.
        let shell = |script: &str| {
            let mut command = std::process::Command::new("sh");
            let status = command.args(["-c", script, "sh"]).arg(&program).status();
            assert!(status.unwrap().success(), "{script}");
        };
        shell("cp /bin/true \"$1\"");
        let opens = OpenWatch::of(&program).unwrap();
        shell("test -x \"$1\"");
        assert!(!opens.any().unwrap());
        shell("\"$1\"");
        assert!(opens.any().unwrap());
    }

    #[test]
    fn what_is_not_there_is_an_error_with_its_name() {
        let error = OpenWatch::of(Path::new("/nonexistent/file")).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOENT));
        assert!(error.to_string().contains("/nonexistent/file"), "{error}");
    }
}
