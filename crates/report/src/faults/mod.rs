//! Page faults for people: the summary, and the list in the forms that other tools read.
//!
//! Two columns are easily confused: the site that touched a page (an instruction), and the object at the
//! address (a mapping).

mod account;
mod causes;
mod exact;
mod export;
mod firefox;
mod list;
mod pages;

pub use export::{FaultExport, FaultListForm};

use crate::number::{count, counted, percent};
use crate::page::ReportDocument;
use crate::style::TextTone;
use crate::symbol::readable;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use account::account;
pub(crate) use causes::caller_rows;
use pagewise_model::body::RunBody;
use pagewise_model::fault::{
    BrokenBudget, FaultNames, FaultPlace, FaultReport, FaultSite, FaultTally, FunctionTally,
    GroupTally, PageFault, PlaceTally, RecordingMethod, ScriptInterpreter, SourceLine, UnnamedFile,
};
use pagewise_model::run::SavedRun;
use pagewise_model::{Fact, Nanos};

/// The first minor version of Python 3 that writes a map of its functions.
const FIRST_NAMING_PYTHON: u32 = 12;
/// Largest number of rows of a table; the saved form has all.
const LISTED: usize = 10;
const NOT_IN_THE_KERNEL: &str =
    "faults of the kernel for the program need kernel.perf_event_paranoid=1 or CAP_PERFMON";

/// The verdict on the faults of a run in one sentence.
pub(crate) fn headline(run: &SavedRun) -> String {
    let Some(RunBody::Faults(report)) = &run.body else {
        return "no faults were recorded".to_owned();
    };
    let total = &report.total;
    let faults = counted(total.faults, "page fault", "page faults");
    let pages = counted(report.touched_pages, "page", "pages");
    let major = count(total.major_faults);
    let Some(wall) = timed_wall(report) else {
        let within = match report.exact {
            Some(_) => String::new(),
            None => format!(" in {}", report.wall_ns),
        };
        return format!("{faults} on {pages}{within}; {major} major");
    };
    let share = percent(share(total.time_ns, wall));
    let parallel = if report.latency.known().is_some_and(|l| l.total_ns > wall) {
        " (the threads together)"
    } else {
        ""
    };
    format!(
        "{faults} on {pages} took {}, {share} of {wall} wall time{parallel}; {major} major",
        total.time_ns
    )
}

/// The wall time to compare fault times with; `None` if it is unknown.
pub(crate) fn timed_wall(report: &FaultReport) -> Option<Nanos> {
    report.has_ends.then_some(report.wall_ns)
}

/// One line for a broken budget.
#[must_use]
pub fn broken_line(broken: &BrokenBudget) -> String {
    match broken {
        BrokenBudget::Faults { found, most } => {
            format!("{} page faults, {} allowed", count(*found), count(*most))
        }
        BrokenBudget::MajorFaults { found, most } => {
            format!("{} major faults, {} allowed", count(*found), count(*most))
        }
        BrokenBudget::TouchedPages { found, most } => {
            format!("{} pages faulted on, {} allowed", count(*found), count(*most))
        }
        BrokenBudget::Time { found_ns, most_ns } => {
            format!("{found_ns} in page faults, {most_ns} allowed")
        }
    }
}

/// The faults of a run as lines.
#[must_use]
pub fn faults_section(report: &FaultReport) -> ReportDocument {
    let mut page = ReportDocument::default();
    figures(report, &mut page);
    let wall = timed_wall(report);
    page.section(groups("what was done", &report.by_access, |k| k.into_str().into(), wall));
    page.section(groups("why", &report.by_cause, |k| k.into_str().into(), wall));
    page.section(groups("what is there", &report.by_kind, |k| k.into_str().into(), wall));
    if report.by_page.len() > 1 {
        let size = |bytes: pagewise_model::Bytes| bytes.to_string();
        page.section(groups("page mapped", &report.by_page, size, wall));
    }
    page.section(exact::page_sizes(report));
    page.section(causes::section(report));
    page.section(places(&report.places, wall));
    page.section(functions(&report.functions, wall));
    page.section(account(&report.account, report.attached.is_some()));
    page
}

