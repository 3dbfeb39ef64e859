//! What a server used between two moments.

use super::server::Counts;
use pagewise_model::service::Side;
use pagewise_model::usage::{Ended, Usage};
use pagewise_model::{Bytes, Nanos};
use pagewise_observe::trace::Running;

/// Processes and counters around the windows of a look.
#[derive(Default)]
pub(super) struct Watched {
    pub(super) running: Running,
    pub(super) before: Counts,
    pub(super) after: Counts,
}

impl Watched {
    /// What the server used in the windows of `side`, as a run that took so long.
    pub(super) fn usage(&self, side: &Side) -> Usage {
        let (before, after) = (&self.before, &self.after);
        let since = |of: fn(&Counts) -> u64| of(after).saturating_sub(of(before));
        let bytes = |of: fn(&pagewise_kernel::proc::io::IoCounters) -> u64| {
            let both = before.io.as_ref().zip(after.io.as_ref())?;
            Some(of(both.1).saturating_sub(of(both.0)))
        };
        Usage {
            wall_ns: side.windows.iter().fold(Nanos(0), |sum, window| sum + window.wall_ns),
            user_ns: Nanos(since(|counts| counts.user.0)),
            sys_ns: Nanos(since(|counts| counts.system.0)),
            peak_rss_bytes: side.at_last.pss_bytes,
            minor_faults: since(|counts| counts.minor_faults),
            major_faults: since(|counts| counts.major_faults),
            voluntary_switches: 0,
            involuntary_switches: 0,
            read_bytes: bytes(|io| io.read_chars.0).map(Bytes),
            written_bytes: bytes(|io| io.write_chars.0).map(Bytes),
            read_calls: bytes(|io| io.read_calls),
            write_calls: bytes(|io| io.write_calls),
            device_read_bytes: bytes(|io| io.storage_read.0).map(Bytes),
            speed: None,
            ended: Ended::Exited(0),
        }
    }
}
