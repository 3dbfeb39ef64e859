//! `pagewise bench text`

use super::BenchOutputArgs;
use super::tlb::PAGE_KINDS;
use crate::args::ExperimentArgs;
use crate::args::experiment::OUTPUTS;
use crate::args::server::ServerLoadArgs;
use crate::args::values::values;
use clap::{ArgGroup, Args, ValueEnum};
use pagewise_model::bench::text::JumpOrder;
use pagewise_model::bench::tlb::PageKind;
use pagewise_model::spec::StdoutTarget;
use pagewise_model::{Bytes, Nanos};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// `pagewise bench text`
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("tried").args(["command", "serve"])))]
#[command(after_help = "\
Examples:
  pagewise bench text --quick                    the short form, under 20 s
  pagewise bench text --chart code.html          everything, some minutes
  pagewise bench text --only sizes --pages base,thp,pool --largest 64M
  pagewise bench text --only knees --csv pages.csv
  pagewise bench text -- g++ -O2 -c -o /dev/null big.cpp
  pagewise bench text --pairs 40 --input data.json -- node job.js
  pagewise bench text --files /opt/db/bin/postgres --rerun-safe -- ./load.sh
  pagewise bench text --clients 1,25%,50%,100% --budget 10m \\
      --serve 'redis-server --port {port} --save \"\"' --ready tcp:{port} \\
      --load 'redis-benchmark -p {port} -t get -n 50000 -c {clients} --csv'
  pagewise bench text --jobs 1,100% --disturb -- node job.js

Without a command, pagewise runs generated code with one jump on each base page,
on base pages and on huge ones: in an order that branch predictors learn, and in
an unpredictable one. It looks for knees with a growing number of pages. The
code is written, made read-only, then executed. Every sample is a fresh mapping
with a page size proven by the kernel, and a sum proves that all of it ran.

With a command, pagewise runs the program in random order with its code on base
pages (off: its files are dropped from the page cache and read by a plain start)
and on huge pages (on: pagewise run --with text-huge). For both it reads from
the kernel how much of the text is on huge pages, and counts misses of the iTLB
in 1000 instructions, or estimates them from single steps of one run.

With --clients, it starts two servers, on and off, and loads them at once with
each number of clients, each server on half of the CPUs (see pagewise tune
--serve). With --jobs, it runs as many copies of a program of each. Both arms
run folded copies of the program's file. The ratio of throughput has a 95%
interval at each size; more budget narrows it. --disturb adds each size beside
a busy neighbour.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, cannot
tell, or another experiment runs; 126 not executable; 127 not found; 130
interrupted, after printing what is known.")]
pub(crate) struct TextBenchArgs {
    /// Run a short form: code up to 64M, coarser steps, at most 18 s
    #[arg(long, conflicts_with = "tried")]
    pub(crate) quick: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', conflicts_with = "tried")]
    pub(crate) only: Vec<TextPartChoice>,
    /// Which pages to use [default: base,thp]
    #[arg(
        long,
        value_parser = values(PAGE_KINDS),
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "tried"
    )]
    pub(crate) pages: Vec<PageKind>,
    /// Order of the jumps through code of growing size [default: both]
    #[arg(
        long,
        value_parser = values(ORDERS),
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "tried"
    )]
    pub(crate) order: Vec<JumpOrder>,
    /// Smallest code [default: 64K]
    #[arg(long, value_name = "SIZE", conflicts_with = "tried")]
    pub(crate) smallest: Option<Bytes>,
    /// Largest code, as far as memory allows [default: 256M]
    #[arg(long, value_name = "SIZE", conflicts_with = "tried")]
    pub(crate) largest: Option<Bytes>,
    /// Fresh mappings for each point
    #[arg(long, value_name = "N", default_value_t = 10, conflicts_with = "tried", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    #[command(flatten)]
    pub(crate) program: TextTrialArgs,
    #[command(flatten)]
    pub(crate) load: TextLoadArgs,
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
    /// Run this shell command before each run or start of the server (not timed)
    #[arg(long, value_name = "CMD", requires = "tried")]
    pub(crate) prepare: Option<String>,
    /// Run this shell command after each run, or end of the server (not timed)
    #[arg(long, value_name = "CMD", requires = "tried")]
    pub(crate) cleanup: Option<String>,
    /// Accept a program that fails, if it always fails in the same way
    #[arg(long, requires = "command")]
    pub(crate) ignore_failure: bool,
}

