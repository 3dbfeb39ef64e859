//! Facts made up for tests (feature `constructed`), each the least that it can be: tests name what
//! matters to them and take the rest from here with `..`.

use crate::units::{Bytes, Nanos};
use crate::usage::{Ended, Usage};

/// A run that used nothing and ended well, where `/proc/PID/io` could not be read.
#[must_use]
pub const fn usage() -> Usage {
    Usage {
        wall_ns: Nanos(0),
        user_ns: Nanos(0),
        sys_ns: Nanos(0),
        peak_rss_bytes: Bytes(0),
        minor_faults: 0,
        major_faults: 0,
        voluntary_switches: 0,
        involuntary_switches: 0,
        read_bytes: None,
        written_bytes: None,
        read_calls: None,
        write_calls: None,
        device_read_bytes: None,
        ended: Ended::Exited(0),
    }
}
