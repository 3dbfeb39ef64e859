//! The tools for pipelines: `cat`, `meter` and `tee`, started as `pagewise cat` or through a link of that name.
//!
//! The small program `pagewise-tools` has only these. `pagewise` has them too, and starts them before it builds
//! the command line of its other commands. Messages, exit statuses and behaviour at a closed pipe match the GNU
//! tool of that name.

#![forbid(unsafe_code)]

mod cat;
mod command_line;
mod files;
mod message;
mod meter;
mod tee;

use command_line::EarlyExit;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

pub use cat::{HELP as CAT_HELP, run as cat};
pub use meter::{HELP as METER_HELP, run as meter};
pub use tee::{HELP as TEE_HELP, run as tee};

/// A tool: takes its arguments, returns its exit status.
pub type Tool = fn(Vec<OsString>) -> ExitCode;

const TOOLS: [(&str, Tool); 3] = [("cat", cat::run), ("meter", meter::run), ("tee", tee::run)];

/// Names that select a tool only as the name of a link.
const ALSO: [(&str, Tool); 1] = [("pv", meter::run)];

const HELP: &str = "\
Usage: pagewise-tools cat|meter|tee [ARGUMENTS]

The tools for pipelines, in a small program that starts fast. `pagewise links`
makes links to it. Each tool has its own --help.
";

/// Runs the tool that this process was started as, for a program that has nothing else. Parameters as those of
/// [`find`].
pub fn serve<'a>(arguments: Vec<OsString>, file: impl FnOnce() -> &'a OsStr) -> ExitCode {
    const NAME: &str = "pagewise-tools";
    let first = arguments.get(1).cloned();
    if let Some((tool, rest)) = find(arguments.into_iter(), file) {
        return tool(rest);
    }
    match first.as_deref().and_then(OsStr::to_str) {
        Some("--help" | "-h") => EarlyExit::Help.serve(NAME, HELP, 0),
        Some("--version" | "-V") => EarlyExit::Version.serve(NAME, HELP, 0),
        _ => {
            message::tell(
                NAME,
                "no tool is named\nTry 'pagewise-tools --help' for more information.",
            );
            ExitCode::from(2)
        }
    }
}

fn named(name: &OsStr, names: impl IntoIterator<Item = (&'static str, Tool)>) -> Option<Tool> {
    names.into_iter().find(|(tool, _)| name == *tool).map(|(_, run)| run)
}

/// The tool that this process was started as, and its arguments. `file` is the path given to execve(2). It
/// identifies a link even if the caller chose another name (`exec -a NAME cat`).
pub fn find<'a>(
    arguments: impl Iterator<Item = OsString>,
    file: impl FnOnce() -> &'a OsStr,
) -> Option<(Tool, Vec<OsString>)> {
    let mut arguments = arguments.peekable();
    let program = arguments.next()?;
    if let Some(tool) = linked(&program).or_else(|| linked(file())) {
        return Some((tool, arguments.collect()));
    }
    let tool = named(&arguments.next()?, TOOLS)?;
    Some((tool, arguments.collect()))
}

/// The tool for a link's name.
fn linked(path: &OsStr) -> Option<Tool> {
    named(Path::new(path).file_name()?, TOOLS.into_iter().chain(ALSO))
}

/// The help of a tool.
pub fn help(tool: &str) -> Option<&'static str> {
    let all = [("cat", CAT_HELP), ("meter", METER_HELP), ("tee", TEE_HELP)];
    all.into_iter().find(|(name, _)| *name == tool).map(|(_, help)| help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_fits_a_terminal_and_a_manual_page() {
        for (tool, _) in TOOLS {
            for line in help(tool).unwrap().lines() {
                assert!(line.chars().count() <= 80, "{line}");
                assert!(!line.starts_with(['.', '\'']), "{line}");
            }
        }
    }

    fn arguments(words: &[&str]) -> Option<Vec<OsString>> {
        started("/opt/pagewise", words)
    }

    fn started(file: &str, words: &[&str]) -> Option<Vec<OsString>> {
        find(words.iter().map(OsString::from), || file.as_ref()).map(|(_, rest)| rest)
    }

    #[test]
    fn a_link_is_known_under_another_name() {
        assert_eq!(started("/links/cat", &["other", "tee"]), Some(vec!["tee".into()]));
        assert_eq!(started("/links/cat", &["", "-n"]), Some(vec!["-n".into()]));
        assert_eq!(started("/links/other", &["other", "tune"]), None);
        assert_eq!(started("", &["pagewise", "tune"]), None);
    }

    #[test]
    fn a_tool_is_found_by_link_or_command() {
        assert_eq!(arguments(&["/usr/local/bin/cat", "-n"]), Some(vec!["-n".into()]));
        assert_eq!(arguments(&["pv", "-n"]), Some(vec!["-n".into()]));
        assert_eq!(arguments(&["pagewise", "cat", "a"]), Some(vec!["a".into()]));
        assert_eq!(arguments(&["pagewise", "pv"]), None);
        assert_eq!(arguments(&["pagewise", "tune", "--", "cat"]), None);
        assert_eq!(arguments(&["pagewise", "./cat"]), None);
        assert_eq!(arguments(&["pagewise"]), None);
        assert_eq!(arguments(&[]), None);
    }
}
