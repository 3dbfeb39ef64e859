//! A short time ahead of ordinary processes (`sched_setscheduler(2)`, `SCHED_RR`).
//!
//! Needs CAP_SYS_NICE, or RLIMIT_RTPRIO; without either nothing changes. Children do not inherit it
//! (`SCHED_RESET_ON_FORK`). The kernel leaves other processes a part of each second whatever we do
//! (`sched_rt_runtime_us`). Overhead: three calls.

/// The lowest of the priorities that go before ordinary processes.
const LOWEST: libc::c_int = 1;

/// This thread goes before ordinary processes until this is dropped.
#[derive(Debug)]
pub struct Ahead {
    /// Policy and priority.
    before: Option<(libc::c_int, libc::c_int)>,
}

impl Ahead {
    /// From now on, where that is allowed.
    #[must_use]
    pub fn of_ordinary_processes() -> Self {
        let policy = policy();
        let is_set =
            policy == libc::SCHED_OTHER && set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, LOWEST);
        // An ordinary thread has no other priority than 0.
        Self { before: is_set.then_some((policy, 0)) }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some((policy, priority)) = self.before {
            set(policy, priority);
        }
    }
}

/// The policy of this thread. A call of the kernel: musl's function fails, because POSIX means all threads by it.
fn policy() -> libc::c_int {
    // SAFETY: reads the policy of this thread (0); touches no memory.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    libc::c_int::try_from(policy).unwrap_or(-1)
}

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    // The kernel's `sched_param` is this number; a C library's may be longer.
    // SAFETY: reads the live `priority`; 0 is this thread.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_setscheduler, 0, policy, &raw const priority) };
    done == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_when_dropped() {
        let before = policy();
        let ahead = Ahead::of_ordinary_processes();
        let is_ahead = policy() != before;
        assert_eq!(is_ahead, ahead.before.is_some());
        drop(ahead);
        assert_eq!(policy(), before);
    }
}