/// Loads of several sizes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Throughput under load")]
#[command(group(ArgGroup::new("service").args(["serve"])))]
#[command(group(ArgGroup::new("sizes").args(["clients", "jobs"])))]
pub(crate) struct TextLoadArgs {
    /// Measure this server, started in the foreground, under --load
    #[arg(long, value_name = "CMD", requires_all = ["ready", "load", "clients"])]
    pub(crate) serve: Option<String>,
    /// Numbers of clients, {clients} in --load: numbers or shares of a server's CPUs, such as 1,25%,50%,100%
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "serve")]
    pub(crate) clients: Vec<LoadSize>,
    /// Numbers of copies of the program that run at once
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        requires = "command",
        conflicts_with_all = ["pairs", "files", "outputs", "prepare", "cleanup", "ignore_failure"]
    )]
    pub(crate) jobs: Vec<LoadSize>,
    /// Measure each size also beside a busy neighbour, a thread of pagewise on every second CPU
    #[arg(long, requires = "sizes")]
    pub(crate) disturb: bool,
    /// Load off and on one after the other, with all CPUs, not at once: much more noise on a busy machine
    #[arg(long, requires = "sizes")]
    pub(crate) in_turn: bool,
    /// Time for the whole session [default: 5m]
    #[arg(long, value_name = "TIME", requires = "sizes")]
    pub(crate) budget: Option<Nanos>,
    #[command(flatten)]
    pub(crate) server: ServerLoadArgs,
}

/// The size of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoadSize {
    Count(u32),
    /// Percent of the CPUs.
    Percent(u32),
}

impl LoadSize {
    /// Largest number, and largest percentage.
    const MOST: u32 = 10_000;

    /// As a number, if there are so many CPUs; at least 1.
    pub(crate) fn number(self, cpus: u32) -> u32 {
        match self {
            Self::Count(number) => number,
            Self::Percent(percent) => (percent.saturating_mul(cpus)).div_ceil(100).max(1),
        }
    }
}

impl FromStr for LoadSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, size): (_, fn(u32) -> Self) = match text.strip_suffix('%') {
            Some(digits) => (digits, Self::Percent),
            None => (text, Self::Count),
        };
        let number = digits.parse().ok().filter(|number| (1..=Self::MOST).contains(number));
        let bad = || format!("use numbers from 1 to {0}, or 1% to {0}% of the CPUs", Self::MOST);
        number.map(size).ok_or_else(bad)
    }
}

impl TextBenchArgs {
    /// The conditions of an experiment with the command.
    pub(crate) fn experiment(&self) -> ExperimentArgs {
        let (program, result) = (&self.program, &self.result);
        ExperimentArgs {
            budget: self.load.budget,
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

#[cfg(test)]
mod tests {
    use super::LoadSize;

    #[test]
    fn sizes_are_numbers_or_shares_of_the_cpus() {
        let number = |text: &str, cpus| text.parse::<LoadSize>().map(|size| size.number(cpus));
        let all = ["1", "25%", "50%", "100%", "400%"];
        assert_eq!(all.map(|text| number(text, 2).unwrap()), [1, 1, 1, 2, 8]);
        assert_eq!(all.map(|text| number(text, 10).unwrap()), [1, 3, 5, 10, 40]);
        for bad in ["", "0", "0%", "%", "-1", "1.5", "10001", "x", "5 %"] {
            let why = number(bad, 2).unwrap_err();
            assert!(why.starts_with("use numbers from 1 to 10000"), "{bad}: {why}");
        }
    }
}
