//! Follows a running process without stopping it.
//!
//! Every thread gets its own events. Threads made meanwhile inherit them from a thread that has some, or are
//! found by listing again, until a listing shows nothing new. A thread that was found and has also inherited
//! is counted once (`streams`).
//!
//! The process is not stopped, traced or written to. perf_event_open(2) requires the right to read it
//! (`PTRACE_MODE_READ_REALCREDS`), which `ptrace_scope` does not restrict. Cost to the process: some 5 us of
//! interrupts per thread, event and CPU, once.

use crate::mapped_file::id_of;
use pagewise_kernel::SysError;
use pagewise_kernel::proc::{maps, tree};
use pagewise_model::Bytes;
use pagewise_model::fault::event::MapEvent;

/// After this many listings, the newest threads are assumed to have inherited their events.
const MOST_LISTINGS: u32 = 20;

/// Makes `add` open events in `rings` for every thread of process `pid` that `owns` reports as uncovered.
///
/// # Errors
/// The error of `add` for a live thread; ESRCH if there is no thread.
pub(super) fn add_threads<R>(
    rings: &mut R,
    pid: i32,
    owns: fn(&R, i32) -> bool,
    add: fn(&mut R, i32) -> Result<(), SysError>,
) -> Result<(), SysError> {
    let mut has_any = false;
    for _ in 0..MOST_LISTINGS {
        let listed = tree::threads(pid)?;
        let new: Vec<i32> = listed.into_iter().filter(|tid| !owns(rings, *tid)).collect();
        let mut added = false;
        for tid in new {
            match add(rings, tid) {
                Ok(()) => added = true,
                // It has ended since the listing, or is just ending.
                Err(error) if error.is_gone() => {}
                Err(error) => return Err(error),
            }
        }
        if !added {
            break;
        }
        has_any = true;
    }
    if has_any {
        return Ok(());
    }
    let subject = format!("process {pid}");
    Err(SysError::new("perf_event_open", subject, rustix::io::Errno::SRCH))
}

/// The mappings of process `pid`; empty if it has ended.
pub(super) fn mapped(pid: i32) -> impl Iterator<Item = MapEvent> {
    maps::read(pid).unwrap_or_default().into_iter().map(move |mapping| MapEvent {
        pid,
        start_address: mapping.start,
        size_bytes: mapping.size(),
        offset_bytes: Bytes(mapping.offset),
        is_executable: mapping.perms.exec,
        is_shared: mapping.perms.shared,
        file: mapping.is_file().then(|| id_of(&mapping)),
        path: mapping.path.to_string_lossy().into_owned(),
    })
}
