//! `pagewise compare`

use crate::args::Compare;
use crate::failure::Failure;
use crate::{store, terminal};
use std::process::ExitCode;

/// Sets two saved runs side by side.
pub(super) fn run(args: &Compare) -> Result<ExitCode, Failure> {
    let first = store::load(Some(&args.first))?;
    let second = store::load(Some(&args.second))?;
    terminal::print(&pagewise_report::compare(&first, &second, &terminal::style()))?;
    Ok(ExitCode::SUCCESS)
}
