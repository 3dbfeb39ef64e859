//! The terminal: colour, width, printing that survives a closed pipe.

use crate::args::When;
use std::io::{IsTerminal, Write};
use std::sync::OnceLock;

static COLOUR: OnceLock<bool> = OnceLock::new();

/// Widest text that is produced, whatever the terminal.
const WIDEST: usize = 80;
/// Narrowest terminal that the tables fold to.
const NARROWEST: usize = 60;

/// Fixes the choice of colour for this process.
pub(crate) fn choose_colour(when: When) {
    let on = match when {
        When::Always => true,
        When::Never => false,
        When::Auto => {
            std::io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
                && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
        }
    };
    let _first = COLOUR.set(on);
}

/// The style for text on standard output.
pub(crate) fn style() -> pagewise_report::Style {
    let width = rustix::termios::tcgetwinsize(std::io::stdout())
        .map_or(WIDEST, |size| usize::from(size.ws_col).clamp(NARROWEST, WIDEST));
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|v| !v.is_empty())
        .is_some_and(|v| v.to_string_lossy().to_ascii_lowercase().contains("utf"));
    pagewise_report::Style {
        colour: COLOUR.get().copied().unwrap_or(false),
        width,
        unicode: utf8,
    }
}

/// Prints on standard output. A reader that went away is no error: the rest is not wanted.
pub(crate) fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _gone = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Prints one line on standard error.
pub(crate) fn complain(line: &str) {
    let mut err = std::io::stderr().lock();
    let _gone = writeln!(err, "{line}");
}
