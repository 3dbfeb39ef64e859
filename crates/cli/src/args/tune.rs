//! `pagewise tune`

use super::ExperimentArgs;
use super::server::ServerLoadArgs;
use super::values::values;
use clap::{ArgGroup, Args, ValueEnum};
use pagewise_model::service::ServiceMode;
use pagewise_model::trial::ComparedQuantity;
use std::ffi::OsString;

/// `pagewise tune`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise tune -- sort -o /dev/null big.txt
  pagewise tune --input data.json -- jq .name
  pagewise tune --prepare 'rm -rf out' -- make -C src
  pagewise tune --arm 'tuned=./job --threads 1' -- ./job
  pagewise tune --goal memory --guard 'time<+5%' -- ./job
  pagewise tune --continue 1793000000000-4711-job --budget 60s
  pagewise tune --serve 'redis-server --port {port} --save \"\"' \\
      --ready tcp:{port} --load 'redis-benchmark -p {port} -t get -n 200000 --csv'
  sudo pagewise tune -p $(pidof redis-server) --live \\
      --load 'redis-benchmark -t get -n 200000 --csv'
  pagewise tune -p 4711 --advise --load 'ab -q -n 20000 -c 8 http://127.0.0.1:80/'

Arms run in random order beside the plain program, until the answer is clear or
the budget is over. pagewise keeps a gain only if it is proven, moved its own
kernel counter and left the output unchanged. --continue adds runs to a saved
session. It is refused if the program, its input or the machine has changed.

With --serve, pagewise starts a server again and again, puts --load on it and
compares CPU time per request. {port} is a free port, {dir} an empty directory.
Write both into --serve, --ready, --load, --stop, --prepare and --cleanup.

With -p and --live, pagewise switches remedies of a running process on and off
while --load runs against it: huge pages of its heap (CAP_SYS_NICE), and its
CPUs. It undoes everything, on every way out. See docs/services.md.

Exit codes: 0 done; 2 usage, failure, or not safe to run again; 3 cannot tell,
or another experiment runs; 126 not executable; 127 not found; 130 interrupted,
after printing what is known. If the history cannot store the result, tune still
prints it and exits as usual. A failed --save or --html exits with 2.")]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) experiment: ExperimentArgs,
    /// Stop after the advice; try nothing
    #[arg(long)]
    pub(crate) advise: bool,
    /// Try only these remedies (NAME or NAME=PARAMETER, separated by commas)
    #[arg(long, value_name = "LIST")]
    pub(crate) only: Option<String>,
    /// What to compare: time, cpu or memory; for a service cpu-per-request, throughput, p99 or memory
    /// [default: time, or cpu-per-request]
    #[arg(long, value_parser = values(GOALS), value_name = "GOAL", hide_possible_values = true)]
    pub(crate) goal: Option<ComparedQuantity>,
    /// Reject an arm that exceeds this bound: memory<+10%, time<+3%, p99<+20% or errors=0 (repeatable; replaces
    /// the defaults)
    /// [default: memory<+10%; --goal memory: time<+3%; services: p99<+20% and errors=0,
    /// more in docs/services.md]
    #[arg(long = "guard", value_name = "BOUND", conflicts_with = "earlier")]
    pub(crate) guards: Vec<String>,
    /// Allow changes to machine-wide settings during the session: pool reserves pages, heap-mthp sets switches (root)
    #[arg(long)]
    pub(crate) system: bool,
    /// Add an arm: your own command, compared with the plain one (repeatable)
    #[arg(long = "arm", value_name = "NAME=CMD")]
    pub(crate) arms: Vec<String>,
    /// Continue a saved session: a number or identifier from `pagewise history`, or a file
    #[arg(
        long = "continue",
        value_name = "RUN",
        conflicts_with_all = [
            "input", "stdout", "outputs", "rerun_safe", "prepare", "cleanup", "ignore_failure",
            "advise", "only", "arms", "goal", "command",
        ]
    )]
    pub(crate) earlier: Option<String>,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD", conflicts_with = "service")]
    pub(crate) command: Vec<OsString>,
    // Last: what follows would stand under its heading.
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

/// Quantities by which arms are compared.
const GOALS: &[(ComparedQuantity, &str)] = &[
    (ComparedQuantity::Time, "Wall time of a run"),
    (ComparedQuantity::Cpu, "CPU time of a run"),
    (ComparedQuantity::CpuPerRequest, "CPU time of the server for each request"),
    (ComparedQuantity::Throughput, "Requests a second"),
    (
        ComparedQuantity::P99,
        "Latency that 99% of requests do not exceed; needs a load at a fixed rate",
    ),
    (
        ComparedQuantity::Memory,
        "The most memory that the processes of a run hold together; the memory of a server",
    ),
];

/// How servers are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ServiceModeChoice {
    /// At-once if two servers can run at the same time; duet if throughput or latency decides.
    Auto,
    /// Both on the same CPUs at the same time, compared by CPU time: the least noise.
    AtOnce,
    /// Both at once, each on half of the CPUs.
    Duet,
    /// One after the other: needs more starts.
    Restart,
}

impl ServiceModeChoice {
    pub(crate) const fn mode(self) -> Option<ServiceMode> {
        match self {
            Self::Auto => None,
            Self::AtOnce => Some(ServiceMode::AtOnce),
            Self::Duet => Some(ServiceMode::Duet),
            Self::Restart => Some(ServiceMode::Restart),
        }
    }
}

/// A server that does not end, and the load on it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Services")]
#[command(group(ArgGroup::new("service").args(["serve", "pid"])))]
pub(crate) struct ServiceArgs {
    /// Tune this server, started in the foreground, under --load; --budget is 5m by default
    #[arg(
        long,
        value_name = "CMD",
        requires_all = ["ready", "load"],
        conflicts_with_all = ["input", "stdout", "outputs", "rerun_safe", "ignore_failure", "system", "earlier"]
    )]
    pub(crate) serve: Option<String>,
    /// Tune this running process and its descendants under --load
    #[arg(
        short,
        long,
        value_name = "PID",
        requires = "load",
        conflicts_with_all = ["input", "stdout", "outputs", "rerun_safe", "ignore_failure", "system", "earlier", "arms", "prepare", "cleanup"]
    )]
    pub(crate) pid: Option<i32>,
    /// Allow changes to the running process while it serves; all are undone
    #[arg(long, requires = "pid")]
    pub(crate) live: bool,
    /// How servers are compared
    #[arg(long, value_enum, value_name = "MODE", requires = "serve", default_value = "auto")]
    pub(crate) mode: ServiceModeChoice,
    #[command(flatten)]
    pub(crate) terms: ServerLoadArgs,
}
