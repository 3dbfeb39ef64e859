//! `pagewise bench file`

use super::{BenchOutputArgs, WalkOrder};
use crate::args::values::values;
use clap::Args;
use pagewise_model::Bytes;
use pagewise_model::bench::file::{BenchmarkFlaw, CacheResidency, FileBenchPart, ReadWay};
use std::path::PathBuf;

/// `pagewise bench file`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench file --quick                    the short form, under 20 s
  pagewise bench file --chart ways.html          all, in under 2 minutes
  pagewise bench file --file big.db --block 4K,64K,1M --cache warm
  pagewise bench file --arm read,mmap --repeat-error short-loop,with-replacement
  pagewise bench file --write                    write(2) and a mapping, written

Measures every way to read a file, from open to close: read, pread, readv,
io_uring, past the cache; a mapping with a copy of each block, mapped on demand,
at once (populate), in pieces, or with advice; and a mapping whose blocks are
summed in place. Each sample is a fresh process. The page cache's own count
proves warm and cold. pagewise counts what each process really read, and refuses
a cell that did other work than requested.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, or another
experiment runs; 130 interrupted, after printing what is known.")]
pub(crate) struct FileBenchArgs {
    /// Read this file [default: a temporary file without a name, removed at the end]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["size", "dir"])]
    pub(crate) file: Option<PathBuf>,
    /// Size of the temporary file [default: 512M, at most a quarter of memory and half of the free disk]
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<Bytes>,
    /// Directory of the temporary file [default: the cache directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Run a short form: 64M, blocks of 4K and 16K, under 20 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Write the blocks of the temporary file instead: by write(2) and through a mapping, each left in the cache
    /// and synced (fsync, msync); cached, 128M unless --size is given
    #[arg(long, conflicts_with_all = ["file", "only", "arm", "cache", "cold_size", "passes", "threads", "sum", "repeat_error"])]
    pub(crate) write: bool,
    /// Measure only these parts
    #[arg(long, value_parser = values(PARTS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<FileBenchPart>,
    /// Measure only these ways [default: all]
    #[arg(long, value_parser = values(ARMS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) arm: Vec<ReadWay>,
    /// Bytes per read, multiples of 512 up to 1M [default: 4K,8K,16K]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) block: Vec<Bytes>,
    /// Order of the blocks: by address, or at random, each once [default: both]
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',')]
    pub(crate) order: Vec<WalkOrder>,
    /// Where the file is before each sample [default: both]
    #[arg(long, value_parser = values(RESIDENCIES), value_name = "LIST", value_delimiter = ',')]
    pub(crate) cache: Vec<CacheResidency>,
    /// Largest number of bytes in a cold pass [default: 16M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) cold_size: Option<Bytes>,
    /// Passes through the same descriptor or mapping [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) passes: Option<u32>,
    /// Numbers of threads [default: 1, 2, 4 and so on up to the number of CPUs]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: Vec<u32>,
    /// Fresh processes for each warm cell; cold cells get half as many [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: Option<u32>,
    /// Measure no prices: this saves some seconds, but leaves the times unexplained
    #[arg(long)]
    pub(crate) no_prices: bool,
    /// Also sum all bytes of each copied block
    #[arg(long)]
    pub(crate) sum: bool,
    /// Reproduce errors of the published benchmark; such cells are refused
    #[arg(long, value_parser = values(SLIPS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) repeat_error: Vec<BenchmarkFlaw>,
    #[command(flatten)]
    pub(crate) result: BenchOutputArgs,
}

/// A part of the measurement.
const PARTS: &[(FileBenchPart, &str)] = &[
    (FileBenchPart::Blocks, "Every way by block size, order, warm and cold"),
    (FileBenchPart::Passes, "Several passes through the same descriptor or mapping"),
    (FileBenchPart::Buffers, "Where blocks go: four alignments, one buffer or fresh memory"),
    (FileBenchPart::Threads, "Several threads"),
    (FileBenchPart::Copies, "The kernel's copy compared with copies in user space"),
];

/// A way to read.
pub(crate) const ARMS: &[(ReadWay, &str)] = &[
    (ReadWay::Read, "read(2), at random with lseek(2)"),
    (ReadWay::Pread, "pread(2)"),
    (ReadWay::Readv, "readv(2) of many blocks, in order"),
    (ReadWay::DontCache, "preadv2(2) with RWF_DONTCACHE"),
    (ReadWay::Uring, "io_uring, 16 reads at a time"),
    (ReadWay::UringFixed, "io_uring, 16 reads at a time, into fixed buffers"),
    (ReadWay::Direct, "pread(2) past the cache (O_DIRECT), cold only"),
    (ReadWay::Map, "A mapping, each block copied out"),
    (ReadWay::MapPopulate, "As mmap, mapped at once"),
    (ReadWay::MapPieces, "As mmap, mapped in pieces"),
    (ReadWay::MapWillNeed, "As mmap, after MADV_WILLNEED"),
    (ReadWay::MapSequential, "As mmap, after MADV_SEQUENTIAL"),
    (ReadWay::MapRandom, "As mmap, after MADV_RANDOM"),
    (ReadWay::Place, "A mapping, each block summed in place"),
    (ReadWay::PlacePopulate, "As place, mapped at once"),
    (ReadWay::PlacePieces, "As place, mapped in pieces"),
];

/// Where the bytes are before.
const RESIDENCIES: &[(CacheResidency, &str)] = &[
    (CacheResidency::Warm, "The whole file in the page cache"),
    (CacheResidency::Cold, "Nothing in the page cache"),
];

/// An error of the published benchmark.
const SLIPS: &[(BenchmarkFlaw, &str)] = &[
    (
        BenchmarkFlaw::ShortLoop,
        "The loop over a mapping ends half way, as a 32-bit counter does at 4 GiB",
    ),
    (BenchmarkFlaw::Replacement, "Random blocks are drawn with replacement"),
    (BenchmarkFlaw::UnclockedPopulate, "MAP_POPULATE maps the file before the clock starts"),
];
