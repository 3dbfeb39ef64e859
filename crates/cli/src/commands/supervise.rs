//! The hidden command that makes this program the supervising process of an experiment.

use crate::args::Supervise;
use crate::failure::Failure;
use std::process::ExitCode;

/// Serves the front until it is gone.
pub(super) fn run(args: &Supervise) -> ExitCode {
    let (watcher, look) = (&pagewise_remedy::watch::build, &pagewise_observe::trace::look);
    match pagewise_tracee::supervise::serve(args.fd, watcher, look) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => Failure::usage(error.to_string()).tell(),
    }
}
