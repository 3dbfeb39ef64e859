//! `pagewise bench`

use super::values::{named, values};
use super::{LockWaitArgs, SaveArgs};
use clap::{Args, Subcommand};
use pagewise_model::bench::pipe::{
    CpuPlacement, PipeConsumption, RungPages, RungReader, RungSwitch, RungWait, RungWriter,
};
use pagewise_model::{Bytes, Nanos};
use std::path::PathBuf;

/// `pagewise bench`
#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: BenchCommand,
}

/// What is measured.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Pipes: every way to move bytes from one process to another, rung by rung
    Pipe(Box<PipeBenchArgs>),
    /// Loads: latency by working set and page size, reach of the TLB, bandwidth
    Tlb(Box<TlbBenchArgs>),
    /// Memory: the cost of a page before first use, for every way to get it
    Memory(Box<MemoryBenchArgs>),
    /// Files: every way to read one, from open to close, warm and cold
    File(Box<FileBenchArgs>),
    /// Pinning: the cost of finding and holding pages, on base and huge pages
    Pin(Box<PinBenchArgs>),
    /// Forks: the cost for a parent by the memory it has touched, on base and huge pages
    Fork(Box<ForkBenchArgs>),
    /// Code: the cost of a jump by code size and page size, and the reach of the instruction TLB
    Text(Box<TextBenchArgs>),
}

/// `pagewise bench pipe`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench pipe --quick                          the short form, under 20 s
  pagewise bench pipe                                  the whole ladder
  pagewise bench pipe --only P1,P5,frozen-adaptive --repeats 9
  pagewise bench pipe --only P1,P1-huge,P2,P2-huge,P3,P4,P5 --chart seven.svg
  pagewise bench pipe --compare untouched --only P3,P4
  pagewise bench pipe --sweep --only P1,P5 --chart sizes.svg
  pagewise bench pipe --explain                        how a pipe works
  pagewise bench pipe --producer fizzbuzz
  pagewise bench pipe --producer fizzbuzz --print | pagewise meter > /dev/null
  pagewise bench pipe --writer vmsplice --reader splice --huge --busy --buffer 1M

Rungs of the published study: P1 write/read, P2 vmsplice/read, P3
vmsplice/splice, P4 on huge pages, P5 in a busy loop; its chart also has P1-huge
and P2-huge. Other rungs: P1-large, large-pipe, large-pipe-adaptive,
vmsplice-out, io-uring, P4-adaptive, P5-reserved, P5-large, dropped, seed,
frozen, frozen-adaptive, frozen-busy, fizzbuzz. P2 to P5 reuse the buffers that
they pass on, which is safe only if the reader copies. They are marked.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, or another
experiment runs; 130 interrupted, after printing what is known.")]
pub(crate) struct PipeBenchArgs {
    /// Run a short form: P1 to P5, frozen, frozen-adaptive; untouched and touched; 6 repeats of 40 ms
    #[arg(long, conflicts_with = "sweep")]
    pub(crate) quick: bool,
    /// Bytes in each repeat [default: enough to fill --time]
    #[arg(long, value_name = "SIZE", conflicts_with = "time")]
    pub(crate) bytes: Option<Bytes>,
    /// Time of each repeat [default: 150ms]
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<Nanos>,
    /// Repeats of each point, each a fresh pair of processes [default: 6]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: Option<u32>,
    /// Bytes passed in one call [default: 256K, unless the rung sets it]
    #[arg(long, value_name = "SIZE")]
    pub(crate) buffer: Option<Bytes>,
    /// Capacity of the pipe [default: half a buffer for vmsplice, else set by the rung]
    #[arg(long, value_name = "SIZE")]
    pub(crate) pipe_size: Option<Bytes>,
    /// Measure only these rungs
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Where the two processes run [default: on two cores]
    #[arg(long, value_parser = named(PLACEMENTS), value_name = "WHERE")]
    pub(crate) placement: Option<CpuPlacement>,
    /// What the consumer does with the bytes [default: untouched,touched,socket]
    #[arg(long, value_parser = named(CONSUMPTIONS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) consume: Vec<PipeConsumption>,
    /// Measure a grid of buffer and pipe sizes (for P1, P5 and frozen-busy, unless --only is given)
    #[arg(long, conflicts_with_all = ["buffer", "pipe_size"])]
    pub(crate) sweep: bool,
    /// Compare each rung with the same rung with this switch, in pairs of repeats (P1 to P5, unless --only is
    /// given; untouched and touched; 12 repeats)
    #[arg(long, value_parser = values(SWITCHES), value_name = "SWITCH", conflicts_with = "sweep")]
    pub(crate) compare: Option<RungSwitch>,
    /// Measure a program that makes new bytes, into the meter, beside P1 and the fastest rungs (P5, seed,
    /// frozen-busy); untouched, and touched with the first 16 MiB compared with a plain generator's
    #[arg(long, value_parser = values(PRODUCERS), value_name = "NAME", conflicts_with_all = ["only", "sweep", "compare", "writer", "reader"])]
    pub(crate) producer: Option<RungWriter>,
    /// Measure nothing: write the producer's bytes to standard output, as many as --bytes says or all
    #[arg(long, requires = "producer")]
    pub(crate) print: bool,
    /// Measure no rungs: show how a pipe works on a live one, with the price of each part
    #[arg(long, conflicts_with_all = ["only", "sweep", "compare", "producer", "samples", "writer", "reader"])]
    pub(crate) explain: bool,
    /// Sample both processes of each rung that passes bytes by reference, in extra repeats; the calls
    /// behind each explanation are then shown for comparison
    #[arg(long, conflicts_with = "sweep")]
    pub(crate) samples: bool,
    /// Measure no prices: this saves some seconds, but leaves the times unexplained
    #[arg(long)]
    pub(crate) no_prices: bool,
    #[command(flatten)]
    pub(crate) own: OwnRungArgs,
    #[command(flatten)]
    pub(crate) result: BenchOutputArgs,
}

