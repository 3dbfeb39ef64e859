//! `pagewise order`

mod check;
mod close;
mod emit;
mod hooks;
mod lists;
mod predict;
mod record;
mod touches;

use super::experiment;
use crate::args::{Order, OrderVerb};
use crate::failure::Failure;
use crate::terminal;
use pagewise_model::run::{Run, RunKind};
use pagewise_report::Document;
use std::ffi::OsString;
use std::process::ExitCode;

/// Computes orders of functions.
pub(super) fn run(args: &Order) -> Result<ExitCode, Failure> {
    match &args.verb {
        OrderVerb::Close(args) => close::run(args),
        OrderVerb::Emit(args) => emit::run(args),
        OrderVerb::Hooks(args) => hooks::run(args),
        OrderVerb::Predict(args) => predict::run(args),
        OrderVerb::Record(args) => record::run(args),
        OrderVerb::Check(args) => check::run(args),
    }
}

/// The run that a page shows as its origin.
fn run_of(kind: RunKind, command: &[OsString]) -> Run {
    let (started, id) = experiment::identity(command);
    let mut run = pagewise_tune::request::run_of(kind, id, started, command);
    run.machine = Some(pagewise_kernel::machine::machine());
    run
}

/// Prints the map on standard error: standard output may hold a list or JSON.
fn show_map(map: Option<Document>) {
    if let Some(map) = map {
        map.text(&terminal::error_style()).lines().for_each(terminal::complain);
    }
}
