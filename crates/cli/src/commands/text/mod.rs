//! `pagewise text`

mod collapse;
mod explain;
mod file;
mod fold;
mod keep;
mod system;
mod undo;
mod warm;

use super::cache::{failure, looked, show};
use crate::args::{TextArgs, TextCommand, TextStatusArgs};
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_judge::text::PageSizePair;
use pagewise_kernel::{clock, page_size};
use pagewise_model::Nanos;
use pagewise_model::body::RunBody;
use pagewise_model::run::RunKind;
use pagewise_model::text_report::TextReport;
use pagewise_observe::text as observed;
use std::path::Path;
use std::process::ExitCode;

/// Explains, warms, keeps, folds, collapses or counts code on huge pages.
pub(super) fn run(args: &TextArgs) -> Result<ExitCode, CommandFailure> {
    match &args.verb {
        TextCommand::Warm(args) => warm::run(args),
        TextCommand::Undo(args) => undo::run(args),
        TextCommand::Keep(args) => keep::run(args),
        TextCommand::Fold(args) => fold::run(args),
        TextCommand::Collapse(args) => collapse::run(args),
        TextCommand::System(args) => system::run(args),
        TextCommand::Explain(args) => explain::run(args),
        TextCommand::Status(args) => status(args),
    }
}

fn status(args: &TextStatusArgs) -> Result<ExitCode, CommandFailure> {
    let start = clock::now();
    let found = observed::count_text(args.pid).map_err(|error| match args.pid {
        Some(pid) => explain::no_process(pid, &error),
        None => failure(&error),
    })?;
    tell(TextReport::Status(found), start, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a report.
fn tell(report: TextReport, start: Nanos, json: bool) -> Result<(), CommandFailure> {
    show(&looked(RunKind::Text, RunBody::Text(report), start), json)
}

/// Records a file before its cache is filled again, so that `undo --all` finds it even if this run is killed.
/// A failure is only reported: nothing depends on the record.
fn record(path: &Path) {
    if let Err(why) = pagewise_remedy::record::note(path) {
        terminal::remark(&why);
    }
}

fn sizes() -> PageSizePair {
    PageSizePair { base: page_size::base(), huge: page_size::huge() }
}
