//! `pagewise recheck`

use super::LockWaitArgs;
use clap::Args;
use pagewise_model::Nanos;

/// `pagewise recheck`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise recheck                     the gains that apply has written
  pagewise recheck 3 last              those of these runs
  pagewise recheck --unit              systemd lines for a check each week

Each gain is measured again: a new session with only the remedy that was kept,
under the conditions of the saved run. The report says whether it holds, and
what has changed since: kernel, processor, program. Sessions of services are
not repeated.

Exit codes: 0 all hold; 1 one has vanished; 2 usage or failure; 3 the runs do
not settle it, or another experiment runs; 130 interrupted.")]
pub(crate) struct RecheckArgs {
    /// Runs with a proven gain: numbers from `pagewise history`, `last`, identifiers or files
    #[arg(value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// Time for each session [default: as for tune]
    #[arg(long, value_name = "TIME")]
    pub(crate) budget: Option<Nanos>,
    /// Print systemd lines of a service and a timer instead
    #[arg(long, conflicts_with_all = ["runs", "budget", "json"])]
    pub(crate) unit: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) patience: LockWaitArgs,
    /// No progress display
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
