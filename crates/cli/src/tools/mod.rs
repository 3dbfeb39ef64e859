//! The tools for pipelines: `cat`, `meter` and `tee`, as `pagewise cat` or by a link of that
//! name.
//!
//! They start before the command line of the other commands is built: a tool in a pipeline is
//! started thousands of times by scripts. Messages, exit statuses and behaviour at a closed pipe
//! are those of the GNU tool of the name.

mod cat;
mod message;
mod meter;
mod tee;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

pub(crate) use cat::run as cat;
pub(crate) use meter::run as meter;
pub(crate) use tee::run as tee;

/// A tool: its arguments, its exit status.
pub(crate) type Tool = fn(Vec<OsString>) -> ExitCode;

const TOOLS: [(&str, Tool); 3] = [("cat", cat::run), ("meter", meter::run), ("tee", tee::run)];

fn named(name: &OsString) -> Option<Tool> {
    let name = Path::new(name).file_name()?;
    TOOLS.iter().find(|(tool, _)| name == *tool).map(|(_, run)| *run)
}

/// The tool that this process was started as, and its arguments.
pub(crate) fn find(arguments: impl Iterator<Item = OsString>) -> Option<(Tool, Vec<OsString>)> {
    let mut arguments = arguments.peekable();
    let program = arguments.next()?;
    if let Some(tool) = named(&program) {
        return Some((tool, arguments.collect()));
    }
    let tool = arguments.next_if(|word| !word.as_encoded_bytes().contains(&b'/'))?;
    named(&tool).map(|run| (run, arguments.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Option<Vec<OsString>> {
        find(words.iter().map(OsString::from)).map(|(_, rest)| rest)
    }

    #[test]
    fn a_tool_is_found_by_link_or_command() {
        assert_eq!(arguments(&["/usr/local/bin/cat", "-n"]), Some(vec!["-n".into()]));
        assert_eq!(arguments(&["pagewise", "cat", "a"]), Some(vec!["a".into()]));
        assert_eq!(arguments(&["pagewise", "tune", "--", "cat"]), None);
        assert_eq!(arguments(&["pagewise", "./cat"]), None);
        assert_eq!(arguments(&["pagewise"]), None);
        assert_eq!(arguments(&[]), None);
    }
}
