//! `pagewise check`

use super::LockWaitArgs;
use clap::Args;
use std::path::PathBuf;

/// `pagewise check`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise check                                 all budgets of pagewise.toml
  pagewise check startup                         one of them
  pagewise check --junit report.xml --markdown summary.md

The file has a table for each name. Every key but command is optional:
  [check.startup]
  command = [\"./app\", \"--version\"]
  max-faults = 2000                # page faults
  max-major = 0                    # of them with I/O
  max-touched-pages = 900          # pages faulted on
  max-fault-time = \"250ms\"         # all faults together
  max-copied = \"64K\"               # through read- and write-like calls
  max-wakeups = 20                 # times it waits
  max-resident = \"40M\"             # its largest process
  baseline = [\"./app-1.0\", \"--version\"]
  max-slower = \"5%\"                # of wall time, beside the baseline
  time-budget = \"2min\"             # for that comparison
  runs = 3                         # the median counts
  exit-status = 0
  input = \"FILE\"                   # standard input [default: empty]

The program runs with address randomisation off, which makes counts repeatable,
and its output is discarded. With a baseline, the two run in turns, as in
pagewise ab.

Exit codes: 0 all budgets are kept; 1 one is broken; 2 usage, or a program that
failed; 3 the runs do not settle it, faults cannot be recorded here, or another
experiment runs; 130 interrupted.")]
pub(crate) struct CheckArgs {
    /// Check only the budgets of these names
    pub(crate) names: Vec<String>,
    /// Read budgets from FILE
    #[arg(long, short, value_name = "FILE", default_value = crate::budget_file::NAME)]
    pub(crate) file: PathBuf,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write JUnit XML to FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write Markdown to FILE, such as $GITHUB_STEP_SUMMARY
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) patience: LockWaitArgs,
    /// No progress display
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
