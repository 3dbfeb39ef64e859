//! Distinguishes a runnable thread that runs its own code from one that was just woken from a call.
//!
//! A thread whose timeout has expired becomes runnable before it leaves its call. A stop at that moment ends
//! the call with EINTR instead of its timeout result, and issued again it would wait the whole time once
//! more. `/proc` calls such a thread running. The kernel's counters distinguish it. `/proc/TID/schedstat`
//! counts each time that a thread gets a CPU. `/proc/TID/status` counts each time that it gives one up,
//! voluntarily (it waits) or not (it was preempted). So a thread that
//! - has got a CPU once more than it has given one up is on a CPU now, and long out of its call;
//! - has only been preempted since the last look continues where it was when it was preempted.
//!
//! On kernels without these counters (no CONFIG_SCHED_INFO), `/proc` is believed.

use pagewise_kernel::proc::{schedstat, status};
use std::collections::HashMap;

/// How often a thread has given up its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ContextSwitches {
    voluntary: u64,
    involuntary: u64,
}

/// What earlier looks saw of runnable threads.
#[derive(Debug, Default)]
pub(super) struct RunnableHistory(HashMap<i32, ContextSwitches>);

impl RunnableHistory {
    /// True if runnable thread `tid` runs its own code. False if that is not known yet; another look a moment
    /// later may show it.
    pub(super) fn runs_its_own_code(&mut self, tid: i32) -> bool {
        // In this order: the counter that is read later can only be too high.
        let arrivals = arrivals(tid);
        let Some((arrivals, now)) = arrivals.zip(switches(tid)) else { return true };
        let before = self.0.insert(tid, now);
        is_on_cpu(arrivals, now) || before.is_some_and(|before| was_preempted(before, now))
    }
}

const fn is_on_cpu(arrivals: u64, now: ContextSwitches) -> bool {
    arrivals > now.voluntary + now.involuntary
}

const fn was_preempted(before: ContextSwitches, now: ContextSwitches) -> bool {
    now.voluntary == before.voluntary && now.involuntary > before.involuntary
}

/// How often the thread has got a CPU; `None` if the kernel does not count it.
fn arrivals(tid: i32) -> Option<u64> {
    schedstat::read(tid).map(|stat| stat.turns).filter(|&count| count > 0)
}

fn switches(tid: i32) -> Option<ContextSwitches> {
    let status = status::read(tid).ok()?;
    let (voluntary, involuntary) = status.voluntary_switches.zip(status.involuntary_switches)?;
    Some(ContextSwitches { voluntary, involuntary })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_on_a_cpu_is_told_from_one_that_was_woken() {
        let counts = |voluntary, involuntary| ContextSwitches { voluntary, involuntary };
        assert!(is_on_cpu(6, counts(3, 2)));
        assert!(!is_on_cpu(5, counts(3, 2)), "asleep, woken or preempted");
        assert!(was_preempted(counts(3, 2), counts(3, 4)));
        assert!(!was_preempted(counts(3, 2), counts(4, 3)), "it has waited since");
        assert!(!was_preempted(counts(3, 2), counts(3, 2)), "it has not run since");
    }

    #[test]
    fn a_thread_that_computes_is_soon_known_to() {
        static DONE: AtomicBool = AtomicBool::new(false);
        let (tell, told) = std::sync::mpsc::channel();
        let busy = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            while !DONE.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let (tid, mut looks) = (told.recv().unwrap(), RunnableHistory::default());
        let begin = std::time::Instant::now();
        while !looks.runs_its_own_code(tid) {
            assert!(begin.elapsed().as_secs() < 30, "it is never seen to run");
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        DONE.store(true, Ordering::Relaxed);
        busy.join().unwrap();
    }
}
