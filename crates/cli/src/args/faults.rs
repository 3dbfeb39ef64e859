//! `pagewise faults`

use super::SaveArgs;
use super::values::values;
use clap::{Args, ValueEnum};
use pagewise_model::Nanos;
use pagewise_model::fault::{FaultBudgets, StackRecording};
use pagewise_report::faults::FaultListForm;
use std::ffi::OsString;
use std::path::PathBuf;

/// `pagewise faults`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise faults -- git status
  pagewise faults --all -- true                  each fault, in order
  pagewise faults --format pagein --clock tsc -- ls | head
  pagewise faults --format html -- ./app > app.html     a picture of its pages
  pagewise faults --format firefox -- ./app > app.json  for profiler.firefox.com
  pagewise faults --stacks dwarf --format folded-ns -- ./app > app.folded
  pagewise faults --format pprof -- ./app > app.pb.gz   for go tool pprof
  pagewise faults --max-faults 2000 --max-major 0 -- ./app --version
  pagewise faults -p 1234 --for 5s               a running process, undisturbed
  pagewise faults --no-latency -- ./app          a third of the cost, no times
  pagewise faults --account -- ./app             faults without events, by call
  pagewise faults --interpreter-frames -- python3 job.py    functions of scripts
  pagewise faults --budget startup               a budget of pagewise.toml
  pagewise faults --exact --all -- ls            each page touched, no times
  pagewise faults --exact --save-working-set app.ws -- ./app --version
  pagewise run --with working-set=app.ws -- ./app --version

