//! One file per command; this file selects it.

mod ab;
mod apply;
mod bench;
mod cache;
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

use crate::args::Command;
use crate::failure::Failure;
use crate::{terminal, tools};
use pagewise_remedy::{folio_switches, reservation};
use std::process::ExitCode;

/// Runs the requested command.
pub(crate) fn dispatch(command: Command) -> Result<ExitCode, Failure> {
    if command.may_repair() {
        let repairs = [reservation::repair(), folio_switches::repair()];
        repairs.iter().flatten().for_each(|reported| terminal::remark(reported));
    }
    match command {
        Command::Tune(args) => tune::run(&args),
        Command::Ab(args) => ab::run(args),
        Command::Run(args) => run::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Bench(args) => bench::run(&args),
        Command::Page(args) => page::run(&args),
        Command::Order(args) => order::run(&args),
        Command::Text(args) => text::run(&args),
        Command::Cache(args) => cache::run(&args),
        Command::Choose(args) => choose::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Apply(args) => apply::run(&args),
        Command::Recheck(args) => recheck::run(&args),
        Command::Top(args) => top::run(&args),
        Command::ExportMetrics(args) => metrics::run(&args),
        Command::Merge(args) => fleet::pool(&args),
        Command::Fleet(args) => fleet::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::History(args) => history::run(&args),
        Command::Cat(args) => Ok(tools::cat(args.arguments)),
        Command::Meter(args) => Ok(tools::meter(args.arguments)),
        Command::Tee(args) => Ok(tools::tee(args.arguments)),
        Command::Links(args) => links::run(&args),
        Command::Completions(args) => generate::completions(&args),
        Command::Man(args) => generate::manual(&args),
        Command::Helper(args) => helper::run(&args),
    }
}
