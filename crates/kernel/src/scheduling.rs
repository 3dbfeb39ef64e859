//! Runs this thread ahead of ordinary processes for a short time (`sched_setscheduler(2)`, `SCHED_RR`).
//!
//! Needs CAP_SYS_NICE or RLIMIT_RTPRIO; without either nothing changes. Children do not inherit it
//! (`SCHED_RESET_ON_FORK`). The kernel always reserves a part of each second for other processes
//! (`sched_rt_runtime_us`). Overhead: three calls.

/// The lowest priority that precedes ordinary processes.
const LOWEST: libc::c_int = 1;

/// Keeps this thread ahead of ordinary processes until it is dropped.
#[derive(Debug)]
pub struct RealtimeBoost {
    /// Previous policy and priority; `None` if nothing was changed.
    before: Option<(libc::c_int, libc::c_int)>,
}

impl RealtimeBoost {
    /// Starts now, if permitted.
    #[must_use]
    pub fn of_ordinary_processes() -> Self {
        let policy = policy();
        let is_set =
            policy == libc::SCHED_OTHER && set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, LOWEST);
        // An ordinary thread always has priority 0.
        Self { before: is_set.then_some((policy, 0)) }
    }
}

impl Drop for RealtimeBoost {
    fn drop(&mut self) {
        if let Some((policy, priority)) = self.before {
            set(policy, priority);
        }
    }
}

/// The policy of this thread. Uses the system call: musl's function fails, because in POSIX it concerns all
/// threads.
fn policy() -> libc::c_int {
    // SAFETY: reads the policy of this thread (0); touches no memory.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    libc::c_int::try_from(policy).unwrap_or(-1)
}

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    // The kernel's `sched_param` is this number; a C library's may be longer.
    // SAFETY: reads the live `priority`; 0 means this thread.
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
        let ahead = RealtimeBoost::of_ordinary_processes();
        let is_ahead = policy() != before;
        assert_eq!(is_ahead, ahead.before.is_some());
        drop(ahead);
        assert_eq!(policy(), before);
    }
}
