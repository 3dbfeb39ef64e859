//! `pagewise links`

use clap::Args;
use std::path::PathBuf;

/// `pagewise links`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  mkdir -p ~/.local/lib/pagewise && pagewise links ~/.local/lib/pagewise
  PATH=~/.local/lib/pagewise:\"$PATH\" make
  pagewise links --remove ~/.local/lib/pagewise

Files that are not links to a pagewise are never overwritten or removed.")]
pub(crate) struct LinksArgs {
    /// The directory, which must exist
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Also link `pv` to the meter
    #[arg(long)]
    pub(crate) pv: bool,
    /// Replace links to another pagewise
    #[arg(long)]
    pub(crate) force: bool,
    /// Remove the links instead
    #[arg(long, conflicts_with_all = ["pv", "force"])]
    pub(crate) remove: bool,
}
