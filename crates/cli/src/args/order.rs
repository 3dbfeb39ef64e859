//! `pagewise order`

use super::values::values;
use super::{HtmlArgs, LockWaitArgs};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use pagewise_model::Nanos;
use pagewise_model::pieces::OrderUnit;
use pagewise_report::order::Linker;
use std::ffi::OsString;
use std::path::PathBuf;
use strum::VariantNames;

/// `pagewise order`
#[derive(Debug, Args)]
pub(crate) struct OrderArgs {
    #[command(subcommand)]
    pub(crate) verb: OrderCommand,
}

/// Actions on order.
#[derive(Debug, Subcommand)]
pub(crate) enum OrderCommand {
    /// Run a program and list the functions that it calls, by their first calls
    #[command(after_help = "\
Examples:
  pagewise order record -o order.txt -- ./app --version
  pagewise order record -o order.txt --libraries -- ./app --version
  pagewise order record -o order.txt --only libapp.so -- make check
  pagewise order record --merge version.txt help.txt --weight 10,1 -o order.txt
  pagewise order record --hooks app.calls -o order.txt
  pagewise order emit order.txt --linker lld --for ./app -o link.txt
  pagewise order record --variables --called order.txt -o data.txt -- ./app
  pagewise order emit data.txt --by variable --linker lld -o link-data.txt

Any program can be recorded, without a rebuild and without root. It stops once
in each function, at the first call. Children are followed. The list has one
name a line, file by file; lines that begin with # name the files.

The program keeps its input, output and exit status. Without -o, its output goes
to standard error, and standard output holds the list. Programs that read their
own code read breakpoints there; leave such files out with --only, or record
with --pages, which lists all functions on the pages that the program touches.

Exit codes: those of the program; 2 usage or failure; 3 cannot be recorded
here.")]
    Record(OrderRecordArgs),
    /// Write source code of hooks, with which a rebuilt program records its own first calls
    #[command(after_help = "\
Examples:
  pagewise order hooks .
  cc -finstrument-functions *.c pagewise_hooks.c -o app
  PAGEWISE_CALLS=app.calls ./app --version
  pagewise order record --hooks app.calls -o order.txt

For programs that can be rebuilt and must not be traced: services that run for
weeks, sandboxes, other machines. Each function is written at its first call, by
any thread or forked process, and stays written however the program ends. The
program runs a little slower, and is otherwise unchanged. Without PAGEWISE_CALLS
it writes nothing.

Exit codes: 0 done; 2 usage or failure.")]
    Hooks(OrderHooksArgs),
    /// Compute a link order from object files, without a run
    #[command(after_help = "\
Examples:
  pagewise order close *.o > objects.txt
  pagewise order close --by function *.o libapp.a > order.txt
  pagewise order close --by function --entry main --entry worker app.o

Follows every reference from the entry points and the constructors. Prints the
names that they reach, one a line, the likeliest to run first. Names are packed
so that as few as possible cross the end of a page. Names that are not reached
are left out: the linker puts them last.

Functions and variables can be placed only if each has its own section: compile
with -ffunction-sections -fdata-sections. rustc always does this.

Exit codes: 0 done; 2 usage, or files that are no object files.")]
    Close(OrderCloseArgs),
    /// Write an order in the form of a linker, with the lines to use it
    #[command(after_help = "\
Examples:
  pagewise order close --by function *.o | pagewise order emit - --linker lld -o order.txt
  pagewise order emit names.txt --linker gold --for *.o -o order.txt
  pagewise order emit former.txt --linker lld --for ./app -o order.txt

An order is a list of names, one a line; lines that begin with # are comments.
Names that a later build has changed are found again with --for: hashes and
numbers that compilers append are ignored. With object files it also takes the
true names of their sections, which some linkers need.

Several orders become one that serves all of these workloads: functions that the
same workloads call come together, in the sequence that takes the fewest faults.

With -o, standard output shows how to use the file; without it, standard output
holds the order.

Exit codes: 0 done; 2 usage, or what this linker cannot do.")]
    Emit(OrderEmitArgs),
    /// Predict the code that starts of a program touch, as it is linked and in other orders
    #[command(after_help = "\
Examples:
  pagewise order predict order.txt --program ./app
  pagewise order predict version.txt help.txt --weight 10,1 --program ./app
  pagewise order predict order.txt --program ./app --build small=./app-Os
  pagewise faults --exact --save-working-set app.ws -- ./app
  pagewise order predict order.txt --program ./app --touched app.ws
  pagewise order predict order.txt --program ./app --html before-after.html

An order is a list of the functions that a start calls, one a line. Compares
today's layout, first-call order and the best order for all workloads: pages
touched, and faults. --build adds other builds, for example with -Os, section
garbage collection or identical code folding, by the same functions.

Faults are counted on the program's file as the page cache has it: predicted
pages are touched there. Copy the program as it will be installed first, because
the cache has a copy in other folios than what a linker has just written.

A called function counts with all its pages. With --touched (one file for each
order), only the pages that the run touched count.

Exit codes: 0 done; 2 usage or failure.")]
    Predict(OrderPredictArgs),
    /// Check that a linker followed an order, and compare the cost of starting both builds
    #[command(after_help = "\
Examples:
  pagewise order check ./app ./app.ordered --order order.txt -- {} --version
  pagewise order check ./app ./app.ordered --order order.txt --html map.html -- {} -h
  pagewise order check ./app ./app-Os -- {} --version

Write {} in the command in place of the program. Counts, for each build, the
faults on its code, the pages of code touched, and the code that is resident
when the program ends. Then compares the time of both by the experiment of `ab`.

Exit codes: 0 done; 1 the linker did not follow the order: less than 95% of the
names were found, or less than 98% of neighbours lie in order; 2 usage or
failure; 3 cannot be measured here, or another experiment runs.")]
    Check(OrderCheckArgs),
    /// Build a program in several ways, and compare code, pages, faults and time of a start
    #[command(after_help = "\
Examples:
  pagewise order builds -- cc -O2 app.c -o {out} --- {} --version
  pagewise order builds --order calls.txt -- cc *.o -o {out} --- {} --version
  pagewise order builds -- sh -c 'make CFLAGS=\"-O2 {flags}\" && cp app {out}' --- {} -h
  pagewise order builds --name O2 --name Os -- \\
    cc -O2 app.c -o {out} --- cc -Os app.c -o {out} --- {} --version

Write {out} in a build in place of the program's file, and {} in the last
command, which is started. Of several builds, the first is the reference. One
build is varied: -Os, --gc-sections, --icf=safe and all, -z separate-code and
noseparate-code, the order of --order, and all of them. Options come at the end
of the command, or in place of {flags}; of {rustflags} in the form of rustc.
-Os needs a command that compiles.

Only lld, gold and mold fold identical code. If the build uses GNU ld, another
linker is tried. --icf=all can change programs that compare addresses of
functions.

Exit codes: 0 done; 2 usage, or the first build failed; 3 cannot be measured
here, or another experiment runs; 130 interrupted.")]
    Builds(OrderBuildsArgs),
}

