//! A running process: found and observed until it ends, never stopped.
//!
//! A pidfd refers to it, so a reused number is never mistaken for it. A process that has been waited for has
//! no counters left.

use crate::wait;
use pagewise_kernel::proc::image::TaskIdentity;
use pagewise_kernel::proc::stat::{self, ProcessStat};
use pagewise_kernel::proc::{self, maps, status};
use pagewise_kernel::{SysError, clock, pidfd};
use pagewise_model::{Fact, Nanos};
use rustix::event::{PollFd, PollFlags};
use std::os::fd::{AsFd, OwnedFd};

/// How often the user's wish to stop is checked if no signal arrives.
const ASK_EVERY: Nanos = Nanos::millis(250);

/// Why a process cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// There is no such process, or it has ended.
    #[error("no process {0} is running")]
    Gone(i32),
    /// The number belongs to a thread.
    #[error("{tid} is a thread of process {pid}")]
    Thread { tid: i32, pid: i32 },
    /// A kernel thread, without memory.
    #[error("process {0} is a kernel thread, without memory")]
    Kernel(i32),
    /// This account may not observe it.
    #[error("process {0} may not be observed by this account")]
    NotAllowed(i32),
    /// It cannot be examined.
    #[error(transparent)]
    Sys(#[from] SysError),
}

/// A process that may be recorded.
#[derive(Debug)]
pub struct TargetProcess {
    pid: i32,
    pidfd: OwnedFd,
    start_ticks: u64,
    /// Program and arguments.
    command: Vec<String>,
}

impl TargetProcess {
    /// Looks up process `pid`.
    ///
    /// # Errors
    /// [`TargetError`] when there is nothing to record, or no permission.
    pub fn find(pid: i32) -> Result<Self, TargetError> {
        let or_gone = |error: SysError| match error.is_gone() {
            true => TargetError::Gone(pid),
            false => TargetError::Sys(error),
        };
        let status = status::read(pid).map_err(or_gone)?;
        if let Some(process) = status.tgid.filter(|process| *process != pid) {
            return Err(TargetError::Thread { tid: pid, pid: process });
        }
        let pidfd = pidfd::open(pid).map_err(or_gone)?;
        let stat = stat::read(pid).map_err(or_gone)?;
        if stat.is_zombie() {
            return Err(TargetError::Gone(pid));
        }
        if status.vm_size.is_none() {
            return Err(TargetError::Kernel(pid));
        }
        match maps::read(pid) {
            Err(error) if matches!(error.errno(), Some(libc::EACCES | libc::EPERM)) => {
                return Err(TargetError::NotAllowed(pid));
            }
            other => other.map_err(or_gone)?,
        };
        let target =
            Self { pid, pidfd, start_ticks: stat.start_ticks, command: command(pid, stat.comm) };
        if target.has_ended() { Err(TargetError::Gone(pid)) } else { Ok(target) }
    }

    #[must_use]
    pub const fn pid(&self) -> i32 {
        self.pid
    }

    /// Distinguishes it from a later process with the same number.
    ///
    /// # Errors
    /// When it has ended.
    pub fn birth(&self) -> Result<TaskIdentity, SysError> {
        // Until it has been waited for, its number cannot be reused.
        let birth = TaskIdentity::of(self.pid)?;
        if self.has_ended() {
            let subject = format!("process {}", self.pid);
            return Err(SysError::new("pidfd_open", subject, rustix::io::Errno::SRCH));
        }
        Ok(birth)
    }

    /// Program and arguments, as far as available.
    #[must_use]
    pub fn command(&self) -> &[String] {
        &self.command
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.wait(Nanos(0))
    }

    /// Waits for its end, for at most `timeout` or until a signal arrives. Returns whether it has ended.
    fn wait(&self, timeout: Nanos) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.pidfd.as_fd(), PollFlags::IN)];
        wait::sleep(&mut fds, Some(timeout));
        fds.iter().any(|fd| !fd.revents().is_empty())
    }

    /// Faults so far, of it and of the children it has waited for.
    pub(crate) fn counted(&self) -> Fact<u64> {
        self.stat().map(|stat| stat.faults_with_children())
    }

    /// Its counters; missing once it has been waited for.
    pub(crate) fn stat(&self) -> Fact<ProcessStat> {
        match stat::read(self.pid) {
            Ok(stat) if stat.start_ticks == self.start_ticks => Fact::Known(stat),
            _ => Fact::missing("the process has ended, and its counters with it"),
        }
    }

    /// Waits until it ends (true) or until `until` is over (false). Does not call `begun`.
    pub fn attend(&self, until: &RecordingCourse<'_>) -> bool {
        let start = clock::now();
        loop {
            let since = Nanos(clock::now().0.saturating_sub(start.0));
            let left = until.time.map(|time| Nanos(time.0.saturating_sub(since.0)));
            if (until.enough)() || left == Some(Nanos(0)) {
                return false;
            }
            if self.wait(left.unwrap_or(ASK_EVERY).min(ASK_EVERY)) {
                return true;
            }
        }
    }
}

fn command(pid: i32, name: String) -> Vec<String> {
    let mut words = proc::arguments(pid);
    // A program that has rewritten its title leaves empty words at the end.
    let count = words.iter().rposition(|word| !word.is_empty()).map_or(0, |last| last + 1);
    words.truncate(count);
    if words.is_empty() { vec![name] } else { words }
}

/// The course of a recording: a callback at its beginning, and conditions for its end if the process does not
/// end first.
pub struct RecordingCourse<'a> {
    /// Called with the number of followed threads, once all are followed.
    pub begun: &'a dyn Fn(u64),
    /// Ends after this time; `None` for no limit.
    pub time: Option<Nanos>,
    /// Ends when this returns true. Called after each signal, and four times a second.
    pub enough: &'a dyn Fn() -> bool,
}

impl std::fmt::Debug for RecordingCourse<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordingCourse").field("time", &self.time).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_recorded_is_named() {
        assert!(matches!(TargetProcess::find(i32::MAX), Err(TargetError::Gone(_))));
        let own = proc::own_pid();
        let target = TargetProcess::find(own).unwrap();
        assert!(!target.command().is_empty() && target.counted().known().is_some());
        // SAFETY: gettid has no preconditions.
        let tid = unsafe { libc::gettid() };
        if tid != own {
            let found = TargetProcess::find(tid);
            assert!(matches!(found, Err(TargetError::Thread { pid, .. }) if pid == own));
        }
        if stat::read(2).is_ok_and(|stat| stat.comm == "kthreadd") {
            assert!(matches!(TargetProcess::find(2), Err(TargetError::Kernel(2))));
        }
    }

    #[test]
    fn a_process_that_has_ended_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        while !stat::read(pid).unwrap().is_zombie() {
            std::thread::yield_now();
        }
        assert!(matches!(TargetProcess::find(pid), Err(TargetError::Gone(_))));
        child.wait().unwrap();
    }
}
