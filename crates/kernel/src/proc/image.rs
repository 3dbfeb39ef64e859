//! Distinguishes a process or thread from a later one with the same number, and a program from the next one
//! that the same process executes.
//!
//! A number can be reused once its process has been waited for. The start time (`/proc/PID/stat`, in ticks of
//! 10 ms) then differs. An `exec` keeps number and start time. It creates a new address space, whose stack
//! has another address (with address space layout randomization), and usually another file (`/proc/PID/exe`).
//! If layouts are not random, a descriptor of `/proc/PID/pagemap` shows more: it stays with the address space
//! that it was opened on ([`Pagemap::is_there`](crate::pagemap::Pagemap::is_there)).
//!
//! Not seen: a number that is reused between the check and the call that follows.

use super::{pid_path, stat};
use crate::error::SysError;
use serde::{Deserialize, Serialize};
use std::os::unix::fs::MetadataExt;

/// Identity of a process or thread: its number and start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskIdentity {
    id: i32,
    start_ticks: u64,
}

impl TaskIdentity {
    /// The process or thread that has this number now.
    ///
    /// # Errors
    /// When no process or thread has it.
    pub fn of(id: i32) -> Result<Self, SysError> {
        Ok(Self { id, start_ticks: stat::read_thread(id)?.start_ticks })
    }

    /// Its number.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.id
    }

    /// Whether the number still belongs to it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        Self::of(self.id).is_ok_and(|now| now == *self)
    }
}

/// Identity of a program that a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageIdentity {
    birth: TaskIdentity,
    stack_start: u64,
    /// Device and inode.
    file: (u64, u64),
}

impl ImageIdentity {
    /// The program of process `pid`.
    ///
    /// # Errors
    /// When the process has ended, or this account may not examine it.
    pub fn of(pid: i32) -> Result<Self, SysError> {
        let path = pid_path(pid, "exe");
        let file = std::fs::metadata(&path).map_err(|e| SysError::new("stat", path, e))?;
        let stack_start = stat::read(pid)?.stack_start;
        Ok(Self { birth: TaskIdentity::of(pid)?, stack_start, file: (file.dev(), file.ino()) })
    }

    /// The process.
    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.birth.id
    }

    /// Whether the process still runs it.
    #[must_use]
    pub fn is_there(&self) -> bool {
        Self::of(self.pid()).is_ok_and(|now| now == *self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_size;
    use crate::pagemap::Pagemap;
    use crate::proc::{maps, own_pid};
    use std::io::Write;
    use std::process::{Command, Stdio};

    #[test]
    fn another_start_is_another_process() {
        let own = TaskIdentity::of(own_pid()).unwrap();
        assert!(own.is_there() && ImageIdentity::of(own_pid()).unwrap().is_there());
        let other = TaskIdentity { start_ticks: own.start_ticks + 1, ..own };
        assert!(!other.is_there() && TaskIdentity::of(i32::MAX).is_err());
    }

    #[test]
    fn a_process_that_executes_another_program_is_the_same_with_another_image() {
        let script = "echo; read go; exec sh -c 'echo; read go'";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        let pid = child.id().cast_signed();
        let mut out = child.stdout.take().unwrap();
        let mut step = || std::io::Read::read_exact(&mut out, &mut [0]).unwrap();
        step();
        let (birth, image) = (TaskIdentity::of(pid).unwrap(), ImageIdentity::of(pid).unwrap());
        let map = Pagemap::open(pid).unwrap();
        let address = maps::read(pid).unwrap()[0].start;
        assert_eq!(address % page_size::base().bytes(), 0);
        assert!(image.is_there() && map.is_there(address));
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        step();
        assert!(birth.is_there(), "exec keeps number and start");
        assert!(!image.is_there() && !map.is_there(address));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!birth.is_there());
    }
}
