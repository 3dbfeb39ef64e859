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

Arms race in random order beside the plain program, until the answer is clear or
the budget is over. A gain is kept only when it is proven, moved its own kernel
counter and left the output as it was. --continue adds runs to a saved session;
it is refused when the program, its input or the machine has changed.

Exit codes: 0 done, 2 usage or failure, 3 cannot tell or another experiment
runs, 126 cannot be executed, 127 not found, 130 interrupted: what is known by
then is printed. A result that cannot be saved is printed all the same; only a
failing --save is a failure.")]
pub(crate) struct Tune {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Stop after the advice: nothing is tried
    #[arg(long)]
    pub(crate) advise: bool,
    /// Try only these remedies (NAME or NAME=PARAMETER, separated by commas)
    #[arg(long, value_name = "LIST")]
    pub(crate) only: Option<String>,
    /// Settings of the whole machine may be changed while it lasts: pool reserves pages (root)
    #[arg(long)]
    pub(crate) system: bool,
    /// One more arm: a command of yours to set against the plain one (repeatable)
    #[arg(long = "arm", value_name = "NAME=CMD")]
    pub(crate) arms: Vec<String>,
    /// Go on where a saved session stopped: an identifier from `pagewise history`, or a file
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
