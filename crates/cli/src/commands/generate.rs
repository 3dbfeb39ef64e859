//! Completion scripts and manual pages, generated from the definition of the help.

use crate::args::{Cli, CompletionsArgs, ManArgs};
use crate::failure::CommandFailure;
use crate::terminal;
use clap::CommandFactory;
use std::io::{self, Write};
use std::process::ExitCode;

/// Prints a shell's completion script.
pub(super) fn completions(args: &CompletionsArgs) -> Result<ExitCode, CommandFailure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut shown(), "pagewise", &mut text);
    terminal::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The command definition without hidden commands, which completion scripts would offer.
fn shown() -> clap::Command {
    let all = Cli::command();
    clap::Command::new("pagewise")
        .args(all.get_arguments().cloned())
        .subcommands(all.get_subcommands().filter(|c| !c.is_hide_set()).cloned())
}

/// Prints the manual page of the program or of one command.
pub(super) fn manual(args: &ManArgs) -> Result<ExitCode, CommandFailure> {
    let mut all = Cli::command();
    all.build();
    let page = match &args.command {
        None => all,
        Some(name) => {
            all.find_subcommand(name).filter(|c| !c.is_hide_set()).cloned().ok_or_else(|| {
                CommandFailure::usage(format!("no command `{name}`"))
                    .with_help("pagewise --help lists them")
            })?
        }
    };
    let help = pagewise_tools::help(page.get_name());
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(page);
    let rendered = match help {
        Some(help) => tool_page(&page, help, &mut text),
        None => page.render(&mut text),
    };
    rendered.map_err(|e| CommandFailure::usage(format!("cannot write the manual page: {e}")))?;
    terminal::print(&String::from_utf8_lossy(&text))?;
    Ok(ExitCode::SUCCESS)
}

/// The page of a tool that parses its own command line: its help text, with lines kept (`.nf`).
fn tool_page(page: &clap_mangen::Man, help: &str, to: &mut Vec<u8>) -> io::Result<()> {
    page.render_title(to)?;
    page.render_name_section(to)?;
    let text = help.replace('\\', "\\e").replace('-', "\\-");
    // No line of the help begins with a dot or a quote, which roff would parse as a request.
    writeln!(to, ".SH DESCRIPTION\n.nf\n{text}.fi")
}