/// Pages of code as a picture.
#[derive(Debug, Args)]
pub(crate) struct CodeMapArgs {
    #[command(flatten)]
    pub(crate) page: HtmlArgs,
    /// Also draw the pages of code as characters, by first touch
    #[arg(long)]
    pub(crate) map: bool,
}

/// `pagewise order check`
#[derive(Debug, Args)]
pub(crate) struct OrderCheckArgs {
    /// The program linked without the order
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The program linked with it, with its symbols
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
    /// File with the order, one name a line; without it, starts are only compared
    #[arg(long, value_name = "FILE")]
    pub(crate) order: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) starts: BuildStartArgs,
    #[command(flatten)]
    pub(crate) drawn: CodeMapArgs,
    /// The command, with {} for the program
    #[arg(last = true, required = true, value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `pagewise order builds`
#[derive(Debug, Args)]
pub(crate) struct OrderBuildsArgs {
    /// Names of the builds, in order
    #[arg(long = "name", value_name = "NAME")]
    pub(crate) names: Vec<String>,
    /// Also link the one build in the order of FILE, one name a line
    #[arg(long, value_name = "FILE")]
    pub(crate) order: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) starts: BuildStartArgs,
    /// The builds, and the command to start, with {} for the program
    #[arg(last = true, required = true, value_name = "BUILD --- CMD")]
    pub(crate) words: Vec<OsString>,
}

/// How builds are started.
#[derive(Debug, Args)]
pub(crate) struct BuildStartArgs {
    /// Number of starts of each build, to count faults
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) runs: u32,
    /// Leave out the comparison of times
    #[arg(long)]
    pub(crate) no_time: bool,
    /// Time for that comparison, such as 90s [default: until the answer is clear]
    #[arg(long, value_name = "TIME", conflicts_with = "no_time")]
    pub(crate) budget: Option<Nanos>,
    /// Read the program's standard input from FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Declare that running the program again is safe, whatever it writes
    #[arg(long)]
    pub(crate) rerun_safe: bool,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) patience: LockWaitArgs,
    /// No progress display
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

/// `pagewise order hooks`
#[derive(Debug, Args)]
pub(crate) struct OrderHooksArgs {
    /// Write pagewise_hooks.c there
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
}

