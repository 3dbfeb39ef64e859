//! Does a runnable thread run code of its own, or has it only just been woken from a call?
//!
//! A thread whose timeout is over is runnable before it has left its call. A stop at that moment
//! ends the call with EINTR and not with what the timeout gives, and issued again it would wait the
//! whole time once more. `/proc` calls such a thread running. The kernel's counts tell it from others:
//! each time that a thread gets a CPU is counted in `/proc/TID/schedstat`, and each time that it gives one
//! up in `/proc/TID/status`, by its own will (it waits) or not (it was preempted). So one that
//! - has got a CPU once more than it has given one up is on a CPU now, and long out of its call;
//! - has only been preempted since the last look goes on where it was when it was preempted.
//!
//! Kernels that do not count this (no CONFIG_SCHED_INFO) leave no choice but to believe `/proc`.

use pagewise_kernel::proc::{schedstat, status};
use std::collections::HashMap;

/// How often a thread has given up its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

/// What was seen of runnable threads at earlier looks.
#[derive(Debug, Default)]
pub(super) struct Looks(HashMap<i32, Switches>);

impl Looks {
    /// True where thread `tid`, which is runnable, runs code of its own; false where that is not
    /// known yet, and another look a moment later may tell.
    pub(super) fn runs_its_own_code(&mut self, tid: i32) -> bool {
        // In this order: what is read later can only be more.
        let arrivals = arrivals(tid);
        let Some((arrivals, now)) = arrivals.zip(switches(tid)) else { return true };
        let before = self.0.insert(tid, now);
        is_on_cpu(arrivals, now) || before.is_some_and(|before| was_preempted(before, now))
    }
}

const fn is_on_cpu(arrivals: u64, now: Switches) -> bool {
    arrivals > now.voluntary + now.involuntary
}

const fn was_preempted(before: Switches, now: Switches) -> bool {
    now.voluntary == before.voluntary && now.involuntary > before.involuntary
}

/// How often the thread has got a CPU; `None` where that is not counted.
fn arrivals(tid: i32) -> Option<u64> {
    schedstat::read(tid).map(|stat| stat.turns).filter(|&count| count > 0)
}

fn switches(tid: i32) -> Option<Switches> {
    let status = status::read(tid).ok()?;
    let (voluntary, involuntary) = status.voluntary_switches.zip(status.involuntary_switches)?;
    Some(Switches { voluntary, involuntary })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_thread_on_a_cpu_is_told_from_one_that_was_woken() {
        let counts = |voluntary, involuntary| Switches { voluntary, involuntary };
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
        let (tid, mut looks) = (told.recv().unwrap(), Looks::default());
        let begin = std::time::Instant::now();
        while !looks.runs_its_own_code(tid) {
            assert!(begin.elapsed().as_secs() < 30, "it is never seen to run");
            std::thread::sleep(std::time::Duration::from_micros(300));
        }
        DONE.store(true, Ordering::Relaxed);
        busy.join().unwrap();
    }
}
