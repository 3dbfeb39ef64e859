//! The reader of a program's output pipe: a forked process that splices the pipe to /dev/null, or to a file
//! that keeps the output.
//!
//! `splice(2)` moves the pages without copying, so the drain costs little. Where splice is refused, the drain
//! reads the bytes. The drain is a process, not a thread, so that its CPU time is counted apart. It dies with
//! this process and ends at end of file.

use crate::descriptors;
use crate::launch_error::LaunchError;
use crate::wait;
use pagewise_model::units::Nanos;
use pagewise_model::usage::ProgramEnd;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Bytes asked for at once.
const CHUNK: usize = 1 << 20;

/// How long a drain may run after the program and all that it started have ended. By then only the content of
/// one pipe is left. An unrelated process may hold the writing end open for ever.
const PATIENCE: Nanos = Nanos::secs(10);

/// A running drain.
#[derive(Debug)]
pub(crate) struct OutputDrain {
    pid: i32,
    reaped: bool,
}

impl OutputDrain {
    /// Forks a drain that forwards everything to `into`. Also returns the pipe end that the program writes
    /// to.
    pub(crate) fn start(into: &OwnedFd) -> Result<(Self, OwnedFd), LaunchError> {
        let (from, to) = pagewise_kernel::pipe::pipe().map_err(|e| LaunchError::sys(&e))?;
        let parent = std::process::id();
        // SAFETY: the child only runs `drain`, which neither allocates nor locks, and `_exit`s.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => Err(LaunchError::call("fork", "a drain", &io::Error::last_os_error())),
            0 => drain(from.as_fd(), into.as_fd(), parent),
            _ => Ok((Self { pid, reaped: false }, to)),
        }
    }

    pub(crate) const fn pid(&self) -> i32 {
        self.pid
    }

    /// Waits for end of file, at most [`PATIENCE`] or until `stop` is readable. Then ends the drain, even if
    /// another process can still write. Returns the CPU time of the drain.
    ///
    /// # Errors
    /// When the output of the program could not be forwarded.
    pub(crate) fn finish(mut self, stop: Option<BorrowedFd<'_>>) -> Result<Nanos, LaunchError> {
        if let Ok(pidfd) = pagewise_kernel::pidfd::open(self.pid) {
            let own = PollFd::new(&pidfd, PollFlags::IN);
            let stop = stop.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
            let mut fds: Vec<PollFd<'_>> = [own].into_iter().chain(stop).collect();
            wait::sleep(&mut fds, Some(PATIENCE));
        }
        wait::kill(self.pid, libc::SIGKILL);
        self.reaped = true;
        let failed = |e: &io::Error| LaunchError::call("write", "the program's output", e);
        let (status, usage) = wait::reap(self.pid).map_err(|e| failed(&e))?;
        match wait::ended(status) {
            ProgramEnd::Exited(errno) if errno != 0 => {
                Err(failed(&io::Error::from_raw_os_error(errno)))
            }
            _ => Ok(wait::cpu_time(&usage)),
        }
    }
}

impl Drop for OutputDrain {
    fn drop(&mut self) {
        if !self.reaped {
            wait::kill(self.pid, libc::SIGKILL);
            let _gone = wait::reap(self.pid);
        }
    }
}

/// Runs the drain. Exits with the errno of its error, if any. Never returns.
fn drain(from: BorrowedFd<'_>, into: BorrowedFd<'_>, parent: u32) -> ! {
    let mut done = Ok(());
    if wait::die_with(parent).is_ok() {
        descriptors::close_all_but([from, into]);
        done = pump(from, into);
    }
    let status = done.err().map_or(0, Errno::raw_os_error);
    // SAFETY: ends this forked process without running exit handlers of its parent.
    unsafe { libc::_exit(status) }
}

fn pump(from: BorrowedFd<'_>, into: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = rustix::pipe::SpliceFlags::MOVE;
    loop {
        match rustix::pipe::splice(from, None, into, None, CHUNK, flags) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::INVAL) => return pump_by_read(from, into),
            Err(error) => return Err(error),
        }
    }
}

/// Used when the file does not support splice.
fn pump_by_read(from: BorrowedFd<'_>, into: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut buffer = [0_u8; 1 << 16];
    loop {
        let mut rest = match rustix::io::read(from, &mut buffer) {
            Ok(0) => return Ok(()),
            Ok(count) => &buffer[..count],
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error),
        };
        while !rest.is_empty() {
            match rustix::io::write(into, rest) {
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Write;
    use std::time::{Duration, Instant};

    fn null() -> OwnedFd {
        File::create("/dev/null").unwrap().into()
    }

    #[test]
    fn a_file_keeps_all_or_the_error_is_reported() {
        let words = b"page".repeat(100_000);
        let (kept, path) = tempfile::NamedTempFile::new().unwrap().into_parts();
        let (drain, end) = OutputDrain::start(&kept.into()).unwrap();
        File::from(end).write_all(&words).unwrap();
        drain.finish(None).unwrap();
        assert_eq!(std::fs::read(path).unwrap(), words);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (drain, end) = OutputDrain::start(&full.into()).unwrap();
        let _broken = File::from(end).write_all(b"x");
        let error = drain.finish(None).unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
    }

    #[test]
    fn it_ends_with_the_pipe_or_when_told() {
        // Half of `PATIENCE`: this tests for a wait in vain, not for speed.
        let is_soon = |begin: Instant| begin.elapsed() < Duration::from_secs(5);
        let null = null();
        let (ended, end) = OutputDrain::start(&null).unwrap();
        drop(end);
        let begin = Instant::now();
        ended.finish(None).unwrap();
        assert!(is_soon(begin), "it does not end with the pipe");
        let (told, held) = OutputDrain::start(&null).unwrap();
        let (stop, _) = pagewise_kernel::pipe::pipe().unwrap();
        let begin = Instant::now();
        told.finish(Some(stop.as_fd())).unwrap();
        assert!(is_soon(begin), "it does not end when told");
        drop(held);
    }
}
