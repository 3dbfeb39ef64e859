//! `pagewise links`

use super::link_directory::{LinkDirectory, LinkOutcome};
use crate::args;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_report::escape::escape;
use pagewise_report::shell::quote_bytes;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode;

/// Names that are linked by default.
const USUAL: [&str; 3] = ["cat", "meter", "tee"];
/// Names that are linked if pv is to be replaced too.
const WITH_PV: [&str; 4] = ["cat", "meter", "tee", "pv"];

/// Makes or removes the links.
pub(super) fn run(args: &args::LinksArgs) -> Result<ExitCode, CommandFailure> {
    let links = LinkDirectory::to_tools(&args.directory)?;
    let names = if args.pv { &WITH_PV[..] } else { &USUAL[..] };
    let done = match args.remove {
        true => links.remove(&WITH_PV)?,
        false => links.make(names, args.force)?,
    };
    let program = links.program.display();
    let line = |(path, done): &(PathBuf, LinkOutcome)| {
        let path = path.display();
        let text = match done {
            LinkOutcome::Made => format!("made {path} -> {program}"),
            LinkOutcome::Replaced => format!("replaced {path} -> {program}"),
            LinkOutcome::Kept => format!("kept {path} -> {program}"),
            LinkOutcome::Removed => format!("removed {path}"),
            LinkOutcome::Left => format!("kept {path}: it is not a link to pagewise"),
        };
        escape(&text) + "\n"
    };
    let text: String = done.iter().map(line).collect();
    if args.remove {
        let directory = escape(&links.directory.to_string_lossy());
        let nothing = format!("no links in {directory}\n");
        terminal::print(if done.is_empty() { &nothing } else { &text })?;
        return Ok(ExitCode::SUCCESS);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let next = match links.are_found(names, &path) {
        true => "a shell finds these first\n".to_owned(),
        false => {
            let directory = quote_bytes(links.directory.as_os_str().as_bytes());
            format!("to use them:  export PATH={directory}:\"$PATH\"\n")
        }
    };
    terminal::print(&format!("{text}{next}"))?;
    Ok(ExitCode::SUCCESS)
}
