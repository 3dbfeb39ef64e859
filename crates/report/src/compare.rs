//! Saved runs side by side. The first lines name the machines and whether they are the same: times of
//! different machines say nothing about the programs. Plain runs are those of the experiment, if there was
//! one. For services, plain servers are compared instead. Two runs are shown in full, more runs as a row
//! each.

use crate::headline::headline;
use crate::look::median;
use crate::memory_account::comparison as memory_comparison;
use crate::number::{change, count, interval, percent};
use crate::page;
use crate::page::ReportDocument;
use crate::service::{figure, figure_text};
use crate::shell::start_line;
use crate::style::TextTone;
use crate::table::{ColumnAlignment, ReportTable, TableCell};
use pagewise_model::comparison::{LimitWord, RunComparison};
use pagewise_model::machine::Machine;
use pagewise_model::run::SavedRun;
use pagewise_model::service::TunedService;
use pagewise_model::trial::{ComparedQuantity, TimeRatio};
use pagewise_model::usage::ProgramUsage;
use pagewise_model::{Bytes, Nanos};

/// A figure of plain runs: its name, its value in one run, and its format.
type Figure = (&'static str, fn(&ProgramUsage) -> u64, fn(u64) -> String);

const FIGURES: [Figure; 6] = [
    ("wall time", |u| u.wall_ns.0, |n| Nanos(n).to_string()),
    ("user time", |u| u.user_ns.0, |n| Nanos(n).to_string()),
    ("system time", |u| u.sys_ns.0, |n| Nanos(n).to_string()),
    ("peak memory", |u| u.peak_rss_bytes.0, |n| Bytes(n).to_string()),
    ("minor faults", |u| u.minor_faults, count),
    ("major faults", |u| u.major_faults, count),
];

/// Figures of plain servers by name.
const SERVED: [(&str, ComparedQuantity); 4] = [
    ("CPU per request", ComparedQuantity::CpuPerRequest),
    ("rate", ComparedQuantity::Throughput),
    ("p99 latency", ComparedQuantity::P99),
    ("memory", ComparedQuantity::Memory),
];

/// Compares `runs` with the first of them: the machines first, then the differences.
#[must_use]
pub fn compare(runs: &[SavedRun], comparison: &RunComparison) -> ReportDocument {
    let mut page = ReportDocument::default();
    machines(comparison, &mut page);
    if let Some((text, tone)) = limit(comparison) {
        page.para(&text, 0, tone);
    }
    if let [a, b] = runs {
        let time = comparison.runs.get(1).and_then(|run| run.change.as_ref());
        two(a, b, time, &mut page);
    } else if let [first, others @ ..] = runs {
        for other in others {
            for text in differences(first, other) {
                page.para(&format!("{}: {text}", other.id), 0, TextTone::Warn);
            }
        }
        page.section(many(comparison));
    }
    page
}

/// Compares run `b` with run `a`. `time` is the change of the plain runs' time, or of the plain servers' CPU
/// time per request. It is `None` if there are too few of them.
fn two(a: &SavedRun, b: &SavedRun, time: Option<&TimeRatio>, page: &mut ReportDocument) {
    for text in differences(a, b) {
        page.para(&text, 0, TextTone::Warn);
    }
    for run in [a, b] {
        page.blank();
        page.para(&format!("{}: {}", run.id, headline(run)), 0, TextTone::Strong);
        page.single(&start_line(run), 2, TextTone::Faint);
    }
    match (&a.service, &b.service) {
        (Some(x), Some(y)) => page.section(served(x, y, time)),
        _ => page.section(figures(a, b, time)),
    }
    page.section(costs(a, b));
    if let (Some(x), Some(y)) = (&a.memory, &b.memory) {
        page.section(memory_comparison(x, y));
    }
}

/// Differences between two runs other than their machines.
fn differences(a: &SavedRun, b: &SavedRun) -> Vec<String> {
    let mut all = Vec::new();
    if a.pagewise != b.pagewise {
        all.push(format!("made by pagewise {} and {}", a.pagewise, b.pagewise));
    }
    let load = |run: &SavedRun| run.asked_service().map(|service| service.load.clone());
    let unlike = [
        (a.command != b.command, "the commands differ"),
        (load(a) != load(b), "the loads differ"),
        (a.input != b.input, "their standard input differs"),
    ];
    all.extend(unlike.iter().filter(|(is, _)| *is).map(|(_, text)| (*text).to_owned()));
    all.extend(environments(a, b));
    all
}

/// A comparison as a page; `last` is the last of its runs.
#[must_use]
pub fn comparison_page(of: &RunComparison, last: &SavedRun, shown: &ReportDocument) -> String {
    let ids: Vec<&str> = of.runs.iter().skip(1).map(|run| run.id.as_str()).collect();
    let first = of.runs.first().map_or("", |run| run.id.as_str());
    let title = format!("{} against {first}", ids.join(", "));
    page::head(&title, last) + &shown.html() + &page::foot(last)
}

/// The machines of the runs, and how they differ.
fn machines(comparison: &RunComparison, page: &mut ReportDocument) {
    let is_one = comparison.machines.len() == 1;
    for (number, one) in comparison.machines.iter().enumerate() {
        let line = one.machine.as_ref().map_or_else(|| "not recorded".to_owned(), Machine::line);
        let label =
            if is_one { "same machine".to_owned() } else { format!("machine {}", letter(number)) };
        let runs = if is_one { String::new() } else { format!(" ({})", one.runs.join(", ")) };
        page.para(&format!("{label}: {line}{runs}"), 0, TextTone::Plain);
    }
    let differing = comparison.machines.iter().enumerate().skip(1);
    for (number, one) in differing {
        let text = match (&one.machine, comparison.machines.first().map(|first| &first.machine)) {
            (Some(_), Some(Some(_))) => format!(
                "DIFFERENT MACHINES, times are not comparable: A / {}: {}",
                letter(number),
                one.differences.join("; ")
            ),
            _ => "cannot tell whether the machines are the same: one run did not record it"
                .to_owned(),
        };
        page.para(&text, 0, TextTone::Bad);
    }
}

/// A, B, ..., Z, and then numbers.
fn letter(number: usize) -> String {
    let letter = u8::try_from(number).ok().filter(|n| *n < 26).map(|n| char::from(b'A' + n));
    letter.map_or_else(|| (number + 1).to_string(), String::from)
}

/// Whether the change stayed within the limit; `None` without a limit.
fn limit(comparison: &RunComparison) -> Option<(String, TextTone)> {
    let share = percent(comparison.limit_share?);
    let of = |word| {
        let runs = comparison.runs.iter().filter(move |run| run.limit == Some(word));
        runs.map(|run| run.id.clone()).collect::<Vec<_>>().join(", ")
    };
    Some(match comparison.limit()? {
        LimitWord::Within => (format!("within the limit of {share} more"), TextTone::Good),
        LimitWord::Beyond => {
            let text = format!("BEYOND the limit of {share} more: {}", of(LimitWord::Beyond));
            (text, TextTone::Bad)
        }
        LimitWord::CannotTell => {
            let runs = of(LimitWord::CannotTell);
            let text = format!("cannot tell whether the limit of {share} more was kept: {runs}");
            (text, TextTone::Warn)
        }
    })
}

/// A row for each run.
fn many(comparison: &RunComparison) -> ReportDocument {
    let mut table = ReportTable::new(&[
        ("run", ColumnAlignment::Name),
        ("machine", ColumnAlignment::Left),
        ("runs", ColumnAlignment::Right),
        ("time", ColumnAlignment::Decimal),
        ("change", ColumnAlignment::Decimal),
        ("95%", ColumnAlignment::Left),
        ("CPU", ColumnAlignment::Decimal),
        ("memory", ColumnAlignment::Decimal),
        ("faults", ColumnAlignment::Right),
    ]);
    for (number, run) in comparison.runs.iter().enumerate() {
        let (change, range) = match &run.change {
            Some(ratio) => {
                let TimeRatio { ratio, ratio_low, ratio_high } = *ratio;
                (change(ratio), interval(ratio, ratio_low, ratio_high))
            }
            None if number == 0 => ("reference".to_owned(), String::new()),
            None => ("too few runs".to_owned(), String::new()),
        };
        let shown =
            |value: Option<String>| TableCell::from(value.unwrap_or_else(|| "-".to_owned()));
        table.row(vec![
            run.id.as_str().into(),
            letter(run.machine as usize).into(),
            run.plain_runs.to_string().into(),
            shown(run.wall_ns.map(|ns| ns.to_string())),
            change.into(),
            range.into(),
            shown(run.cpu_ns.map(|ns| ns.to_string())),
            shown(run.peak_rss_bytes.map(|bytes| bytes.to_string())),
            shown(run.faults.map(count)),
        ]);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    let text = "medians of plain runs; change by their means, of services by CPU per request; machines drift between \
                sessions, and the intervals allow for that";
    page.para(text, 2, TextTone::Faint);
    page
}

/// Names of the memory-related variables that differ between the runs. Leaves out the values: others may read
/// the page.
fn environments(a: &SavedRun, b: &SavedRun) -> Option<String> {
    let mut names: Vec<&String> =
        a.environment.iter().chain(&b.environment).map(|v| &v.0).collect();
    names.sort_unstable();
    names.dedup();
    let value = |run: &SavedRun, name: &str| {
        run.environment.iter().find(|v| v.0 == name).map(|v| v.1.clone())
    };
    let differs = |name: &&String| value(a, name) != value(b, name);
    let differing: Vec<&str> = names.into_iter().filter(differs).map(String::as_str).collect();
    (!differing.is_empty()).then(|| format!("the environments differ in {}", differing.join(", ")))
}

fn figures(a: &SavedRun, b: &SavedRun, time: Option<&TimeRatio>) -> ReportDocument {
    let (runs_a, runs_b) = (a.plain_runs(), b.plain_runs());
    let mut table = ReportTable::new(&[
        ("plain runs", ColumnAlignment::Left),
        ("first", ColumnAlignment::Right),
        ("second", ColumnAlignment::Right),
        ("change", ColumnAlignment::Decimal),
    ]);
    for (name, of, show) in FIGURES {
        let (x, y) = (median(&runs_a, of), median(&runs_b, of));
        if x.is_none() && y.is_none() {
            continue;
        }
        let shown = |v: Option<u64>| TableCell::from(v.map_or("no runs".to_owned(), show));
        let ratio = match (x, y) {
            (Some(x), Some(y)) if x > 0 => change(y as f64 / x as f64),
            _ => String::new(),
        };
        table.row(vec![name.into(), shown(x), shown(y), ratio.into()]);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    let runs = format!("{} and {} plain runs", runs_a.len(), runs_b.len());
    page.para(&change_text(time, "time", &runs), 0, TextTone::Plain);
    page
}

/// The plain servers of two sessions.
fn served(a: &TunedService, b: &TunedService, cost: Option<&TimeRatio>) -> ReportDocument {
    let (sides_a, sides_b) = (a.plain_sides(), b.plain_sides());
    let mut table = ReportTable::new(&[
        ("plain servers", ColumnAlignment::Left),
        ("first", ColumnAlignment::Right),
        ("second", ColumnAlignment::Right),
        ("change", ColumnAlignment::Decimal),
    ]);
    for (name, quantity) in SERVED {
        let (x, y) = (figure(quantity, &sides_a), figure(quantity, &sides_b));
        let ratio = match (x, y) {
            (Some(x), Some(y)) if x > 0.0 => change(y / x),
            _ => String::new(),
        };
        let shown = |value| TableCell::from(figure_text(quantity, value));
        table.row(vec![name.into(), shown(x), shown(y), ratio.into()]);
    }
    let mut page = ReportDocument::default();
    page.append(table);
    let starts = format!("{} and {} plain servers", sides_a.len(), sides_b.len());
    page.para(&change_text(cost, "CPU per request", &starts), 0, TextTone::Plain);
    page
}

/// Whether the figure changed between the sessions.
fn change_text(time: Option<&TimeRatio>, what: &str, runs: &str) -> String {
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

fn costs(a: &SavedRun, b: &SavedRun) -> ReportDocument {
    let costs =
        |run: &SavedRun| run.diagnosis.as_ref().map(|d| d.costs.clone()).unwrap_or_default();
    let (costs_a, costs_b) = (costs(a), costs(b));
    let mut kinds: Vec<_> = costs_a.iter().chain(&costs_b).map(|c| c.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let mut table = ReportTable::new(&[
        ("page cost, share of time", ColumnAlignment::Left),
        ("first", ColumnAlignment::Decimal),
        ("second", ColumnAlignment::Decimal),
    ]);
    for kind in kinds {
        let share = |costs: &[pagewise_model::diagnosis::PageCost]| {
            let cost = costs.iter().find(|c| c.kind == kind);
            TableCell::from(cost.map_or("not found".to_owned(), |c| percent(c.time_share)))
        };
        table.row(vec![kind.into_str().into(), share(&costs_a), share(&costs_b)]);
    }
    table.into()
}