pub(crate) fn share(time: Nanos, of: Nanos) -> f64 {
    time.0 as f64 / of.0 as f64
}

fn figures(report: &FaultReport, page: &mut ReportDocument) {
    let latency = match &report.latency {
        Fact::Known(l) => format!(
            "half took at most {}, 99% {}, 99.9% {}, the longest {}",
            l.p50_ns, l.p99_ns, l.p999_ns, l.max_ns
        ),
        Fact::Missing(why) => format!("not known: {why}"),
    };
    page.item("latency", &latency);
    let again = report.total.again_faults;
    page.item(
        "pages",
        &format!("{} faulted on; {} again", count(report.touched_pages), faults(again)),
    );
    page.item(
        "programs",
        &format!(
            "{} in {}",
            counted(report.executed, "program executed", "programs executed"),
            counted(report.processes, "process", "processes")
        ),
    );
    if let Some(attached) = &report.attached {
        let threads = counted(attached.threads, "thread", "threads");
        let until = if attached.has_ended { ", until it ended" } else { "" };
        let text = format!("process {} with {threads} for {}{until}", attached.pid, report.wall_ns);
        page.item("attached to", &text);
    }
    page.item("recorded", &recorded(report));
    circumstances(report, page);
    if !report.is_complete() {
        page.item_tone("incomplete", &incomplete(report), TextTone::Warn);
    }
}

/// What the figures leave out, for readers of the summary only.
pub(crate) fn doubts(report: &FaultReport) -> Vec<String> {
    let mut found = Vec::new();
    if !report.is_complete() {
        found.push(incomplete(report));
    }
    if report.step == RecordingMethod::PerfUser {
        found.push(NOT_IN_THE_KERNEL.to_owned());
    }
    found.extend(report.exact.iter().flat_map(exact::left));
    let is_attached = report.attached.is_some();
    found.extend(
        report
            .interpreters
            .iter()
            .filter(|one| one.functions == 0)
            .filter_map(|one| scripts(one, is_attached)),
    );
    found.extend(report.unnamed_files.iter().map(unnamed_text));
    found
}

/// What the kernel maps along with pages of files; `None` if nothing.
pub(crate) fn touched(report: &FaultReport) -> Option<String> {
    let around = report.fault_around.filter(|around| around.mapped_bytes.0 > 0)?;
    Some(exact::around(&around, report.exact.is_some()))
}

/// Adds other facts that affect how to read the figures.
fn circumstances(report: &FaultReport, page: &mut ReportDocument) {
    if report.has_error_codes {
        page.item("what and why", "the processor's error code of each fault (tracepoints)");
    }
    if report.total.raced_faults > 0 {
        let raced = faults(report.total.raced_faults);
        let doubt = if report.has_error_codes { "" } else { ": their cause is less certain" };
        page.item("raced", &format!("{raced} on a page that another thread faulted on{doubt}"));
    }
    if report.fixed_addresses {
        page.item("addresses", "fixed (no address randomisation): the same in each run");
    }
    for interpreter in &report.interpreters {
        if let Some(text) = scripts(interpreter, report.attached.is_some()) {
            page.item("scripts", &text);
        }
    }
    for unnamed in &report.unnamed_files {
        page.item_tone("not named", &unnamed_text(unnamed), TextTone::Warn);
    }
    if let Some(exact) = &report.exact {
        exact::touches(exact, page);
    }
    if let Some(text) = touched(report) {
        page.item("fault-around", &text);
    }
}

/// Names a file whose functions have no names, with the reason.
#[must_use]
pub fn unnamed_text(unnamed: &UnnamedFile) -> String {
    format!("functions of {}: {}", unnamed.path, unnamed.why)
}

