//! `pagewise calibrate`

use clap::Args;
use std::path::PathBuf;

/// `pagewise calibrate`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise calibrate
  pagewise history --predictions                 how well predictions did
  pagewise calibrate --forget
  pagewise calibrate --pairs runs/*.json > pairs.tsv

tune predicts what each remedy will gain before it tries any. The model was
fitted on other machines. With races of 3 programs of this machine, calibrate
finds by how much it errs here, and later predictions are corrected by that.

Exit codes: 0 done; 2 usage or failure.")]
pub(crate) struct CalibrateArgs {
    /// Remove the corrections
    #[arg(long)]
    pub(crate) forget: bool,
    /// Print the facts of each measured arm beside its gain, as lines with tabs, and change nothing
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["forget", "json"])]
    pub(crate) pairs: Vec<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
