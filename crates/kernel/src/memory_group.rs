//! A temporary cgroup with a memory limit, for a child that is to run short of memory.
//!
//! It is created below this process's cgroup, or as near to it as the kernel permits. In version 2, a cgroup
//! with processes cannot give memory to children, so there it is created below the root (cgroup-v2.rst, "No
//! Internal Process Constraint"). It is empty when its child has ended, and is removed on drop. The next run
//! removes one that a killed run has left. Needs root, or a cgroup that was delegated to this account. Memory
//! beyond the limit is reclaimed: file pages are dropped, and a process without any is killed.

use crate::error::SysError;
use crate::limits::{self, CgroupFiles};
use crate::proc::own_pid;
use pagewise_model::Bytes;
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name prefix of these cgroups; the process id follows.
const NAME: &str = "pagewise-limited-";
/// How long a cgroup may stay non-empty after its last process was reaped.
const PATIENCE: Duration = Duration::from_millis(200);

/// The group, removed when dropped.
#[derive(Debug)]
pub struct MemoryCgroup {
    dir: PathBuf,
}

impl MemoryCgroup {
    /// Creates a cgroup whose processes may hold `limit` together.
    ///
    /// # Errors
    /// The error of the nearest cgroup, if none can be created.
    pub fn new(limit: Bytes) -> Result<Self, SysError> {
        let mut first = None;
        for (dir, files) in limits::memory_groups() {
            match Self::below(&dir, files, limit) {
                Ok(group) => return Ok(group),
                Err(error) => first = first.or(Some(error)),
            }
        }
        let none = || SysError::new("mkdir", "a memory cgroup", rustix::io::Errno::NODEV);
        Err(first.unwrap_or_else(none))
    }

    fn below(parent: &Path, files: CgroupFiles, limit: Bytes) -> Result<Self, SysError> {
        remove_left(parent);
        let dir = parent.join(format!("{NAME}{}", own_pid()));
        let failed = |call, path: &Path| {
            let subject = path.display().to_string();
            move |error: io::Error| SysError::new(call, subject, error)
        };
        fs::create_dir(&dir).map_err(failed("mkdir", &dir))?;
        let group = Self { dir };
        let control = group.dir.join(files.limit());
        fs::write(&control, limit.0.to_string()).map_err(failed("write", &control))?;
        Ok(group)
    }

    /// The file to which a process writes `0` to enter.
    #[must_use]
    pub fn entrance(&self) -> CString {
        CString::new(self.dir.join("cgroup.procs").as_os_str().as_bytes()).unwrap_or_default()
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        let step = PATIENCE / 20;
        for _ in 0..20 {
            if fs::remove_dir(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(step);
        }
    }
}

/// Removes cgroups of killed processes. The kernel refuses to remove one that is in use.
fn remove_left(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().as_bytes().starts_with(NAME.as_bytes())) {
        let _in_use = fs::remove_dir(entry.path());
    }
}

#[cfg(test)]
#[allow(clippy::print_stdout, reason = "a test says why it is skipped")]
mod tests {
    use super::*;
    use crate::worker::ForkedWorker;
    use rustix::fs::{Mode, OFlags};

    #[test]
    fn a_child_enters_and_the_group_is_gone_afterwards() {
        let group = match MemoryCgroup::new(Bytes::mib(64)) {
            Ok(group) => group,
            Err(error) => return println!("SKIP a_child_enters_and_the_group_is_gone: {error}"),
        };
        let (dir, entrance) = (group.dir.clone(), group.entrance());
        let worker = ForkedWorker::start(|_| {
            let file = rustix::fs::open(&*entrance, OFlags::WRONLY, Mode::empty())?;
            rustix::io::write(&file, b"0").map(|_| 0.0)
        });
        let worker = worker.unwrap();
        worker.ask(0).unwrap();
        let inside = fs::read_to_string(dir.join("cgroup.procs")).unwrap();
        assert_eq!(inside.lines().count(), 1);
        drop(worker);
        drop(group);
        assert!(!dir.exists());
    }

    #[test]
    fn what_a_killed_run_has_left_is_removed() {
        let parent = tempfile::tempdir().unwrap();
        let left = parent.path().join(format!("{NAME}1"));
        let other = parent.path().join("other");
        fs::create_dir(&left).unwrap();
        fs::create_dir(&other).unwrap();
        remove_left(parent.path());
        assert!(!left.exists() && other.exists());
    }
}
