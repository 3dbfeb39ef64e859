//! Messages of the tools, in the words of the C library: scripts compare them.

use std::io::{self, Write};
use std::process::ExitCode;

/// A line on standard error that names the tool.
pub(super) fn tell(tool: &str, text: &str) {
    // A message that nobody can hear is no reason to stop.
    let _heard = writeln!(io::stderr(), "{tool}: {text}");
}

/// The words of `strerror(3)`, without the number that the standard library adds.
pub(super) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => text.trim_end_matches(&format!(" (os error {code})")).to_owned(),
        None => text,
    }
}

/// A usage error, told.
pub(super) fn misused(tool: &str, what: &str) -> ExitCode {
    tell(tool, &format!("{what}\nTry 'pagewise {tool} --help' for more information."));
    ExitCode::FAILURE
}

/// Help or version, printed.
pub(super) fn print(tool: &str, text: &str) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(tool, &format!("write error: {}", reason(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The line that `--version` prints.
pub(super) fn version(tool: &str) -> String {
    format!("{tool} (pagewise) {}\n", env!("CARGO_PKG_VERSION"))
}
