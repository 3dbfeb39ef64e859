//! `pagewise order`

mod builds;
mod check;
mod close;
mod emit;
mod hooks;
mod lists;
mod predict;
mod record;
mod starts;
mod touches;

use super::experiment;
use crate::args::{OrderArgs, OrderCommand};
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_model::run::{RunKind, SavedRun};
use pagewise_report::ReportDocument;
use std::ffi::OsString;
use std::process::ExitCode;

/// Computes orders of functions.
pub(super) fn run(args: &OrderArgs) -> Result<ExitCode, CommandFailure> {
    match &args.verb {
        OrderCommand::Close(args) => close::run(args),
        OrderCommand::Emit(args) => emit::run(args),
        OrderCommand::Hooks(args) => hooks::run(args),
        OrderCommand::Predict(args) => predict::run(args),
        OrderCommand::Record(args) => record::run(args),
        OrderCommand::Check(args) => check::run(args),
        OrderCommand::Builds(args) => builds::run(args),
    }
}

/// The run that a page shows as its origin.
fn run_of(kind: RunKind, command: &[OsString]) -> SavedRun {
    let (started, id) = experiment::identity(command);
    let mut run = pagewise_tune::request::run_of(kind, id, started, command);
    run.machine = Some(pagewise_kernel::machine::machine());
    run
}

/// Prints the map on standard error: standard output may hold a list or JSON.
fn show_map(map: Option<ReportDocument>) {
    if let Some(map) = map {
        map.text(&terminal::error_style()).lines().for_each(terminal::complain);
    }
}
