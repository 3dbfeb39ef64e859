//! The list of faults, written part by part, so that a long list needs no memory here.
//!
//! `pagein` has the columns of the tool of that name ("What every programmer should know about memory",
//! figure 7.8): number, page, code or data, time since the first fault, instruction and its position. The
//! position is a source line if known, else a file. Time is in nanoseconds, or on request in cycles of the
//! time-stamp counter, as in the original. `table` has all fields. `json` is JSON Lines. `perf` matches the output
//! of `perf script`, which other tools read. Lines are never cut or wrapped.

use super::{callers, site_line, source_line};
use crate::escape::escape;
use pagewise_model::fault::{
    AccessKind, FaultLabel, FaultNames, FaultOutcome, FaultPlace, FaultSite, MappingKind, PageFault,
};
use pagewise_model::units::TscRate;
use pagewise_model::{Fact, Nanos};
use serde_json::json;

/// The form of a list of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultLineFormat {
    /// All fields in columns.
    Table,
    /// The columns of `pagein`.
    Pagein,
    /// JSON Lines.
    Json,
    /// The text of `perf script`.
    Perf,
}

/// A list under construction.
#[derive(Debug)]
pub(super) struct FaultList {
    format: FaultLineFormat,
    has_latency: bool,
    has_begun: bool,
    /// Turns times into cycles; `None` for times as they are.
    rate: Option<TscRate>,
}

/// Titles of the times in a table, in microseconds and in cycles.
const TIMES: [[&str; 2]; 2] =
    [["     since us ", "   latency us "], [" since cycles ", "latency cycles"]];
const TITLES: [&str; 2] = [
    "   order ",
    "    tid what    why        served page           mapping <- instruction, labels\n",
];

impl FaultList {
    /// An empty list; without a column for latencies if none were recorded.
    pub(super) const fn new(format: FaultLineFormat, has_latency: bool) -> Self {
        Self { format, has_latency, has_begun: false, rate: None }
    }

    /// Shows times in cycles of a counter of this rate from now on.
    pub(super) const fn count_cycles(&mut self, rate: TscRate) {
        self.rate = Some(rate);
    }

    /// The lines of the next faults.
    pub(super) fn lines(&mut self, names: &FaultNames, faults: &[PageFault]) -> String {
        let mut out = String::new();
        if !std::mem::replace(&mut self.has_begun, true) && self.format == FaultLineFormat::Table {
            let [order, rest] = TITLES;
            let [since, latency] = TIMES[usize::from(self.rate.is_some())];
            out.push_str(order);
            out.push_str(since);
            out.push_str(if self.has_latency { latency } else { "" });
            out.push_str(rest);
        }
        for fault in faults {
            let place = names.place(fault);
            let site = names.site(fault);
            out.push_str(&match self.format {
                FaultLineFormat::Table => table(fault, place, site, self),
                FaultLineFormat::Pagein => pagein(fault, place, site, self.rate),
                FaultLineFormat::Json => json_line(fault, place, site, names, self.rate),
                FaultLineFormat::Perf => perf(fault, site, names),
            });
            out.push('\n');
        }
        out
    }
}

