//! The list of faults in every form: for people, for scripts, and for the viewers of other tools.
//!
//! Faults arrive part by part. Line-based forms return their text at once. Forms that need all faults first
//! (added-up stacks, tables by column, pictures) keep what they need and return everything at the end.

use super::firefox::FirefoxFaults;
use super::list::{FaultLineFormat, FaultList};
use super::pages::TouchedMappings;
use crate::escape::escape;
use crate::faults::{callers, function_name, last_part, place_name, site_name};
use crate::profile_export::from_tables;
use crate::profile_export::tables::{OF_FAULTS, ProfileFrame, ProfileTables};
use pagewise_model::fault::{FaultNames, FaultSite, PageFault};
use pagewise_model::run::SavedRun;
use pagewise_model::units::TscRate;
use serde_json::json;
use std::collections::BTreeMap;

/// A form of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum FaultListForm {
    /// All fields in columns.
    Table,
    /// The columns of `pagein`.
    Pagein,
    /// JSON Lines.
    Json,
    /// Folded stacks, weighted by number.
    Folded,
    /// Folded stacks, weighted by nanoseconds.
    FoldedNs,
    /// The text of `perf script`.
    Perf,
    /// Trace events, for Perfetto and Chrome.
    Chrome,
    /// A profile for Firefox Profiler.
    Firefox,
    /// Stacks for pprof, weighted by number and by nanoseconds.
    Pprof,
    /// Stacks for OpenTelemetry, weighted by number and by nanoseconds.
    Otlp,
    /// A page with a picture of the pages.
    Html,
}

impl FaultListForm {
    /// True if the form can show times in cycles of the time-stamp counter.
    #[must_use]
    pub const fn has_cycles(self) -> bool {
        matches!(self, Self::Table | Self::Pagein | Self::Json)
    }
}

/// A list under construction.
#[derive(Debug)]
pub struct FaultExport(FaultExportKind);

#[derive(Debug)]
enum FaultExportKind {
    Lines(FaultList),
    Chrome(ChromeTrace),
    Folded(FoldedFaults),
    Firefox(Box<FirefoxFaults>),
    Tables { tables: Box<ProfileTables>, is_pprof: bool },
    Html(TouchedMappings),
}

impl FaultExport {
    /// An empty list; without a column for latencies if none were recorded.
    #[must_use]
    pub fn new(form: FaultListForm, has_latency: bool) -> Self {
        let lines = |format| FaultExportKind::Lines(FaultList::new(format, has_latency));
        Self(match form {
            FaultListForm::Table => lines(FaultLineFormat::Table),
            FaultListForm::Pagein => lines(FaultLineFormat::Pagein),
            FaultListForm::Json => lines(FaultLineFormat::Json),
            FaultListForm::Perf => lines(FaultLineFormat::Perf),
            FaultListForm::Folded => FaultExportKind::Folded(FoldedFaults::new(false)),
            FaultListForm::FoldedNs => FaultExportKind::Folded(FoldedFaults::new(true)),
            FaultListForm::Chrome => FaultExportKind::Chrome(ChromeTrace::default()),
            FaultListForm::Firefox => FaultExportKind::Firefox(Box::new(FirefoxFaults::new())),
            FaultListForm::Pprof | FaultListForm::Otlp => FaultExportKind::Tables {
                tables: Box::new(ProfileTables::new(OF_FAULTS)),
                is_pprof: form == FaultListForm::Pprof,
            },
            FaultListForm::Html => FaultExportKind::Html(TouchedMappings::default()),
        })
    }

    /// Shows times in cycles of a counter of this rate from now on, if the form has cycles.
    pub fn count_cycles(&mut self, rate: TscRate) {
        if let FaultExportKind::Lines(list) = &mut self.0 {
            list.count_cycles(rate);
        }
    }

    /// Takes the next faults. Returns the text that can already be printed.
    pub fn take(&mut self, names: &FaultNames, faults: &[PageFault]) -> String {
        match &mut self.0 {
            FaultExportKind::Lines(list) => return list.lines(names, faults),
            FaultExportKind::Chrome(chrome) => return chrome.events(names, faults),
            FaultExportKind::Folded(folded) => folded.add(names, faults),
            FaultExportKind::Firefox(firefox) => firefox.add(names, faults),
            FaultExportKind::Tables { tables, .. } => add_stacks(tables, names, faults),
            FaultExportKind::Html(html) => html.add(names, faults),
        }
        String::new()
    }

    /// Returns the rest; `run` is the run of the faults.
    #[must_use]
    pub fn finish(self, run: &SavedRun) -> Vec<u8> {
        let text = match self.0 {
            FaultExportKind::Lines(_) => String::new(),
            FaultExportKind::Chrome(chrome) => chrome.end(),
            FaultExportKind::Folded(folded) => folded.lines(run),
            FaultExportKind::Firefox(firefox) => firefox.json(run),
            FaultExportKind::Tables { tables, is_pprof } => {
                return from_tables(*tables, run, is_pprof);
            }
            FaultExportKind::Html(html) => html.page(run),
        };
        text.into_bytes()
    }
}

// Faults as folded stacks, the input of flame graphs. The root is the program; frames follow from the
// outermost inwards. The leaf is the touched object, followed by a weight. If a fault's stack was not
// recorded, the instruction's function takes its place.

