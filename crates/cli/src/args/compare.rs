//! `pagewise compare` and `pagewise history`

use super::{HtmlArgs, Percent};
use clap::Args;

/// `pagewise compare`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise compare 2 last
  pagewise compare before.json after.json
  pagewise compare 1.0.json 1.1.json 1.2.json    a row for each
  pagewise compare --limit 5% before.json after.json
  pagewise compare --json 3 2 1

Every run is compared with the first. Machines drift between sessions: the
intervals allow for some 4% either way, whatever the number of runs. For smaller
differences compare both programs in one session: pagewise ab.

Exit codes: 0 done, or within the limit; 1 with --limit: a run takes more time
than that; 2 usage or failure; 3 with --limit: cannot tell, or the machines
differ.")]
pub(crate) struct CompareArgs {
    /// Numbers, identifiers or files of the runs
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    pub(crate) runs: Vec<String>,
    /// Exit with 1 if the time of a run is proven to exceed that of the first by more than this
    #[arg(long, value_name = "PERCENT")]
    pub(crate) limit: Option<Percent>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) page: HtmlArgs,
}

/// `pagewise history`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise history
  pagewise history --program sort --all
  pagewise history --trend                       how times changed
  pagewise history --predictions                 predicted gains beside measured
  pagewise history --json | jq -r .id

--trend shows each command with two sessions or more, on each machine: the
medians of its plain runs, oldest first, and the change from first to last.

Either list ends with lost gains: gains that were proven once, and that pagewise
recheck found to be lost or a later session rules out.")]
pub(crate) struct HistoryArgs {
    /// List only runs of the program with this file name
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Option<String>,
    /// List all runs [default: the newest 15]
    #[arg(long)]
    pub(crate) all: bool,
    /// Show how the time of each program changed, by machine
    #[arg(long, conflicts_with = "all")]
    pub(crate) trend: bool,
    /// Show predicted gains beside those that races then found
    #[arg(long, conflicts_with_all = ["all", "trend"])]
    pub(crate) predictions: bool,
    /// Print as JSON Lines
    #[arg(long)]
    pub(crate) json: bool,
}