/// A rung of the user's own, and switches for every rung.
#[derive(Debug, Args)]
#[command(next_help_heading = "Your own rung, and switches for every rung")]
pub(crate) struct OwnRungArgs {
    /// Measure your own rung: how bytes enter the pipe
    #[arg(long, value_parser = values(WRITERS), value_name = "WAY", conflicts_with = "only")]
    pub(crate) writer: Option<RungWriter>,
    /// Measure your own rung: how bytes leave the pipe
    #[arg(long, value_parser = values(READERS), value_name = "WAY", conflicts_with = "only")]
    pub(crate) reader: Option<RungReader>,
    /// Put buffers on huge pages: the same as --pages huge
    #[arg(long, conflicts_with = "pages")]
    pub(crate) huge: bool,
    /// Pages for the producer's buffers
    #[arg(long, value_parser = named(PAGES), value_name = "KIND")]
    pub(crate) pages: Option<RungPages>,
    /// Refuse buffers unless they are proven to be on huge pages
    #[arg(long, conflicts_with = "untouched")]
    pub(crate) check_huge: bool,
    /// Never sleep while waiting for the other end: the same as --wait busy
    #[arg(long, conflicts_with = "wait")]
    pub(crate) busy: bool,
    /// Call poll(2) before each call; with --busy, repeatedly
    #[arg(long, conflicts_with = "wait")]
    pub(crate) poll: bool,
    /// How an end waits for the other
    #[arg(long, value_parser = values(WAITS), value_name = "HOW")]
    pub(crate) wait: Option<RungWait>,
    /// Use the halves of one buffer in turn, instead of two buffers
    #[arg(long)]
    pub(crate) one_buffer: bool,
    /// Set SPLICE_F_GIFT on one side and SPLICE_F_MOVE on the other
    #[arg(long)]
    pub(crate) gift: bool,
    /// Lock the producer's buffers in memory
    #[arg(long)]
    pub(crate) lock: bool,
    /// Do not touch the producer's buffers before they are sent
    #[arg(long)]
    pub(crate) untouched: bool,
}

/// Where the result goes.
#[derive(Debug, Args)]
#[command(next_help_heading = "The result")]
pub(crate) struct BenchOutputArgs {
    /// Seed of the random order of repeats
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) files: SaveArgs,
    /// Write every repeat to FILE as CSV
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw the result: the chart to FILE.svg, or a page with everything to FILE.html
    #[arg(long, value_name = "FILE")]
    pub(crate) chart: Option<PathBuf>,
    /// Print the whole report, with the method and the machine
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print JSON, as saved, instead of text
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not wait for another experiment on this machine [default: up to 5 minutes]
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// No announcement and no progress display
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

