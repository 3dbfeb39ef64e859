//! `pagewise bench file`

use super::{BenchResult, WalkOrder};
use clap::{Args, ValueEnum};
use pagewise_model::Bytes;
use pagewise_model::bench::file::{Arm, Part, Residency, Slip};
use std::path::PathBuf;

/// `pagewise bench file`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench file --quick                    the short form, under 20 s
  pagewise bench file --chart ways.html          the study's cells, under 2 minutes
  pagewise bench file --file big.db --block 4K,64K,1M --cache warm
  pagewise bench file --arm read,mmap --repeat-error short-loop,with-replacement

Every way to read a file, from opening it to closing it: read, pread, readv,
io_uring, past the cache; a mapping with a copy of each block, mapped on demand,
at once (populate), in pieces, or with advice; and a mapping whose blocks are
summed in place. Each
sample is a fresh process. Warm and cold are proven by the page cache's own
count; what each process really read is counted, and a cell that did other work
than it was asked for is refused.

Exit codes: 0 done, 2 usage or failure, 3 nothing could be measured or another
experiment runs, 130 interrupted: what is known by then is printed.")]
pub(crate) struct BenchFile {
    /// Read this file [default: one of our own, which has no name and is gone at the end]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "dir"])]
    pub(crate) file: Option<PathBuf>,
    /// Size of a file of our own [default: 512M, as far as a quarter of memory and half of the free disk allow]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Where a file of our own is [default: the cache directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// The short form: 64M, blocks of 4K and 16K, under 20 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only these parts
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<FilePart>,
    /// Only these ways [default: all]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) arm: Vec<FileArm>,
    /// Bytes taken at once, multiples of 512 up to 1M [default: 4K,8K,16K]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) block: Vec<Bytes>,
    /// In which order: by address, or each block once by chance [default: both]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) order: Vec<WalkOrder>,
    /// Where the bytes are before [default: both]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) cache: Vec<FileCache>,
    /// Most bytes of a cold pass [default: 16M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) cold_size: Option<Bytes>,
    /// Passes through the same descriptor or mapping [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) passes: Option<u32>,
    /// Numbers of threads [default: 1, 2, 4 and so on up to the CPUs]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Vec<u32>,
    /// Fresh processes of each warm cell; of a cold one half as many [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: Option<u32>,
    /// Take no prices, which saves some seconds: nothing is explained then
    #[arg(long)]
    pub(crate) no_prices: bool,
    /// The program also adds up all bytes of each block that it copied
    #[arg(long)]
    pub(crate) sum: bool,
    /// Repeat errors of the published benchmark: such cells are refused
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) repeat_error: Vec<FileSlip>,
    #[command(flatten)]
    pub(crate) result: BenchResult,
}

words! {
    /// A part of the measurement.
    FilePart for Part {
        /// Every way over blocks, orders and residencies
        Blocks => Blocks,
        /// Again and again through the same descriptor or mapping
        Passes => Passes,
        /// Where blocks are put: four alignments, the same buffer or fresh memory
        Buffers => Buffers,
        /// Several threads
        Threads => Threads,
        /// The kernel's copy beside those that a program can make
        Copies => Copies,
    }
}

words! {
    /// A way to read.
    FileArm for Arm {
        /// read(2), at random with lseek(2)
        Read => Read,
        /// pread(2)
        Pread => Pread,
        /// readv(2) of many blocks, in order
        Readv => Readv,
        /// preadv2(2) with RWF_DONTCACHE
        Dontcache => DontCache,
        /// io_uring, 16 reads at a time
        IoUring => Uring,
        /// The same into fixed buffers
        IoUringFixed => UringFixed,
        /// pread(2) past the cache (O_DIRECT), cold only
        Direct => Direct,
        /// A mapping, each block copied out
        Mmap => Map,
        /// The same, mapped at once
        MmapPopulate => MapPopulate,
        /// The same, mapped in pieces
        MmapPieces => MapPieces,
        /// The same, after MADV_WILLNEED
        MmapWillneed => MapWillNeed,
        /// The same, after MADV_SEQUENTIAL
        MmapSequential => MapSequential,
        /// The same, after MADV_RANDOM
        MmapRandom => MapRandom,
        /// A mapping, each block summed in place
        Place => Place,
        /// The same, mapped at once
        PlacePopulate => PlacePopulate,
        /// The same, mapped in pieces
        PlacePieces => PlacePieces,
    }
}

words! {
    /// Where the bytes are before.
    FileCache for Residency {
        /// All of the file in the page cache
        Warm => Warm,
        /// Nothing of it
        Cold => Cold,
    }
}

words! {
    /// An error of the published benchmark.
    FileSlip for Slip {
        /// The loop over a mapping ends half way, as one of 32 bits does at 4 GiB
        ShortLoop => ShortLoop,
        /// Random blocks are drawn with replacement
        WithReplacement => Replacement,
        /// MAP_POPULATE maps the file before the clock starts
        UnclockedPopulate => UnclockedPopulate,
    }
}
