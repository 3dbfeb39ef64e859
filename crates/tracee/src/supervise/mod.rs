//! The supervisor: a process between the one the user sees (the front) and the programs.
//!
//! Experiments run below it and not below the front, for three reasons. It is small and quiet: forking is
//! cheap, and no progress display wakes up beside the program. It is a subreaper whose descendants are
//! exactly what an experiment started. And it outlives a front that is killed: at end of file on their socket
//! it kills everything it started and exits.
//!
//! The protocol is in `pagewise_kernel::helper`, with one request at a time. While one runs, the front may
//! send [`SupervisorRequest::Stop`]. The supervisor has its own session and ignores SIGINT, SIGTERM, SIGHUP and
//! SIGQUIT: only the front decides. If the supervisor itself is killed, its programs die with it
//! (`PR_SET_PDEATHSIG`), and its guard ends what they started (`guard`).
//!
//! This module knows neither how a traced run is recorded nor what an account of memory is. The code that
//! starts the supervisor passes [`TraceFunctions`] and a maker of watchers.
//!
//! Overhead: one round trip of about 0.1 ms per request, outside every measured time.

mod condition;
mod front;
mod guard;
mod server;
mod traced;

pub use front::RunSupervisor;
pub use server::serve;
pub use traced::{LookOptions, TakeAccount, TakeLook, TraceFunctions};

use crate::launch::{LaunchError, ProgramLaunch, SurvivingProcess};
use crate::launch_error::named;
use crate::run::FinishedRun;
use pagewise_model::look::{SideEffect, TracedLook};
use pagewise_model::memory_account::MemoryAccount;
use pagewise_model::units::{Bytes, Nanos};
use pagewise_model::usage::ProgramEnd;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;

/// A request of the front.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SupervisorRequest {
    /// Run this to its end.
    Run(Box<ProgramLaunch>),
    /// Run this to its end under tracing.
    Traced {
        launch: Box<ProgramLaunch>,
        /// Directories in which effects do not count.
        scratch: Vec<OsString>,
    },
    /// Run this to its end, and account for its memory at its peak.
    Account(Box<ProgramLaunch>),
    /// Touch and free this much fresh memory.
    Condition { bytes: Bytes },
    /// Answer with `Pong`.
    Ping,
    /// Stop the current run; ignored if nothing runs.
    Stop,
}

/// An answer of the supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SupervisorResponse {
    /// The run came to its end.
    Finished(Box<FinishedRun>),
    /// The traced run came to its end.
    Traced(Box<TracedLook>),
    /// The run with an account of memory came to its end.
    Accounted(Box<AccountedRun>),
    /// It could not be traced, with the reason.
    NotTraced(String),
    /// It was about to use a standard input that can be read only once.
    UsesInput {
        /// The call that would have used it.
        call: String,
        /// What it had done by then.
        effects: Vec<SideEffect>,
    },
    /// Memory was touched and freed.
    Conditioned(ConditioningCost),
    /// The request failed.
    Failed(LaunchError),
    /// The request was carried out, but its result is too large to send.
    Unsendable(String),
    /// Stopped by request; none of its processes is left.
    Stopped,
    /// Alive, with this process id.
    Pong { pid: i32 },
    /// From the guard: the supervisor ended unexpectedly, and what it left has been ended.
    Orphaned {
        /// Its exit status or signal.
        how: String,
        /// Number of its processes that were killed.
        killed: u32,
        /// Processes that SIGKILL did not end.
        alive: Vec<SurvivingProcess>,
    },
}

/// A run whose memory was accounted for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AccountedRun {
    pub ended: ProgramEnd,
    /// `None` if the program ended before anything could be examined.
    pub account: Option<MemoryAccount>,
}

/// Cost of touching fresh memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConditioningCost {
    /// Wall time, including start and end of the process that did it.
    pub wall_ns: Nanos,
    /// System time: the kernel's work and what a host charged for it.
    pub sys_ns: Nanos,
    /// Minor faults.
    pub faults: u64,
}

/// A request to the supervisor that gave no result.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The program could not be traced.
    #[error("{0}")]
    Trace(String),
    /// The program was about to use a standard input that can be read only once, and was ended before.
    #[error("it uses its standard input ({call})")]
    UsesInput {
        /// The call that would have used it.
        call: String,
        /// What it had done by then.
        effects: Vec<SideEffect>,
    },
    /// The caller's interrupt check returned true.
    #[error("interrupted")]
    Interrupted,
    /// The supervisor could not be started.
    #[error("cannot start the supervisor: {0}")]
    Start(String),
    /// The supervisor has ended; everything it had started has been killed.
    #[error(
        "the supervisor ended unexpectedly ({how}); {killed} of its processes were still alive and have been killed{}",
        still_alive(alive)
    )]
    Died {
        /// Its exit status or signal.
        how: String,
        /// Processes killed by the guard.
        killed: u32,
        /// Processes that SIGKILL did not end.
        alive: Vec<SurvivingProcess>,
    },
    /// The supervisor and its guard have ended.
    #[error(
        "the supervisor and its guard ended unexpectedly ({how}); processes of the program may still run: end them before the next start"
    )]
    Lost {
        /// Exit status or signal of the guard.
        how: String,
    },
    /// The answer was too large to send.
    #[error("the supervisor did not answer: {0}")]
    Unsendable(String),
    /// The answer does not belong to the request.
    #[error("unexpected answer from the supervisor: {0}")]
    OutOfPlace(String),
}

fn still_alive(alive: &[SurvivingProcess]) -> String {
    if alive.is_empty() {
        String::new()
    } else {
        format!("; these processes do not end: {}", named(alive))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::{OutputSink, StdinSource};
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn a_launch_with_bytes_that_are_no_text_survives() {
        let odd = OsString::from_vec(b"/tmp/\xff\xfe a".to_vec());
        let mut launch = ProgramLaunch::experiment(vec!["x".into(), odd.clone()]);
        launch.cwd = Some(odd.clone().into());
        launch.stdin = StdinSource::File(odd.clone().into());
        launch.stdout = OutputSink::File(odd.into());
        let request = SupervisorRequest::Run(Box::new(launch));
        let sent = serde_json::to_vec(&request).unwrap();
        assert_eq!(serde_json::from_slice::<SupervisorRequest>(&sent).unwrap(), request);
    }
}
