//! `pagewise compare`

use crate::args::Compare;
use crate::failure::Failure;
use crate::{store, terminal};
use pagewise_judge::race::between_sessions;
use pagewise_judge::service;
use pagewise_model::run::Run;
use std::process::ExitCode;

/// Sets two saved runs side by side.
pub(super) fn run(args: &Compare) -> Result<ExitCode, Failure> {
    let first = store::load(Some(&args.first))?;
    let second = store::load(Some(&args.second))?;
    let times = |run: &Run| run.plain_runs().iter().map(|usage| usage.wall_ns).collect::<Vec<_>>();
    let time = match (&first.service, &second.service) {
        (Some(a), Some(b)) => service::between(a, b),
        _ => between_sessions(&times(&first), &times(&second)),
    };
    let comparison = pagewise_report::compare(&first, &second, time.as_ref());
    terminal::print(&comparison.text(&terminal::style()))?;
    args.page.write(|| pagewise_report::comparison_page(&first, &second, &comparison))?;
    Ok(ExitCode::SUCCESS)
}
