//! The command line as types. `commands/` holds the actions.

mod ab;
mod apply;
mod bench;
mod cache;
mod calibrate;
mod check;
mod choose;
mod compare;
mod experiment;
mod faults;
mod files;
mod fleet;
mod links;
mod metrics;
mod order;
mod page;
mod profile;
mod recheck;
mod server;
mod text;
mod top;
mod tune;
mod values;

pub(crate) use ab::{AbArgs, Percent};
pub(crate) use apply::ApplyArgs;
pub(crate) use bench::{
    BenchArgs, BenchCommand, BenchOutputArgs, FileBenchArgs, ForkBenchArgs, LoadSize,
    MemoryBenchArgs, OwnRungArgs, PinBenchArgs, PipeBenchArgs, TextBenchArgs, TextPartChoice,
    TlbBenchArgs, TlbPartChoice,
};
pub(crate) use cache::{
    CacheArgs, CacheCommand, CacheFileArgs, CacheLockArgs, CacheRestoreArgs, CacheSaveArgs,
};
pub(crate) use calibrate::CalibrateArgs;
pub(crate) use check::CheckArgs;
pub(crate) use choose::ChooseArgs;
pub(crate) use compare::{CompareArgs, HistoryArgs};
pub(crate) use experiment::{ExperimentArgs, LockWaitArgs};
pub(crate) use faults::{FaultClock, FaultsArgs};
pub(crate) use files::{HtmlArgs, SaveArgs};
pub(crate) use fleet::{FleetArgs, FleetCommand, FleetRankArgs, FleetScriptArgs, MergeArgs};
pub(crate) use links::LinksArgs;
pub(crate) use metrics::MetricsArgs;
pub(crate) use order::{
    BuildStartArgs, OrderArgs, OrderBuildsArgs, OrderCheckArgs, OrderCloseArgs, OrderCommand,
    OrderEmitArgs, OrderHooksArgs, OrderPredictArgs, OrderRecordArgs,
};
pub(crate) use page::PageArgs;
pub(crate) use profile::ProfileArgs;
pub(crate) use recheck::RecheckArgs;
pub(crate) use text::{
    TextArgs, TextCollapseArgs, TextCommand, TextExplainArgs, TextFoldArgs, TextKeepArgs,
    TextStatusArgs, TextSystemArgs, TextUndoArgs, TextWarmArgs,
};
pub(crate) use top::TopArgs;
pub(crate) use tune::TuneArgs;

use clap::{Args, Parser, Subcommand, ValueEnum};
use pagewise_tools::{CAT_HELP, METER_HELP, TEE_HELP};
use std::ffi::OsString;
use std::path::PathBuf;

/// What do memory pages cost your program, and how do you get that time back?
///
/// pagewise measures what a program pays for memory pages: faults, copies through pipes and files,
/// TLB misses and wake-ups. It tries to remove that cost on the unmodified program, and proves the gain.
#[derive(Debug, Parser)]
#[command(name = "pagewise", version, after_help = EXAMPLES, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: CliCommand,
    /// Colour the output: auto follows the terminal and NO_COLOR
    #[arg(long, global = true, value_enum, default_value = "auto", value_name = "WHEN")]
    pub(crate) color: ColourChoice,
}

const EXAMPLES: &str = "\
Examples:
  pagewise tune -- sort -o /dev/null big.txt     find and prove what helps
  pagewise tune --advise -- python3 job.py       show the costs, try nothing
  pagewise run --with heap-huge -- python3 job.py
  pagewise profile -- sh -c 'cat big | wc -l'    where its CPU time goes
  pagewise faults -- python3 -c pass             what its page faults cost
  pagewise ab -- xz -T1 -k f --- zstd -k f        are these two different?
  pagewise check                                 the budgets of pagewise.toml
  pagewise bench pipe                            how fast pipes can be here
  pagewise bench tlb --quick                     what page sizes are worth here
  pagewise bench file --quick                    the fastest way to read files
  pagewise choose big.db --order random          the fastest way for this file
  pagewise top                                   which process is worth a look
  pagewise page 1234 0x7f1200034010              what is at an address
  pagewise text warm /usr/bin/node               code on huge pages
  pagewise order close --by function *.o         fewer pages to start a program
  pagewise apply last --systemd redis-server     keep what was proven
  pagewise doctor                                what this machine allows

Exit codes: 0 done, 1 a check failed, 2 usage or failure, 3 cannot tell.
`run`, `profile`, `faults` and `order record` end with the program's own status.";

