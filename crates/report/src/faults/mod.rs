//! Page faults for people: the summary, and the list in the forms that other tools read.
//!
//! Two columns are easily confused and kept apart: who touched a page (an instruction), and what
//! lives there (a mapping).

mod folded;
mod list;

pub use folded::Folded;
pub use list::{Format, List};

use crate::number::{count, counted, percent};
use crate::page::Page;
use crate::style::{Style, Tone};
use crate::table::{Align, Cell, Table};
use pagewise_model::fault::{
    Account, Broken, FaultReport, FunctionTally, GroupTally, PlaceTally, Site, Step, Tally,
};
use pagewise_model::run::Run;
use pagewise_model::{Fact, Nanos};

/// Rows of a table; the rest is in the saved form.
const LISTED: usize = 10;

/// The verdict on the faults of a run in one sentence.
pub(crate) fn headline(run: &Run) -> String {
    let Some(report) = &run.faults else { return "no faults were recorded".to_owned() };
    let total = &report.total;
    let faults = counted(total.faults, "page fault", "page faults");
    let wall = report.usage.wall_ns;
    let share = percent(share(total.time_ns, wall));
    let parallel = if report.latency.known().is_some_and(|l| l.total_ns > wall) {
        " (the threads together)"
    } else {
        ""
    };
    format!(
        "{faults} on {} took {}, {share} of {wall} wall time{parallel}; {} major",
        counted(report.touched_pages, "page", "pages"),
        total.time_ns,
        count(total.major_faults),
    )
}

/// One line for a budget that was not kept.
#[must_use]
pub fn broken_line(broken: &Broken) -> String {
    match broken {
        Broken::Faults { found, most } => {
            format!("{} page faults, {} allowed", count(*found), count(*most))
        }
        Broken::MajorFaults { found, most } => {
            format!("{} major faults, {} allowed", count(*found), count(*most))
        }
        Broken::TouchedPages { found, most } => {
            format!("{} pages faulted on, {} allowed", count(*found), count(*most))
        }
        Broken::Time { found_ns, most_ns } => {
            format!("{found_ns} in page faults, {most_ns} allowed")
        }
    }
}

/// The faults of a run as lines.
#[must_use]
pub fn faults_section(report: &FaultReport, style: &Style) -> String {
    let mut page = Page::new(style);
    figures(report, &mut page);
    let wall = report.usage.wall_ns;
    page.section(&groups("what was done", &report.by_access, |k| k.label().into(), wall, style));
    page.section(&groups("why", &report.by_cause, |k| k.label().into(), wall, style));
    page.section(&groups("what lives there", &report.by_kind, |k| k.label().into(), wall, style));
    if report.by_page.len() > 1 {
        let size = |bytes: pagewise_model::Bytes| bytes.to_string();
        page.section(&groups("page mapped", &report.by_page, size, wall, style));
    }
    page.section(&places(&report.places, wall, style));
    page.section(&functions(&report.functions, wall, style));
    page.section(&account(&report.account, style));
    page.finish()
}

fn share(time: Nanos, of: Nanos) -> f64 {
    time.0 as f64 / of.0 as f64
}

fn figures(report: &FaultReport, page: &mut Page<'_>) {
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
    page.item("recorded", recorded(report.step));
    if !report.is_complete() {
        page.item_tone("incomplete", &incomplete(report), Tone::Warn);
    }
}

fn faults(n: u64) -> String {
    counted(n, "fault", "faults")
}

const fn recorded(step: Step) -> &'static str {
    match step {
        Step::PerfUser => {
            "beginning and end of each fault in user mode (perf events); those that the kernel \
             takes for the program need kernel.perf_event_paranoid=1 or CAP_PERFMON"
        }
        Step::PerfAll => {
            "beginning and end of each fault in user mode and in the kernel (perf events)"
        }
    }
}

fn incomplete(report: &FaultReport) -> String {
    format!(
        "{} lost, {} without a beginning, {} without an end: the figures are lower bounds",
        counted(report.lost_records, "record", "records"),
        counted(report.unpaired_ends, "end", "ends"),
        counted(report.unpaired_begins, "beginning", "beginnings"),
    )
}

