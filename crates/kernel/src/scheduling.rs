//! A short time ahead of ordinary processes (`sched_setscheduler(2)`, `SCHED_RR`).
//!
//! Needs CAP_SYS_NICE, or RLIMIT_RTPRIO; without either nothing changes. Children do not inherit it
//! (`SCHED_RESET_ON_FORK`). The kernel leaves other processes a part of each second whatever we do
//! (`sched_rt_runtime_us`). Overhead: three calls.

use std::ptr;

/// The lowest of the priorities that go before ordinary processes.
const LOWEST: libc::c_int = 1;

/// This thread goes before ordinary processes until this is dropped.
#[derive(Debug)]
pub struct Ahead {
    before: Option<(libc::c_int, libc::sched_param)>,
}

impl Ahead {
    /// From now on, where that is allowed.
    #[must_use]
    pub fn of_ordinary_processes() -> Self {
        // SAFETY: reads the policy of this thread; touches no memory.
        let policy = unsafe { libc::sched_getscheduler(0) };
        // SAFETY: a sched_param is plain integers, for which all zeroes is a value.
        let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
        // SAFETY: writes into the live `param`.
        let known = unsafe { libc::sched_getparam(0, &raw mut param) } == 0;
        let is_ordinary = known && policy == libc::SCHED_OTHER;
        let is_set = is_ordinary && {
            let wanted = libc::sched_param { sched_priority: LOWEST };
            set(libc::SCHED_RR | libc::SCHED_RESET_ON_FORK, &wanted)
        };
        Self { before: is_set.then_some((policy, param)) }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some((policy, param)) = self.before {
            set(policy, &param);
        }
    }
}

fn set(policy: libc::c_int, param: &libc::sched_param) -> bool {
    // SAFETY: reads the live `param`; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, policy, ptr::from_ref(param)) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: reads the policy of this thread; touches no memory.
        unsafe { libc::sched_getscheduler(0) }
    }

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
