//! `pagewise choose`

use super::bench::{ARMS, WalkOrder};
use super::values::values;
use super::{HtmlArgs, LockWaitArgs};
use clap::Args;
use pagewise_model::Bytes;
use pagewise_model::bench::file::ReadWay;
use std::path::PathBuf;

/// `pagewise choose`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise choose big.db --order random --block 16K --passes 3
  pagewise choose log.txt --arm read,mmap,mmap-populate
  pagewise choose big.db --threads 2 --measure      check the prediction

Predicts how long each way takes to read the file, from open to close, as it is
cached now. Prices are measured once for each file system, in under 20 s, with
short runs of the ways of `bench file`, and kept for a week. Ways that copy end
when the bytes are copied. Ways in place sum every word in the mapping.

Exit codes: 0 done; 2 usage or failure; 3 no requested way has prices, or
another experiment runs; 130 interrupted.")]
pub(crate) struct ChooseArgs {
    /// The file to read
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Order of the blocks: by address, or at random, each once
    #[arg(long, value_enum, value_name = "ORDER", default_value = "sequential")]
    pub(crate) order: WalkOrder,
    /// Bytes per read, a multiple of 512 up to 1M
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    pub(crate) block: Bytes,
    /// Passes over the whole file through the same descriptor or mapping
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) passes: u32,
    /// Threads, each with its share of the blocks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    /// Choose only from these ways, for programs that cannot map a file or use it in place;
    /// `bench file --help` lists the names
    #[arg(
        long,
        value_parser = values(ARMS),
        value_name = "LIST",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub(crate) arm: Vec<ReadWay>,
    /// Measure the prices again, even if saved ones exist
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Also measure every way on the file, and report the error of each prediction
    #[arg(long)]
    pub(crate) measure: bool,
    /// Fresh processes for each measured way
    #[arg(long, value_name = "N", requires = "measure", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    /// Seed of the random order of measurements
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Print all ways, however slow
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) page: HtmlArgs,
    #[command(flatten)]
    pub(crate) patience: LockWaitArgs,
    /// No announcement and no progress display
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