/// `pagewise order record`
#[derive(Debug, Args)]
pub(crate) struct OrderRecordArgs {
    /// Record the libraries of the program as well
    #[arg(long)]
    pub(crate) libraries: bool,
    /// Record these files instead, by path or name, in all processes that map them
    #[arg(long, value_name = "FILE", conflicts_with = "libraries")]
    pub(crate) only: Vec<String>,
    /// Record first touches of pages instead of calls: coarser, and without breakpoints
    #[arg(long)]
    pub(crate) pages: bool,
    /// Record variables instead: all on the pages of data that the program touches
    #[arg(long, conflicts_with = "pages")]
    pub(crate) variables: bool,
    /// List of called functions, from a recording: variables that they name come first
    #[arg(long, value_name = "LIST", requires = "variables")]
    pub(crate) called: Option<PathBuf>,
    /// Run nothing: merge these lists; functions in all of them come first
    #[arg(long, value_name = "LIST", num_args = 1.., conflicts_with_all = ["command", "libraries", "only", "json", "pages", "variables", "html", "map"])]
    pub(crate) merge: Vec<PathBuf>,
    /// Run nothing: list the calls that a program with `order hooks` wrote to these files
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["command", "libraries", "merge", "pages", "variables"])]
    pub(crate) hooks: Vec<PathBuf>,
    /// Weights of the lists to merge [default: 1 each]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = weight, requires = "merge")]
    pub(crate) weight: Vec<f64>,
    /// Write the list to FILE
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Print as JSON, with addresses, times and processes
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) drawn: CodeMapArgs,
    /// The command
    #[arg(last = true, required_unless_present_any = ["merge", "hooks"], value_name = "CMD")]
    pub(crate) command: Vec<OsString>,
}

/// `pagewise order predict`
#[derive(Debug, Args)]
pub(crate) struct OrderPredictArgs {
    /// Files with orders, one for each workload; - is standard input
    #[arg(required = true, value_name = "ORDER")]
    pub(crate) orders: Vec<PathBuf>,
    /// Weights of several workloads [default: 1 each]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = weight)]
    pub(crate) weight: Vec<f64>,
    /// The program as it is linked today, with its symbols
    #[arg(long, value_name = "FILE")]
    pub(crate) program: PathBuf,
    /// Pages that each workload touches, for closer figures: from `faults --exact --save-working-set FILE`
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "builds")]
    pub(crate) touched: Vec<PathBuf>,
    /// Another build of it to compare with
    #[arg(long = "build", value_name = "NAME=FILE")]
    pub(crate) builds: Vec<String>,
    /// Print as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) drawn: CodeMapArgs,
}

/// A weight: a positive number.
fn weight(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("`{text}` is not a positive number"))
}

/// `pagewise order emit`
#[derive(Debug, Args)]
pub(crate) struct OrderEmitArgs {
    /// Files with orders, one for each workload; - is standard input
    #[arg(required = true, value_name = "ORDER")]
    pub(crate) orders: Vec<PathBuf>,
    /// Weights of several workloads [default: 1 each]
    #[arg(long, value_name = "N,N", value_delimiter = ',', value_parser = weight)]
    pub(crate) weight: Vec<f64>,
    /// Linker to write the order for
    #[arg(long, value_name = "LINKER", value_parser = PossibleValuesParser::new(Linker::VARIANTS)
        .try_map(|name| name.parse::<Linker>()))]
    pub(crate) linker: Linker,
    /// Kind of the names
    #[arg(long, value_parser = values(BY), value_name = "WHAT", default_value = "function")]
    pub(crate) by: OrderUnit,
    /// Find the names in this program, or in these object files and archives
    #[arg(long = "for", value_name = "FILE", num_args = 1..)]
    pub(crate) builds: Vec<PathBuf>,
    /// Write the order to FILE and print how to use it
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// `pagewise order close`
#[derive(Debug, Args)]
pub(crate) struct OrderCloseArgs {
    /// Object files and archives, in the order in which they are linked
    #[arg(required = true, value_name = "OBJECT")]
    pub(crate) objects: Vec<PathBuf>,
    /// Symbol where the program starts (repeatable)
    #[arg(long, value_name = "NAME", default_value = "main")]
    pub(crate) entry: Vec<String>,
    /// Pieces to put in order
    #[arg(long, value_parser = values(BY), value_name = "WHAT", default_value = "object")]
    pub(crate) by: OrderUnit,
}

/// Pieces that are put in order.
const BY: &[(OrderUnit, &str)] = &[
    (OrderUnit::Object, "Object files and members of archives"),
    (OrderUnit::Function, "Functions"),
    (OrderUnit::Variable, "Variables"),
];
