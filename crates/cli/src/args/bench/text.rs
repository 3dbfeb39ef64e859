//! `pagewise bench text`

use super::BenchOutputArgs;
use super::tlb::PAGE_KINDS;
use crate::args::ExperimentArgs;
use crate::args::experiment::OUTPUTS;
use crate::args::values::values;
use clap::{Args, ValueEnum};
use pagewise_model::Bytes;
use pagewise_model::bench::text::JumpOrder;
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::spec::StdoutTarget;
use std::ffi::OsString;
use std::path::PathBuf;

/// `pagewise bench text`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench text --quick                    the short form, under 20 s
  pagewise bench text --chart code.html          everything, some minutes
  pagewise bench text --only sizes --pages base,thp,pool --largest 64M
  pagewise bench text --only knees --csv pages.csv
  pagewise bench text -- g++ -O2 -c -o /dev/null big.cpp
  pagewise bench text --pairs 40 --input data.json -- node job.js
  pagewise bench text --files /opt/db/bin/postgres --rerun-safe -- ./load.sh

Without a command, pagewise runs generated code with one jump on each base page,
on base pages and on huge ones: in an order that branch predictors learn, and in
an unpredictable one. It looks for knees with a growing number of pages. The
code is written, made read-only, then executed. Every sample is a fresh mapping
with a page size proven by the kernel, and a sum proves that all of it ran.

With a command, pagewise runs the program in random order with its code on base
pages (off: its files are dropped from the page cache and read by a plain start)
and on huge pages (on: pagewise run --with text-huge). For both it reads from
the kernel how much of the text is on huge pages.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, cannot
tell, or another experiment runs; 126 not executable; 127 not found; 130
interrupted, after printing what is known.")]
pub(crate) struct TextBenchArgs {
    /// Run a short form: code up to 64M, coarser steps, at most 18 s
    #[arg(long, conflicts_with = "command")]
    pub(crate) quick: bool,
    /// Measure only these parts
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub(crate) only: Vec<TextPartChoice>,
    /// Which pages to use [default: base,thp]
    #[arg(
        long,
        value_parser = values(PAGE_KINDS),
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub(crate) pages: Vec<PageKind>,
    /// Order of the jumps through code of growing size [default: both]
    #[arg(
        long,
        value_parser = values(ORDERS),
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "command"
    )]
    pub(crate) order: Vec<JumpOrder>,
    /// Smallest code [default: 64K]
    #[arg(long, value_name = "SIZE", conflicts_with = "command")]
    pub(crate) smallest: Option<Bytes>,
    /// Largest code, as far as memory allows [default: 256M]
    #[arg(long, value_name = "SIZE", conflicts_with = "command")]
    pub(crate) largest: Option<Bytes>,
    /// Fresh mappings for each point
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "command", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    #[command(flatten)]
    pub(crate) program: TextTrialArgs,
    #[command(flatten)]
    pub(crate) result: BenchOutputArgs,
    /// A program to try instead of generated code, and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// How a program is tried.
#[derive(Debug, Args)]
#[command(next_help_heading = "With a command")]
pub(crate) struct TextTrialArgs {
    /// Pairs of runs, one on and one off [default: 24]
    #[arg(long, value_name = "N", requires = "command", value_parser = clap::value_parser!(u32).range(8..=1000))]
    pub(crate) pairs: Option<u32>,
    /// Files with its code, separated by : [default: the files that a traced run maps]
    #[arg(long, value_name = "LIST", requires = "command")]
    pub(crate) files: Option<String>,
    /// Read its standard input from FILE
    #[arg(long, value_name = "FILE", requires = "command")]
    pub(crate) input: Option<PathBuf>,
    /// Send its standard output in timed runs here [default: null]
    #[arg(long, value_parser = values(OUTPUTS), value_name = "KIND", requires = "command")]
    pub(crate) stdout: Option<StdoutTarget>,
    /// Compare this file, written by the program, between arms (repeatable)
    #[arg(long = "output", value_name = "FILE", requires = "command")]
    pub(crate) outputs: Vec<PathBuf>,
    /// Declare that running the program again is safe, whatever it writes
    #[arg(long, requires = "command")]
    pub(crate) rerun_safe: bool,
    /// Run this shell command before each run (not timed)
    #[arg(long, value_name = "CMD", requires = "command")]
    pub(crate) prepare: Option<String>,
    /// Run this shell command after each run (not timed)
    #[arg(long, value_name = "CMD", requires = "command")]
    pub(crate) cleanup: Option<String>,
    /// Accept a program that fails, if it always fails in the same way
    #[arg(long, requires = "command")]
    pub(crate) ignore_failure: bool,
}

impl TextBenchArgs {
    /// The conditions of an experiment with the command.
    pub(crate) fn experiment(&self) -> ExperimentArgs {
        let (program, result) = (&self.program, &self.result);
        ExperimentArgs {
            budget: None,
            input: program.input.clone(),
            stdout: program.stdout.unwrap_or_default(),
            outputs: program.outputs.clone(),
            rerun_safe: program.rerun_safe,
            prepare: program.prepare.clone(),
            cleanup: program.cleanup.clone(),
            ignore_failure: program.ignore_failure,
            in_turn: true,
            patience: result.patience(),
            verbose: result.verbose,
            seed: result.seed,
            files: result.files.clone(),
            json: result.json,
            quiet: result.quiet,
        }
    }
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextPartChoice {
    /// Code of growing size
    Sizes,
    /// A growing number of pages: the reach of the instruction TLB
    Knees,
}

/// The order of jumps.
const ORDERS: &[(JumpOrder, &str)] = &[
    (JumpOrder::Repeated, "The same in each lap; branch predictors learn it"),
    (JumpOrder::Changing, "Different in each lap; nothing can predict it"),
];
