//! Threads that we asked to stop: waiting for the stop, and going on as if there had been none.

use super::TraceError;
use pagewise_tracee::ptrace::{PtraceStop, request};
use std::time::Duration;

/// How often the stop of a running thread is looked for before the tree is served again.
const TRIES: u32 = 100;
/// Pause between two looks for it.
const PAUSE: Duration = Duration::from_micros(50);

/// The stop of a running thread that was just interrupted, if it comes immediately. Also `None` if the thread
/// no longer exists: another thread's exec ends it without a report.
pub(super) fn wait_briefly(tid: i32) -> Result<Option<PtraceStop>, TraceError> {
    for _ in 0..TRIES {
        match request::wait(tid, false) {
            Ok(Some((_, stop))) => return Ok(Some(stop)),
            Ok(None) => std::thread::sleep(PAUSE),
            Err(error) if error.errno() == Some(libc::ECHILD) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_is_not_there_is_not_waited_for() {
        assert!(wait_briefly(std::process::id() as i32).unwrap().is_none());
    }
}
