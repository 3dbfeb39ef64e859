//! `/proc/PID/schedstat`: how long a thread was ready to run while others had the CPU.
//!
//! Three numbers: nanoseconds on a CPU, nanoseconds in a run queue, and how often it got a CPU. The file of a
//! process tells of its first thread, also when that has ended and nobody waited for it. See
//! `Documentation/scheduler/sched-stats.rst`. Absent without `CONFIG_SCHED_INFO`.

use super::{fields, number, pid_path, read_bytes};
use pagewise_model::Nanos;

/// The second number of `text`.
fn parse(text: &[u8]) -> Option<Nanos> {
    number(fields(text).nth(1)?).map(Nanos)
}

/// Of the first thread of `pid`; `None` where it is gone.
#[must_use]
pub fn read(pid: i32) -> Option<Nanos> {
    parse(&read_bytes(pid_path(pid, "schedstat")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number() {
        assert_eq!(parse(b"113054 311066 2\n"), Some(Nanos(311_066)));
        assert_eq!((parse(b"113054"), parse(b"")), (None, None));
    }
}
