//! Lets this thread run soon after it wakes.
//!
//! [`RealtimeBoost`] puts it ahead of ordinary processes (`sched_setscheduler(2)`, `SCHED_RR`). Needs CAP_SYS_NICE
//! or RLIMIT_RTPRIO; without either nothing changes. Children do not inherit it (`SCHED_RESET_ON_FORK`). The
//! kernel always reserves a part of each second for other processes (`sched_rt_runtime_us`). Overhead: three
//! calls.
//!
//! [`shorten_slice`] needs no right (`sched_setattr(2)`). A thread that asks for short slices gets them earlier
//! (Linux 6.12, kernel/sched/fair.c: `PREEMPT_SHORT`). Older kernels ignore it.

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

/// The shortest slice that the kernel gives (kernel/sched/fair.c: 0.1 to 100 ms), in nanoseconds.
const SHORTEST_SLICE: u64 = 100_000;

/// `struct sched_attr` of Linux 3.14 (include/uapi/linux/sched/types.h).
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Asks for the shortest slices for this thread, if it is an ordinary one. Children inherit them.
pub fn shorten_slice() {
    let Some(mut attr) = attributes() else { return };
    if attr.policy != libc::SCHED_OTHER.cast_unsigned() {
        return;
    }
    attr.runtime = SHORTEST_SLICE;
    // SAFETY: reads the live `attr`, whose size is in it; 0 means this thread, and no flags.
    let _ignored_if_refused =
        unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
}

fn attributes() -> Option<SchedAttr> {
    let mut attr = SchedAttr::default();
    let size = size_of::<SchedAttr>();
    // SAFETY: writes at most `size` bytes to the live `attr`; 0 means this thread, and no flags.
    let done = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0) };
    (done == 0).then_some(attr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_slice_changes_nothing_else() {
        let of = |attr: SchedAttr| (attr.policy, attr.flags, attr.nice, attr.priority);
        std::thread::spawn(move || {
            let before = attributes().expect("Linux 3.14");
            shorten_slice();
            let after = attributes().expect("Linux 3.14");
            // Linux before 6.12 has no slices of a thread's own.
            assert!([before.runtime, SHORTEST_SLICE].contains(&after.runtime), "{}", after.runtime);
            assert_eq!(of(after), of(before));
        })
        .join()
        .expect("the thread ends");
    }

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
