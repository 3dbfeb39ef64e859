//! `pagewise compare`

use crate::args::CompareArgs;
use crate::failure::{CommandFailure, UNFIT};
use crate::{store, terminal};
use pagewise_judge::comparison::compare;
use pagewise_model::comparison::LimitWord;
use pagewise_model::run::SavedRun;
use std::process::ExitCode;

/// Exit code: the time grew by more than allowed.
const BEYOND: u8 = 1;

/// Compares saved runs side by side.
pub(super) fn run(args: &CompareArgs) -> Result<ExitCode, CommandFailure> {
    args.page.check()?;
    let load = |which: &String| store::load(Some(which));
    let runs: Vec<SavedRun> = args.runs.iter().map(load).collect::<Result<_, _>>()?;
    let comparison = compare(&runs, args.limit.map(|limit| limit.0));
    let shown = pagewise_report::compare(&runs, &comparison);
    if args.json {
        terminal::print_json(&comparison)?;
    } else {
        terminal::print(&shown.text(&terminal::style()))?;
    }
    if let Some(last) = runs.last() {
        args.page.write(|| pagewise_report::comparison_page(&comparison, last, &shown))?;
    }
    Ok(match comparison.limit() {
        Some(LimitWord::Beyond) => ExitCode::from(BEYOND),
        Some(LimitWord::CannotTell) => ExitCode::from(UNFIT),
        Some(LimitWord::Within) | None => ExitCode::SUCCESS,
    })
}
