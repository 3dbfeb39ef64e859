//! Computes the registers with which a stopped thread continues as if it had never been stopped.
//!
//! A system call that a stop interrupts returns one of the kernel's private error numbers
//! (`include/linux/errno.h`). The signal code of `arch/x86/kernel/signal.c` would turn it into a restart on
//! the way out. A tracer that changes the registers in that stop must do the same by hand. For calls with a
//! relative timeout (`nanosleep`, `poll`, `futex`), the kernel continues with the remaining time. That works
//! as long as no signal frame comes in between. Some calls (`epoll_wait`, `sigtimedwait`, `recv` with a
//! timeout) return a plain EINTR instead. If no signal is pending, only the tracer's interrupt can have
//! caused it, and the calls on a list are issued again. Their timeout, if any, then starts anew, so a thread
//! that is seen to wait in one is not stopped. Other calls keep their EINTR, because it may be their real end
//! (`close` has closed, `connect` continues by itself). All numbers here are those of the 64-bit table. Pure.

use crate::ptrace::Regs;

const EINTR: i64 = -4;
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// Number of `restart_syscall(2)`: continues a sleep that was interrupted.
const RESTART_SYSCALL: i64 = libc::SYS_restart_syscall;
/// Number of `io_pgetevents(2)` on x86-64.
const IO_PGETEVENTS: i64 = 333;
/// Length of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;
/// `IORING_ENTER_EXT_ARG`: the arguments of `io_uring_enter(2)` may include a timeout.
const EXTENDED_ARGUMENTS: u64 = 8;

/// What to do with a call that continues by the kernel's restart block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RestartMode {
    /// Issue the call from its start: the restart block does not survive a signal frame.
    Anew,
    /// Continue it by `restart_syscall(2)`: the restart block is left alone.
    Continue,
}

/// The registers to continue with; unchanged unless the thread is in an interrupted call.
#[must_use]
pub(super) fn resume(regs: &Regs, sleep: RestartMode) -> Regs {
    let mut next = *regs;
    next.orig_rax = u64::MAX;
    if (regs.orig_rax as i64) < 0 {
        return next;
    }
    let number = match regs.rax as i64 {
        ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => regs.orig_rax,
        EINTR if is_plain_eintr(regs) => regs.orig_rax,
        ERESTART_RESTARTBLOCK => match sleep {
            RestartMode::Anew => regs.orig_rax,
            RestartMode::Continue => RESTART_SYSCALL as u64,
        },
        _ => return next,
    };
    next.rip = regs.rip.wrapping_sub(SYSCALL_BYTES);
    next.rax = number;
    next
}

/// True if the thread is at the end of a call that returned a plain EINTR and may be issued again: the call
/// is on the list of those without effect in that case.
#[must_use]
pub(super) fn is_plain_eintr(regs: &Regs) -> bool {
    (regs.orig_rax as i64) >= 0 && regs.rax as i64 == EINTR && is_repeatable(regs.orig_rax as i64)
}

/// Effect of an interruption on a waiting call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InterruptHarm {
    /// No effect: it is issued again and continues to wait.
    None,
    /// No effect while the kernel continues its timeout; late if it is issued anew.
    LateAnew,
    /// It is late, fails, or takes effect twice.
    Wrong,
}

/// Effect of an interruption on call `number` with these arguments. Does not consider socket timeouts: see
/// [`descriptors`].
#[must_use]
pub(super) fn harm(number: i64, args: [u64; 6]) -> InterruptHarm {
    // A null pointer as a timeout means to wait for ever.
    let if_timed = |timed: bool, harm| if timed { harm } else { InterruptHarm::None };
    match number {
        libc::SYS_nanosleep | RESTART_SYSCALL => InterruptHarm::LateAnew,
        libc::SYS_clock_nanosleep => {
            if_timed(args[1] & libc::TIMER_ABSTIME as u64 == 0, InterruptHarm::LateAnew)
        }
        libc::SYS_poll => if_timed(args[2] as i32 >= 0, InterruptHarm::LateAnew),
        libc::SYS_futex => {
            let waits = args[1] as i32 & libc::FUTEX_CMD_MASK == libc::FUTEX_WAIT;
            if_timed(waits && args[3] != 0, InterruptHarm::LateAnew)
        }
        libc::SYS_epoll_wait | libc::SYS_epoll_pwait => {
            if_timed(args[3] as i32 >= 0, InterruptHarm::Wrong)
        }
        libc::SYS_epoll_pwait2 | libc::SYS_semtimedop => {
            if_timed(args[3] != 0, InterruptHarm::Wrong)
        }
        libc::SYS_rt_sigtimedwait => if_timed(args[2] != 0, InterruptHarm::Wrong),
        libc::SYS_io_getevents | IO_PGETEVENTS => if_timed(args[4] != 0, InterruptHarm::Wrong),
        libc::SYS_recvmmsg => if_timed(args[4] != 0, InterruptHarm::Wrong),
        libc::SYS_io_uring_enter => {
            if_timed(args[3] & EXTENDED_ARGUMENTS != 0, InterruptHarm::Wrong)
        }
        // These write the remaining time to their timeout: the time of the stop would be added.
        libc::SYS_select | libc::SYS_pselect6 => if_timed(args[4] != 0, InterruptHarm::Wrong),
        libc::SYS_ppoll => if_timed(args[2] != 0, InterruptHarm::Wrong),
        libc::SYS_close | libc::SYS_connect | libc::SYS_ioctl => InterruptHarm::Wrong,
        _ => InterruptHarm::None,
    }
}

