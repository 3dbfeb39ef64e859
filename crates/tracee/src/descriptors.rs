//! Closes the descriptors that a forked helper inherited. A copy of the writing end of a pipe in the helper
//! would keep the reader of that pipe from seeing end of file.
//!
//! Uses `close_range(2)` (Linux 5.9) if available, else closes each descriptor listed in /proc/self/fd.
//! Async-signal-safe: neither allocates nor locks, for use between `fork` and `_exit`.

use rustix::fs::{Mode, OFlags, RawDir};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Closes every descriptor of this process except `kept`, given in any order.
pub(crate) fn close_all_but(kept: [BorrowedFd<'_>; 2]) {
    let [a, b] = kept.map(|fd| fd.as_raw_fd().unsigned_abs());
    let (low, high) = (a.min(b), a.max(b));
    let between =
        [(0, low.checked_sub(1)), (low + 1, high.checked_sub(1)), (high + 1, Some(u32::MAX))];
    let ranges = between.into_iter().filter_map(|(first, last)| Some((first, last?)));
    let mut closed = true;
    for (first, last) in ranges.filter(|(first, last)| first <= last) {
        // SAFETY: this process only ever uses `kept`, which the ranges leave out.
        closed &= unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) } == 0;
    }
    if !closed {
        close_listed(kept.map(|fd| fd.as_raw_fd()));
    }
}

/// Closes the descriptors listed in /proc/self/fd, except `kept`.
fn close_listed(kept: [RawFd; 2]) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(list) = rustix::fs::open(c"/proc/self/fd", flags, Mode::empty()) else { return };
    let own = list.as_raw_fd();
    let mut buffer = [MaybeUninit::uninit(); 2048];
    let mut entries = RawDir::new(&list, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        if let Some(fd) = number(entry.file_name().to_bytes())
            && fd != own
            && !kept.contains(&fd)
        {
            // SAFETY: this process only ever uses `kept` and the list, which are left out.
            unsafe { libc::close(fd) };
        }
    }
}

/// Parses `name` as a number; `None` for `.` and `..`.
fn number(name: &[u8]) -> Option<RawFd> {
    std::str::from_utf8(name).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait;
    use rustix::event::{PollFd, PollFlags};
    use std::os::fd::AsFd;

    /// Whether a forked process that called `close` still holds the writing end of a pipe.
    fn hides_the_end_of_file(close: fn([BorrowedFd<'_>; 2])) -> bool {
        let pipe = || pagewise_kernel::pipe::pipe().unwrap();
        let ((said, say), (until, end), (reader, writer)) = (pipe(), pipe(), pipe());
        // SAFETY: the child only makes system calls and `_exit`s.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            close([say.as_fd(), until.as_fd()]);
            let _said = rustix::io::write(&say, b"x");
            let _end = rustix::io::read(&until, &mut [0]);
            // SAFETY: ends this forked process without running exit handlers of its parent.
            unsafe { libc::_exit(0) }
        }
        drop((say, writer));
        assert_eq!(rustix::io::read(&said, &mut [0]), Ok(1));
        let mut fds = [PollFd::new(&reader, PollFlags::IN)];
        wait::sleep(&mut fds, Some(pagewise_model::Nanos::secs(1)));
        drop(end);
        wait::kill(pid, libc::SIGKILL);
        wait::reap(pid).unwrap();
        let [fd] = fds;
        fd.revents().is_empty()
    }

    #[test]
    fn only_what_is_kept_stays_open_on_any_kernel() {
        assert!(!hides_the_end_of_file(close_all_but));
        assert!(!hides_the_end_of_file(|kept| close_listed(kept.map(|fd| fd.as_raw_fd()))));
        assert!(hides_the_end_of_file(|_| {}));
    }
}
