//! Faults as trace events, which Perfetto (ui.perfetto.dev) and Chrome (chrome://tracing) show: one
//! complete event (`"ph":"X"`) a fault on the line of its thread, named after the mapping touched;
//! one without a known latency is an instant (`"ph":"i"`). Times are microseconds since the first
//! fault. The format is that of "Trace Event Format" (JSON object form).

use super::{place_name, site_name};
use pagewise_model::fault::{Fault, Names};
use serde_json::json;

/// A document under construction.
#[derive(Debug, Default)]
pub(super) struct Chrome {
    has_begun: bool,
}

const HEAD: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";

impl Chrome {
    /// The document up to and with these faults.
    pub(super) fn events(&mut self, names: &Names, faults: &[Fault]) -> String {
        let mut out = String::new();
        for fault in faults {
            out.push_str(if std::mem::replace(&mut self.has_begun, true) { ",\n" } else { HEAD });
            out.push_str(&event(names, fault));
        }
        out
    }

    /// Its end.
    pub(super) fn end(self) -> String {
        let head = if self.has_begun { "" } else { HEAD };
        format!("{head}\n]}}\n")
    }
}

fn event(names: &Names, fault: &Fault) -> String {
    let place = names.place(fault);
    let site = names.site(fault);
    let micros = |ns: u64| ns as f64 / 1000.0;
    let labels: Vec<&str> = fault.labels.iter().map(|label| label.label()).collect();
    let mut event = json!({
        "name": place.map_or_else(|| "unknown".to_owned(), place_name),
        "cat": format!("{},{}", fault.served.label(), fault.access.label()),
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
            "callers": super::caller_names(names, fault),
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
