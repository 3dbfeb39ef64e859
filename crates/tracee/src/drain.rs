//! The reader behind a program whose output goes to a pipe: a forked process of ours that splices
//! the pipe to /dev/null.
//!
//! `splice(2)` hands the pages over without copying, so the drain costs little; where it is
//! refused the bytes are read. The drain is a process and not a thread so that its CPU time can
//! be told apart and it survives nothing: it dies with us and ends at end of file.

use crate::descriptors;
use crate::launch_error::LaunchError;
use crate::wait;
use pagewise_model::units::Nanos;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes asked for at once.
const CHUNK: usize = 1 << 20;

/// How long a drain may take once the program and all it started are gone: what is left for it is
/// the content of one pipe. Somebody outside may hold the writing end for ever.
const PATIENCE: Nanos = Nanos::secs(10);

/// A running drain.
#[derive(Debug)]
pub(crate) struct Drain {
    pid: i32,
    reaped: bool,
}

impl Drain {
    /// Forks a drain and returns it with the end the program writes to.
    pub(crate) fn start() -> Result<(Self, OwnedFd), LaunchError> {
        let failed = |call| move |e| LaunchError::errno(call, "for the drained output", e);
        let (from, to) = pagewise_kernel::pipe::pipe().map_err(|e| LaunchError::sys(&e))?;
        let null = rustix::fs::open(
            c"/dev/null",
            rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::CLOEXEC,
            rustix::fs::Mode::empty(),
        )
        .map_err(failed("open"))?;
        let parent = std::process::id();
        // SAFETY: the child runs `drain` alone, which neither allocates nor locks, and `_exit`s.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(LaunchError::call("fork", "a drain", &std::io::Error::last_os_error())),
            0 => drain(from.as_fd(), null.as_fd(), parent),
            _ => Ok((Self { pid, reaped: false }, to)),
        }
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    /// Ends it although somebody may still write; returns the CPU time it took.
    pub(crate) fn stop(mut self) -> Nanos {
        wait::kill(self.pid, libc::SIGKILL);
        self.reaped = true;
        wait::reap(self.pid).map_or(Nanos(0), |(_, usage)| wait::cpu_time(&usage))
    }

    /// Waits for end of file, but no longer than [`PATIENCE`] and until `stop` is readable.
    pub(crate) fn finish(self, stop: Option<BorrowedFd<'_>>) -> Nanos {
        if let Ok(pidfd) = pagewise_kernel::pidfd::open(self.pid) {
            let own = PollFd::new(&pidfd, PollFlags::IN);
            let stop = stop.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = [own].into_iter().chain(stop).collect();
            wait::sleep(&mut fds, Some(PATIENCE));
        }
        self.stop()
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        if !self.reaped {
            wait::kill(self.pid, libc::SIGKILL);
            let _gone = wait::reap(self.pid);
        }
    }
}

/// The life of the drain. Never returns.
fn drain(from: BorrowedFd<'_>, null: BorrowedFd<'_>, parent: u32) -> ! {
    if wait::die_with(parent).is_ok() {
        descriptors::close_all_but([from, null]);
        pump(from, null);
    }
    // SAFETY: ends this forked process without running exit handlers of its parent.
    unsafe { libc::_exit(0) }
}

fn pump(from: BorrowedFd<'_>, null: BorrowedFd<'_>) {
    let flags = rustix::pipe::SpliceFlags::MOVE;
    loop {
        match rustix::pipe::splice(from, None, null, None, CHUNK, flags) {
            Ok(0) => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return pump_by_read(from),
        }
    }
}

fn pump_by_read(from: BorrowedFd<'_>) {
    let mut buffer = [0_u8; 1 << 16];
    loop {
        match rustix::io::read(from, &mut buffer) {
            Ok(0) => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_ends_with_the_pipe_or_when_told() {
        // Half of `PATIENCE`: this is about waiting in vain, not about speed.
        let is_soon = |begin: Instant| begin.elapsed() < Duration::from_secs(5);
        let (ended, end) = Drain::start().unwrap();
        drop(end);
        let begin = Instant::now();
        ended.finish(None);
        assert!(is_soon(begin), "it does not end with the pipe");
        let (told, held) = Drain::start().unwrap();
        let (stop, _) = pagewise_kernel::pipe::pipe().unwrap();
        let begin = Instant::now();
        told.finish(Some(stop.as_fd()));
        assert!(is_soon(begin), "it does not end when told");
        drop(held);
    }
}