/// Harm that the interruption did to the current call of a stopped thread, as far as it can be repaired.
/// [`InterruptHarm::LateAnew`] is repaired by letting the kernel continue the call, anything else by issuing it again.
#[must_use]
pub(super) fn harm_done(regs: &Regs) -> InterruptHarm {
    let args = [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9];
    match regs.rax as i64 {
        // The thread is returning to a sleep that was interrupted before, or has this number by chance. A
        // signal frame would end the sleep with EINTR.
        RESTART_SYSCALL => InterruptHarm::LateAnew,
        _ if (regs.orig_rax as i64) < 0 => InterruptHarm::None,
        ERESTART_RESTARTBLOCK => harm(regs.orig_rax as i64, args),
        _ => InterruptHarm::None,
    }
}

/// The descriptors that call `number` waits on. If one is a socket with a timeout (`SO_RCVTIMEO`,
/// `SO_SNDTIMEO`), the call returns a plain EINTR and its timeout starts anew.
#[must_use]
pub(super) fn descriptors(number: i64, args: [u64; 6]) -> Vec<i32> {
    let at = |indices: &[usize]| indices.iter().map(|&index| args[index] as i32).collect();
    match number {
        libc::SYS_sendfile => at(&[0, 1]),
        libc::SYS_splice => at(&[0, 2]),
        libc::SYS_read
        | libc::SYS_readv
        | libc::SYS_write
        | libc::SYS_writev
        | libc::SYS_recvfrom
        | libc::SYS_recvmsg
        | libc::SYS_recvmmsg
        | libc::SYS_sendto
        | libc::SYS_sendmsg
        | libc::SYS_sendmmsg
        | libc::SYS_accept
        | libc::SYS_accept4 => at(&[0]),
        _ => Vec::new(),
    }
}