/// The cells of a tally, under [`tally_columns`].
fn tally_cells(tally: &Tally, wall: Nanos) -> [Cell; 4] {
    [
        count(tally.faults).into(),
        tally.time_ns.to_string().into(),
        percent(share(tally.time_ns, wall)).into(),
        count(tally.again_faults).into(),
    ]
}

fn table_of(title: &'static str) -> Table {
    Table::new(&[
        (title, Align::Name),
        ("faults", Align::Right),
        ("time", Align::Decimal),
        ("of wall", Align::Decimal),
        ("again", Align::Right),
    ])
}

fn groups<K: Copy>(
    title: &'static str,
    groups: &[GroupTally<K>],
    label: impl Fn(K) -> String,
    wall: Nanos,
    style: &Style,
) -> String {
    let mut table = table_of(title);
    for group in groups {
        let name = Cell::from(label(group.kind));
        table.row([name].into_iter().chain(tally_cells(&group.tally, wall)).collect());
    }
    table.render(style)
}

fn places(places: &[PlaceTally], wall: Nanos, style: &Style) -> String {
    let mut table = table_of("touched mapping");
    for one in places.iter().take(LISTED) {
        let kind = one.place.kind.label();
        let name = match one.place.path.as_str() {
            "" => kind.to_owned(),
            path => format!("{path} {kind}"),
        };
        let name = Cell::from(name);
        table.row([name].into_iter().chain(tally_cells(&one.tally, wall)).collect());
    }
    table.render(style)
}

fn functions(functions: &[FunctionTally], wall: Nanos, style: &Style) -> String {
    let mut table = table_of("touching function");
    for one in functions.iter().take(LISTED) {
        let name = Cell::from(site_name(&one.site));
        table.row([name].into_iter().chain(tally_cells(&one.tally, wall)).collect());
    }
    let mut page = Page::new(style);
    page.append(&table.render(style));
    if !functions.is_empty() {
        let text = "the function that holds the instruction itself: callers are not recorded";
        page.para(text, 2, Tone::Faint);
    }
    page.finish()
}

/// A function with the last part of its file's path, or where the instruction is.
pub(crate) fn site_name(site: &Site) -> String {
    let file = site.path.rsplit('/').find(|part| !part.is_empty()).unwrap_or("");
    match (&site.function, file) {
        (Some(function), file) => format!("{function} ({file})"),
        (None, "") => format!("{:#x}", site.offset_bytes.0),
        (None, file) => format!("{file}+{:#x}", site.offset_bytes.0),
    }
}

fn account(account: &Account, style: &Style) -> String {
    let mut table = Table::new(&[("account", Align::Left), ("faults", Align::Right)]);
    let fact = |fact: &Fact<u64>| fact.known().map_or_else(|| "not known".into(), |n| count(*n));
    let unexplained = account.unexplained_faults;
    let sign = if unexplained < 0 { "-" } else { "" };
    for (name, value) in [
        ("counted by the kernel (rusage)", count(account.rusage_faults)),
        ("  before the program began", fact(&account.before_exec_faults)),
        ("  in user mode", count(account.user_faults)),
        ("  in the kernel, for the program", fact(&account.kernel_faults)),
        ("  populated and pinned pages", fact(&account.populate_faults)),
        ("  unexplained", format!("{sign}{}", count(unexplained.unsigned_abs()))),
        ("begun and not served (not in rusage)", count(account.failed_faults)),
    ] {
        table.row(vec![name.into(), value.into()]);
    }
    let mut page = Page::new(style);
    page.append(&table.render(style));
    page.para(&what_is_unexplained(account), 2, Tone::Faint);
    page.finish()
}

fn what_is_unexplained(account: &Account) -> String {
    let mut parts = vec!["populated and pinned pages", "arguments of later execs"];
    if account.kernel_faults.known().is_none() {
        parts.insert(0, "faults in the kernel");
    }
    if account.before_exec_faults.known().is_none() {
        parts.insert(0, "faults before the program began");
    }
    let negative = "; below 0: processes that nobody waited for are not in rusage";
    let tail = if account.unexplained_faults < 0 { negative } else { "" };
    format!("unexplained holds what no event tells of: {}{tail}", parts.join(", "))
}

#[cfg(test)]
mod tests;
