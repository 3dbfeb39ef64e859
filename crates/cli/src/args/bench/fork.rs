//! `pagewise bench fork`

use super::BenchOutputArgs;
use super::tlb::PAGE_KINDS;
use crate::args::values::values;
use clap::Args;
use pagewise_model::Bytes;
use pagewise_model::bench::tlb::PageKind;

/// `pagewise bench fork`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench fork --quick                    the short form, under 20 s
  pagewise bench fork --html fork.html           everything
  pagewise bench fork --pages base,thp --size 1G
  pagewise bench fork --json | jq .bench_fork.judgement.prices

fork copies the page tables of the parent's private memory. Afterwards each first
write of the parent copies a page, as long as the child lives. Databases that
fork to write a snapshot, and servers that fork for each job, pay both.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, or another
experiment runs; 130 interrupted, after printing what is known.")]
pub(crate) struct ForkBenchArgs {
    /// Run a short form: fewer sizes, at most 18 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Which pages to use [default: base,thp,pool]
    #[arg(long, value_parser = values(PAGE_KINDS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) pages: Vec<PageKind>,
    /// Memory that the parent touches, powers of two from 2M up [default: 2M to 1G]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) size: Vec<Bytes>,
    /// Fresh mappings for each point
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    #[command(flatten)]
    pub(crate) result: BenchOutputArgs,
}