impl BenchOutputArgs {
    pub(crate) fn patience(&self) -> LockWaitArgs {
        LockWaitArgs { wait: None, no_wait: self.no_wait }
    }
}

mod file;
mod fork;
mod memory;
mod pin;
mod text;
mod tlb;

pub(crate) use file::{ARMS, FileBenchArgs};
pub(crate) use fork::ForkBenchArgs;
pub(crate) use memory::MemoryBenchArgs;
pub(crate) use pin::PinBenchArgs;
pub(crate) use text::{LoadSize, TextBenchArgs, TextPartChoice};
pub(crate) use tlb::{TlbBenchArgs, TlbPartChoice, WalkOrder};

/// How bytes get in.
const WRITERS: &[(RungWriter, &str)] = &[
    (RungWriter::Write, "write(2)"),
    (RungWriter::Vmsplice, "vmsplice(2) of buffers that are reused (unsafe)"),
    (RungWriter::SpliceFrozen, "splice(2) from a sealed memfd"),
    (RungWriter::TeeSeed, "tee(2) of a seed pipe"),
    (RungWriter::GiveDropped, "vmsplice(2) of pages that are replaced"),
    (RungWriter::IoUring, "io_uring"),
    (RungWriter::FizzBuzz, "lines of FizzBuzz, on pages that come back"),
];

/// Programs that make new bytes.
const PRODUCERS: &[(RungWriter, &str)] =
    &[(RungWriter::FizzBuzz, "FizzBuzz: the numbers from 1 on, or words for multiples of 3 and 5")];

/// How bytes get out.
const READERS: &[(RungReader, &str)] = &[
    (RungReader::Read, "read(2)"),
    (RungReader::Splice, "splice(2)"),
    (RungReader::VmspliceOut, "vmsplice(2) out of the pipe"),
    (RungReader::IoUring, "io_uring"),
    (RungReader::Meter, "the copy engine of `pagewise meter`, to /dev/null"),
];

/// Pages of the producer's buffers.
const PAGES: &[(&str, RungPages, &str)] = &[
    ("base", RungPages::Base, "Base pages"),
    ("huge", RungPages::Huge, "Transparent huge pages"),
    ("hugetlb", RungPages::HugeTlb, "Pages of the reserved pool"),
];

/// How an end waits while the other is not ready.
const WAITS: &[(RungWait, &str)] = &[
    (RungWait::Block, "Sleep in the call"),
    (RungWait::Poll, "poll(2), then the call"),
    (RungWait::Busy, "Repeat the call"),
    (RungWait::BusyPoll, "Repeat poll(2)"),
    (RungWait::Adaptive, "Spin while the other end is about to act, else sleep"),
];

/// Switches that can be compared.
const SWITCHES: &[(RungSwitch, &str)] = &[
    (RungSwitch::Huge, "Buffers on huge pages"),
    (RungSwitch::Busy, "Never sleep"),
    (RungSwitch::Poll, "poll(2) before each call"),
    (RungSwitch::OneBuffer, "The halves of one buffer instead of two"),
    (RungSwitch::Gift, "SPLICE_F_GIFT and SPLICE_F_MOVE"),
    (RungSwitch::Lock, "Buffers locked in memory"),
    (RungSwitch::Untouched, "Buffers not touched before"),
];

/// Where the two processes run.
const PLACEMENTS: &[(&str, CpuPlacement, &str)] = &[
    ("one-core", CpuPlacement::SameCore, "Both on one core"),
    ("two-cores", CpuPlacement::TwoCores, "Each on its own core"),
    ("siblings", CpuPlacement::Siblings, "On two hardware threads of one core"),
    ("free", CpuPlacement::Free, "Wherever the scheduler puts them"),
];

/// Treatment of the bytes.
const CONSUMPTIONS: &[(&str, PipeConsumption, &str)] = &[
    ("untouched", PipeConsumption::Untouched, "The data is never read"),
    ("touched", PipeConsumption::Touched, "The consumer reads and checks every byte"),
    ("socket", PipeConsumption::ForwardedSocket, "The consumer forwards it to an AF_UNIX socket"),
    (
        "file",
        PipeConsumption::ForwardedFile,
        "The consumer forwards it to a file in the page cache",
    ),
];
