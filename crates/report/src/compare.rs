//! Two saved runs side by side. The first line says whether the machines are the same: times of
//! different machines say nothing about the programs. Plain runs are those of the experiment, where
//! one was made. Of services, plain servers are compared in their place.

use crate::headline::headline;
use crate::look::median;
use crate::memory_account::comparison;
use crate::number::{change, count, interval, percent};
use crate::page;
use crate::page::Document;
use crate::service::{figure, figure_text};
use crate::shell::start_line;
use crate::style::Tone;
use crate::table::{Align, Cell, Table};
use pagewise_model::machine::Machine;
use pagewise_model::run::Run;
use pagewise_model::service::Service;
use pagewise_model::trial::{Quantity, Ratio};
use pagewise_model::usage::Usage;
use pagewise_model::{Bytes, Nanos};

/// A figure of plain runs: its name, the value in one run, how it is shown.
type Figure = (&'static str, fn(&Usage) -> u64, fn(u64) -> String);

const FIGURES: [Figure; 6] = [
    ("wall time", |u| u.wall_ns.0, |n| Nanos(n).to_string()),
    ("user time", |u| u.user_ns.0, |n| Nanos(n).to_string()),
    ("system time", |u| u.sys_ns.0, |n| Nanos(n).to_string()),
    ("peak memory", |u| u.peak_rss_bytes.0, |n| Bytes(n).to_string()),
    ("minor faults", |u| u.minor_faults, count),
    ("major faults", |u| u.major_faults, count),
];

/// Figures of plain servers by name.
const SERVED: [(&str, Quantity); 4] = [
    ("CPU per request", Quantity::CpuPerRequest),
    ("rate", Quantity::Throughput),
    ("p99 latency", Quantity::P99),
    ("memory", Quantity::Memory),
];

/// Run `b` against run `a`; `time` is the change of the time of plain runs, or of the CPU time per request of
/// plain servers, where there are enough.
#[must_use]
pub fn compare(a: &Run, b: &Run, time: Option<&Ratio>) -> Document {
    let mut page = Document::default();
    let (text, tone) = machines(a.machine.as_ref(), b.machine.as_ref());
    page.para(&text, 0, tone);
    if a.pagewise != b.pagewise {
        let text = format!("made by pagewise {} and {}", a.pagewise, b.pagewise);
        page.para(&text, 0, Tone::Warn);
    }
    if a.command != b.command {
        page.para("the commands differ", 0, Tone::Warn);
    }
    let load = |run: &Run| run.service.as_ref().map(|service| service.load.clone());
    if load(a) != load(b) {
        page.para("the loads differ", 0, Tone::Warn);
    }
    if a.input != b.input {
        page.para("their standard input differs", 0, Tone::Warn);
    }
    if let Some(text) = environments(a, b) {
        page.para(&text, 0, Tone::Warn);
    }
    for run in [a, b] {
        page.blank();
        page.para(&format!("{}: {}", run.id, headline(run)), 0, Tone::Strong);
        page.single(&start_line(run), 2, Tone::Faint);
    }
    match (&a.service, &b.service) {
        (Some(x), Some(y)) => page.section(served(x, y, time)),
        _ => page.section(figures(a, b, time)),
    }
    page.section(costs(a, b));
    if let (Some(x), Some(y)) = (&a.memory, &b.memory) {
        page.section(comparison(x, y));
    }
    page
}

/// A comparison of these two as a page.
#[must_use]
pub fn comparison_page(a: &Run, b: &Run, comparison: &Document) -> String {
    let title = format!("{} against {}", b.id, a.id);
    page::head(&title, b) + &comparison.html() + &page::foot(b)
}

fn machines(a: Option<&Machine>, b: Option<&Machine>) -> (String, Tone) {
    let (Some(a), Some(b)) = (a, b) else {
        let text = "cannot tell whether the machines are the same: one run did not record it";
        return (text.to_owned(), Tone::Warn);
    };
    let differences = differences(a, b);
    if differences.is_empty() {
        return ("same machine".to_owned(), Tone::Plain);
    }
    let text = format!("DIFFERENT MACHINES, times are not comparable: {}", differences.join("; "));
    (text, Tone::Bad)
}

/// Variables that bear on memory and that the runs had not alike.
fn environments(a: &Run, b: &Run) -> Option<String> {
    let mut names: Vec<&String> =
        a.environment.iter().chain(&b.environment).map(|v| &v.0).collect();
    names.sort_unstable();
    names.dedup();
    let value = |run: &Run, name: &String| {
        let found = run.environment.iter().find(|v| &v.0 == name);
        found.map_or_else(|| "not set".to_owned(), |v| v.1.clone())
    };
    let differing: Vec<String> = names
        .into_iter()
        .map(|name| (name, value(a, name), value(b, name)))
        .filter(|(_, x, y)| x != y)
        .map(|(name, x, y)| format!("{name} {x} / {y}"))
        .collect();
    (!differing.is_empty()).then(|| format!("the environments differ: {}", differing.join("; ")))
}

fn differences(a: &Machine, b: &Machine) -> Vec<String> {
    let mut all = Vec::new();
    let mut note = |what: &str, a: String, b: String| {
        if a != b {
            all.push(format!("{what} {a} / {b}"));
        }
    };
    let host = |m: &Machine| m.hypervisor.clone().unwrap_or_else(|| "none".to_owned());
    let fact = |f: &pagewise_model::Fact<String>| {
        f.known().map_or_else(|| "not known".to_owned(), Clone::clone)
    };
    note("kernel", a.kernel.clone(), b.kernel.clone());
    note("architecture", a.arch.clone(), b.arch.clone());
    note("CPU", a.cpu_model.clone(), b.cpu_model.clone());
    note("number of CPUs", a.cpus.len().to_string(), b.cpus.len().to_string());
    note("base page", a.base_page_bytes.to_string(), b.base_page_bytes.to_string());
    note("memory", a.memory_bytes.to_string(), b.memory_bytes.to_string());
    note("hypervisor", host(a), host(b));
    note("huge pages", fact(&a.thp_enabled), fact(&b.thp_enabled));
    note("huge page defrag", fact(&a.thp_defrag), fact(&b.thp_defrag));
    note("largest pipe", a.pipe_max_bytes.to_string(), b.pipe_max_bytes.to_string());
    all
}

fn figures(a: &Run, b: &Run, time: Option<&Ratio>) -> Document {
    let (runs_a, runs_b) = (a.plain_runs(), b.plain_runs());
    let mut table = Table::new(&[
        ("plain runs", Align::Left),
        ("first", Align::Right),
        ("second", Align::Right),
        ("change", Align::Decimal),
    ]);
    for (name, of, show) in FIGURES {
        let (x, y) = (median(&runs_a, of), median(&runs_b, of));
        if x.is_none() && y.is_none() {
            continue;
        }
        let shown = |v: Option<u64>| Cell::from(v.map_or("no runs".to_owned(), show));
        let ratio = match (x, y) {
            (Some(x), Some(y)) if x > 0 => change(y as f64 / x as f64),
            _ => String::new(),
        };
        table.row(vec![name.into(), shown(x), shown(y), ratio.into()]);
    }
    let mut page = Document::default();
    page.append(table);
    let runs = format!("{} and {} plain runs", runs_a.len(), runs_b.len());
    page.para(&change_text(time, "time", &runs), 0, Tone::Plain);
    page
}

/// The plain servers of two sessions.
fn served(a: &Service, b: &Service, cost: Option<&Ratio>) -> Document {
    let (sides_a, sides_b) = (a.plain_sides(), b.plain_sides());
    let mut table = Table::new(&[
        ("plain servers", Align::Left),
        ("first", Align::Right),
        ("second", Align::Right),
        ("change", Align::Decimal),
    ]);
    for (name, quantity) in SERVED {
        let (x, y) = (figure(quantity, &sides_a), figure(quantity, &sides_b));
        let ratio = match (x, y) {
            (Some(x), Some(y)) if x > 0.0 => change(y / x),
            _ => String::new(),
        };
        let shown = |value| Cell::from(figure_text(quantity, value));
        table.row(vec![name.into(), shown(x), shown(y), ratio.into()]);
    }
    let mut page = Document::default();
    page.append(table);
    let starts = format!("{} and {} plain servers", sides_a.len(), sides_b.len());
    page.para(&change_text(cost, "CPU per request", &starts), 0, Tone::Plain);
    page
}

/// Whether this changed from one session to the other.
fn change_text(time: Option<&Ratio>, what: &str, runs: &str) -> String {
    let Some(time) = time else {
        return format!("{runs}: too few for a verdict on the {what}");
    };
    let range = interval(time.ratio, time.ratio_low, time.ratio_high);
    let is_open = time.ratio_low <= 1.0 && 1.0 <= time.ratio_high;
    let doubt = is_open.then(|| format!("cannot tell whether the {what} changed: "));
    format!(
        "{}{} {what} (95%: {range}), by the means of {runs}; machines drift between sessions, and \
         the interval allows for that",
        doubt.unwrap_or_default(),
        change(time.ratio)
    )
}

fn costs(a: &Run, b: &Run) -> Document {
    let costs = |run: &Run| run.diagnosis.as_ref().map(|d| d.costs.clone()).unwrap_or_default();
    let (costs_a, costs_b) = (costs(a), costs(b));
    let mut kinds: Vec<_> = costs_a.iter().chain(&costs_b).map(|c| c.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut table = Table::new(&[
        ("page cost, share of time", Align::Left),
        ("first", Align::Decimal),
        ("second", Align::Decimal),
    ]);
    for kind in kinds {
        let share = |costs: &[pagewise_model::diagnosis::Cost]| {
            let cost = costs.iter().find(|c| c.kind == kind);
            Cell::from(cost.map_or("not found".to_owned(), |c| percent(c.time_share)))
        };
        table.row(vec![kind.label().into(), share(&costs_a), share(&costs_b)]);
    }
    table.into()
}
