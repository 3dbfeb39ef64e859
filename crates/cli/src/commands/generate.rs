//! Completion scripts and the manual page, from the same definition as the help.

use crate::args::{Cli, Completions};
use crate::failure::Failure;
use crate::terminal;
use clap::CommandFactory;
use std::process::ExitCode;

/// Prints a shell's completion script.
pub(super) fn completions(args: &Completions) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "pagewise", &mut text);
    terminal::print(&String::from_utf8_lossy(&text));
    ExitCode::SUCCESS
}

/// Prints the manual page.
pub(super) fn manual() -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(Cli::command())
        .render(&mut text)
        .map_err(|e| Failure::usage(format!("cannot write the manual page: {e}")))?;
    terminal::print(&String::from_utf8_lossy(&text));
    Ok(ExitCode::SUCCESS)
}
