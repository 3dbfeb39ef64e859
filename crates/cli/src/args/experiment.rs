//! Options that every experiment takes.

use super::SaveArgs;
use super::values::values;
use clap::Args;
use pagewise_model::Nanos;
use pagewise_model::spec::StdoutTarget;
use std::path::PathBuf;

/// Where the program's standard output goes during timed runs, the same for all arms.
pub(crate) const OUTPUTS: &[(StdoutTarget, &str)] = &[
    (StdoutTarget::Pipe, "A pipe that is read at once"),
    (StdoutTarget::Null, "/dev/null, for which grep, tar and others do no work"),
    (StdoutTarget::File, "A file in a scratch directory"),
];

/// What to do while another experiment runs on this machine.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct LockWaitArgs {
    /// Wait this long for another experiment on this machine to end, such as 1h [default: 5m]
    #[arg(long, value_name = "TIME")]
    pub(crate) wait: Option<Nanos>,
    /// Do not wait for another experiment
    #[arg(long, conflicts_with = "wait")]
    pub(crate) no_wait: bool,
}

impl LockWaitArgs {
    /// Default time to wait.
    const USUAL: Nanos = Nanos::secs(5 * 60);

    pub(crate) fn time(self) -> Nanos {
        match self.wait {
            _ if self.no_wait => Nanos(0),
            asked => asked.unwrap_or(Self::USUAL),
        }
    }
}

/// Options that every experiment takes.
#[derive(Debug, Default, Args)]
pub(crate) struct ExperimentArgs {
    /// Time for the whole session, such as 90s or 5m [default: until the answer is clear, at most
    /// the larger of 60 s and 40 runs]
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<Nanos>,
    /// Read the program's standard input from FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Send standard output of timed runs here
    #[arg(long, value_parser = values(OUTPUTS), default_value = "pipe", value_name = "KIND")]
    pub(crate) stdout: StdoutTarget,
    /// Compare this file, written by the program, between arms (repeatable)
    #[arg(long = "output", value_name = "FILE")]
    pub(crate) outputs: Vec<PathBuf>,
    /// Declare that running the program again is safe, whatever it writes
    #[arg(long)]
    pub(crate) rerun_safe: bool,
    /// Run this shell command before each run (not timed)
    #[arg(long, value_name = "CMD")]
    pub(crate) prepare: Option<String>,
    /// Run this shell command after each run (not timed)
    #[arg(long, value_name = "CMD")]
    pub(crate) cleanup: Option<String>,
    /// Make one run at a time, even if runs at the same time on one CPU would answer sooner
    #[arg(long)]
    pub(crate) in_turn: bool,
    /// Accept a program that fails, if it always fails in the same way
    #[arg(long)]
    pub(crate) ignore_failure: bool,
    #[command(flatten)]
    pub(crate) patience: LockWaitArgs,
    /// Seed of the random order of runs
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) files: SaveArgs,
    /// Print the whole report: every cost with its evidence, every arm with its reason, all remedies
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print JSON, as saved, instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// No progress display
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
