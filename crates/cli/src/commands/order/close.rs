//! `pagewise order close`

use crate::args::OrderCloseArgs;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::order::link_order;
use pagewise_kernel::page_size;
use pagewise_observe::order::{ObjectError, read_objects};
use pagewise_report::order::close_section;
use std::process::ExitCode;

/// Prints the link order of the functions that the entry points reach.
pub(super) fn run(args: &OrderCloseArgs) -> Result<ExitCode, CommandFailure> {
    let pieces = read_objects(&args.objects).map_err(refusal)?;
    let by = args.by;
    let order = link_order(&pieces, &args.entry, by, page_size::base()).map_err(|missing| {
        CommandFailure::usage(format!("no object file defines {}", missing.join(", ")))
            .with_help("name the symbol where the program starts, as nm shows it: --entry NAME")
    })?;
    let style = terminal::error_style();
    for line in close_section(&order, by, pieces.undefined.len() as u64).text(&style).lines() {
        terminal::complain(line);
    }
    let mut text = order.names.join("\n");
    text.push('\n');
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The failure to read object files.
pub(super) fn refusal(error: ObjectError) -> CommandFailure {
    let help = match error {
        ObjectError::Unreadable(..) => None,
        ObjectError::NotObject(_) => Some("give files ending in .o, .a or .rlib"),
        ObjectError::Intermediate(_) => Some("compile without -flto, or record a run instead"),
    };
    let failure = CommandFailure::usage(error.to_string());
    match help {
        Some(help) => failure.with_help(help),
        None => failure,
    }
}
