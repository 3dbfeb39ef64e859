//! `pagewise history`

use crate::args::History;
use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_model::run::Run;
use pagewise_report::RunHead;
use std::path::Path;
use std::process::ExitCode;

/// Runs that are listed without `--all`.
const SHOWN: usize = 20;

/// Lists saved runs, oldest first.
pub(super) fn run(args: &History) -> Result<ExitCode, Failure> {
    let mut runs: Vec<(usize, Run)> = store::all()?
        .into_iter()
        .filter(|(_, run)| args.program.as_ref().is_none_or(|name| is_of(run, name)))
        .collect();
    if args.json {
        for (_, run) in &runs {
            let line = serde_json::to_string(run)
                .map_err(|e| Failure::usage(format!("cannot write run `{}`: {e}", run.id)))?;
            terminal::print(&(line + "\n"))?;
        }
    } else {
        let older = if args.all { 0 } else { runs.len().saturating_sub(SHOWN) };
        let heads: Vec<RunHead> =
            runs.drain(..).skip(older).map(|(number, run)| RunHead::new(number, &run)).collect();
        let mut text = pagewise_report::history_table(&heads, &terminal::style());
        if older > 0 {
            text.push_str(&format!("  {older} older: pagewise history --all\n"));
        }
        terminal::print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The run's command starts the program of this file name.
fn is_of(run: &Run, name: &str) -> bool {
    run.command
        .first()
        .is_some_and(|program| Path::new(program).file_name().is_some_and(|file| file == name))
}
