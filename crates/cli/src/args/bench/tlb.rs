//! `pagewise bench tlb`

use super::BenchOutputArgs;
use crate::args::values::values;
use clap::{Args, ValueEnum};
use pagewise_model::Bytes;
use pagewise_model::bench::tlb::{AccessOrder, PageKind};

/// `pagewise bench tlb`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench tlb --quick                     the short form, under 20 s
  pagewise bench tlb --chart loads.html          everything, some minutes
  pagewise bench tlb --only lists --npad 7 --smallest 512K --largest 128M
  pagewise bench tlb --only knees --csv lines.csv

pagewise follows a list of elements, each with the address of the next and NPAD
words of padding: 0, 7, 15 and 31 make elements of 8, 64, 128 and 256 bytes. It
looks for knees with one cache line on each of a growing number of pages. Every
sample is a fresh mapping with a page size proven by the kernel. The report
names pages that are not available here, and what would make them available.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, or another
experiment runs; 130 interrupted, after printing what is known.")]
pub(crate) struct TlbBenchArgs {
    /// Run a short form: random order, NPAD 7, sets from 4K to 64M, coarser steps, at most 18 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only these parts
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<TlbPartChoice>,
    /// Which pages to use [default: all]
    #[arg(long, value_parser = values(PAGE_KINDS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) pages: Vec<PageKind>,
    /// Order of the lists [default: both]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) order: Vec<WalkOrder>,
    /// Words of padding in an element [default: 0,7,15,31]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) npad: Vec<u32>,
    /// Smallest working set of a list [default: 1K]
    #[arg(long, value_name = "SIZE")]
    pub(crate) smallest: Option<Bytes>,
    /// Largest working set of a list, as far as memory allows [default: 1G]
    #[arg(long, value_name = "SIZE")]
    pub(crate) largest: Option<Bytes>,
    /// Fresh mappings for each point
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    #[command(flatten)]
    pub(crate) result: BenchOutputArgs,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TlbPartChoice {
    /// Lists over growing working sets
    Lists,
    /// Lines on a growing number of pages: the reach of the TLB
    Knees,
    /// Read, write and copy bandwidth of one core and of all
    Bandwidth,
}

/// The pages that are walked.
pub(crate) const PAGE_KINDS: &[(PageKind, &str)] = &[
    (PageKind::Base, "Base pages"),
    (PageKind::Thp, "Transparent huge pages"),
    (PageKind::Pool, "Huge pages of the reserved pool"),
    (PageKind::Giant, "The next larger pages of a pool, 1 GiB"),
];

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WalkOrder {
    /// At random, each element once
    Random,
    /// By address
    #[value(alias = "seq")]
    Sequential,
}

impl From<WalkOrder> for AccessOrder {
    fn from(order: WalkOrder) -> Self {
        match order {
            WalkOrder::Random => Self::Random,
            WalkOrder::Sequential => Self::Sequential,
        }
    }
}
