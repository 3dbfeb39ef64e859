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
            terminal::print(&(line + "\n"))?;
        }
    } else {
        let heads: Vec<_> = runs.iter().map(pagewise_report::RunHead::from).collect();
        terminal::print(&pagewise_report::history_table(&heads, &terminal::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}
