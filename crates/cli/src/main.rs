//! `pagewise`: finds out what memory pages cost a program, removes that cost on the unmodified
//! program, and proves the gain.
//!
//! This crate wires and decides nothing: `args/` is the command line as types, each file of
//! `commands/` is one command, `failure.rs` is how errors are told, `store.rs` where runs are
//! kept.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod failure;
mod store;
mod terminal;

use clap::Parser;
use clap::error::ErrorKind;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    terminal::choose_colour(cli.color);
    match commands::dispatch(cli.command) {
        Ok(code) => code,
        Err(failure) => failure.tell(),
    }
}

/// Help and version go to standard output with success; anything else is a usage error in one
/// line with the next step.
fn usage(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let asked = error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
            let _printed = error.print();
            if asked { ExitCode::SUCCESS } else { ExitCode::from(failure::USAGE) }
        }
        _ => {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or("error: bad usage");
            let line = line.strip_prefix("error: ").unwrap_or(line);
            failure::Failure::usage(line.to_owned())
                .with_help("pagewise --help, or pagewise COMMAND --help")
                .tell()
        }
    }
}
