//! `pagewise top`

use clap::Args;
use pagewise_model::Nanos;

/// `pagewise top`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise top                         live, until Ctrl-C
  pagewise top --once                  one sample
  pagewise top --once --json | jq '.rows[0]'

CPU is the CPU time per second; cost is the share of one CPU that page faults
take, at a usual 0.5 us each; tables is the memory of page tables; huge is the
share of anonymous memory on huge pages. Processes are sorted by cost. Nothing
is stopped or slowed. Details of other accounts' processes need root.

On a terminal the sample is drawn again each interval. Elsewhere one sample is
printed.")]
pub(crate) struct TopArgs {
    /// Time between two samples
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = parse_interval)]
    pub(crate) interval: Nanos,
    /// Show at most N processes
    #[arg(short = 'n', long, value_name = "N", default_value_t = 15)]
    pub(crate) rows: usize,
    /// Print one sample and end
    #[arg(long)]
    pub(crate) once: bool,
    /// Print one sample as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

fn parse_interval(text: &str) -> Result<Nanos, String> {
    let least = Nanos::millis(100);
    match text.parse::<Nanos>().map_err(|e| e.to_string())? {
        short if short < least => Err("use 100ms or more".to_owned()),
        interval => Ok(interval),
    }
}
