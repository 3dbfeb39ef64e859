//! `pagewise bench tlb`

use super::BenchResult;
use clap::{Args, ValueEnum};
use pagewise_model::Bytes;
use pagewise_model::bench::tlb::{Order, PageKind};

/// `pagewise bench tlb`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench tlb --quick                     the short form, under 20 s
  pagewise bench tlb --chart loads.html          everything, some minutes
  pagewise bench tlb --only lists --npad 7 --smallest 512K --largest 128M
  pagewise bench tlb --only knees --csv lines.csv

A list of elements is followed, each with the address of the next and NPAD words
of padding: 0, 7, 15 and 31 are elements of 8, 64, 128 and 256 bytes. Knees are
looked for with one cache line on each of a growing number of pages. Every sample
is a fresh mapping whose page size the kernel has shown. Pages that are not to be
had are named with what would make them available.

Exit codes: 0 done, 2 usage or failure, 3 nothing could be measured or another
experiment runs, 130 interrupted: what is known by then is printed.")]
pub(crate) struct BenchTlb {
    /// The short form: random order, NPAD 7, sets from 4K to 64M, coarser steps, at most 18 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these parts
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<WalkPart>,
    /// On which pages [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) pages: Vec<WalkPages>,
    /// In which order lists are followed [default: both]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) order: Vec<WalkOrder>,
    /// Words of padding of an element [default: 0,7,15,31]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) npad: Vec<u32>,
    /// Smallest set of a list [default: 1K]
    #[arg(long, value_name = "SIZE")]
    pub(crate) smallest: Option<Bytes>,
    /// Largest set of a list, as far as memory allows [default: 1G]
    #[arg(long, value_name = "SIZE")]
    pub(crate) largest: Option<Bytes>,
    /// Fresh mappings of each point
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    #[command(flatten)]
    pub(crate) result: BenchResult,
}

/// A part of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WalkPart {
    /// Lists over growing sets
    Lists,
    /// Lines on a growing number of pages: where the TLB ends
    Knees,
    /// Read, write and copy bandwidth of one core and of all
    Bandwidth,
}

words! {
    /// The pages that are walked.
    WalkPages for PageKind {
        /// Base pages
        Base => Base,
        /// Transparent huge pages
        Thp => Thp,
        /// Huge pages of the reserved pool
        Pool => Pool,
        /// The next larger pages of a pool, 1 GiB
        Giant => Giant,
    }
}

words! {
    /// The order of a list.
    WalkOrder for Order {
        /// By chance, each element once
        Random => Random,
        /// By address
        #[value(alias = "seq")]
        Sequential => Sequential,
    }
}