fn micros(ns: u64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn table(
    fault: &PageFault,
    place: Option<&FaultPlace>,
    site: Option<&FaultSite>,
    list: &FaultList,
) -> String {
    let time =
        |ns: Nanos| list.rate.map_or_else(|| micros(ns.0), |rate| rate.cycles_in(ns).to_string());
    let latency = match (list.has_latency, &fault.latency_ns) {
        (false, _) => String::new(),
        (true, Fact::Known(ns)) => format!("{:>13} ", time(*ns)),
        (true, Fact::Missing(_)) => format!("{:>13} ", "-"),
    };
    let labels: String = fault.labels.iter().map(|l| format!(" {}", l.into_str())).collect();
    format!(
        "{:8} {:>13} {latency}{:7} {:7} {:10} {:6} {:#014x} {} {} <- {}{labels}",
        fault.order,
        time(fault.since_first_ns),
        fault.tid,
        fault.access.into_str(),
        fault.cause.into_str(),
        fault.served.into_str(),
        fault.page_address,
        place.map_or("unknown", |place| place.kind.into_str()),
        mapping(fault, place),
        instruction(fault, site),
    )
}

/// Path and offset of the touched object, or its size if it has no path.
fn mapping(fault: &PageFault, place: Option<&FaultPlace>) -> String {
    match (place.map(|place| place.path.as_str()).unwrap_or_default(), fault.offset_bytes) {
        ("", _) => "-".to_owned(),
        (path, Some(offset)) => format!("{}+{:#x}", escape(path), offset.0),
        (path, None) => escape(path),
    }
}

fn instruction(fault: &PageFault, site: Option<&FaultSite>) -> String {
    let name = site.map_or_else(|| "unknown".to_owned(), site_line);
    format!("{:#x} {}", fault.ip_address, escape(&name))
}

fn pagein(
    fault: &PageFault,
    place: Option<&FaultPlace>,
    site: Option<&FaultSite>,
    rate: Option<TscRate>,
) -> String {
    let is_code = fault.access == AccessKind::Execute
        || place.is_some_and(|place| place.kind == MappingKind::Code);
    let kind = if is_code { 'C' } else { 'D' };
    let path = site.map_or("", |site| site.path.as_str());
    let source = site.and_then(|site| site.source.as_ref()).map(source_line);
    let function = site.and_then(|site| site.nested().first().and_then(|(name, _)| *name));
    let within = match (function, source) {
        (function, Some(line)) => {
            format!("{} ({})", escape(function.unwrap_or("unknown")), escape(&line))
        }
        (Some(function), None) => format!("{} (in {})", escape(function), escape(path)),
        (None, None) if path.is_empty() => "(within no file)".to_owned(),
        (None, None) => format!("(within {})", escape(path)),
    };
    let since = rate.map_or(fault.since_first_ns.0, |rate| rate.cycles_in(fault.since_first_ns));
    format!(
        "{:4} 0x{:>12X} {kind} {since:12} 0x{:X}: {within}",
        fault.order, fault.page_address, fault.ip_address,
    )
}

fn json_line(
    fault: &PageFault,
    place: Option<&FaultPlace>,
    site: Option<&FaultSite>,
    names: &FaultNames,
    rate: Option<TscRate>,
) -> String {
    let source = site.and_then(|site| site.source.as_ref());
    let mut line = json!({
        "order": fault.order,
        "since_first_ns": fault.since_first_ns,
        "latency_ns": fault.latency_ns.known(),
        "latency_missing": fault.latency_ns.reason(),
        "pid": fault.pid,
        "tid": fault.tid,
        "page_address": fault.page_address,
        "page_bytes": fault.page_bytes,
        "access": fault.access,
        "cause": fault.cause,
        "served": fault.served,
        "labels": fault.labels,
        "touched_kind": place.map(|place| place.kind),
        "touched_path": place.map(|place| &place.path).filter(|path| !path.is_empty()),
        "touched_offset_bytes": fault.offset_bytes,
        "ip_address": fault.ip_address,
        "function": site.and_then(|site| site.function.as_ref()),
        "function_path": site.map(|site| &site.path).filter(|path| !path.is_empty()),
        "function_offset_bytes":
            site.filter(|site| !site.path.is_empty()).map(|site| site.offset_bytes),
        "source_file": source.map(|source| &source.file),
        "source_line": source.map(|source| source.line),
        "inlined": site.map(|site| &site.inlined),
        "callers": super::caller_names(names, fault),
    });
    if let Some(rate) = rate {
        line["since_first_cycles"] = json!(rate.cycles_in(fault.since_first_ns));
    }
    line.to_string()
}

/// An event as `perf script` prints one with a call chain. Command names are not recorded; such a process
/// appears as `:PID`. Addresses of callers are offsets in their files.
fn perf(fault: &PageFault, site: Option<&FaultSite>, names: &FaultNames) -> String {
    let event = match fault.served {
        FaultOutcome::Minor => "minor-faults",
        FaultOutcome::Major => "major-faults",
        FaultOutcome::No | FaultOutcome::Unknown => "page-faults",
    };
    let mode = if fault.labels.contains(&FaultLabel::KernelMode) { 'k' } else { 'u' };
    let (pid, ns) = (fault.pid, fault.since_first_ns.0);
    let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
    let mut out = format!(
        "{:>16} {pid}/{} {seconds:5}.{rest:09}: {:>10} {event}:{mode}: \n",
        format!(":{pid}"),
        fault.tid,
        1
    );
    let mut frame = |address: u64, site: Option<&FaultSite>| {
        for inlined in site.iter().flat_map(|site| &site.inlined) {
            out.push_str(&format!("\t{address:16x} {} (inlined)\n", escape(&inlined.function)));
        }
        let function = site.and_then(|site| site.function.as_deref()).unwrap_or("[unknown]");
        let path = site.map_or("", |site| site.path.as_str());
        let path = if path.is_empty() { "[unknown]" } else { path };
        out.push_str(&format!("\t{address:16x} {} ({})\n", escape(function), escape(path)));
    };
    frame(fault.ip_address, site);
    callers(names, fault).for_each(|site| frame(site.offset_bytes.0, Some(site)));
    out
}
