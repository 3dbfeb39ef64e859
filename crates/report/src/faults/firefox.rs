//! Faults as a profile for Firefox Profiler (profiler.firefox.com, "Load a profile from file").
//!
//! Each fault is a marker with its duration on its thread. It is named after the touched mapping, so that the
//! marker chart has a line for each mapping. Each fault is also a sample, with its recorded stack, or only
//! the instruction's function, and its latency as CPU time. So call tree and flame graph count faults. No
//! symbols are left to look up, and the profile says so.

use super::{nested_names, place_name, site_name};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerLocations, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp,
    SamplingInterval, StackHandle, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle,
    ThreadHandle, Timestamp,
};
use pagewise_model::fault::{FaultNames, PageFault};
use pagewise_model::run::SavedRun;
use std::collections::HashMap;

/// A profile under construction.
#[derive(Debug)]
pub(super) struct FirefoxFaults {
    profile: Profile,
    category: CategoryHandle,
    processes: HashMap<i32, ProcessHandle>,
    threads: HashMap<(i32, i32), ThreadHandle>,
}

/// One fault.
struct FaultMarker {
    mapping: StringHandle,
    category: CategoryHandle,
    /// In the order of [`FIELDS`].
    fields: [StringHandle; FIELDS.len()],
}

const FIELDS: [StaticSchemaMarkerField; 5] = [
    field("what", "What"),
    field("page", "Page"),
    field("served", "Served"),
    field("function", "Function"),
    field("labels", "Labels"),
];

const fn field(key: &'static str, label: &'static str) -> StaticSchemaMarkerField {
    let (format, flags) = (MarkerFieldFormat::String, MarkerFieldFlags::SEARCHABLE);
    StaticSchemaMarkerField { key, label, format, flags }
}

impl StaticSchemaMarker for FaultMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "PageFault";
    const LOCATIONS: MarkerLocations = MarkerLocations::MARKER_CHART
        .union(MarkerLocations::MARKER_TABLE)
        .union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.what}");
    const TABLE_LABEL: Option<&'static str> =
        Some("{marker.name}: {marker.data.what} {marker.data.page} by {marker.data.function}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &FIELDS;

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.mapping
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field: u32) -> StringHandle {
        self.fields.get(field as usize).copied().unwrap_or(self.mapping)
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        0.0
    }
}

impl FirefoxFaults {
    /// An empty profile; name and start are set at the end.
    pub(super) fn new() -> Self {
        let start = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
        let mut profile = Profile::new("pagewise faults", start, SamplingInterval::from_nanos(1));
        profile.set_symbolicated(true);
        let category = profile.add_category("Page faults", CategoryColor::Orange);
        Self { profile, category, processes: HashMap::new(), threads: HashMap::new() }
    }

    pub(super) fn add(&mut self, names: &FaultNames, faults: &[PageFault]) {
        for fault in faults {
            self.add_one(names, fault);
        }
    }

    fn add_one(&mut self, names: &FaultNames, fault: &PageFault) {
        let thread = self.thread(fault);
        let at = Timestamp::from_nanos_since_reference(fault.since_first_ns.0);
        let latency = fault.latency_ns.known();
        let timing = match latency {
            Some(latency) => {
                let end = fault.since_first_ns.0.saturating_add(latency.0);
                MarkerTiming::Interval(at, Timestamp::from_nanos_since_reference(end))
            }
            None => MarkerTiming::Instant(at),
        };
        let mark = self.mark(names, fault);
        let stack = self.stack(thread, names, fault);
        let marker = self.profile.add_marker(thread, timing, mark);
        self.profile.set_marker_stack(thread, marker, stack);
        let took = latency.map_or(CpuDelta::ZERO, |latency| CpuDelta::from_nanos(latency.0));
        self.profile.add_sample(thread, at, stack, took, 1);
    }

    fn thread(&mut self, fault: &PageFault) -> ThreadHandle {
        let start = Timestamp::from_nanos_since_reference(fault.since_first_ns.0);
        let profile = &mut self.profile;
        let process = *self.processes.entry(fault.pid).or_insert_with(|| {
            profile.add_process(&format!("process {}", fault.pid), number(fault.pid), start)
        });
        *self.threads.entry((fault.pid, fault.tid)).or_insert_with(|| {
            profile.add_thread(process, number(fault.tid), start, fault.pid == fault.tid)
        })
    }

    fn mark(&mut self, names: &FaultNames, fault: &PageFault) -> FaultMarker {
        let place = names.place(fault);
        let site = names.site(fault);
        let labels: Vec<&str> = fault.labels.iter().map(|label| label.into_str()).collect();
        let page = match fault.offset_bytes {
            Some(offset) => format!("{:#x} (offset {:#x})", fault.page_address, offset.0),
            None => format!("{:#x}", fault.page_address),
        };
        let what = format!("{} {}", fault.access.into_str(), fault.cause.into_str());
        let mut text = |text: &str| self.profile.intern_string(text);
        FaultMarker {
            mapping: text(&place.map_or_else(|| "unknown".to_owned(), place_name)),
            category: self.category,
            fields: [
                text(&what),
                text(&page),
                text(fault.served.into_str()),
                text(&site.map_or_else(|| "unknown".to_owned(), site_name)),
                text(&labels.join(", ")),
            ],
        }
    }

    /// The stack of a fault, outermost first.
    fn stack(
        &mut self,
        thread: ThreadHandle,
        names: &FaultNames,
        fault: &PageFault,
    ) -> Option<StackHandle> {
        let callers = super::callers(names, fault).rev();
        let sites = callers.chain(names.site(fault));
        let frame = |name: String| FrameInfo {
            frame: Frame::Label(self.profile.intern_string(&name)),
            category_pair: self.category.into(),
            flags: FrameFlags::empty(),
        };
        let functions = sites.flat_map(|site| nested_names(site).into_iter().rev());
        let frames: Vec<FrameInfo> = functions.map(frame).collect();
        self.profile.intern_stack_frames(thread, frames.into_iter())
    }

    /// The profile of `run`.
    pub(super) fn json(mut self, run: &SavedRun) -> String {
        let start = run.started_unix_ns as f64 / 1e6;
        let start = ReferenceTimestamp::from_millis_since_unix_epoch(start);
        self.profile.set_reference_timestamp(start);
        self.profile.set_product(&run.command.join(" "));
        // Only a key that is not text could make this fail. All keys are text.
        serde_json::to_string(&self.profile).unwrap_or_default() + "\n"
    }
}

/// Numbers of processes and threads are positive.
fn number(id: i32) -> u32 {
    id.cast_unsigned()
}
