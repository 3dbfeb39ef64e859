//! `pagewise ab`

use super::ExperimentArgs;
use super::values::values;
use clap::Args;
use pagewise_model::trial::ComparedQuantity;
use std::ffi::OsString;

/// A share of time, given in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Percent(pub(crate) f64);

impl std::str::FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
        let valid = number.ok().filter(|percent| (0.0..=1000.0).contains(percent));
        valid
            .map(|percent| Self(percent / 100.0))
            .ok_or_else(|| "it needs a percentage such as 5%".to_owned())
    }
}

/// Quantities that decide between commands.
const GOALS: &[(ComparedQuantity, &str)] = &[
    (ComparedQuantity::Time, "wall time"),
    (ComparedQuantity::Cpu, "CPU time"),
    (ComparedQuantity::Memory, "most memory of all processes"),
];

/// `pagewise ab`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise ab -- gzip -k f --- zstd -k f
  pagewise ab --name old --name new --fail-if-slower -- ./old --- ./new
  pagewise ab --fail-if-slower-than 5% -- ./old --- ./new
  pagewise ab --scan N=1,2,4,8 -- xz -kf -T{N} big.txt

Every command is compared with the first.

Exit codes: 0 a verdict; 1 with --fail-if-slower: a command is proven slower, or
its exit status differs; 1 with --fail-if-slower-than: a command exceeds that
limit; 2 usage or failure; 3 cannot tell, or another experiment runs; 126 not
executable; 127 not found; 130 interrupted.")]
pub(crate) struct AbArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Names of the commands, in order
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// What to compare: time, cpu or memory
    #[arg(long, value_parser = values(GOALS), value_name = "GOAL", hide_possible_values = true, default_value = "time")]
    pub(crate) goal: ComparedQuantity,
    /// Exit with 1 if a command is proven slower than the first, or is rejected
    #[arg(long)]
    pub(crate) fail_if_slower: bool,
    /// Exit with 0 if every command is proven to stay within this limit over the first, with 1 if one
    /// exceeds it, with 3 if the runs do not settle it
    #[arg(long, value_name = "PERCENT", conflicts_with = "fail_if_slower")]
    pub(crate) fail_if_slower_than: Option<Percent>,
    /// Run one command with each value in place of {NAME}; the first value is the reference
    #[arg(long, value_name = "NAME=VALUES")]
    pub(crate) scan: Option<String>,
    /// The commands to compare: CMD1 --- CMD2 [--- CMD3 ...]
    #[arg(last = true, value_name = "CMD1 --- CMD2")]
    pub(crate) commands: Vec<OsString>,
}