/// Stacks under construction.
#[derive(Debug)]
pub(super) struct FoldedFaults {
    by_time: bool,
    weights: BTreeMap<String, u64>,
}

impl FoldedFaults {
    /// An empty set, weighted by nanoseconds of latency or by number.
    pub(super) const fn new(by_time: bool) -> Self {
        Self { by_time, weights: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, names: &FaultNames, faults: &[PageFault]) {
        for fault in faults {
            let weight = match self.by_time {
                true => fault.latency_ns.known().map_or(0, |ns| ns.0),
                false => 1,
            };
            *self.weights.entry(stack(names, fault)).or_default() += weight;
        }
    }

    /// All stacks of `run`, one line each; leaves out stacks without weight.
    pub(super) fn lines(&self, run: &SavedRun) -> String {
        let program = run.command.first().map_or("", |program| last_part(program));
        let root = frame(program);
        let weighty = self.weights.iter().filter(|(_, weight)| **weight > 0);
        weighty.map(|(stack, weight)| format!("{root};{stack} {weight}\n")).collect()
    }
}

fn stack(names: &FaultNames, fault: &PageFault) -> String {
    let kind = names.place(fault).map_or("unknown", |p| p.kind.into_str());
    let nested = |site: &FaultSite| {
        let functions = site.nested().into_iter().rev();
        functions.map(|(function, _)| frame(&bare_name(site, function))).collect::<Vec<_>>()
    };
    let mut frames: Vec<String> = callers(names, fault).rev().flat_map(nested).collect();
    if frames.is_empty() {
        frames.push("[no_stack]".to_owned());
    }
    frames.extend(names.site(fault).into_iter().flat_map(nested));
    frames.push(format!("[{kind}]"));
    frames.join(";")
}

/// The name of a function at a site, or the site's position.
fn bare_name(site: &FaultSite, function: Option<&str>) -> String {
    function.map_or_else(|| function_name(site, None), str::to_owned)
}

fn frame(text: &str) -> String {
    escape(text).replace([';', ' '], "_")
}

// The stacks with both weights, in the tables that sampled profiles also use.

fn code(site: &FaultSite) -> Vec<ProfileFrame<'_>> {
    let one = |(function, _)| ProfileFrame {
        function: bare_name(site, function).into(),
        file: &site.path,
        offset: site.offset_bytes.0,
        is_kernel: false,
    };
    site.nested().into_iter().map(one).collect()
}

fn add_stacks(tables: &mut ProfileTables, names: &FaultNames, faults: &[PageFault]) {
    for fault in faults {
        let kind = names.place(fault).map_or("unknown", |place| place.kind.into_str());
        let what = ProfileFrame {
            function: format!("[{kind}]").into(),
            file: "",
            offset: 0,
            is_kernel: false,
        };
        let sites = names.site(fault).into_iter().chain(callers(names, fault));
        let latency = fault.latency_ns.known().map_or(0, |ns| ns.0);
        let process = format!("process {}", fault.pid);
        tables.add(&process, std::iter::once(what).chain(sites.flat_map(code)), [1, latency]);
    }
}

// Faults as trace events for Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing). Each fault is a
// complete event (`"ph":"X"`) on the line of its thread, named after the touched mapping. A fault without a
// known latency is an instant (`"ph":"i"`). Times are microseconds since the first fault. The format is
// "Trace Event Format" (JSON object form).

/// A document under construction.
#[derive(Debug, Default)]
pub(super) struct ChromeTrace {
    has_begun: bool,
}

const HEAD: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";

impl ChromeTrace {
    /// Returns the next text of the document, with these faults.
    pub(super) fn events(&mut self, names: &FaultNames, faults: &[PageFault]) -> String {
        let mut out = String::new();
        for fault in faults {
            out.push_str(if std::mem::replace(&mut self.has_begun, true) { ",\n" } else { HEAD });
            out.push_str(&event(names, fault));
        }
        out
    }

    pub(super) fn end(self) -> String {
        let head = if self.has_begun { "" } else { HEAD };
        format!("{head}\n]}}\n")
    }
}

fn event(names: &FaultNames, fault: &PageFault) -> String {
    let place = names.place(fault);
    let site = names.site(fault);
    let micros = |ns: u64| ns as f64 / 1000.0;
    let labels: Vec<&str> = fault.labels.iter().map(|label| label.into_str()).collect();
    let mut event = json!({
        "name": place.map_or_else(|| "unknown".to_owned(), place_name),
        "cat": format!("{},{}", fault.served.into_str(), fault.access.into_str()),
        "ts": micros(fault.since_first_ns.0),
        "pid": fault.pid,
        "tid": fault.tid,
        "args": {
            "order": fault.order,
            "page": format!("{:#x}", fault.page_address),
            "page_bytes": fault.page_bytes,
            "offset_bytes": fault.offset_bytes,
            "access": fault.access,
            "cause": fault.cause,
            "served": fault.served,
            "labels": labels,
            "ip": format!("{:#x}", fault.ip_address),
            "function": site.map(site_name),
            "callers": crate::faults::caller_names(names, fault),
        },
    });
    let (phase, key, value) = match fault.latency_ns.known() {
        Some(latency) => ("X", "dur", json!(micros(latency.0))),
        None => ("i", "s", json!("t")),
    };
    event["ph"] = json!(phase);
    event[key] = value;
    event.to_string()
}
