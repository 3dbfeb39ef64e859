//! `pagewise page`

use clap::Args;
use pagewise_model::address::VirtualAddress;

/// `pagewise page`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise page 1234 0x7f1200034010              an address of process 1234
  grep heap /proc/1234/maps                      where to look
  pagewise page 1234 55d0c8a4b000 7ffd3b1c2000   as maps writes them
  pagewise page --explain 0x0000f2705af953c0     only the number
  pagewise page --json 1234 0x7f1200034010 | jq '.addresses[0].memory.page'

An address is hexadecimal if it starts with 0x, has a digit above 9, or has up
to 12 digits as in /proc/PID/maps. Longer numbers are decimal. The process is
not stopped: each fact is true at the moment it is read. For your own processes
everything is shown except the frame. Its number and physical address need
CAP_SYS_ADMIN; its flags, count of mappings and folio need root.

Exit codes: 0 done, also if nothing is mapped there; 2 bad usage, no such
process or not allowed; 3 the page tables of this processor are not known.")]
pub(crate) struct PageArgs {
    /// The process
    #[arg(value_name = "PID", required_unless_present = "explain")]
    #[arg(value_parser = clap::value_parser!(i32).range(1..))]
    pub(crate) pid: Option<i32>,
    /// Addresses in its memory
    #[arg(value_name = "ADDR", required_unless_present = "explain")]
    pub(crate) addresses: Vec<VirtualAddress>,
    /// Explain the numbers themselves, without a process
    #[arg(long, value_name = "ADDR", num_args = 1.., conflicts_with_all = ["pid", "addresses"])]
    pub(crate) explain: Vec<VirtualAddress>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
