//! `pagewise history`

use crate::args::History;
use crate::failure::Failure;
use crate::{store, terminal};
use std::process::ExitCode;

/// Lists saved runs, oldest first.
pub(super) fn run(args: &History) -> Result<ExitCode, Failure> {
    let runs = store::all()?;
    if args.json {
        for run in &runs {
            let line = serde_json::to_string(run)
                .map_err(|e| Failure::usage(format!("cannot write run `{}`: {e}", run.id)))?;
            terminal::print(&(line + "\n"));
        }
    } else {
        terminal::print(&pagewise_report::history_table(&runs, &terminal::style()));
    }
    Ok(ExitCode::SUCCESS)
}
