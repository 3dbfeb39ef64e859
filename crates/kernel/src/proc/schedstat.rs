//! `/proc/PID/schedstat`: scheduler statistics of a thread.
//!
//! The file of a process shows its first thread, even after that has ended, until the process is reaped. See
//! `Documentation/scheduler/sched-stats.rst`. Absent without `CONFIG_SCHED_INFO`.

use super::{fields, number, pid_path, read_bytes};
use pagewise_model::Nanos;

/// The counts of one thread since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchedStat {
    /// Time on a CPU.
    pub ran: Nanos,
    /// Time in a run queue: ready to run while others had the CPU.
    pub delayed: Nanos,
    /// Number of times that it got a CPU.
    pub turns: u64,
}

/// Parses the counts in `text`; `None` if one is missing.
fn parse(text: &[u8]) -> Option<SchedStat> {
    let mut values = fields(text);
    let mut next = || number(values.next()?);
    Some(SchedStat { ran: Nanos(next()?), delayed: Nanos(next()?), turns: next()? })
}

/// The counts of thread `tid`, or of the first thread of a process; `None` if it has ended or is not counted.
#[must_use]
pub fn read(tid: i32) -> Option<SchedStat> {
    parse(&read_bytes(pid_path(tid, "schedstat")).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_numbers() {
        let stat = SchedStat { ran: Nanos(113_054), delayed: Nanos(311_066), turns: 2 };
        assert_eq!(parse(b"113054 311066 2\n"), Some(stat));
        assert_eq!((parse(b"113054"), parse(b"113054 311066\n")), (None, None));
        assert_eq!((parse(b"x"), parse(b"")), (None, None));
    }
}
