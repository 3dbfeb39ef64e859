//! `pagewise tune`

use super::ExperimentArgs;
use clap::Args;
use std::ffi::OsString;

/// `pagewise tune`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise tune -- sort -o /dev/null big.txt
  pagewise tune --input data.json -- jq .name
  pagewise tune --prepare 'rm -rf out' -- make -C src
  pagewise tune --arm 'tuned=./job --threads 1' -- ./job
  pagewise tune --continue 1793000000000-4711-job --budget 60s

Arms run in random order beside the plain program, until the answer is clear or
the budget is over. pagewise keeps a gain only if it is proven, moved its own
kernel counter and left the output unchanged. --continue adds runs to a saved
session. It is refused if the program, its input or the machine has changed.

Exit codes: 0 done; 2 usage or failure; 3 cannot tell, or another experiment
runs; 126 not executable; 127 not found; 130 interrupted, after printing what is
known. A result that cannot be saved is printed anyway; only a failing --save
is a failure.")]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Stop after the advice; try nothing
    #[arg(long)]
    pub(crate) advise: bool,
    /// Try only these remedies (NAME or NAME=PARAMETER, separated by commas)
    #[arg(long, value_name = "LIST")]
    pub(crate) only: Option<String>,
    /// Allow changes to machine-wide settings during the session: pool reserves pages (root)
    #[arg(long)]
    pub(crate) system: bool,
    /// Add an arm: your own command, compared with the plain one (repeatable)
    #[arg(long = "arm", value_name = "NAME=CMD")]
    pub(crate) arms: Vec<String>,
    /// Continue a saved session: a number or identifier from `pagewise history`, or a file
    #[arg(
        long = "continue",
        value_name = "RUN",
        conflicts_with_all = [
            "input", "stdout", "outputs", "rerun_safe", "prepare", "cleanup", "ignore_failure",
            "advise", "only", "arms", "command",
        ]
    )]
    pub(crate) earlier: Option<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}