/// Whether an interpreter named its functions, or how to make it do so. `is_attached` if the process was
/// already running. `None` if the interpreter can name functions, but had no need to.
#[must_use]
pub fn scripts(interpreter: &ScriptInterpreter, is_attached: bool) -> Option<String> {
    let ScriptInterpreter { name, functions, has_map } = interpreter;
    if *functions > 0 {
        let functions = counted(*functions, "function", "functions");
        return Some(format!("{functions} named by {name}; a line is where a function begins"));
    }
    (!has_map).then(|| nameless(name, is_attached))
}

/// How to make an interpreter of this name provide names.
fn nameless(name: &str, is_attached: bool) -> String {
    let minor = name.strip_prefix("python3.").and_then(|minor| minor.parse::<u32>().ok());
    match (name, is_attached) {
        _ if minor.is_some_and(|minor| minor < FIRST_NAMING_PYTHON) => {
            format!("{name} cannot name its functions; Python 3.12 and later can")
        }
        ("java", false) => "java named no function: --interpreter-frames asks it to name \
            those that it compiles"
            .to_owned(),
        (_, false) => format!("{name} named no function: --interpreter-frames asks it to"),
        ("java", true) => "java named no function; jcmd PID Compiler.perfmap has it name those \
            that it has compiled (JDK 17)"
            .to_owned(),
        ("node", true) => "node named no function; start it with --perf-basic-prof".to_owned(),
        (_, true) => format!("{name} named no function; start it with PYTHONPERFSUPPORT=1"),
    }
}

fn faults(n: u64) -> String {
    counted(n, "fault", "faults")
}

fn recorded(report: &FaultReport) -> String {
    let what = match report.has_ends {
        true => "start and end of each fault",
        false => "the start of each fault, the end of major ones,",
    };
    match report.step {
        RecordingMethod::PerfUser => {
            format!("{what} in user mode (perf events); {NOT_IN_THE_KERNEL}")
        }
        RecordingMethod::PerfAll => format!("{what} in user mode and in the kernel (perf events)"),
    }
}

fn incomplete(report: &FaultReport) -> String {
    let more_room = match report.lost_records {
        0 => "",
        _ => "; a higher ulimit -l gives records more room",
    };
    format!(
        "{} lost, {} without a start, {} without an end: the figures are lower bounds{more_room}",
        counted(report.lost_records, "record", "records"),
        counted(report.unpaired_ends, "end", "ends"),
        counted(report.unpaired_begins, "beginning", "beginnings"),
    )
}

/// A table of tallies by name; with times only if there is a wall time to compare them with.
fn tallies(
    title: &'static str,
    rows: impl Iterator<Item = (String, FaultTally)>,
    wall: Option<Nanos>,
) -> ReportDocument {
    let mut columns = vec![(title, ColumnAlignment::Name), ("faults", ColumnAlignment::Right)];
    if wall.is_some() {
        columns.extend([("time", ColumnAlignment::Decimal), ("of wall", ColumnAlignment::Decimal)]);
    }
    columns.push(("again", ColumnAlignment::Right));
    let mut table = ReportTable::new(&columns);
    for (name, tally) in rows {
        let mut cells = vec![TableCell::from(name), count(tally.faults).into()];
        if let Some(wall) = wall {
            let share = percent(share(tally.time_ns, wall));
            cells.extend([TableCell::from(tally.time_ns.to_string()), share.into()]);
        }
        cells.push(count(tally.again_faults).into());
        table.row(cells);
    }
    table.into()
}

fn groups<K: Copy>(
    title: &'static str,
    groups: &[GroupTally<K>],
    label: impl Fn(K) -> String,
    wall: Option<Nanos>,
) -> ReportDocument {
    let rows = groups.iter().map(|group| (label(group.kind), group.tally));
    tallies(title, rows, wall)
}

fn places(places: &[PlaceTally], wall: Option<Nanos>) -> ReportDocument {
    let rows = places.iter().take(LISTED).map(|one| (place_name(&one.place), one.tally));
    tallies("touched mapping", rows, wall)
}

