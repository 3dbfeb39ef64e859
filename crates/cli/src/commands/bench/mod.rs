//! `pagewise bench`

pub(super) mod file;
mod fork;
mod load;
mod memory;
mod pin;
mod pipe;
mod program;
mod rungs;
mod session;
mod text;
mod tlb;

pub(super) use session::BenchControl;

use crate::args::{BenchArgs, BenchCommand};
use crate::failure::CommandFailure;
use std::process::ExitCode;

/// Measures the gain of each technique on this machine.
pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, CommandFailure> {
    match &args.what {
        BenchCommand::Pipe(args) => pipe::run(args),
        BenchCommand::Tlb(args) => tlb::run(args),
        BenchCommand::Memory(args) => memory::run(args),
        BenchCommand::File(args) => file::run(args),
        BenchCommand::Pin(args) => pin::run(args),
        BenchCommand::Fork(args) => fork::run(args),
        BenchCommand::Text(args) => text::run(args),
    }
}

/// Sorts and removes duplicates.
pub(super) fn once_each<T: Ord>(mut all: Vec<T>) -> Vec<T> {
    all.sort_unstable();
    all.dedup();
    all
}

/// The given values, each once, or the usual ones if none was given.
fn chosen<W: Copy + Into<T>, T: Ord>(typed: &[W], usual: Vec<T>) -> Vec<T> {
    if typed.is_empty() {
        usual
    } else {
        once_each(typed.iter().map(|word| (*word).into()).collect())
    }
}

/// Parses the command line of a bench.
#[cfg(test)]
fn typed(bench: &str, words: &[&str]) -> Result<BenchCommand, clap::Error> {
    use clap::Parser;
    let start = ["pagewise", "bench", bench];
    match crate::args::Cli::try_parse_from(start.iter().chain(words))?.command {
        crate::args::CliCommand::Bench(bench) => Ok(bench.what),
        _ => panic!("not bench"),
    }
}
