//! Every mapping as CSV (RFC 4180), one line each. Names end in the unit; an empty field does not apply or
//! was not measured. A point without samples has one line with the reason.

use crate::csv::field;
use pagewise_model::first_touch::{FirstTouch, Part, Point, Sample};

const HEADER: &str = "way,every_pages,threads,mapped_bytes,used_pages,page_bytes,expected_faults,refused,\
repeat,place,setup_ns,touch_ns,teardown_ns,cpu_ns,page_ns,setup_faults,touch_faults,resident_bytes\n";

/// All mappings of `touches`.
#[must_use]
pub fn csv(touches: &FirstTouch) -> String {
    let mut out = HEADER.to_owned();
    for point in &touches.points {
        let lead = lead(point);
        if point.samples.is_empty() {
            out.push_str(&format!("{lead}{}\n", ",".repeat(10)));
        }
        for sample in &point.samples {
            out.push_str(&format!("{lead},{}\n", row(point, sample)));
        }
    }
    out
}

fn lead(point: &Point) -> String {
    let number = |n: Option<u64>| n.map_or_else(String::new, |n| n.to_string());
    let fields = [
        field(&point.way.label()),
        point.every_pages.to_string(),
        point.threads.to_string(),
        point.mapped_bytes.0.to_string(),
        point.used_pages.to_string(),
        number(point.page_bytes.known().map(|page| page.bytes())),
        number(point.expected_faults.known().copied()),
        field(point.refused.as_deref().unwrap_or("")),
    ];
    fields.join(",")
}

fn row(point: &Point, sample: &Sample) -> String {
    let resident = sample.resident_bytes.known().map_or_else(String::new, |b| b.0.to_string());
    let fields = [
        sample.repeat.to_string(),
        sample.place.to_string(),
        sample.setup_ns.0.to_string(),
        sample.touch_ns.0.to_string(),
        sample.teardown_ns.0.to_string(),
        sample.cpu_ns.0.to_string(),
        format!("{:.2}", point.page_ns_of(sample, Part::Whole)),
        sample.setup_faults.to_string(),
        sample.touch_faults.to_string(),
        resident,
    ];
    fields.join(",")
}
