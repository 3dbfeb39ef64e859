//! `pagewise export-metrics`

use clap::Args;
use std::path::PathBuf;

/// `pagewise export-metrics`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise export-metrics
  pagewise export-metrics -o /var/lib/node_exporter/textfile/pagewise.prom

Prints one sample of this host in Prometheus' text format: page faults, huge
pages, page tables, memory pressure, the processes that pay most for pages, and
the state of applied receipts (pagewise recheck). At most 200 series. A file is
replaced as a whole. Run it by a timer; see docs/fleet.md.")]
pub(crate) struct MetricsArgs {
    /// Write to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Export at most N processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 15)]
    pub(crate) rows: usize,
}
