//! Why a program could not be started, and the exit code that `env(1)` and shells use for it.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::io;

/// A program could not be started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum LaunchError {
    /// The command is empty.
    #[error("no command given")]
    Empty,
    /// Neither a path nor found in PATH.
    #[error("command not found: `{program}`")]
    NotFound {
        /// As the user typed it.
        program: String,
    },
    /// The file exists, but its interpreter does not.
    #[error("cannot run `{program}`: its interpreter `{interpreter}` does not exist")]
    MissingInterpreter {
        /// As the user typed it.
        program: String,
        /// From its `#!` line, or a description.
        interpreter: String,
    },
    /// The file exists but cannot be executed.
    #[error("cannot execute `{program}`: {reason}")]
    NotExecutable {
        /// As the user typed it.
        program: String,
        reason: String,
    },
    /// It would run with privileges other than the caller's, so it is not started.
    #[error(
        "`{program}` is not started: it {what}, and pagewise does not start programs with extra rights"
    )]
    SetuidRefused {
        /// As the user typed it.
        program: String,
        /// The mark on the file that says so.
        what: String,
    },
    /// The working set to read beforehand is not available.
    #[error("{why}")]
    WorkingSet { why: String },
    /// The tools for its tree cannot be put in front of PATH.
    #[error("cannot put tools in front of PATH: {why}")]
    Tools {
        /// Why, and what to do.
        why: String,
    },
    /// A text for the kernel contains a NUL byte.
    #[error("{what} contains a NUL byte")]
    Nul {
        /// Which text.
        what: String,
    },
    /// Some of its processes outlive SIGKILL.
    #[error(
        "`{program}` left {} that SIGKILL did not end within 10 s: {}; end them, then start again",
        counted(alive.len()),
        named(alive)
    )]
    Unkillable {
        /// As the user typed it.
        program: String,
        alive: Vec<SurvivingProcess>,
    },
    /// A system call failed.
    #[error("{call} {subject}: {}", io::Error::from_raw_os_error(*.errno))]
    Call {
        /// Name of the call.
        call: String,
        subject: String,
        /// Its error number.
        errno: i32,
    },
}

/// A process that SIGKILL did not end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurvivingProcess {
    pub pid: i32,
    /// Name of its main thread.
    pub name: String,
    /// Its state, as in `/proc/PID/stat`.
    pub state: char,
    /// It belongs to another user, and only that user can end it.
    pub foreign: bool,
}

impl fmt::Display for SurvivingProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.state {
            _ if self.foreign => "it belongs to another user",
            'D' => "it is blocked in the kernel",
            _ => "it is still running",
        };
        write!(f, "{} `{}` ({why}, state {})", self.pid, self.name, self.state)
    }
}

/// Number of processes, in words.
pub(crate) fn counted(processes: usize) -> String {
    if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") }
}

/// The first few survivors, and the number of the rest.
pub(crate) fn named(alive: &[SurvivingProcess]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = alive.iter().take(SHOWN).map(ToString::to_string).collect();
    match alive.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

impl LaunchError {
    /// The exit code for the caller: 127 not found, 126 not executable, 125 for a failure of pagewise, 2 for
    /// an empty command.
    #[must_use]
    pub const fn exit_code(&self) -> i32 {
        match self {
            Self::Empty => 2,
            Self::NotFound { .. } | Self::MissingInterpreter { .. } => 127,
            Self::NotExecutable { .. } => 126,
            Self::SetuidRefused { .. }
            | Self::WorkingSet { .. }
            | Self::Tools { .. }
            | Self::Nul { .. }
            | Self::Unkillable { .. }
            | Self::Call { .. } => 125,
        }
    }

    /// A failed call.
    pub(crate) fn call(call: &str, subject: impl Into<String>, source: &io::Error) -> Self {
        let errno = source.raw_os_error().unwrap_or(libc::EIO);
        Self::Call { call: call.to_owned(), subject: subject.into(), errno }
    }

    /// A failed call of the kernel crate.
    pub(crate) fn sys(error: &pagewise_kernel::SysError) -> Self {
        Self::call(error.call, error.subject.clone(), &error.source)
    }

    /// A failed call through rustix.
    pub(crate) fn errno(call: &str, subject: impl Into<String>, errno: rustix::io::Errno) -> Self {
        Self::Call { call: call.to_owned(), subject: subject.into(), errno: errno.raw_os_error() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_env() {
        let program = || "x".to_owned();
        assert_eq!(LaunchError::NotFound { program: program() }.exit_code(), 127);
        let reason = "it is a directory".to_owned();
        let refused = LaunchError::NotExecutable { program: program(), reason };
        assert_eq!(refused.exit_code(), 126);
        assert_eq!(refused.to_string(), "cannot execute `x`: it is a directory");
        assert_eq!(LaunchError::Empty.exit_code(), 2);
    }

    #[test]
    fn a_failed_call_names_call_subject_and_error() {
        let source = io::Error::from_raw_os_error(libc::EACCES);
        let error = LaunchError::call("open", "/x", &source);
        assert!(error.to_string().starts_with("open /x: Permission denied"), "{error}");
        assert_eq!(error.exit_code(), 125);
    }
}
