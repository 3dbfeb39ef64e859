//! What a failure consists of: one line, a `help:` line if there is a next step, and the exit code.

use pagewise_tracee::launch::LaunchError;

/// Usage error or failure.
pub(crate) const USAGE: u8 = 2;
/// Cannot tell, or the environment does not allow an answer.
pub(crate) const UNFIT: u8 = 3;

/// A failure on its way to the user.
#[derive(Debug)]
pub(crate) struct CommandFailure {
    pub(crate) message: String,
    pub(crate) help: Option<String>,
    pub(crate) code: u8,
}

impl CommandFailure {
    /// Bad usage, or something that failed.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, code: USAGE }
    }
    /// The environment does not allow an answer.
    pub(crate) fn unfit(message: impl Into<String>) -> Self {
        Self { message: message.into(), help: None, code: UNFIT }
    }
    /// With another exit code.
    pub(crate) fn with_code(mut self, code: u8) -> Self {
        self.code = code;
        self
    }
    /// With the next step.
    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Help text: what allows observing a process of another account. Root in a container may lack `right`.
pub(crate) fn observing_help(right: &str) -> String {
    if rustix::process::geteuid().is_root() {
        format!(
            "root may lack {right} here, as in a container: run pagewise outside, or start the container with {right}"
        )
    } else {
        format!("run as its user, or as root or with {right}")
    }
}

impl std::fmt::Display for CommandFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<LaunchError> for CommandFailure {
    fn from(error: LaunchError) -> Self {
        let code = u8::try_from(error.exit_code()).unwrap_or(USAGE);
        let failure = Self::usage(error.to_string()).with_code(code);
        match error {
            LaunchError::NotFound { program } if is_for_a_shell(&program) => {
                let quoted = pagewise_report::quote(&program);
                failure.with_help(format!("to have a shell read it: sh -c {quoted}"))
            }
            _ => failure,
        }
    }
}

/// One word that looks like a whole command.
fn is_for_a_shell(program: &str) -> bool {
    program.contains(|c: char| c.is_whitespace() || "<>|&;$`*()".contains(c))
}
