//! `pagewise bench memory`

use super::BenchOutputArgs;
use clap::Args;
use clap::builder::PossibleValuesParser;
use pagewise_measure::bench::memory::words;
use pagewise_model::Bytes;

/// `pagewise bench memory`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench memory --quick                  the short form, under 20 s
  pagewise bench memory --chart pages.html       everything, about a minute
  pagewise bench memory --only on-demand,thp,populate-write --threads 8
  pagewise bench memory --only split,pressure    (pressure: root)

pagewise creates memory, touches each page once, and gives it back. It times
each part and shows all per base page, so that different page sizes compare. The
kernel's count of faults proves each way. The report names what is not available
here, and what would make it available. In a virtual machine, memory is touched
and freed beforehand; the host's share of the time is shown separately.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, or another
experiment runs; 130 interrupted, after printing what is known.")]
pub(crate) struct MemoryBenchArgs {
    /// Run a short form: mappings of 16M, at most 18 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only these ways [default: all]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_parser = PossibleValuesParser::new(words())
    )]
    pub(crate) only: Vec<String>,
    /// Size of each mapping, rounded up to whole huge pages [default: 128M, less if memory is
    /// short]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Largest number of threads that touch one mapping [default: one on each CPU, up to 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Option<u32>,
    /// Fresh mappings for each way
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    #[command(flatten)]
    pub(crate) result: BenchOutputArgs,
}
