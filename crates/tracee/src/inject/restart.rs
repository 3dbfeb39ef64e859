//! What a thread's registers must be so that it goes on as if nobody had stopped it.
//!
//! A system call that a stop interrupts comes back with one of the kernel's private error numbers
//! (`include/linux/errno.h`), which the signal code of `arch/x86/kernel/signal.c` would turn into a
//! restart on the way out. Who changes the registers in that stop must do the same by hand. Some
//! calls (`epoll_wait`, `sigtimedwait`, `recv` with a timeout) return a plain EINTR instead; where
//! no signal is pending only our interrupt can have caused it and the call is issued again. A
//! timeout then starts anew: late, never early. Pure.

use crate::ptrace::Regs;

const EINTR: i64 = -4;
const ERESTARTSYS: i64 = -512;
const ERESTARTNOINTR: i64 = -513;
const ERESTARTNOHAND: i64 = -514;
const ERESTART_RESTARTBLOCK: i64 = -516;

/// Number of `restart_syscall(2)`: a sleep that was interrupted before and goes on.
const RESTART_SYSCALL: i64 = libc::SYS_restart_syscall;
/// Length of the `syscall` instruction.
const SYSCALL_BYTES: u64 = 2;

/// What to do about a call that continues by its kernel-side restart block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sleep {
    /// Issue the call from its start: the restart block does not survive a signal frame.
    Anew,
    /// Continue it by `restart_syscall(2)`: the restart block is left alone.
    Continue,
}

/// The registers with which the thread goes on: unchanged unless it is in an interrupted call.
#[must_use]
pub fn resume(regs: &Regs, sleep: Sleep) -> Regs {
    let mut next = *regs;
    next.orig_rax = u64::MAX;
    if (regs.orig_rax as i64) < 0 {
        return next;
    }
    let number = match regs.rax as i64 {
        EINTR | ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND => regs.orig_rax,
        ERESTART_RESTARTBLOCK => match sleep {
            Sleep::Anew => regs.orig_rax,
            Sleep::Continue => RESTART_SYSCALL as u64,
        },
        _ => return next,
    };
    next.rip = regs.rip.wrapping_sub(SYSCALL_BYTES);
    next.rax = number;
    next
}

/// True when the thread stands at the end of a call that came back with a plain EINTR.
#[must_use]
pub fn is_plain_eintr(regs: &Regs) -> bool {
    (regs.orig_rax as i64) >= 0 && regs.rax as i64 == EINTR
}

/// True when the thread is in a sleep whose original call is known to the kernel alone.
#[must_use]
pub(super) fn is_continued_sleep(regs: &Regs) -> bool {
    regs.orig_rax as i64 == RESTART_SYSCALL && regs.rax as i64 == ERESTART_RESTARTBLOCK
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
            let next = resume(&regs(libc::SYS_read, ax), Sleep::Anew);
            assert_eq!((next.rip, next.rax), (0xffe, libc::SYS_read as u64));
            assert_eq!(next.orig_rax, u64::MAX);
        }
    }

    #[test]
    fn sleeps_start_anew_or_continue() {
        let asleep = regs(libc::SYS_nanosleep, ERESTART_RESTARTBLOCK);
        assert_eq!(resume(&asleep, Sleep::Anew).rax, libc::SYS_nanosleep as u64);
        assert_eq!(resume(&asleep, Sleep::Continue).rax, RESTART_SYSCALL as u64);
        assert!(is_continued_sleep(&regs(RESTART_SYSCALL, ERESTART_RESTARTBLOCK)));
        assert!(!is_continued_sleep(&asleep));
    }

    #[test]
    fn user_code_and_finished_calls_are_left_alone() {
        for (orig, ax) in [(-1, EINTR), (-1, 5), (libc::SYS_read, 5), (libc::SYS_read, -9)] {
            let next = resume(&regs(orig, ax), Sleep::Anew);
            assert_eq!((next.rip, next.rax as i64), (0x1000, ax));
        }
        assert!(is_plain_eintr(&regs(libc::SYS_epoll_wait, EINTR)));
        assert!(!is_plain_eintr(&regs(-1, EINTR)));
    }
}
