//! `pagewise history`

use crate::args::HistoryArgs;
use crate::failure::CommandFailure;
use crate::{store, terminal};
use pagewise_judge::history::{lost_gains, trends};
use pagewise_judge::prediction::outcomes;
use pagewise_model::run::SavedRun;
use pagewise_report::RunHead;
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;

/// Number of runs that are listed without `--all`.
const SHOWN: usize = 15;

/// Lists saved runs, oldest first, or shows how the times of their programs changed.
pub(super) fn run(args: &HistoryArgs) -> Result<ExitCode, CommandFailure> {
    let is_wanted = |name: &String, command: &[String]| is_of(command, name);
    let filter = args.program.as_ref();
    let (numbers, runs): (Vec<usize>, Vec<SavedRun>) = store::all()?
        .into_iter()
        .filter(|(_, run)| filter.is_none_or(|name| is_wanted(name, &run.command)))
        .unzip();
    if args.predictions {
        return predictions(&runs, args.json);
    }
    match (args.trend, args.json) {
        (true, true) => print_lines(&trends(&runs))?,
        (false, true) => print_lines(&runs)?,
        (true, false) => {
            let text = pagewise_report::trend_table(&trends(&runs), &terminal::style());
            terminal::print(&text)?;
        }
        (false, false) => list(&numbers, &runs, args.all)?,
    }
    if !args.json {
        let mut rechecks = store::rechecks()?;
        rechecks.retain(|one| filter.is_none_or(|name| is_wanted(name, &one.command)));
        let lost = pagewise_report::lost_gains_page(&lost_gains(&runs, &rechecks));
        terminal::print(&lost.text(&terminal::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows predicted gains beside measured ones.
fn predictions(runs: &[SavedRun], json: bool) -> Result<ExitCode, CommandFailure> {
    let all = outcomes(runs);
    if json {
        print_lines(&all)?;
    } else {
        terminal::print(&pagewise_report::prediction_table(&all, &terminal::style()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn list(numbers: &[usize], runs: &[SavedRun], all: bool) -> Result<(), CommandFailure> {
    let older = if all { 0 } else { runs.len().saturating_sub(SHOWN) };
    let heads = numbers.iter().zip(runs).skip(older);
    let heads: Vec<RunHead> = heads.map(|(number, run)| RunHead::new(*number, run)).collect();
    let mut text = pagewise_report::history_table(&heads, &terminal::style());
    if older > 0 {
        text.push_str(&format!("  {older} older: pagewise history --all\n"));
    }
    terminal::print(&text)
}

fn print_lines<T: Serialize>(all: &[T]) -> Result<(), CommandFailure> {
    for one in all {
        let line = serde_json::to_string(one)
            .map_err(|e| CommandFailure::usage(format!("cannot write a line of JSON: {e}")))?;
        terminal::print(&(line + "\n"))?;
    }
    Ok(())
}

/// Whether the command starts a program with this file name.
fn is_of(command: &[String], name: &str) -> bool {
    let program = command.first().and_then(|program| Path::new(program).file_name());
    program.is_some_and(|file| file == name)
}
