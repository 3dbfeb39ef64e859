//! One file per command; this file selects it.

mod ab;
mod apply;
mod bench;
mod cache;
mod calibrate;
mod check;
mod choose;
mod compare;
mod doctor;
mod experiment;
mod faults;
mod fleet;
mod generate;
mod helper;
mod history;
mod link_directory;
mod links;
mod metrics;
mod order;
mod page;
mod profile;
mod progress;
mod recheck;
mod run;
mod show;
mod signals;
mod text;
mod top;
mod tune;

use crate::args::CliCommand;
use crate::failure::CommandFailure;
use crate::terminal;
use pagewise_remedy::{folio_switches, reservation};
use std::process::ExitCode;

/// Runs the requested command.
pub(crate) fn dispatch(command: CliCommand) -> Result<ExitCode, CommandFailure> {
    if command.may_repair() {
        let repairs = [reservation::repair(), folio_switches::repair()];
        repairs.iter().flatten().for_each(|reported| terminal::remark(reported));
    }
    match command {
        CliCommand::Tune(args) => tune::run(&args),
        CliCommand::Ab(args) => ab::run(args),
        CliCommand::Run(args) => run::run(&args),
        CliCommand::Profile(args) => profile::run(&args),
        CliCommand::Faults(args) => faults::run(&args),
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Bench(args) => bench::run(&args),
        CliCommand::Page(args) => page::run(&args),
        CliCommand::Order(args) => order::run(&args),
        CliCommand::Text(args) => text::run(&args),
        CliCommand::Cache(args) => cache::run(&args),
        CliCommand::Choose(args) => choose::run(&args),
        CliCommand::Doctor(args) => doctor::run(&args),
        CliCommand::Show(args) => show::run(&args),
        CliCommand::Apply(args) => apply::run(&args),
        CliCommand::Recheck(args) => recheck::run(&args),
        CliCommand::Top(args) => top::run(&args),
        CliCommand::ExportMetrics(args) => metrics::run(&args),
        CliCommand::Merge(args) => fleet::pool(&args),
        CliCommand::Fleet(args) => fleet::run(&args),
        CliCommand::Compare(args) => compare::run(&args),
        CliCommand::History(args) => history::run(&args),
        CliCommand::Calibrate(args) => calibrate::run(&args),
        CliCommand::Cat(args) => Ok(pagewise_tools::cat(args.arguments)),
        CliCommand::Meter(args) => Ok(pagewise_tools::meter(args.arguments)),
        CliCommand::Tee(args) => Ok(pagewise_tools::tee(args.arguments)),
        CliCommand::Links(args) => links::run(&args),
        CliCommand::Completions(args) => generate::completions(&args),
        CliCommand::Man(args) => generate::manual(&args),
        CliCommand::Helper(args) => helper::run(&args),
    }
}