/// Calls that have had no effect when they return a plain EINTR.
const fn is_repeatable(number: i64) -> bool {
    matches!(
        number,
        libc::SYS_epoll_wait
            | libc::SYS_epoll_pwait
            | libc::SYS_epoll_pwait2
            | libc::SYS_semop
            | libc::SYS_semtimedop
            | libc::SYS_rt_sigtimedwait
            | libc::SYS_io_getevents
            | IO_PGETEVENTS
            | libc::SYS_read
            | libc::SYS_readv
            | libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_recvfrom
            | libc::SYS_recvmsg
            | libc::SYS_recvmmsg
            | libc::SYS_sendto
            | libc::SYS_sendmsg
            | libc::SYS_sendmmsg
            | libc::SYS_accept
            | libc::SYS_accept4
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_io_uring_enter
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regs(orig: i64, ax: i64) -> Regs {
        let mut regs = crate::ptrace::cleared();
        regs.rip = 0x1000;
        regs.orig_rax = orig as u64;
        regs.rax = ax as u64;
        regs
    }

    #[test]
    fn interrupted_calls_are_issued_again() {
        for ax in [EINTR, ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND] {
            let next = resume(&regs(libc::SYS_read, ax), RestartMode::Anew);
            assert_eq!((next.rip, next.rax), (0xffe, libc::SYS_read as u64));
            assert_eq!(next.orig_rax, u64::MAX);
        }
    }

    #[test]
    fn calls_that_may_have_had_their_effect_are_not_issued_again() {
        for number in [libc::SYS_close, libc::SYS_connect, libc::SYS_ioctl, libc::SYS_dup2] {
            let stopped = regs(number, EINTR);
            assert!(!is_plain_eintr(&stopped));
            let next = resume(&stopped, RestartMode::Anew);
            assert_eq!((next.rip, next.rax as i64), (0x1000, EINTR));
        }
    }

    #[test]
    fn sleeps_start_anew_or_continue() {
        let asleep = regs(libc::SYS_nanosleep, ERESTART_RESTARTBLOCK);
        assert_eq!(resume(&asleep, RestartMode::Anew).rax, libc::SYS_nanosleep as u64);
        assert_eq!(resume(&asleep, RestartMode::Continue).rax, RESTART_SYSCALL as u64);
        assert_eq!(harm_done(&asleep), InterruptHarm::LateAnew);
        let again = regs(RESTART_SYSCALL, ERESTART_RESTARTBLOCK);
        assert_eq!(harm_done(&again), InterruptHarm::LateAnew);
        for orig in [-1, libc::SYS_nanosleep] {
            let on_its_way_back = regs(orig, RESTART_SYSCALL);
            assert_eq!(harm_done(&on_its_way_back), InterruptHarm::LateAnew);
            assert_eq!(resume(&on_its_way_back, RestartMode::Continue).rip, 0x1000);
        }
    }

    #[test]
    fn waits_without_a_timeout_take_no_harm() {
        let forever = u64::MAX;
        assert_eq!(harm(libc::SYS_poll, [0, 0, forever, 0, 0, 0]), InterruptHarm::None);
        assert_eq!(harm(libc::SYS_poll, [0, 0, 1000, 0, 0, 0]), InterruptHarm::LateAnew);
        assert_eq!(harm(libc::SYS_epoll_wait, [0, 0, 0, forever, 0, 0]), InterruptHarm::None);
        assert_eq!(harm(libc::SYS_epoll_wait, [0, 0, 0, 1000, 0, 0]), InterruptHarm::Wrong);
        let private = libc::FUTEX_PRIVATE_FLAG as u64;
        assert_eq!(harm(libc::SYS_futex, [0, private, 0, 0, 0, 0]), InterruptHarm::None);
        assert_eq!(harm(libc::SYS_futex, [0, private, 0, 8, 0, 0]), InterruptHarm::LateAnew);
        assert_eq!(harm(libc::SYS_clock_nanosleep, [0, 1, 8, 0, 0, 0]), InterruptHarm::None);
        assert_eq!(harm(libc::SYS_close, [3, 0, 0, 0, 0, 0]), InterruptHarm::Wrong);
        assert_eq!(harm_done(&regs(libc::SYS_recvfrom, ERESTARTSYS)), InterruptHarm::None);
    }

    #[test]
    fn what_would_be_late_is_not_stopped() {
        let wrong = |number, args| assert_eq!(harm(number, args), InterruptHarm::Wrong, "{number}");
        wrong(libc::SYS_select, [0, 0, 0, 0, 8, 0]);
        wrong(libc::SYS_ppoll, [0, 0, 8, 0, 0, 0]);
        wrong(libc::SYS_recvmmsg, [3, 0, 1, 0, 8, 0]);
        wrong(libc::SYS_io_uring_enter, [3, 0, 1, 1 | EXTENDED_ARGUMENTS, 8, 0]);
        assert_eq!(harm(libc::SYS_select, [0; 6]), InterruptHarm::None);
        assert_eq!(descriptors(libc::SYS_recvfrom, [7, 0, 1, 0, 0, 0]), [7]);
        assert_eq!(descriptors(libc::SYS_splice, [5, 0, 6, 0, 1, 0]), [5, 6]);
        assert!(descriptors(libc::SYS_nanosleep, [7, 0, 0, 0, 0, 0]).is_empty());
    }

    #[test]
    fn user_code_and_finished_calls_are_left_alone() {
        for (orig, ax) in [(-1, EINTR), (-1, 5), (libc::SYS_read, 5), (libc::SYS_read, -9)] {
            let next = resume(&regs(orig, ax), RestartMode::Anew);
            assert_eq!((next.rip, next.rax as i64), (0x1000, ax));
        }
        assert!(is_plain_eintr(&regs(libc::SYS_epoll_wait, EINTR)));
        assert!(!is_plain_eintr(&regs(-1, EINTR)));
    }
}
