//! Threads that we asked to stop: waiting for the stop, and going on as if there had been none.

use super::TraceError;
use pagewise_tracee::inject;
use pagewise_tracee::ptrace::{Stop, request};
use std::time::Duration;

/// How often the stop of a running thread is looked for before the tree is served again.
const TRIES: u32 = 100;
/// Pause between two looks for it.
const PAUSE: Duration = Duration::from_micros(50);

/// The stop of a running thread that was just interrupted, if it comes at once. `None` also when
/// there is no such thread any more: another thread's exec ends it without a report.
pub(super) fn wait_briefly(tid: i32) -> Result<Option<Stop>, TraceError> {
    for _ in 0..TRIES {
        match request::wait(tid, false) {
            Ok(Some((_, stop))) => return Ok(Some(stop)),
            Ok(None) => std::thread::sleep(PAUSE),
            Err(error) if error.errno() == Some(libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// A call that came back with EINTR only because we interrupted it is issued again.
pub(super) fn reissue(tid: i32) {
    if let Ok(regs) = request::get_regs(tid)
        && inject::is_plain_eintr(&regs)
        && waits(regs.orig_rax as i64)
        && !inject::has_pending_signal(tid).unwrap_or(true)
    {
        // A thread that was killed in between reports its end by itself.
        let _gone = request::set_regs(tid, &inject::resume(&regs, inject::Sleep::Continue));
    }
}

/// True for calls that give a plain EINTR when a stop interrupts them (signal(7)) and have done
/// nothing then. Others with that result, such as `close`, may have taken effect.
const fn waits(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_io_getevents
            | libc::SYS_io_uring_enter
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_not_there_is_not_waited_for() {
        assert!(wait_briefly(std::process::id() as i32).unwrap().is_none());
    }

    #[test]
    fn only_waits_are_issued_again() {
        assert!(waits(libc::SYS_epoll_wait) && waits(libc::SYS_recvfrom));
        assert!(!waits(libc::SYS_close) && !waits(libc::SYS_connect));
    }
}
