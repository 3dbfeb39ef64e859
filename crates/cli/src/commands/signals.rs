//! The signals that end a session early, and the exit status of such a session.

use crate::failure::CommandFailure;
use pagewise_kernel::start;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT, SIGTERM and SIGHUP set; a second signal ends the process at once. Signals that were
/// ignored at the start (`nohup`, a background job of a shell without job control) stay ignored.
pub(super) fn stop_flag() -> Result<Arc<AtomicBool>, CommandFailure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in taken(start::ignored()) {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(&flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&flag)))
            .map_err(|e| CommandFailure::usage(format!("cannot handle signals: {e}")))?;
    }
    Ok(flag)
}

/// The signals that stop a session, without those in the mask (bit `n - 1` for signal `n`).
fn taken(ignored: u64) -> Vec<i32> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut signals = vec![SIGINT, SIGTERM, SIGHUP];
    signals.retain(|signal| ignored >> (signal - 1) & 1 == 0);
    signals
}

/// Exit code of a session that SIGINT, SIGTERM or SIGHUP ended.
pub(super) const INTERRUPTED: u8 = 128 + 2;

/// The failure of a command that such a signal ended.
pub(super) fn interrupted() -> CommandFailure {
    CommandFailure::usage("interrupted").with_code(INTERRUPTED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_ignored_at_the_start_stays_ignored() {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        assert_eq!(taken(0), [SIGINT, SIGTERM, SIGHUP]);
        assert_eq!(taken(1 << (SIGHUP - 1)), [SIGINT, SIGTERM]);
    }
}