/// The first of these functions, formatted by `name`.
pub(crate) fn function_rows(
    functions: &[FunctionTally],
    name: fn(&FaultSite) -> String,
) -> impl Iterator<Item = (String, FaultTally)> {
    functions.iter().take(LISTED).map(move |one| (name(&one.site), one.tally))
}

fn functions(functions: &[FunctionTally], wall: Option<Nanos>) -> ReportDocument {
    let mut page = ReportDocument::default();
    page.append(tallies("touching function", function_rows(functions, site_line), wall));
    if !functions.is_empty() {
        let text = "the function that contains the instruction, not its caller";
        page.para(text, 2, TextTone::Faint);
    }
    page
}

/// The object at an address, after the path of its file.
pub(crate) fn place_name(place: &FaultPlace) -> String {
    let kind = place.kind.into_str();
    match place.path.as_str() {
        "" => kind.to_owned(),
        path => format!("{path} {kind}"),
    }
}

/// The callers of a fault's instruction, innermost first; empty if the stack was not recorded.
fn callers<'a>(
    names: &'a FaultNames,
    fault: &PageFault,
) -> impl DoubleEndedIterator<Item = &'a FaultSite> {
    let stack = fault.stack.and_then(|number| names.stacks.get(number as usize));
    let frames = stack.map_or(&[][..], |stack| stack.frames.as_slice());
    frames.iter().filter_map(|number| names.frames.get(*number as usize))
}

/// The names of the callers; `None` if the stack was not recorded.
fn caller_names(names: &FaultNames, fault: &PageFault) -> Option<Vec<String>> {
    fault.stack.map(|_| callers(names, fault).flat_map(nested_names).collect())
}

/// The innermost function with the file name, or the position of the instruction.
pub(crate) fn site_name(site: &FaultSite) -> String {
    let inlined = site.inlined.first().map(|one| one.function.as_str());
    function_name(site, inlined.or(site.function.as_deref()))
}

/// One function of a site, in the format of [`site_name`].
fn function_name(site: &FaultSite, function: Option<&str>) -> String {
    match (function, last_part(&site.path)) {
        (Some(function), "") => readable(function).into_owned(),
        (Some(function), file) => format!("{} ({file})", readable(function)),
        (None, "") => format!("{:#x}", site.offset_bytes.0),
        (None, file) => format!("{file}+{:#x}", site.offset_bytes.0),
    }
}

/// The names of the functions of a site, the innermost first.
fn nested_names(site: &FaultSite) -> Vec<String> {
    let nested = site.nested().into_iter();
    nested.map(|(function, _)| function_name(site, function)).collect()
}

/// The innermost function with its source line, if known, and the functions that it is inlined into.
pub(crate) fn site_line(site: &FaultSite) -> String {
    let nested = site.nested().into_iter().enumerate();
    let names = nested.map(|(nth, (function, line))| match nth {
        0 => with_line(&site_name(site), line),
        _ => function_line(function, line),
    });
    names.collect::<Vec<_>>().join(" in ")
}

/// A shorter [`site_line`]: the inlined function, and the function that holds its code.
pub(crate) fn site_brief(site: &FaultSite) -> String {
    match site.nested().as_slice() {
        [first, .., last] => {
            format!("{} in {}", function_line(first.0, first.1), function_line(last.0, last.1))
        }
        _ => site_line(site),
    }
}

fn function_line(function: Option<&str>, line: Option<&SourceLine>) -> String {
    with_line(&readable(function.unwrap_or("[unknown]")), line)
}

fn with_line(name: &str, line: Option<&SourceLine>) -> String {
    line.map_or_else(|| name.to_owned(), |line| format!("{name} {}", source_line(line)))
}

/// A source line with its file name.
fn source_line(source: &SourceLine) -> String {
    format!("{}:{}", last_part(&source.file), source.line)
}

pub(crate) fn last_part(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("")
}

#[cfg(test)]
mod tests;