/// When to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ColourChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Diagnose a program, try remedies, prove the gain, print how to keep it
    Tune(Box<TuneArgs>),
    /// Test whether commands differ in time, CPU or memory
    Ab(AbArgs),
    /// Start a program with remedies
    Run(RunArgs),
    /// Show where the time went: what was done, why, and who called it
    Profile(ProfileArgs),
    /// Record every page fault: its cost, its caller, its page; check budgets in builds
    Faults(Box<FaultsArgs>),
    /// Check budgets of faults, copies, memory and time in a build: pagewise.toml
    Check(CheckArgs),
    /// Measure what each technique gains on this machine: pipes, page sizes, first touches, files
    Bench(BenchArgs),
    /// Show which processes of this host pay for pages: faults, page tables, huge pages
    Top(TopArgs),
    /// Follow an address through the page table: levels, page, frame, mapping, neighbours
    Page(PageArgs),
    /// Order functions, variables and object files so that a start touches fewer pages
    Order(OrderArgs),
    /// Show which code is on huge pages, and put more of it there
    Text(TextArgs),
    /// Show, drop, lock, save or restore the page cache of files, or hold it in huge folios
    Cache(CacheArgs),
    /// Predict the fastest way to read a file on this machine, as it is cached now
    Choose(ChooseArgs),
    /// Show what this machine, kernel and account allow, and what disturbs measurements
    Doctor(DoctorArgs),
    /// Print a saved run again
    Show(ShowArgs),
    /// Write a proven remedy into systemd, a wrapper or a container, or undo it
    Apply(Box<ApplyArgs>),
    /// Measure proven gains again: after an update of kernel or program, or by a timer
    Recheck(RecheckArgs),
    /// Compare saved runs of different versions, machines or days
    Compare(CompareArgs),
    /// List saved runs, or show how the time of each program changed
    History(HistoryArgs),
    /// Correct predicted gains by the races of this machine
    Calibrate(CalibrateArgs),
    /// Pool the sessions of many hosts into one answer
    Merge(MergeArgs),
    /// Print scripts for Slurm, Ansible or Kubernetes that measure a remedy on many hosts
    Fleet(Box<FleetArgs>),
    /// Print one sample of this host's page costs in Prometheus' text format
    ExportMetrics(MetricsArgs),
    /// Concatenate files, like cat, in the fastest safe way
    #[command(disable_help_flag = true, after_help = CAT_HELP)]
    Cat(ToolArgs),
    /// Copy files or standard input and show progress, like pv
    #[command(disable_help_flag = true, after_help = METER_HELP)]
    Meter(ToolArgs),
    /// Copy standard input to files and standard output, like tee
    #[command(disable_help_flag = true, after_help = TEE_HELP)]
    Tee(ToolArgs),
    /// Link cat, meter and tee into a directory under their usual names
    Links(LinksArgs),
    /// Print the completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of pagewise or of one command
    Man(ManArgs),
    /// A helper of another pagewise process
    #[command(name = "__helper", hide = true)]
    Helper(HelperArgs),
}

impl CliCommand {
    /// True for a command that a person starts, other than a filter in a pipeline. It repairs what a killed
    /// run has left.
    pub(crate) const fn may_repair(&self) -> bool {
        !matches!(
            self,
            Self::Helper(_)
                | Self::Cat(_)
                | Self::Meter(_)
                | Self::Tee(_)
                | Self::Completions(_)
                | Self::Man(_)
        )
    }
}

/// A tool for pipelines, which reads its own command line.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// Options and files; `--help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

/// `pagewise run`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise run --with heap-huge -- sort big.txt
  pagewise run --with pipe-grow=1M,place=one -- sh -c 'cat big | wc -l'
  pagewise run --with text-huge -- node server.js
  pagewise run --fold --with text-huge -- ./database
  pagewise run --system --with pool=2G -- ./database    (root)
  pagewise run --list

The program keeps standard input, output and error, signals and terminal.
Standard error reports remedies that had no effect, before the program starts
or after it ends. Changes made by --system are undone when the program ends.
If pagewise is killed by SIGKILL, its next start undoes them.

Use --fold when text-huge by itself cannot put the code on huge pages. It makes
a copy in memory, as pagewise text fold --merge does, and mounts it over the
file. Only this program and its children see the copy, and it disappears with
them. They run in a mount namespace: their mounts are invisible outside. Without
CAP_SYS_ADMIN they also run in a user namespace. There, files of other users
appear to belong to nobody, set-user-ID programs gain no privileges, and nothing
that needs privileges works.

