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
use crate::args::{Status, Text, TextVerb};
use crate::failure::Failure;
use crate::terminal;
use pagewise_judge::text::Sizes;
use pagewise_kernel::{clock, page_size};
use pagewise_model::Nanos;
use pagewise_model::body::Body;
use pagewise_model::run::RunKind;
use pagewise_model::text_report::TextReport;
use pagewise_observe::text as observed;
use std::path::Path;
use std::process::ExitCode;

/// Explains, warms, keeps, folds, collapses or counts code on huge pages.
pub(super) fn run(args: &Text) -> Result<ExitCode, Failure> {
    match &args.verb {
        TextVerb::Warm(args) => warm::run(args),
        TextVerb::Undo(args) => undo::run(args),
        TextVerb::Keep(args) => keep::run(args),
        TextVerb::Fold(args) => fold::run(args),
        TextVerb::Collapse(args) => collapse::run(args),
        TextVerb::System(args) => system::run(args),
        TextVerb::Explain(args) => explain::run(args),
        TextVerb::Status(args) => status(args),
    }
}

fn status(args: &Status) -> Result<ExitCode, Failure> {
    let start = clock::now();
    let found = observed::count_text(args.pid).map_err(|error| match args.pid {
        Some(pid) => explain::no_process(pid, &error),
        None => failure(&error),
    })?;
    tell(TextReport::Status(found), start, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a report.
fn tell(report: TextReport, start: Nanos, json: bool) -> Result<(), Failure> {
    show(&looked(RunKind::Text, Body::Text(report), start), json)
}

/// Records a file before its cache is filled again, so that `undo --all` finds it even if this run is killed.
/// A failure is only reported: nothing depends on the record.
fn record(path: &Path) {
    if let Err(why) = pagewise_remedy::record::note(path) {
        terminal::remark(&why);
    }
}

fn sizes() -> Sizes {
    Sizes { base: page_size::base(), huge: page_size::huge() }
}
