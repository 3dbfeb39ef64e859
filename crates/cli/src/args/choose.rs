//! `pagewise choose`

use super::bench::{FileArm, WalkOrder};
use clap::Args;
use pagewise_model::Bytes;
use std::path::PathBuf;

/// `pagewise choose`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise choose big.db --order random --block 16K --passes 3
  pagewise choose log.txt --arm read,mmap,mmap-populate
  pagewise choose big.db --threads 2 --measure      and is it true?

What each way to read the file should take, from opening it to closing it, as
the file lies in the page cache now. The prices are taken once on this machine,
for each file system, by short runs of the same ways as those of `bench file`,
in less than 20 s, and kept for a week. Ways that copy end when the bytes are
copied; those in place add every word up where it lies.

Exit codes: 0 done, 2 usage or failure, 3 no way that was asked for has prices,
or another experiment runs, 130 interrupted.")]
pub(crate) struct Choose {
    /// The file that is to be read
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// In which order: by address, or each block once by chance
    #[arg(long, value_enum, value_name = "ORDER", default_value = "sequential")]
    pub(crate) order: WalkOrder,
    /// Bytes taken at once, a multiple of 512 up to 1M
    #[arg(long, value_name = "SIZE", default_value = "64K")]
    pub(crate) block: Bytes,
    /// How often all of it is gone through, by the same descriptor or mapping
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) passes: u32,
    /// Threads, each with its share of the blocks
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    /// Choose from these ways alone, as `bench file --help` lists them: not every program can map a file, or
    /// use it in place
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        hide_possible_values = true
    )]
    pub(crate) arm: Vec<FileArm>,
    /// Take the prices anew, even if they are kept
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Measure every way too, on the file itself, and say how far the forecasts are off
    #[arg(long)]
    pub(crate) measure: bool,
    /// Fresh processes of each way that is measured
    #[arg(long, value_name = "N", requires = "measure", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    /// Seed of the order of what is measured
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Announce nothing and show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
