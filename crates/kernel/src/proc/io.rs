//! `/proc/PID/io`: bytes and calls of a process, with those of its reaped children.
//!
//! `rchar` and `wchar` count bytes through read and write calls, whatever the target; splice counts in
//! neither. `read_bytes` and `write_bytes` are storage. The parent can still read a zombie's file, which then
//! holds the totals of its life.

use super::{lines, named, number, pid_path, read_bytes};
use crate::error::SysError;
use pagewise_model::Bytes;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounters {
    /// Bytes read by calls.
    pub read_chars: Bytes,
    /// Bytes written by calls.
    pub write_chars: Bytes,
    pub read_calls: u64,
    pub write_calls: u64,
    /// Bytes fetched from storage.
    pub storage_read: Bytes,
    /// Bytes sent towards storage.
    pub storage_written: Bytes,
}

/// Parses the counters in `text`; `None` if the first is missing.
#[must_use]
pub fn parse(text: &[u8]) -> Option<IoCounters> {
    let mut counters = IoCounters::default();
    let mut found = false;
    for (name, value) in lines(text).filter_map(named) {
        let Some(count) = number(value) else { continue };
        match name {
            b"rchar" => {
                counters.read_chars = Bytes(count);
                found = true;
            }
            b"wchar" => counters.write_chars = Bytes(count),
            b"syscr" => counters.read_calls = count,
            b"syscw" => counters.write_calls = count,
            b"read_bytes" => counters.storage_read = Bytes(count),
            b"write_bytes" => counters.storage_written = Bytes(count),
            _ => {}
        }
    }
    found.then_some(counters)
}

/// The counters of process `pid`. Needs the right to trace it.
pub fn read(pid: i32) -> Result<IoCounters, SysError> {
    let path = pid_path(pid, "io");
    let text = read_bytes(&path)?;
    parse(&text).ok_or_else(|| SysError::malformed("read", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recorded_io() {
        let io = parse(include_bytes!("../../../../fixtures/proc/x86_64-io")).unwrap();
        assert_eq!((io.read_chars, io.read_calls), (Bytes(6976), 10));
        assert_eq!(io.storage_read, Bytes(0));
        assert_eq!(parse(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
