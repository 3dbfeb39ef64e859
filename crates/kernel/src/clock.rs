//! Time: the monotonic clock, CPU time, and the start of a process.
//!
//! Pid and start time together identify a process until the next boot: pids are reused.

use crate::error::SysError;
use crate::proc::stat;
use pagewise_model::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// `CLOCK_MONOTONIC` now. About 30 ns, through the vDSO.
#[must_use]
pub fn now() -> Nanos {
    read(ClockId::Monotonic)
}

/// CPU time of the calling thread. About 200 ns, a system call.
#[must_use]
pub fn thread_cpu() -> Nanos {
    read(ClockId::ThreadCPUTime)
}

/// Time since 1970, by `CLOCK_REALTIME`.
#[must_use]
pub fn unix_now() -> Nanos {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> Nanos {
    let time = clock_gettime(clock);
    nanos(time.tv_sec, time.tv_nsec)
}

fn nanos(secs: i64, nanos: i64) -> Nanos {
    Nanos(secs.unsigned_abs().saturating_mul(1_000_000_000).saturating_add(nanos.unsigned_abs()))
}

/// CPU time of all threads of process `pid` so far, including those that run right now. About 300 ns.
pub fn process_cpu(pid: i32) -> Result<Nanos, SysError> {
    let failed = |errno| {
        let error = std::io::Error::from_raw_os_error(errno);
        SysError::new("clock_getcpuclockid", format!("process {pid}"), error)
    };
    let mut clock = 0;
    // SAFETY: fills a live local integer.
    let refused = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
    if refused != 0 {
        return Err(failed(refused));
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills a live local timespec.
    if unsafe { libc::clock_gettime(clock, &raw mut time) } != 0 {
        // The process ended in between.
        return Err(failed(libc::ESRCH));
    }
    Ok(nanos(time.tv_sec, time.tv_nsec))
}

/// Seconds since midnight in the user's time zone (`localtime_r(3)`); `None` if the C library cannot tell.
#[must_use]
pub fn local_time_of_day() -> Option<u32> {
    let now = clock_gettime(ClockId::Realtime).tv_sec;
    // SAFETY: a tm is plain integers and a nullable pointer.
    let mut broken: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: reads a live time and fills a live local tm.
    let known = !unsafe { libc::localtime_r(&raw const now, &raw mut broken) }.is_null();
    let seconds = (broken.tm_hour * 60 + broken.tm_min) * 60 + broken.tm_sec;
    known.then_some(seconds).and_then(|seconds| u32::try_from(seconds).ok())
}

/// Ticks from boot to the start of process `pid`.
pub fn process_start(pid: i32) -> Result<u64, SysError> {
    stat::read(pid).map(|s| s.start_ticks)
}

/// Converts `count` clock ticks to time.
#[must_use]
pub const fn ticks(count: u64, per_second: u64) -> Nanos {
    match 1_000_000_000u64.checked_div(per_second) {
        Some(ns) => Nanos(count.saturating_mul(ns)),
        None => Nanos(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let before = now();
        assert!(now() >= before && before > Nanos(0));
        let cpu = thread_cpu();
        assert!(thread_cpu() >= cpu && cpu < now());
        assert!(process_start(crate::proc::own_pid()).unwrap() > 0);
    }

    #[test]
    fn a_process_has_a_clock_of_its_own() {
        let own = crate::proc::own_pid();
        let before = process_cpu(own).unwrap();
        let thread = thread_cpu();
        assert!(process_cpu(own).unwrap() >= before && before > Nanos(0) && thread > Nanos(0));
        // Above any possible process id (PID_MAX_LIMIT), but still valid in a clock id.
        assert!(process_cpu(1 << 23).is_err());
    }

    #[test]
    fn ticks_of_10_ms() {
        assert_eq!(ticks(3, 100), Nanos::millis(30));
        assert_eq!(ticks(3, 0), Nanos(0));
    }
}
