//! `pagewise ab`

use super::ExperimentArgs;
use clap::Args;
use std::ffi::OsString;

/// `pagewise ab`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise ab -- gzip -k f --- zstd -k f
  pagewise ab --name old --name new --fail-if-slower -- ./old --- ./new

Exit codes: 0 a verdict, 1 with --fail-if-slower: the second is proven slower,
or ends otherwise than the first; 2 usage or failure, 3 cannot tell
or another experiment runs, 126 cannot be executed, 127 not found,
130 interrupted.")]
pub(crate) struct Ab {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Names of the two commands, in order
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Exit with 1 when the second command is proven slower or is rejected
    #[arg(long)]
    pub(crate) fail_if_slower: bool,
    /// CMD1 --- CMD2
    #[arg(last = true, value_name = "CMD1 --- CMD2")]
    pub(crate) commands: Vec<OsString>,
}
