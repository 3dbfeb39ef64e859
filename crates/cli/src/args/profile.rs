//! `pagewise profile`

use super::SaveArgs;
use super::values::values;
use clap::Args;
use pagewise_model::Nanos;
use pagewise_report::ProfileForm;
use std::ffi::OsString;
use std::path::PathBuf;

/// `pagewise profile`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  pagewise profile -- git log -p
  pagewise profile --graph -- sh -c 'cat big | wc -l'
  pagewise profile --graph copy/pipe -- sh -c 'cat big | wc -l'
  pagewise profile -p 1234 --for 5s              a running process, undisturbed
  pagewise profile --faults -- python3 job.py
  pagewise profile --interpreter-frames --graph -- python3 job.py
  pagewise profile --memory -- python3 job.py    its memory, at the peak
  pagewise profile --memory -p 1234 --for 10s    held now, used within 10 s
  pagewise profile --traced --rerun-safe -- xz -k -c big > /dev/null
  pagewise profile --json -- xz -k big > profile.json
  pagewise profile --format folded -- ./app > app.folded     for a flame graph
  pagewise profile --format pprof -- ./app > app.pb.gz       for go tool pprof
  pagewise profile --import perf.data            what perf record wrote
  perf script | pagewise profile --import -      the same as text

A bucket has two names, WHAT was done and WHY. --graph takes either or both:
  WHAT  user, copy, zeroing, allocation, fault-entry, mapping, unmapping,
        tlb-flush, lock, scheduling, lookup, pinning, entry, handling, io-wait,
        reclaim, compaction, swap-in, interrupt, unclassified
  WHY   own, pipe, file-read, file-write, file-fault, anon-fault, cow-fault,
        fault, exec, fork, exit, map-call, interrupt, unknown, or a system call

--memory names each part of the proportional set size: blocks of malloc in use
and freed, stacks, files, heaps of languages; who first touched the memory, by
function and line of source; and what remedies could give back.
The program is traced and stands still while its memory is read. With -p nothing
is stopped; --for clears the marks of use (clear_refs in proc(5)) and waits.

-p follows every thread of the process and of its descendants until --for is
over, the process ends, or you press Ctrl-C. It never stops the process.

The report goes to standard error, after the program's own output. With --json,
standard output holds only the document; the program's goes to standard error.

Exit codes: the program's own, or its signal (with -p: 0); 125 could not be
started, 126 not executable, 127 not found, 2 bad usage, or no such process.")]
pub(crate) struct ProfileArgs {
    /// Show the callers of each bucket, or of the buckets with this name
    #[arg(long, value_name = "BUCKET", num_args = 0..=1, default_missing_value = "all")]
    pub(crate) graph: Option<String>,
    /// Profile a running process
    #[arg(short, long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    #[arg(conflicts_with_all = ["command", "input", "faults", "traced"])]
    pub(crate) pid: Option<i32>,
    /// Profile the process for this long: 5s, 2min
    #[arg(long = "for", value_name = "TIME", requires = "pid", conflicts_with = "command")]
    pub(crate) duration: Option<Nanos>,
    /// Account for the memory of the program instead of its time
    #[arg(long, conflicts_with_all = ["graph", "faults", "traced", "import"])]
    pub(crate) memory: bool,
    /// Read standard input from FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Print the whole report: every figure with its evidence, every table
    #[arg(long, short, conflicts_with_all = ["json", "format"])]
    pub(crate) verbose: bool,
    /// Print JSON, as saved, on standard output instead of text on standard error
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the samples in this form on standard output, for another tool
    #[arg(long, value_parser = values(FORMS), value_name = "FORM", conflicts_with_all = ["json", "memory", "graph"])]
    pub(crate) format: Option<ProfileForm>,
    #[command(flatten)]
    pub(crate) files: SaveArgs,
    /// Time each page fault, to show fault time by kind; each fault takes about 1 us longer, and the
    /// report shows this cost
    #[arg(long)]
    pub(crate) faults: bool,
    /// Ask Python (3.12 and later), node and Java for function names, and copy stacks to find the
    /// functions; a sample takes 10-20 us longer
    #[arg(long, conflicts_with_all = ["pid", "import"])]
    pub(crate) interpreter_frames: bool,
    /// Run the program a second time, traced, to show the kinds of faults and copies
    #[arg(long)]
    pub(crate) traced: bool,
    /// Declare that running the program again is safe, whatever it writes; --traced needs it
    #[arg(long)]
    pub(crate) rerun_safe: bool,
    /// Sort the samples of another tool or machine: a file of perf record, output of perf script, or
    /// folded stacks; - is standard input
    #[arg(long, value_name = "FILE")]
    #[arg(conflicts_with_all = ["command", "pid", "input", "faults", "traced"])]
    pub(crate) import: Option<PathBuf>,
    /// Samples per second of CPU time, if the imported profile does not state it
    #[arg(long, value_name = "HZ", requires = "import", default_value_t = 99)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) frequency: u32,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// The form in which samples are printed.
const FORMS: &[(ProfileForm, &str)] = &[
    (ProfileForm::Folded, "Folded stacks weighted by samples; frames of the kernel end in _[k]"),
    (ProfileForm::Firefox, "A profile for Firefox Profiler, each stack once"),
    (ProfileForm::Pprof, "Samples and CPU time for pprof (binary)"),
    (ProfileForm::Otlp, "The same for OpenTelemetry: its profiles (binary)"),
];
