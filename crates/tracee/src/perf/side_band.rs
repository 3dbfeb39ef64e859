//! Decodes records other than samples: mappings, names, forks, exits and losses. Pure functions on bytes.
//!
//! Each of these records ends with a trailer of thread, time and event number (perf_event_open(2),
//! `sample_id_all`). Records of a thread's second event are skipped (`streams`).

use super::streams::EventStreams;
use super::words::{halves, word};
use pagewise_kernel::perf::bindings as b;
use pagewise_model::fault::event::{FileId, MapEvent};
use pagewise_model::{Bytes, Nanos};

/// Size of the trailer: thread, time, number of the event.
const TRAILER_BYTES: usize = 24;

/// Content of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SideBand {
    Map(MapEvent),
    /// A thread has this name. With `is_exec`, its process has executed another program.
    Name {
        pid: i32,
        tid: i32,
        name: String,
        is_exec: bool,
    },
    Fork {
        pid: i32,
        parent_pid: i32,
    },
    Exit {
        pid: i32,
        tid: i32,
    },
    /// The kernel has dropped this many records.
    Lost(u64),
}

/// Content and time of a record of type `record`; `None` for unknown types.
pub(super) fn read<K: Copy>(
    record: u32,
    misc: u16,
    body: &[u8],
    streams: &mut EventStreams<K>,
) -> Option<(Nanos, SideBand)> {
    let trailer = body.len().checked_sub(TRAILER_BYTES)?;
    let (about, id) = (halves(word(body, trailer)?).1, word(body, trailer + 16)?);
    let at_ns = Nanos(word(body, trailer + 8)?);
    let is_loss = matches!(record, b::PERF_RECORD_LOST | b::PERF_RECORD_LOST_SAMPLES);
    if !is_loss && !streams.accepts(id, about) {
        return None;
    }
    let body = &body[..trailer];
    let told = match record {
        b::PERF_RECORD_MMAP2 => SideBand::Map(mapping(body)?),
        b::PERF_RECORD_COMM => {
            let (pid, tid) = halves(word(body, 0)?);
            let is_exec = u32::from(misc) & b::PERF_RECORD_MISC_COMM_EXEC != 0;
            SideBand::Name { pid, tid, name: name(body, 8)?, is_exec }
        }
        b::PERF_RECORD_FORK if streams.tells_forks(id) => {
            let (pid, parent_pid) = halves(word(body, 0)?);
            SideBand::Fork { pid, parent_pid }
        }
        b::PERF_RECORD_EXIT => {
            let (pid, tid) = (halves(word(body, 0)?).0, halves(word(body, 8)?).0);
            streams.forget(tid);
            SideBand::Exit { pid, tid }
        }
        b::PERF_RECORD_LOST => SideBand::Lost(word(body, 8)?),
        b::PERF_RECORD_LOST_SAMPLES => SideBand::Lost(word(body, 0)?),
        // The number of dropped records is not reported: at least one.
        b::PERF_RECORD_THROTTLE => SideBand::Lost(1),
        _ => return None,
    };
    Some((at_ns, told))
}

/// A mapping: pid and tid, start, length, offset, device, inode, generation, protection and flags, name.
#[must_use]
pub fn mapping(body: &[u8]) -> Option<MapEvent> {
    let (protection, flags) = halves(word(body, 56)?);
    let (major, minor) = halves(word(body, 32)?);
    let id = |inode| FileId { major: major as u32, minor: minor as u32, inode };
    Some(MapEvent {
        pid: halves(word(body, 0)?).0,
        start_address: word(body, 8)?,
        size_bytes: Bytes(word(body, 16)?),
        offset_bytes: Bytes(word(body, 24)?),
        is_executable: protection & libc::PROT_EXEC != 0,
        is_shared: flags & libc::MAP_SHARED != 0,
        path: name(body, 64)?,
        file: Some(word(body, 40)?).filter(|inode| *inode != 0).map(id),
    })
}

/// The text from byte `at` up to the next zero byte.
#[must_use]
pub fn name(body: &[u8], at: usize) -> Option<String> {
    let text = body.get(at..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}