Exit codes: the program's own, or its signal; 125 could not be started,
126 not executable, 127 not found, 2 bad usage.")]
pub(crate) struct RunArgs {
    /// Remedies, separated by commas, each NAME or NAME=PARAMETER
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub(crate) with: String,
    /// Allow changes to machine-wide settings while the program runs: pool reserves pages, heap-mthp sets switches
    #[arg(long)]
    pub(crate) system: bool,
    /// Let text-huge mount a folded copy over the file if it cannot put the code on huge pages
    #[arg(long)]
    pub(crate) fold: bool,
    /// List the remedies and their parameters
    #[arg(long)]
    pub(crate) list: bool,
    /// Report everything that was done to the program, not only failures
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `pagewise doctor`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise doctor
  pagewise doctor --verbose
  pagewise doctor --prices --json > machine.json
  pagewise doctor --ftok /var/lib/app/shm /etc/app.conf")]
pub(crate) struct DoctorArgs {
    /// Also print everything that works here and all facts about the machine
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) verbose: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Also measure this machine's unit prices (about 2 s)
    #[arg(long)]
    pub(crate) prices: bool,
    /// Also name segments of shared memory with a key that ftok(3) makes of FILE, and files that
    /// give the same keys
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) ftok: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) page: HtmlArgs,
}

/// `pagewise show`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise show                   the newest run
  pagewise show 3                 run 3 of `pagewise history`
  pagewise show kept.json --markdown
  pagewise show --open            its page in a browser
  pagewise show --picture arms.svg --chart time

--open starts $BROWSER, or xdg-open without it, on a page that it keeps in the
state directory. Pages and pictures need no other files and no network.")]
pub(crate) struct ShowArgs {
    /// Number from `pagewise history`, `last`, an identifier, or a file [default: the newest
    /// run]; ./3 is a file named 3
    pub(crate) run: Option<String>,
    /// Print the whole report: every cost with its evidence, every arm with its reason, all remedies
    #[arg(long, short, conflicts_with_all = ["json", "csv", "markdown"])]
    pub(crate) verbose: bool,
    /// Print JSON, as saved
    #[arg(long)]
    pub(crate) json: bool,
    /// Print Markdown, for a pull request
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub(crate) markdown: bool,
    /// Print all timed runs as CSV
    #[arg(long, conflicts_with = "json")]
    pub(crate) csv: bool,
    /// Write one HTML page to FILE and print nothing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "markdown", "csv"])]
    pub(crate) html: Option<PathBuf>,
    /// Open the HTML page of the run in a browser and print nothing
    #[arg(long, conflicts_with_all = ["json", "markdown", "csv", "html"])]
    pub(crate) open: bool,
    /// Write one picture of the HTML page to FILE.svg and print nothing
    #[arg(long, value_name = "FILE.svg", conflicts_with_all = ["json", "markdown", "csv", "html", "open"])]
    pub(crate) picture: Option<PathBuf>,
    /// Choose the picture by a part of its title [default: the first]
    #[arg(long, value_name = "TITLE", requires = "picture")]
    pub(crate) chart: Option<String>,
    /// Print the JSON Schema of saved runs; reads no run
    #[arg(long)]
    #[arg(conflicts_with_all = ["run", "verbose", "json", "markdown", "csv", "html", "open", "picture"])]
    pub(crate) schema: bool,
}

/// `pagewise completions`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise completions bash > ~/.local/share/bash-completion/completions/pagewise
  pagewise completions fish | source")]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `pagewise man`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise man > pagewise.1
  pagewise man tune | man -l -")]
pub(crate) struct ManArgs {
    /// The command
    pub(crate) command: Option<String>,
}

/// Hidden: the helper processes that pagewise starts.
#[derive(Debug, Args)]
pub(crate) struct HelperArgs {
    /// Purpose of the helper
    pub(crate) part: HelperRole,
    /// Number of the inherited socket; absent for `touch`
    pub(crate) fd: Option<i32>,
}

/// Purpose of a helper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(crate) enum HelperRole {
    /// The supervising process of an experiment
    Supervise,
    /// The recording process of `faults`
    Record,
    /// Touches fresh pages, for comparison with the timed faults
    Touch,
    /// One end of a pipe that is measured
    PipeEnd,
    /// A process that reads a file and is measured
    FileReader,
    /// Switches remedies of a running service, and undoes them
    Switch,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn commands_keep_their_own_options() {
        let cli =
            Cli::try_parse_from(["pagewise", "run", "--with", "place", "--", "ls", "-l", "--"]);
        let CliCommand::Run(run) = cli.expect("a valid line").command else { panic!("not run") };
        assert_eq!(run.command, ["ls", "-l", "--"]);
    }
}
