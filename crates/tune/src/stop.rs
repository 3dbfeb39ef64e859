//! Why a session ends early.

use pagewise_model::look::SideEffect;
use pagewise_model::usage::Ended;
use pagewise_tracee::launch::LaunchError;

/// Why a session ends early. Each becomes one line, a next step and an exit code.
#[derive(Debug, thiserror::Error)]
pub enum Stop {
    /// The program could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// It did things that a second run may not repeat safely.
    #[error("not safe to run again: it {}", list(.0))]
    NotSafe(Vec<SideEffect>),
    /// Whether it is safe to run again could not be seen.
    #[error("cannot see whether it is safe to run again: {0}")]
    NotSeen(String),
    /// It failed in the look.
    #[error("the program failed in the look: {ended}{}", quoted(.said))]
    Failed {
        /// How it ended.
        ended: Ended,
        /// Last line of its standard error.
        said: String,
    },
    /// `--prepare` or `--cleanup` failed.
    #[error("{which} failed: {ended}")]
    Around {
        /// Which of the two.
        which: &'static str,
        /// How it ended.
        ended: Ended,
    },
    /// The budget cannot hold a confirmation.
    #[error("budget too small: {0}")]
    Budget(String),
    /// The user stopped it.
    #[error("interrupted")]
    Interrupted,
    /// Something of ours failed.
    #[error("{0}")]
    Broken(String),
}

fn list(effects: &[SideEffect]) -> String {
    const SHOWN: usize = 3;
    let mut text = effects
        .iter()
        .take(SHOWN)
        .map(|e| format!("{} `{}`", e.action, e.subject))
        .collect::<Vec<_>>()
        .join(", ");
    if effects.len() > SHOWN {
        text.push_str(&format!(" and {} more", effects.len() - SHOWN));
    }
    text
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(" (it says: {said})") }
}

impl Stop {
    /// The next step, where there is one.
    #[must_use]
    pub fn help(&self) -> Option<&'static str> {
        match self {
            Self::NotSafe(_) => Some(
                "--rerun-safe if running it again does no harm, or --prepare CMD to restore what it changes",
            ),
            Self::NotSeen(_) => Some("--rerun-safe if running it again does no harm"),
            Self::Failed { .. } => Some(
                "--ignore-failure accepts a program that always fails alike; --input FILE gives it input",
            ),
            _ => None,
        }
    }
}
