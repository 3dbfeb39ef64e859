//! `pagewise bench pin`

use super::BenchOutputArgs;
use super::tlb::PAGE_KINDS;
use crate::args::values::values;
use clap::Args;
use pagewise_model::Bytes;
use pagewise_model::bench::pin::PinWay;
use pagewise_model::bench::tlb::PageKind;

/// `pagewise bench pin`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise bench pin --quick                     the short form, under 20 s
  pagewise bench pin --chart pin.html            everything, under a minute
  pagewise bench pin --only vmsplice --pages base,thp --size 4K,128K,1M
  pagewise bench pin --json | jq .bench_pin.judgement.prices

The price of pinning is a difference: vmsplice into a pipe minus tee of as many
slots, and process_vm_readv of own memory minus the same copy in user space. The
rest is the time to find and hold the pages. Every sample is a fresh mapping
with a page size proven by the kernel. gup-test is the kernel's own benchmark;
it needs root and a kernel built with it.

Exit codes: 0 done; 2 usage or failure; 3 nothing could be measured, or another
experiment runs; 130 interrupted, after printing what is known.")]
pub(crate) struct PinBenchArgs {
    /// Run a short form: fewer sizes, shorter pieces, at most 18 s
    #[arg(long)]
    pub(crate) quick: bool,
    /// Measure only these ways, and what they are compared with
    #[arg(long, value_parser = values(WAYS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<PinWay>,
    /// Which pages to use [default: base,thp,pool]
    #[arg(long, value_parser = values(PAGE_KINDS), value_name = "LIST", value_delimiter = ',')]
    pub(crate) pages: Vec<PageKind>,
    /// Bytes per call, powers of two up to 1M [default: 4K to 1M]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) size: Vec<Bytes>,
    /// Fresh mappings for each point
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeats: u32,
    #[command(flatten)]
    pub(crate) result: BenchOutputArgs,
}

/// A way to have memory pinned.
const WAYS: &[(PinWay, &str)] = &[
    (PinWay::Vmsplice, "vmsplice(2) into a pipe that is read"),
    (PinWay::Register, "io_uring buffers, registered and released"),
    (PinWay::ReadOwn, "process_vm_readv(2) of own memory"),
    (PinWay::GupTest, "The kernel's own benchmark (root, CONFIG_GUP_TEST)"),
];
