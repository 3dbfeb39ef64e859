//! `pagewise order hooks`

use crate::args::OrderHooksArgs;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_observe::order::HOOKS;
use pagewise_report::order::hooks_section;
use std::process::ExitCode;

/// File name of the source.
const NAME: &str = "pagewise_hooks.c";

/// Writes the source of the hooks and shows how to use it.
pub(super) fn run(args: &OrderHooksArgs) -> Result<ExitCode, CommandFailure> {
    let file = args.directory.join(NAME);
    store::write_whole(&file, HOOKS)?;
    let shown = hooks_section(&file.to_string_lossy());
    terminal::print(&shown.text(&terminal::style()))?;
    Ok(ExitCode::SUCCESS)
}