A budget file has a table for each name. Every key is optional,
and pagewise check has more:
  [check.startup]
  command = [\"./app\", \"--version\"]
  max-faults = 2000
  max-major = 0
  max-touched-pages = 900
  max-fault-time = \"250ms\"

Budgets on faults and pages turn off address randomisation, as --fixed-addresses
does, because it changes these figures from run to run.

--exact traces the program and its children until all of them end. If a service
stays behind, --exact waits until that ends too.

The summary goes to standard error, after the program's own output. With a list
(--all, --format) or --json, standard output holds only that, and the program's
standard output goes to standard error.

-p records every thread of the process, and children that it starts in the
meantime, until --for is over, the process ends, or you press Ctrl-C. It never
stops the process.

Exit codes: the program's own, or its signal (with -p: 0); 1 a budget is broken
(a failed program keeps its own status); 3 faults cannot be recorded here, or
records were lost and a budget cannot be judged; 125 could not be started, 126
not executable, 127 not found; 2 bad usage, or no such process.")]
pub(crate) struct FaultsArgs {
    /// Print every fault on standard output
    #[arg(long)]
    pub(crate) all: bool,
    /// Print every fault in this form
    #[arg(long, value_parser = values(FORMS), value_name = "FORM")]
    pub(crate) format: Option<FaultListForm>,
    /// Clock of the times in a list (--all, --format pagein, json)
    #[arg(long, value_enum, value_name = "CLOCK", default_value = "monotonic")]
    pub(crate) clock: FaultClock,
    /// User stacks to record
    #[arg(long, value_enum, value_name = "WHICH", default_value = "sample")]
    stacks: StackChoice,
    /// Print the whole report: every figure with its evidence, every table
    #[arg(long, short, conflicts_with_all = ["json", "all", "format"])]
    pub(crate) verbose: bool,
    /// Print JSON, as saved, on standard output instead of text on standard error
    #[arg(long, conflicts_with_all = ["all", "format"])]
    pub(crate) json: bool,
    /// Record a running process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    #[arg(conflicts_with_all = ["command", "input", "account"])]
    pub(crate) pid: Option<i32>,
    /// Record the process for this long: 5s, 2min
    #[arg(long = "for", value_name = "TIME", requires = "pid", conflicts_with = "command")]
    pub(crate) duration: Option<Nanos>,
    /// Record only when and where faults begin, at a third of the cost: no durations, and no kinds
    /// except major
    #[arg(long, conflicts_with = "max_fault_time")]
    pub(crate) no_latency: bool,
    /// Also read separate debug files (/usr/lib/debug) for source lines; this takes up to 1 s more
    #[arg(long)]
    pub(crate) debug_files: bool,
    /// Ask Python (3.12 and later), node and Java for function names, so that callers are functions of
    /// the script; each line is the one where its function begins
    #[arg(long, conflicts_with = "pid")]
    pub(crate) interpreter_frames: bool,
    /// Also count the faults inside each system call; tracing makes the program slower
    #[arg(long)]
    pub(crate) account: bool,
    #[command(flatten)]
    pub(crate) files: SaveArgs,
    /// Read standard input from FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Record one fault for each touched page (fault-around off), without times
    #[arg(long, conflicts_with_all = ["max_fault_time", "pid", "account"])]
    pub(crate) exact: bool,
    /// Start the program without address randomisation; budgets on faults and pages imply it
    #[arg(long, conflicts_with = "pid")]
    pub(crate) fixed_addresses: bool,
    /// Save the parts of files that were touched (with --exact also those that were read), for
    /// `run --with working-set=FILE`
    #[arg(long, value_name = "FILE")]
    pub(crate) save_working_set: Option<PathBuf>,
    /// Take command and budgets from [check.NAME] in pagewise.toml; the command line overrides them
    #[arg(long, value_name = "NAME", help_heading = "Budgets")]
    pub(crate) budget: Option<String>,
    /// Read budgets from FILE; give --budget if it holds more than one
    #[arg(long = "budgets", value_name = "FILE", help_heading = "Budgets")]
    pub(crate) budget_file: Option<PathBuf>,
    /// Fail if more faults than N are recorded
    #[arg(long, value_name = "N", help_heading = "Budgets")]
    max_faults: Option<u64>,
    /// Fail if more major faults than N are recorded
    #[arg(long, value_name = "N", help_heading = "Budgets")]
    max_major: Option<u64>,
    /// Fail if more pages than N are faulted on
    #[arg(long, value_name = "N", help_heading = "Budgets")]
    max_touched_pages: Option<u64>,
    /// Fail if all faults together take longer: 250ms, 2s
    #[arg(long, value_name = "TIME", help_heading = "Budgets")]
    max_fault_time: Option<Nanos>,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// The form of the list.
const FORMS: &[(FaultListForm, &str)] = &[
    (FaultListForm::Table, "All fields in columns"),
    (FaultListForm::Pagein, "The columns of pagein: number, page, code or data, time, instruction"),
    (FaultListForm::Json, "JSON Lines"),
    (FaultListForm::Folded, "Folded stacks weighted by count, for flame graphs"),
    (FaultListForm::FoldedNs, "Folded stacks weighted by nanoseconds"),
    (FaultListForm::Perf, "The text format of perf script"),
    (FaultListForm::Chrome, "Trace events, for Perfetto and Chrome"),
    (FaultListForm::Firefox, "A profile for Firefox Profiler, with a marker for each fault"),
    (FaultListForm::Pprof, "Stacks by count and by nanoseconds, for pprof (binary)"),
    (FaultListForm::Otlp, "The same for OpenTelemetry: its profiles (binary)"),
    (
        FaultListForm::Html,
        "An HTML page with a picture: one cell for each page, by the time of its first touch",
    ),
];

/// Clock of the times in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FaultClock {
    /// Nanoseconds of CLOCK_MONOTONIC; the table shows microseconds
    Monotonic,
    /// Cycles of the time-stamp counter of x86
    Tsc,
}

/// User stacks to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum StackChoice {
    /// Some thousand faults a second, by unwind tables: enough to name callers at little cost
    Sample,
    /// Every fault, by frame pointers: for programs built with them
    Fp,
    /// Every fault, by unwind tables: the highest cost
    Dwarf,
    /// No stacks: the lowest cost
    None,
}

impl FaultsArgs {
    /// The list that was asked for.
    pub(crate) fn list(&self) -> Option<FaultListForm> {
        self.format.or_else(|| self.all.then_some(FaultListForm::Table))
    }

    /// The stacks that were asked for.
    pub(crate) const fn stacks(&self) -> StackRecording {
        match self.stacks {
            StackChoice::Sample => StackRecording::Sampled,
            StackChoice::Fp => StackRecording::FramePointers,
            StackChoice::Dwarf => StackRecording::Copied,
            StackChoice::None => StackRecording::None,
        }
    }

    /// How long faults take is wanted.
    pub(crate) const fn latency(&self) -> bool {
        !self.no_latency && !self.exact
    }

    /// The budgets that were given.
    pub(crate) const fn budgets(&self) -> FaultBudgets {
        FaultBudgets {
            most_faults: self.max_faults,
            most_major_faults: self.max_major,
            most_touched_pages: self.max_touched_pages,
            most_time_ns: self.max_fault_time,
        }
    }
}
