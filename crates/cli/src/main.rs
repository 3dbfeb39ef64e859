//! `pagewise`: finds out what memory pages cost a program, removes that cost on the unmodified
//! program, and proves the gain.
//!
//! This crate connects the others and decides nothing. `args/` holds the command line as types. Each file of
//! `commands/` is one command. `failure.rs` reports errors, and `store/` keeps runs.
#![forbid(unsafe_code)]

mod args;
mod browser;
mod budget_file;
mod commands;
mod failure;
mod store;
mod terminal;

use clap::Parser;
use clap::error::ErrorKind;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let started = pagewise_tools::find(std::env::args_os(), pagewise_kernel::start::file);
    if let Some((tool, arguments)) = started {
        return tool(arguments);
    }
    pagewise_tracee::wait::keep_ended_children();
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    terminal::choose_colour(cli.color);
    match commands::dispatch(cli.command) {
        Ok(code) => code,
        Err(failure) => terminal::report(&failure),
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
            match error.print().and_then(|()| std::io::stdout().flush()) {
                Err(why) if why.kind() != std::io::ErrorKind::BrokenPipe => {
                    terminal::report(&terminal::unwritten(&why))
                }
                _ if asked => ExitCode::SUCCESS,
                _ => ExitCode::from(failure::USAGE),
            }
        }
        _ => {
            let (line, help) = shorten(&error.to_string());
            terminal::report(&failure::CommandFailure::usage(line).with_help(help))
        }
    }
}

/// The first paragraph of a usage error as one line, and the tip or usage line that follows it.
fn shorten(text: &str) -> (String, String) {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let first: Vec<&str> = lines.iter().copied().take_while(|l| !l.is_empty()).collect();
    let line = first.join(" ");
    let line = line.strip_prefix("error: ").unwrap_or(&line).to_owned();
    let after = |start: &str| lines.iter().find_map(|l| l.strip_prefix(start)).map(str::to_owned);
    let help = after("tip: ").or_else(|| after("Usage: "));
    (line, help.unwrap_or_else(|| "pagewise --help, or pagewise COMMAND --help".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn a_usage_error_keeps_its_subject_and_its_tip() {
        let missing =
            "error: these are missing:\n  <FIRST>\n  <SECOND>\n\nUsage: pagewise compare\n";
        let (line, help) = shorten(missing);
        assert_eq!(line, "these are missing: <FIRST> <SECOND>");
        assert_eq!(help, "pagewise compare");
        let (_, help) = shorten("error: bad\n\n  tip: use --good\n\nUsage: pagewise\n");
        assert_eq!(help, "use --good");
        assert!(shorten("").1.contains("--help"));
    }
}
