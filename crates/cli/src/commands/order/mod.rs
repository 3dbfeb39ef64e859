//! `pagewise order`

mod check;
mod close;
mod emit;
mod lists;
mod predict;
mod record;
mod touches;

use crate::args::{Order, OrderVerb};
use crate::failure::Failure;
use std::process::ExitCode;

/// Works out orders of functions.
pub(super) fn run(args: &Order) -> Result<ExitCode, Failure> {
    match &args.verb {
        OrderVerb::Close(args) => close::run(args),
        OrderVerb::Emit(args) => emit::run(args),
        OrderVerb::Predict(args) => predict::run(args),
        OrderVerb::Record(args) => record::run(args),
        OrderVerb::Check(args) => check::run(args),
    }
}
