//! Reports ended children on a descriptor (`signalfd(2)` of SIGCHLD).
//!
//! A subreaper inherits the orphans of its tree and must reap them as `init` would. An ended process keeps
//! its id until it is reaped, and ids are limited. This process wakes up only when one of its children has
//! ended.

use crate::child::SignalState;
use crate::launch_error::LaunchError;
use crate::signals;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Blocks SIGCHLD in this thread while it exists. Programs start with no signal blocked.
#[derive(Debug)]
pub(crate) struct ChildEnds {
    fd: OwnedFd,
    before: SignalState,
}

impl ChildEnds {
    pub(crate) fn watch() -> Result<Self, LaunchError> {
        let mut set = SignalState::clean().mask;
        // SAFETY: `set` is a live sigset_t of this function.
        unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
        let mut before = SignalState::clean();
        let now = &raw mut before.mask;
        // SAFETY: reads the live `set` and writes the previous mask into another live set.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, now) };
        match signals::descriptor(&set) {
            Ok(fd) => Ok(Self { fd, before }),
            Err(error) => {
                signals::restore(&before);
                Err(LaunchError::call("signalfd", "the ends of children", &error))
            }
        }
    }

    /// Readable when a child has ended since the last [`ChildEnds::take`].
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Empties the descriptor. One signal stands for any number of ends.
    pub(crate) fn take(&self) {
        let mut info = [0; size_of::<libc::signalfd_siginfo>()];
        while rustix::io::read(&self.fd, &mut info).is_ok_and(|len| len > 0) {}
    }
}

impl Drop for ChildEnds {
    fn drop(&mut self) {
        signals::restore(&self.before);
    }
}
