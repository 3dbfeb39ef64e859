//! Whether a file was opened, by anybody, since a moment: `inotify(7)` on the file itself.
//!
//! `execve(2)` opens the file that it runs, so this sees programs that live for a moment only, and
//! through any name: the mark is on the inode. `stat(2)` of the file or of a link to it is no event.
//! Equal events that nobody has read yet are folded into one by the kernel, so there is a yes or no
//! and no count, and nothing piles up however often the file is opened.
//!
//! Not seen: who opened it, and whether to run or to read it. Overhead: two calls, and for each
//! opening of the file the comparison of one event. Takes one of the user's inotify instances
//! (`fs.inotify.max_user_instances`) while it lives.

use crate::error::SysError;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Room for the few events that a read gives.
const ROOM: usize = 256;

/// A mark on a file.
#[derive(Debug)]
pub struct Opens {
    events: OwnedFd,
}

impl Opens {
    /// Begins to look at `file`. The descriptor is closed at exec.
    ///
    /// # Errors
    /// When the user has no inotify instance left, or the file is not there.
    pub fn of(file: &Path) -> Result<Self, SysError> {
        let failed = |call| move |error| SysError::new(call, file.to_string_lossy(), error);
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)
            .map_err(failed("inotify_init1"))?;
        inotify::add_watch(&events, file, WatchFlags::OPEN).map_err(failed("inotify_add_watch"))?;
        Ok(Self { events })
    }

    /// Whether it was opened since the last time this was asked.
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
        let opens = Opens::of(&link).unwrap();
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
        // By a process of its own: while a file is open for writing it cannot be run.
        let shell = |script: &str| {
            let mut command = std::process::Command::new("sh");
            let status = command.args(["-c", script, "sh"]).arg(&program).status();
            assert!(status.unwrap().success(), "{script}");
        };
        shell("cp /bin/true \"$1\"");
        let opens = Opens::of(&program).unwrap();
        shell("test -x \"$1\"");
        assert!(!opens.any().unwrap());
        shell("\"$1\"");
        assert!(opens.any().unwrap());
    }

    #[test]
    fn what_is_not_there_is_an_error_with_its_name() {
        let error = Opens::of(Path::new("/nonexistent/file")).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENOENT));
        assert!(error.to_string().contains("/nonexistent/file"), "{error}");
    }
}
