//! The terminal: colour, width, printing that survives a closed pipe.

use crate::args::ColourChoice;
use crate::failure::CommandFailure;
use std::io::{ErrorKind, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::OnceLock;

static COLOUR: OnceLock<ColourChoice> = OnceLock::new();

/// Width of output that is not a terminal, unless COLUMNS sets another.
const USUAL: usize = 80;
/// Widest table that is printed, whatever the terminal.
const WIDEST: usize = 160;
/// Narrowest terminal that the tables fold to.
const NARROWEST: usize = 60;

/// Fixes the choice of colour for this process.
pub(crate) fn choose_colour(when: ColourChoice) {
    let _first = COLOUR.set(when);
}

/// The style for text on standard output.
pub(crate) fn style() -> pagewise_report::TerminalStyle {
    style_of(&std::io::stdout())
}

/// The style for text on standard error.
pub(crate) fn error_style() -> pagewise_report::TerminalStyle {
    style_of(&std::io::stderr())
}

fn style_of(stream: &(impl AsFd + IsTerminal)) -> pagewise_report::TerminalStyle {
    let colour = match COLOUR.get().copied().unwrap_or(ColourChoice::Never) {
        ColourChoice::Always => true,
        ColourChoice::Never => false,
        ColourChoice::Auto => stream.is_terminal() && wants_colour(),
    };
    let width = columns(stream).map_or(USUAL, |columns| columns.clamp(NARROWEST, WIDEST));
    pagewise_report::TerminalStyle { colour, width, unicode: speaks_utf8() }
}

/// COLUMNS, or the size that the terminal reports. A terminal that does not know its size reports 0.
fn columns(stream: &impl AsFd) -> Option<usize> {
    let given = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let size = || Some(usize::from(rustix::termios::tcgetwinsize(stream).ok()?.ws_col));
    given.or_else(size).filter(|columns| *columns > 0)
}

/// Whether to colour: follows no-color.org, and needs a terminal that supports it.
fn wants_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
        && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

fn speaks_utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(std::env::var_os)
        .find(|v| !v.is_empty())
        .is_some_and(|v| v.to_string_lossy().to_ascii_lowercase().contains("utf"))
}

/// Prints on standard output. A closed pipe is no error: the reader does not want the rest.
pub(crate) fn print(text: &str) -> Result<(), CommandFailure> {
    print_bytes(text.as_bytes())
}

/// As [`print()`], for bytes that may not be UTF-8.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), CommandFailure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(unwritten(&e)),
        _ => Ok(()),
    }
}

/// Prints a document as JSON.
pub(crate) fn print_json(
    document: &(impl serde::Serialize + ?Sized),
) -> Result<(), CommandFailure> {
    let text = serde_json::to_string_pretty(document)
        .map_err(|e| CommandFailure::usage(format!("cannot write JSON: {e}")))?;
    print(&(text + "\n"))
}

/// The failure of a write to standard output.
pub(crate) fn unwritten(error: &std::io::Error) -> CommandFailure {
    CommandFailure::usage(format!("cannot write standard output: {error}"))
}

/// Whether standard error is a terminal, so that a person sees the message at once.
pub(crate) fn reaches_a_person() -> bool {
    std::io::stderr().is_terminal()
}

/// Prints a failure on standard error; its exit code.
pub(crate) fn report(failure: &CommandFailure) -> ExitCode {
    remark(&failure.message.replace('\n', " "));
    if let Some(help) = &failure.help {
        complain(&format!("help: {}", pagewise_report::escape::escape(help)));
    }
    ExitCode::from(failure.code)
}

/// Prints one line with the prefix `pagewise:` on standard error. Escapes text from other sources.
pub(crate) fn remark(line: &str) {
    complain(&format!("pagewise: {}", pagewise_report::escape::escape(line)));
}

/// Prints one line on standard error. Ignores a failed write: no other output is left.
pub(crate) fn complain(line: &str) {
    let mut err = std::io::stderr().lock();
    let _gone = writeln!(err, "{line}");
}
