//! How much CPU time other processes use right now.
//!
//! [`schedstat`] gives the run time of each thread in nanoseconds. Two readings around a short sleep give the
//! share. The kernel updates the figure of a running thread at its tick (1 to 10 ms), so a share is accurate
//! to a few percent of a CPU. Not seen: processes that end during the watch, and those hidden from this
//! account (`hidepid`). Absent without CONFIG_SCHED_INFO.
//!
//! Overhead: about 10 us per thread on the machine, twice, and the sleep.

use crate::clock::now;
use crate::proc::{own_pid, schedstat, tree};
use std::collections::HashMap;
use std::time::Duration;

type RunTimes = HashMap<i32, u64>;

/// CPU time of other processes during `watch`, in CPUs; `None` if the kernel does not count it.
pub(super) fn others_share(watch: Duration) -> Option<f64> {
    let (start, before) = (now(), run_times()?);
    std::thread::sleep(watch);
    let (end, after) = (now(), run_times()?);
    let wall = end.0.saturating_sub(start.0).max(1);
    Some(ran(&before, &after) as f64 / wall as f64)
}

/// Nanoseconds that the threads of `after` ran since `before`. New threads count in full.
fn ran(before: &RunTimes, after: &RunTimes) -> u64 {
    let grown =
        |(tid, time): (&i32, &u64)| time.saturating_sub(before.get(tid).copied().unwrap_or(0));
    after.iter().map(grown).fold(0, u64::saturating_add)
}

fn run_times() -> Option<RunTimes> {
    let own = own_pid();
    let mut times = RunTimes::new();
    for pid in tree::all().ok()?.into_iter().filter(|&pid| pid != own) {
        // A process that has just ended has no threads left.
        for tid in tree::threads(pid).unwrap_or_default() {
            times.extend(schedstat::read(tid).map(|stat| (tid, stat.ran.0)));
        }
    }
    (!times.is_empty()).then_some(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_and_new_threads() {
        let before = RunTimes::from([(1, 100), (2, 50), (3, 7)]);
        let after = RunTimes::from([(1, 130), (2, 50), (4, 9)]);
        assert_eq!(ran(&before, &after), 39);
    }
}
