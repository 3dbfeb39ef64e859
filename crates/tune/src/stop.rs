//! Why a session ends early.

use crate::race::RunFailure;
use pagewise_model::look::{SideEffect, sentence};
use pagewise_model::usage::ProgramEnd;
use pagewise_model::{Bytes, Nanos};
use pagewise_tracee::launch::LaunchError;
use std::borrow::Cow;

/// System calls in a launch that fail because of an arm's request and not because of our own limits.
const OF_THE_ARM: [&str; 5] = [
    "execve",
    "sched_setaffinity",
    "prctl(PR_SET_THP_DISABLE)",
    "inotify_init1",
    "inotify_add_watch",
];

/// Why a session ends early. Each becomes one line, a next step and an exit code.
#[derive(Debug, thiserror::Error)]
pub enum SessionStop {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// Its effects may not be safe to repeat in a second run.
    #[error("not safe to run again: it {}", sentence(.0))]
    NotSafe(Vec<SideEffect>),
    /// Whether it is safe to run again could not be seen.
    #[error("cannot see whether it is safe to run again: {0}")]
    NotSeen(String),
    /// It uses a standard input that can be read only once.
    #[error(
        "the program reads its standard input ({call}), which is {what}: it can be read only once, and nothing was read{}", had_done(.effects)
    )]
    UsesInput {
        /// What standard input is.
        what: &'static str,
        /// The call that would have used it.
        call: String,
        /// Its effects until then.
        effects: Vec<SideEffect>,
    },
    /// It could not be determined whether it uses such a standard input.
    #[error("cannot see whether the program reads its standard input, which is {what}: {why}")]
    InputNotSeen {
        /// What standard input is.
        what: &'static str,
        /// Why there was no look.
        why: String,
    },
    /// It failed in a trial run.
    #[error("{} failed in a trial run: {ended}{}", who(.arm.as_deref()), quoted(.said))]
    Failed {
        /// The arm. `None` for the unchanged program.
        arm: Option<String>,
        /// How it ended.
        ended: ProgramEnd,
        /// Last line of its standard error.
        said: String,
        /// The shell command, as one word, that removes the files that a run of it leaves.
        remove: Option<String>,
    },
    /// `--prepare` or `--cleanup` failed.
    #[error("{which} failed: {ended}")]
    Around {
        /// Which of the two.
        which: &'static str,
        /// How it ended.
        ended: ProgramEnd,
    },
    /// It took longer than it may.
    #[error("the program took more than {0} and was stopped")]
    TooLong(Nanos),
    /// One run of it took longer than the whole session may.
    #[error("a run took more than the budget of {0} and was stopped")]
    OverBudget(Nanos),
    /// It took more memory than it may.
    #[error("the program took more than {0} of memory and was stopped")]
    TooLarge(Bytes),
    /// The outputs of the program cannot be compared.
    #[error("cannot compare the output of a plain run: {0}")]
    Output(String),
    /// Files that an arm needs in huge folios cannot be brought into them.
    #[error("cannot set the page size of this arm's files: {0}")]
    NotHuge(String),
    /// The pool of huge pages or a setting of the machine is not what an arm needs.
    #[error("{0}")]
    MachineNotSet(String),
    /// A service, its load or a user's option for them does not work. The text ends with what to do.
    #[error("{0}")]
    Service(String),
    /// The load of a service would reach another program.
    #[error("{why}")]
    Elsewhere { why: String, help: &'static str },
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// A failure of this tool, or of `--prepare` of a service.
    #[error("{0}")]
    Broken(String),
}

/// What helps a program that fails.
const FAILED_HELP: &str = "use --ignore-failure for a program that always fails in the same way; use --input FILE to give it input";

/// What to do about a standard input that can be read only once.
pub const INPUT_HELP: &str =
    "save it and use --input FILE, or use </dev/null if the program needs none";

fn had_done(effects: &[SideEffect]) -> String {
    if effects.is_empty() {
        String::new()
    } else {
        format!("; before that it {}", sentence(effects))
    }
}

fn who(arm: Option<&str>) -> String {
    arm.map_or_else(|| "the program".to_owned(), |name| format!("arm `{name}`"))
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" (its last line: {said})") }
}

impl SessionStop {
    /// The next step, if there is one.
    #[must_use]
    pub fn help(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            Self::NotSafe(_) => {
                "add --rerun-safe if running it again does no harm, or --prepare CMD to restore what it changes"
            }
            Self::UsesInput { .. } | Self::InputNotSeen { .. } => INPUT_HELP,
            Self::NotSeen(_) => "add --rerun-safe if running it again does no harm",
            Self::Failed { remove: Some(remove), .. } => {
                let help = "if it fails because of what an earlier run left, and you can lose these files, add --prepare";
                return Some(Cow::Owned(format!("{FAILED_HELP}; {help} {remove}")));
            }
            Self::Failed { .. } => FAILED_HELP,
            Self::Output(_) => {
                "with --output, name regular files that each run writes again, relative to this directory"
            }
            Self::OverBudget(_) => "give a --budget of many runs",
            Self::Elsewhere { help, .. } => help,
            _ => return None,
        }))
    }

    /// The side to blame if this comes from the run of an arm. Only the arm's own actions and requests say
    /// something about it.
    #[must_use]
    pub fn into_failure(self) -> RunFailure {
        match self {
            Self::Interrupted => RunFailure::Interrupted,
            Self::Launch(LaunchError::Call { ref call, .. })
                if !OF_THE_ARM.contains(&call.as_str()) =>
            {
                RunFailure::Broken(self.to_string())
            }
            Self::Launch(_)
            | Self::TooLong(_)
            | Self::TooLarge(_)
            | Self::NotHuge(_)
            | Self::MachineNotSet(_)
            | Self::Service(_)
            | Self::Failed { .. } => RunFailure::Failed(self.to_string()),
            other => RunFailure::Broken(other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_blamed_for_its_own_failures_alone() {
        let call = |call: &str| {
            SessionStop::Launch(LaunchError::Call {
                call: call.into(),
                subject: "x".into(),
                errno: 11,
            })
        };
        let of_the_arm = [
            SessionStop::Launch(LaunchError::NotFound { program: "x".into() }),
            SessionStop::TooLong(Nanos::secs(10)),
            SessionStop::TooLarge(Bytes::mib(1)),
            SessionStop::NotHuge("x".into()),
            SessionStop::MachineNotSet("x".into()),
            call("sched_setaffinity"),
        ];
        for stop in of_the_arm {
            assert!(matches!(stop.into_failure(), RunFailure::Failed(_)));
        }
        let ours = [
            call("fork"),
            call("open"),
            SessionStop::Around { which: "--prepare", ended: ProgramEnd::Exited(1) },
            SessionStop::Broken("the supervisor is gone".into()),
            SessionStop::Elsewhere { why: "another program listens".into(), help: "" },
        ];
        for stop in ours {
            assert!(matches!(stop.into_failure(), RunFailure::Broken(_)));
        }
        assert_eq!(SessionStop::Interrupted.into_failure(), RunFailure::Interrupted);
    }
}
